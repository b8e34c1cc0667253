"""Blocks of integers that quantizers write, of random sizes, for random_models.py: dynamic (MatMulInteger, ConvInteger), QDQ
(QuantizeLinear and DequantizeLinear around float operators) and QOperator (QLinearConv). All take and give float32; scales of
results are powers of two, so that whoever rounds their sums once has the same bytes. A function makes one block of the graph `g`
and returns its output and a label of its sizes."""
import numpy

from random_graph import dims_text, layer_norm


def step(g, *shape, low=-6, high=-4):
    """2 to the power of low to high: in 8 bits the default holds values up to 2 to 8."""
    return numpy.exp2(g.rng.integers(low, high + 1, shape)).astype('f4')


def channel_steps(g, count):
    return step(g, count, low=-11, high=-9)


def bytes_of(g, *shape, signed=True):
    low = -127 if signed else 0
    return g.constant(g.rng.integers(low, low + 255, shape).astype('i1' if signed else 'u1'))


def zero(g, signed, middle=True):
    """A zero point: of weights mostly the middle, of activations any."""
    value = (0 if signed else 128) + (0 if middle else int(g.rng.integers(-20, 20)))
    return g.constant(numpy.array(value, 'i1' if signed else 'u1'))


def dynamic_product(g, x, *operands, op_type, scales, **attributes):
    """x quantized by its own range, the integer product, and back."""
    quantized, scale, point = g.op('DynamicQuantizeLinear', x, outputs=3)
    weight, weight_zero = operands
    product = g.op('Cast', g.op(op_type, quantized, weight, point, weight_zero, **attributes), to=1)
    return g.op('Mul', product, g.op('Mul', scale, scales))


def weight_scales(g, count):
    """Of the weight, or of each of its columns."""
    return g.constant(g.rng.uniform(.002, .008, count if g.pick(True, False) else ()).astype('f4'))


def dynamic_dense(g):
    """As quantize_dynamic leaves a transformer's dense layers; one quantized input serves several."""
    rows = g.pick((1,), (g.size(1, 200),), (g.size(1, 8), g.size(1, 128)))
    width, hidden = g.size(8, 800), g.size(8, 1600)
    signed = g.pick(True, True, False)
    x = g.input(*rows, width)
    for rows_of, columns in ((width, hidden), (hidden, width)):
        x = dynamic_product(g, x, bytes_of(g, rows_of, columns, signed=signed), zero(g, signed), op_type='MatMulInteger',
                            scales=weight_scales(g, columns))
        x = g.op('Add', x, g.weight(columns))
        if columns == hidden:
            x = g.op('Relu', x)
    return x, f'{dims_text(*rows)}x{width}x{hidden}{"s" if signed else "u"}'


def dynamic_attention(g):
    """Three projections of one quantized input, heads in float, and the way out."""
    batch, tokens, heads, depth = g.size(1, 3), g.size(4, 130), g.size(1, 8), g.pick(16, 24, 32, 40, 64)
    width = heads * depth
    x = g.input(batch, tokens, width)
    turned = []
    for order in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]):
        part = dynamic_product(g, x, bytes_of(g, width, width), zero(g, True), op_type='MatMulInteger', scales=g.scalar(.004))
        turned.append(g.op('Transpose', g.op('Reshape', part, g.ints(0, 0, heads, depth)), perm=order))
    query, key, value = turned
    weights = g.op('Softmax', g.op('Mul', g.op('MatMul', query, key), g.scalar(depth ** -.5)), axis=-1)
    joined = g.op('Reshape', g.op('Transpose', g.op('MatMul', weights, value), perm=[0, 2, 1, 3]), g.ints(0, 0, width))
    out = dynamic_product(g, joined, bytes_of(g, width, width), zero(g, True), op_type='MatMulInteger', scales=g.scalar(.004))
    return layer_norm(g, g.op('Add', out, x), width), f'{batch}x{tokens}x{heads}x{depth}'


