"""Kinds of random blocks that mostly say where elements go: reshaped rows of odd lengths, heads of detectors, regions of
images, suppressed boxes, warped images; and dense layers of very many inputs. Each draws its sizes and returns (output, label of the
sizes), and the output's type where it is not float32."""
import numpy
from onnx import TensorProto

from random_graph import activation, conv, dense, dims_text


def deep_dense(g):
    """So many inputs that the weights of a few outputs fill a cache, as behind the last image of a classifier."""
    rows, inputs, outputs = g.size(1, 300), g.size(4000, 20000), g.size(40, 1200)
    return activation(g, dense(g, g.input(rows, inputs), inputs, outputs)), dims_text(rows, inputs, outputs)


def small_images(g):
    """Two steps over many images of a few pixels, whose rows are no vectors."""
    batch, channels, height, width = g.size(4, 100), g.size(8, 200), g.size(3, 14), g.size(3, 14)
    shape = [batch, channels, height, width]
    x = g.op('Relu', g.op('Add', g.input(*shape), g.weight(channels, 1, 1)))
    step = g.pick('flip', 'stride', 'rows', 'pad', 'gate', 'last', 'cat')
    if step == 'flip':
        x = g.op('Slice', x, g.ints(-1), g.ints(-1000), g.ints(3), g.ints(-1))
    elif step == 'stride':
        x = g.op('Slice', x, g.ints(0, 0), g.ints(1000, 1000), g.ints(2, 3), g.ints(2, 2))
    elif step == 'rows':
        x = g.op('Add', g.op('Reshape', x, g.ints(batch, channels * height, width)), g.weight(channels * height, 1))
    elif step == 'pad':
        x = g.op('Pad', x, g.ints(0, 0, 1, 2, 0, 0, 1, 1), g.scalar(0))
    elif step == 'gate':
        x = g.op('Mul', x, g.op('Sigmoid', g.op('ReduceMean', x, axes=[2, 3])))
    elif step == 'last':
        x = g.op('Transpose', x, perm=[0, 2, 3, 1])
    else:
        x = g.op('Concat', x, g.input(batch, g.size(3, 60), height, width), axis=1)
    return x, f'{dims_text(*shape)}_{step}'


def relative_shift(g):
    """Scores of relative places moved to absolute ones: a column of zeros, and rows read one shorter (Transformer-XL)."""
    batch, heads, length = g.pick(1, 1, 3), g.size(2, 12), g.size(20, 300)
    x = g.op('Pad', g.input(batch, heads, length, 2 * length - 1), g.ints(0, 0, 0, 1, 0, 0, 0, 0), g.scalar(0))
    x = g.op('Reshape', x, g.ints(batch, heads, 2 * length, length))
    x = g.op('Slice', x, g.ints(1), g.ints(2 * length), g.ints(2))
    x = g.op('Reshape', x, g.ints(batch, heads, length, 2 * length - 1))
    x = g.op('Slice', x, g.ints(0), g.ints(length), g.ints(3))
    return g.op('Add', x, g.input(batch, heads, length, length)), dims_text(batch, heads, length)


def detector_head(g):
    """Boxes and classes of the places of two or three levels, in one list."""
    channels, side, anchors, classes = g.size(8, 80), 4 * g.size(3, 12), g.pick(1, 3, 9), g.size(1, 40)
    levels = []
    for level in range(g.pick(2, 3)):
        at = side >> level
        x, parts = g.input(1, channels, at, at), []
        for out in (4, classes):
            y = g.op('Transpose', conv(g, x, channels, anchors * out, g.pick(1, 3)), perm=[0, 2, 3, 1])
            y = g.op('Reshape', y, g.ints(1, at * at * anchors, out))
            parts.append(g.op('Sigmoid', y) if out == classes else y)
        levels.append(g.op('Concat', *parts, axis=2))
    return g.op('Concat', *levels, axis=1), dims_text(channels, side, anchors, classes, len(levels))


def corners(g, count, side):
    """Random boxes (x1, y1, x2, y2) of an image."""
    first = g.rng.random((count, 2)) * side * .7
    return numpy.concatenate([first, first + 1 + g.rng.random((count, 2)) * side * .5], 1).astype('f4')


def regions(g):
    """Parts of an image pooled to one size."""
    channels, side, count, bins = g.size(16, 260), g.size(8, 60), g.size(4, 200), g.pick(3, 5, 7, 14)
    scale = g.pick(1., .25)
    boxes = g.constant(corners(g, count, side / scale))
    y = g.op('RoiAlign', g.input(1, channels, side, side), boxes, g.constant(numpy.zeros(count, 'i8')), output_height=bins, output_width=bins, sampling_ratio=2, spatial_scale=scale)
    return y, f'{dims_text(channels, side, count, bins)}'


def suppressed_boxes(g):
    """Of many boxes with random scores those that overlap no better one; how many is not known before."""
    classes, count = g.size(1, 20), g.size(30, 1500)
    boxes = g.constant(corners(g, count, 100)[None])
    chosen = g.op('NonMaxSuppression', boxes, g.input(1, classes, count), g.ints(g.pick(10, 100, 10000)), g.scalar(g.pick(.3, .5, .7)))
    return chosen, dims_text(classes, count), TensorProto.INT64


def warped_image(g):
    """Features read where another input says, as between two images of a pair."""
    g.opset = 16  # the first that has it
    shape, places = [g.pick(1, 1, 2), g.size(1, 100), g.size(8, 100), g.size(8, 100)], [g.size(5, 100), g.size(5, 100)]
    mode, outside = g.pick('bilinear', 'bilinear', 'nearest'), g.pick('zeros', 'border', 'reflection')
    y = g.op('GridSample', g.input(*shape), g.op('Tanh', g.input(shape[0], *places, 2)), mode=mode, padding_mode=outside, align_corners=g.pick(0, 1))
    return y, f'{dims_text(*shape, *places)}_{mode}_{outside}'


KINDS = {block.__name__: block for block in (deep_dense, small_images, relative_shift, detector_head, regions, suppressed_boxes, warped_image)}