def dynamic_conv(g):
    channels, out, kernel = g.size(1, 100), g.size(4, 120), g.pick(1, 3, 3, 5)
    dims = (g.size(5, 60), g.size(5, 60))
    x = dynamic_product(g, g.input(1, channels, *dims), bytes_of(g, out, channels, kernel, kernel), zero(g, True),
                        op_type='ConvInteger', scales=g.scalar(.004), pads=4 * [kernel // 2], strides=2 * [g.pick(1, 1, 2)])
    return g.op('Relu', x), f'{channels}x{dims_text(*dims)}_{out}_k{kernel}'


def through_steps(g, x, scale, point):
    return g.op('DequantizeLinear', g.op('QuantizeLinear', x, scale, point), scale, point)


def whole_bias(g, scales, of_data):
    """int32 at the scale of the sums that it is added to, as quantizers write it."""
    values = g.constant(g.rng.integers(-300, 300, len(scales)).astype('i4'))
    return g.op('DequantizeLinear', values, g.constant(scales * of_data), g.constant(numpy.zeros(len(scales), 'i4')), axis=0)


def qdq_convs(g):
    """Two or three convolutions with ReLU as a QDQ model has them, weights by channel, and a residual where it fits."""
    channels, dims, signed = g.size(3, 100), (g.size(6, 60), g.size(6, 60)), g.pick(True, False)
    grouped, count = g.pick(False, False, True), g.pick(2, 3)
    scale = step(g)
    least = scale
    first = x = through_steps(g, g.input(1, channels, *dims), g.constant(scale), zero(g, signed, False))
    for _ in range(count):
        kernel = 3 if grouped else g.pick(1, 3)
        group = channels if grouped else 1
        scales, zeros = channel_steps(g, channels), g.constant(numpy.zeros(channels, 'i1'))
        weight = g.op('DequantizeLinear', bytes_of(g, channels, channels // group, kernel, kernel), g.constant(scales), zeros, axis=0)
        y = g.op('Conv', x, weight, whole_bias(g, scales, scale), pads=4 * [kernel // 2], group=group)
        scale = step(g)
        least = min(least, scale)
        x = through_steps(g, g.op('Relu', y), g.constant(scale), zero(g, signed, False))
    label = f'{channels}x{dims_text(*dims)}x{count}{"d" if grouped else ""}'
    # A sum of whole steps: nothing is rounded, and a half not differently with the zero point added before or after.
    return through_steps(g, g.op('Add', x, first), g.constant(least), zero(g, signed, False)), label


def qdq_dense(g):
    rows, width, columns = g.size(1, 200), g.size(8, 800), g.size(8, 1200)
    scale, scales = step(g), channel_steps(g, columns)
    x = through_steps(g, g.input(rows, width), g.constant(scale), zero(g, False, False))
    weight = g.op('DequantizeLinear', bytes_of(g, width, columns), g.constant(scales), g.constant(numpy.zeros(columns, 'i1')), axis=1)
    y = g.op('Add', g.op('MatMul', x, weight), whole_bias(g, scales, scale))
    return through_steps(g, y, g.constant(step(g, high=-3)), zero(g, False, False)), f'{rows}x{width}x{columns}'


def qlinear_convs(g):
    """Operators on 8 bits with scales of their own; pooling between them."""
    channels, out, dims, kernel = g.size(3, 80), g.size(4, 100), (g.size(8, 60), g.size(8, 60)), g.pick(1, 3, 3, 5)
    scale, point = g.constant(step(g)), zero(g, False, False)
    x = g.op('QuantizeLinear', g.input(1, channels, *dims), scale, point)
    for inner in (channels, out):
        scales = g.constant(channel_steps(g, out))
        zeros = g.constant(numpy.zeros(out, 'i1'))
        bias = g.constant(g.rng.integers(-500, 500, out).astype('i4'))
        after, after_point = g.constant(step(g)), zero(g, False, False)
        x = g.op('QLinearConv', x, scale, point, bytes_of(g, out, inner, kernel, kernel), scales, zeros, after, after_point, bias,
                 pads=4 * [kernel // 2])
        scale, point = after, after_point
    x = g.op('MaxPool', x, kernel_shape=[2, 2], strides=[2, 2])
    return g.op('DequantizeLinear', x, scale, point), f'{channels}x{dims_text(*dims)}_{out}_k{kernel}'


KINDS = {block.__name__: block for block in (
    dynamic_dense, dynamic_attention, dynamic_conv, qdq_convs, qdq_dense, qlinear_convs)}
