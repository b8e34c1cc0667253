"""Kinds of random blocks that are rarer in models than those of the other two lists: each draws its sizes and returns
(output, label of the sizes), and the output's type where it is not float32. Those of sequences are in a file of their own."""
import numpy
from onnx import TensorProto

from random_graph import activation, conv, dense, dims_text, gelu, layer_norm, silu
from random_sequence_blocks import (
    biaffine, cached_attention, conformer_conv, conv_causal, dense_many, embedding_bag, linear_attention, masked_attention, mixer,
    non_local, patches, rotary, statistics, window_attention)


def activations(g):
    """Two to four of the activations that few models have, over an image or a matrix."""
    shape = g.pick((g.size(10, 900), g.size(10, 900)), (g.pick(1, 2), g.size(3, 100), g.size(5, 70), g.size(5, 70)))
    x, names = g.input(*shape), []
    for _ in range(g.pick(2, 3, 4)):
        name = g.pick('Elu', 'Selu', 'Celu', 'Softplus', 'Softsign', 'HardSigmoid', 'ThresholdedRelu', 'PRelu', 'Sin', 'Atan', 'hard swish', 'mish', 'quick gelu')
        names.append(name.replace(' ', ''))
        if name == 'PRelu':
            x = g.op(name, x, g.weight(shape[1], *[1] * (len(shape) - 2)))
        elif name == 'hard swish':
            x = g.op('Mul', x, g.op('HardSigmoid', x, alpha=1 / 6, beta=.5))
        elif name == 'mish':
            x = g.op('Mul', x, g.op('Tanh', g.op('Softplus', x)))
        elif name == 'quick gelu':
            x = g.op('Mul', x, g.op('Sigmoid', g.op('Mul', x, g.scalar(1.702))))
        else:
            x = g.op(name, x)
    return x, dims_text(*shape) + '_' + '-'.join(names)


def layer_norm_axes(g):
    """Over the last two or three axes, or over channels at each place of an image."""
    batch, channels, dims = g.pick(1, 2, 5), g.size(3, 150), (g.size(5, 50), g.size(5, 50))
    axes = g.pick([1], [-2, -1], [1, 2, 3])
    x = g.input(batch, channels, *dims)
    centred = g.op('Sub', x, g.op('ReduceMean', x, axes=axes))
    variance = g.op('ReduceMean', g.op('Mul', centred, centred), axes=axes)
    normal = g.op('Div', centred, g.op('Sqrt', g.op('Add', variance, g.scalar(1e-6))))
    shape = {1: (channels, 1, 1), 2: dims, 3: (channels, *dims)}[len(axes)]
    return g.op('Add', g.op('Mul', normal, g.weight(*shape)), g.weight(*shape)), f'{dims_text(batch, channels, *dims)}_{len(axes)}'


def conv3d_variant(g):
    """Rectangular, strided, dilated, grouped, or depthwise."""
    groups = g.pick(1, 1, 2, 3)
    inputs, outputs = groups * g.size(1, 24), groups * g.size(2, 24)
    dims = g.size(4, 16), g.size(8, 36), g.size(8, 36)
    if g.pick(True, False, False):
        groups, outputs = inputs, inputs * g.pick(1, 1, 2)
    kernel = g.pick((1, 3, 3), (3, 1, 1), (3, 3, 3), (2, 2, 2), (1, 1, 1), (3, 5, 5), (1, 7, 7))
    stride, dilation = g.pick((1, 1, 1), (1, 2, 2), (2, 2, 2)), g.pick((1, 1, 1), (1, 1, 1), (1, 2, 2))
    x = conv(g, g.input(g.pick(1, 1, 3), inputs, *dims), inputs, outputs, kernel, groups, dilation, stride, spatial=3)
    return activation(g, x), f'{inputs}x{dims_text(*dims)}_{outputs}_k{dims_text(*kernel)}s{stride[0]}{stride[1]}d{dilation[1]}g{groups}'


def transposed3d(g):
    inputs, outputs, dims = g.size(2, 32), g.size(2, 24), (g.size(3, 12), g.size(4, 18), g.size(4, 18))
    kernel, stride = g.pick((2, 2), (3, 2), (4, 2), (3, 1))
    x = conv(g, g.input(1, inputs, *dims), inputs, outputs, kernel, 1, 1, stride, 'ConvTranspose', 3)
    return activation(g, x), f'{inputs}x{dims_text(*dims)}_{outputs}_k{kernel}s{stride}'


def transposed_depthwise(g):
    """Upsampling with a kernel of each channel, as detectors have it."""
    channels, dims = g.size(4, 200), (g.size(6, 40), g.size(6, 40))
    kernel, stride = g.pick((2, 2), (3, 2), (4, 2), (8, 4))
    x = conv(g, g.input(1, channels, *dims), channels, channels, kernel, channels, 1, stride, 'ConvTranspose')
    return activation(g, x), f'{channels}x{dims_text(*dims)}_k{kernel}s{stride}'


def odd_groups(g):
    groups, inputs, outputs = g.pick(3, 5, 7, 9), g.pick(3, 5, 7, 11, 16), g.pick(1, 3, 6, 8, 13)
    dims, kernel, stride = (g.size(7, 50), g.size(7, 50)), g.pick(1, 3, 5), g.pick(1, 1, 2)
    x = conv(g, g.input(g.pick(1, 1, 3), groups * inputs, *dims), groups * inputs, groups * outputs, kernel, groups, 1, stride)
    return activation(g, x), f'{groups}g{inputs}x{dims_text(*dims)}_{outputs}_k{kernel}s{stride}'


def conv_batch(g):
    """Many small images."""
    batch, inputs, outputs, dims = g.pick(8, 13, 32, 64), g.size(1, 64), g.size(4, 64), (g.size(3, 16), g.size(3, 16))
    kernel, stride = g.pick(1, 3, 3, 5), g.pick(1, 1, 2)
    return activation(g, conv(g, g.input(batch, inputs, *dims), inputs, outputs, kernel, 1, 1, stride)), \
        f'{batch}x{inputs}x{dims_text(*dims)}_{outputs}_k{kernel}s{stride}'


def pool_variant(g):
    """One to three dimensions, rectangular windows, ceil_mode, dilations, L2."""
    spatial = g.pick(1, 2, 2, 3)
    low, high = {1: (40, 3000), 2: (9, 80), 3: (6, 24)}[spatial]
    dims = [g.size(low, high) for _ in range(spatial)]
    batch, channels, kernel = g.pick(1, 1, 4), g.size(2, 100), [g.pick(2, 3, 4, 5) for _ in dims]
    op_type, stride = g.pick('MaxPool', 'AveragePool', 'LpPool'), [g.pick(1, 2, 3) for _ in dims]
    more = {}
    if op_type != 'LpPool':
        more['ceil_mode'] = g.pick(0, 1)
    if op_type == 'MaxPool' and spatial == 2:
        more['dilations'] = [g.pick(1, 1, 2)] * 2
    pads = [g.pick(0, k // 2) for k in kernel] * 2
    y = g.op(op_type, g.input(batch, channels, *dims), kernel_shape=kernel, strides=stride, pads=pads, **more)
    return y, f'{op_type[:-4].lower()}{dims_text(batch, channels, *dims)}_k{dims_text(*kernel)}s{dims_text(*stride)}p{pads[0]}'


def gather_elements(g):
    shape, axis = (g.size(2, 20), g.size(8, 200), g.size(8, 200)), g.pick(0, 1, 2)
    taken = list(shape)
    taken[axis] = g.size(2, 2 * shape[axis])
    indices = g.constant(g.rng.integers(0, shape[axis], taken))
    return g.op('GatherElements', g.input(*shape), indices, axis=axis), f'{dims_text(*shape)}_{axis}_{taken[axis]}'


def gather_nd(g):
    """Rows at pairs of indices, then an activation."""
    shape, count = (g.size(4, 60), g.size(4, 60), g.size(1, 200)), g.size(10, 2000)
    indices = numpy.stack([g.rng.integers(0, shape[0], count), g.rng.integers(0, shape[1], count)], 1)
    return activation(g, g.op('GatherND', g.input(*shape), g.constant(indices))), f'{dims_text(*shape)}_{count}'


def scatter(g):
    """Rows or elements written at constant places."""
    rows, columns, count = g.size(10, 500), g.size(4, 300), g.size(2, 200)
    x = g.input(rows, columns)
    if g.pick(True, False):
        count = min(count, rows)
        indices = g.rng.permutation(rows)[:count].reshape(count, 1)
        y = g.op('ScatterND', x, g.constant(indices), g.input(count, columns))
        return y, f'nd{dims_text(rows, columns, count)}'
    count = min(count, rows)
    indices = numpy.stack([g.rng.permutation(rows)[:count] for _ in range(columns)], 1)
    return g.op('ScatterElements', x, g.constant(indices), g.input(count, columns), axis=0), f'elements{dims_text(rows, columns, count)}'


def einsum(g):
    a, b, c, d = g.size(2, 12), g.size(8, 120), g.size(8, 120), g.size(4, 80)
    equation, shapes = g.pick(
        ('abd,acd->abc', ((a, b, d), (a, c, d))), ('abc,cd->abd', ((a, b, c), (c, d))),
        ('bad,cad->abc', ((b, a, d), (c, a, d))), ('abc,abd->acd', ((a, b, c), (a, b, d))),
        ('ab,cb,db->acd', ((a, b), (c, b), (d, b))), ('abcd,dc->abd', ((a, b, c, d), (d, c))),
        ('bhn,bhm->bnm', ((a, d, b), (a, d, c))), ('abc,abc->ab', ((a, b, c), (a, b, c))))
    y = g.op('Einsum', *(g.input(*shape) for shape in shapes), equation=equation)
    return y, equation.replace(',', '-').replace('->', 'to') + '_' + dims_text(a, b, c, d)


def up_block(g):
    """A U-Net's way up: resize, join with the skip, two convolutions."""
    channels, skip, out, dims = g.size(4, 60), g.size(4, 60), g.size(4, 60), (g.size(4, 30), g.size(4, 30))
    scales = g.constant(numpy.array([1, 1, 2, 2], 'f4'))
    x = g.op('Resize', g.input(1, channels, *dims), '', scales, mode=g.pick('nearest', 'linear'))
    x = g.op('Concat', x, g.input(1, skip, 2 * dims[0], 2 * dims[1]), axis=1)
    x = activation(g, conv(g, x, channels + skip, out, 3))
    return activation(g, conv(g, x, out, out, 3)), f'{channels}+{skip}x{dims_text(*dims)}_{out}'


def pyramid_node(g):
    """EfficientDet's neck: a weighted sum of a resized map and one or two others, then a separable convolution."""
    channels, dims = g.size(8, 120), (g.size(4, 30), g.size(4, 30))
    scales = g.constant(numpy.array([1, 1, 2, 2], 'f4'))
    up = g.op('Resize', g.input(1, channels, *dims), '', scales, mode='nearest', coordinate_transformation_mode='asymmetric', nearest_mode='floor')
    down = g.op('MaxPool', g.input(1, channels, 4 * dims[0], 4 * dims[1]), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    same = g.input(1, channels, 2 * dims[0], 2 * dims[1])
    total = g.op('Add', g.op('Mul', up, g.scalar(.3)), g.op('Mul', down, g.scalar(.4)))
    y = silu(g, g.op('Add', total, g.op('Mul', same, g.scalar(.3))))
    y = conv(g, conv(g, y, channels, channels, 3, channels), channels, channels, 1)
    return silu(g, y), f'{channels}x{dims_text(*dims)}'


def spatial_gate(g):
    """CBAM: channels' mean and maximum, a 7x7 convolution, a sigmoid that scales."""
    batch, channels, dims = g.pick(1, 1, 3), g.size(4, 150), (g.size(7, 60), g.size(7, 60))
    x = g.input(batch, channels, *dims)
    y = g.op('Concat', g.op('ReduceMean', x, axes=[1]), g.op('ReduceMax', x, axes=[1]), axis=1)
    return g.op('Mul', x, g.op('Sigmoid', conv(g, y, 2, 1, 7))), dims_text(batch, channels, *dims)


def top_k(g):
    """The largest few of each row, times a number."""
    rows, columns = g.size(1, 300), g.size(8, 1500)
    k, largest = min(columns, g.pick(1, 5, 16, 100)), g.pick(1, 1, 0)
    values, _ = g.op('TopK', g.input(rows, columns), g.ints(k), outputs=2, axis=-1, largest=largest)
    return g.op('Mul', values, g.scalar(2)), dims_text(rows, columns, k)


def reduce_variant(g):
    """Axes of every sort of a tensor of four dimensions, by every operator."""
    shape = [g.size(2, 40) for _ in range(4)]
    axes = g.pick([0], [1], [2], [0, 1], [1, 3], [0, 2], [0, 3], [0, 1, 2], [1, 2], [0, 1, 2, 3], [2, 3])
    op_type = g.pick('ReduceProd', 'ReduceSumSquare', 'ReduceL1', 'ReduceL2', 'ReduceLogSumExp', 'ReduceMax', 'ReduceMean')
    x = g.input(*shape)
    if op_type == 'ReduceProd':
        x = g.op('Add', g.op('Mul', x, g.scalar(.05)), g.scalar(1))
    return g.op(op_type, x, axes=axes), f'{op_type[6:].lower()}{dims_text(*shape)}_{"".join(map(str, axes))}'


def integers(g):
    """Arithmetic of int64, as it is around indices and masks, at a size where it costs something."""
    rows, columns = g.size(10, 700), g.size(10, 700)
    x, y = (g.input(rows, columns, dtype=TensorProto.INT64) for _ in range(2))
    z = g.op('Add', g.op('Mul', x, g.constant(numpy.int64(3))), y)
    choice = g.pick('mod', 'div', 'compare', 'cast', 'sum')
    if choice == 'mod':
        z = g.op('Mod', z, g.constant(numpy.int64(17)))
    elif choice == 'div':
        z = g.op('Div', z, g.constant(numpy.int64(7)))
    elif choice == 'compare':
        z = g.op('Where', g.op('Greater', x, y), z, x)
    elif choice == 'cast':
        return g.op('Mul', g.op('Cast', z, to=TensorProto.FLOAT), g.scalar(.01)), f'{dims_text(rows, columns)}_{choice}'
    else:
        z = g.op('ReduceSum', z, g.ints(1))
    return z, f'{dims_text(rows, columns)}_{choice}', TensorProto.INT64


def tiny(g):
    """Ones and twos: what costs is only what it takes to begin."""
    inputs, outputs, dims = g.pick(1, 2, 3, 5), g.pick(1, 2, 3, 7), (g.pick(1, 2, 3, 5), g.pick(1, 2, 4))
    x = conv(g, g.input(g.pick(1, 2), inputs, *dims), inputs, outputs, g.pick(1, 3))
    x = g.op('Flatten', activation(g, x))
    width = outputs * dims[0] * dims[1]
    return g.op('Softmax', dense(g, x, width, g.pick(1, 2, 5)), axis=-1), f'{inputs}x{dims_text(*dims)}_{outputs}'


def huge(g):
    """Sizes beyond the caches."""
    choice = g.pick('matmul', 'conv', 'elementwise', 'softmax', 'norm', 'vector', 'transpose')
    if choice == 'matmul':
        m, k, n = (g.size(700, 1700) for _ in range(3))
        return g.op('MatMul', g.input(m, k), g.weight(k, n)), f'{choice}_{dims_text(m, k, n)}'
    if choice == 'conv':
        inputs, outputs, side = g.size(16, 96), g.size(16, 96), g.size(100, 200)
        return activation(g, conv(g, g.input(1, inputs, side, side), inputs, outputs, 3)), f'{choice}_{inputs}x{side}_{outputs}'
    if choice == 'vector':
        k, n = g.size(1500, 5000), g.size(1500, 5000)
        return g.op('MatMul', g.input(1, k), g.weight(k, n)), f'{choice}_{dims_text(k, n)}'
    rows, columns = g.size(1200, 3000), g.size(1200, 3000)
    x = g.input(rows, columns)
    if choice == 'elementwise':
        y = gelu(g, g.op('Add', x, g.weight(columns)))
    elif choice == 'softmax':
        y = g.op('Softmax', x, axis=g.pick(0, 1))
    elif choice == 'norm':
        y = layer_norm(g, x, columns)
    else:
        y = g.op('Transpose', x, perm=[1, 0])
    return y, f'{choice}_{dims_text(rows, columns)}'


def gemm_variant(g):
    """alpha, beta, either operand transposed; a vector on either side."""
    m, k, n = g.size(1, 400), g.size(5, 500), g.size(2, 500)
    way = g.pick('gemm', 'left vector', 'right vector', 'constant left')
    label = f'{way.replace(" ", "_")}_{dims_text(m, k, n)}'
    if way == 'left vector':
        return g.op('MatMul', g.input(k), g.weight(k, n)), label
    if way == 'right vector':
        return g.op('MatMul', g.input(m, k), g.input(k)), label
    if way == 'constant left':
        return g.op('Add', g.op('MatMul', g.weight(m, k), g.input(k, n)), g.weight(m, 1)), label
    a, b = g.pick(0, 1), g.pick(0, 1)
    x, w = g.input(*((k, m) if a else (m, k))), g.input(*((n, k) if b else (k, n)))
    return g.op('Gemm', x, w, g.weight(n), transA=a, transB=b, alpha=.7, beta=.3), f'{label}_{a}{b}'


def matmul_broadcast(g):
    """Batches of which one operand has some and the other others."""
    a, b, m, k, n = g.size(1, 8), g.size(2, 12), g.size(1, 120), g.size(4, 120), g.size(1, 120)
    left, right = g.pick(((a, 1), (1, b)), ((a, b), (b,)), ((1, b), (a, 1)), ((b,), (a, b)))
    return g.op('MatMul', g.input(*left, m, k), g.input(*right, k, n)), f'{dims_text(*left)}_{dims_text(*right)}_{dims_text(m, k, n)}'


def distances(g):
    """Of each pair of rows: squares of differences, or cosines."""
    m, n, k = g.size(5, 200), g.size(5, 200), g.size(2, 120)
    x, y = g.input(m, k), g.input(n, k)
    if g.pick(True, False):
        difference = g.op('Sub', g.op('Unsqueeze', x, g.ints(1)), g.op('Unsqueeze', y, g.ints(0)))
        return g.op('Sqrt', g.op('ReduceSumSquare', difference, axes=[-1], keepdims=0)), f'euclid_{dims_text(m, n, k)}'
    x, y = (g.op('Div', z, g.op('ReduceL2', z, axes=[-1])) for z in (x, y))
    return g.op('MatMul', x, g.op('Transpose', y, perm=[1, 0])), f'cosine_{dims_text(m, n, k)}'


def broadcasts(g):
    """Sums and products of tensors that each lack some of the dimensions."""
    shape = [g.size(2, 40) for _ in range(4)]
    x, ways = g.input(*shape), []
    for _ in range(g.pick(2, 3)):
        kept = [g.pick(True, False) for _ in shape]
        ways.append(''.join('1' if keep else '0' for keep in kept))
        other = g.input(*(n if keep else 1 for n, keep in zip(shape, kept)))
        x = g.op(g.pick('Add', 'Mul', 'Sub', 'Max'), x, other)
    return x, f'{dims_text(*shape)}_{"_".join(ways)}'


def resize_variant(g):
    """Cubic, odd factors, down, aligned corners; one or three dimensions."""
    channels, spatial = g.size(2, 60), g.pick(1, 2, 2, 3)
    dims = [g.size(*{1: (30, 800), 2: (8, 60), 3: (4, 16)}[spatial]) for _ in range(spatial)]
    mode = g.pick('nearest', 'linear', 'linear', 'cubic') if spatial == 2 else g.pick('nearest', 'linear')
    factors = g.pick(1.5, .5, 3, 2.6)
    sizes = g.ints(1, channels, *(max(1, int(n * factors)) for n in dims))
    way = g.pick('half_pixel', 'align_corners', 'asymmetric', 'pytorch_half_pixel')
    y = g.op('Resize', g.input(1, channels, *dims), '', '', sizes, mode=mode, coordinate_transformation_mode=way)
    return y, f'{channels}x{dims_text(*dims)}_{factors}_{mode}_{way}'


def pad_tile(g):
    """Pads of every mode in one to three dimensions; repeats."""
    spatial = g.pick(1, 2, 3)
    shape = (g.pick(1, 2), g.size(2, 40), *(g.size(*{1: (30, 1500), 2: (8, 70), 3: (5, 24)}[spatial]) for _ in range(spatial)))
    x = g.input(*shape)
    if g.pick(True, False, False):
        repeats = [1, g.pick(1, 2, 3)] + [g.pick(1, 2, 3) for _ in range(spatial)]
        return g.op('Relu', g.op('Tile', x, g.ints(*repeats))), f'tile{dims_text(*shape)}_{dims_text(*repeats)}'
    mode, pads = g.pick('constant', 'reflect', 'edge'), [g.pick(0, 1, 3) for _ in range(2 * spatial)]
    full = [0, 0, *pads[:spatial], 0, 0, *pads[spatial:]]
    return g.op('Relu', g.op('Pad', x, g.ints(*full), mode=mode)), f'{mode}{dims_text(*shape)}_{"".join(map(str, pads))}'


def boxes(g):
    """A detector's end: parts of the last axis, decoded and put together again."""
    count, classes = g.size(100, 9000), g.size(1, 90)
    x = g.input(1, count, 4 + classes)
    centre, size, scores = g.op('Split', x, g.ints(2, 2, classes), outputs=3, axis=-1)
    centre = g.op('Mul', g.op('Add', g.op('Sigmoid', centre), g.weight(count, 2)), g.scalar(8))
    size = g.op('Mul', g.op('Exp', size), g.weight(count, 2))
    half = g.op('Mul', size, g.scalar(.5))
    best = g.op('ReduceMax', g.op('Sigmoid', scores), axes=[-1])
    return g.op('Concat', g.op('Sub', centre, half), g.op('Add', centre, half), best, axis=-1), dims_text(count, classes)


def softmax_axis(g):
    """Over channels of an image, the first of two axes, or several at once."""
    shape = g.pick((g.pick(1, 2), g.size(3, 150), g.size(5, 60), g.size(5, 60)), (g.size(5, 500), g.size(5, 500)), (g.size(1, 9), g.size(5, 90), g.size(2, 40)))
    axis = g.pick(0, 1)
    x = g.op('Mul', g.input(*shape), g.scalar(1.7))
    return g.op('Softmax', x, axis=axis), f'{dims_text(*shape)}_{axis}'


def cumulative_axis(g):
    shape, axis = (g.size(2, 40), g.size(4, 120), g.size(4, 120)), g.pick(0, 1, 2)
    y = g.op('CumSum', g.input(*shape), g.constant(numpy.int64(axis)), exclusive=g.pick(0, 1), reverse=g.pick(0, 1))
    return y, f'{dims_text(*shape)}_{axis}'


def fake_quantized(g):
    """Rounded to steps and back, as models trained for fewer bits have it in float32."""
    channels, dims = g.size(3, 100), (g.size(5, 70), g.size(5, 70))
    x = g.op('Div', g.input(1, channels, *dims), g.scalar(.02))
    x = g.op('Clip', g.op('Round', x), g.scalar(-128), g.scalar(127))
    return conv(g, g.op('Mul', x, g.scalar(.02)), channels, channels, 1), f'{channels}x{dims_text(*dims)}'


def local_norm(g):
    """Local response normalisation, or division by the L2 norm of the channels."""
    channels, dims = g.size(4, 150), (g.size(5, 60), g.size(5, 60))
    x = g.input(g.pick(1, 1, 4), channels, *dims)
    if g.pick(True, False):
        return g.op('LRN', x, size=g.pick(3, 5), alpha=1e-3, beta=.75), f'lrn{channels}x{dims_text(*dims)}'
    return g.op('LpNormalization', x, axis=1, p=2), f'l2{channels}x{dims_text(*dims)}'


KINDS = {
    block.__name__: block for block in (
        activations, layer_norm_axes, conv3d_variant, transposed3d, transposed_depthwise, odd_groups, conv_batch, conv_causal,
        conformer_conv, pool_variant, gather_elements, gather_nd, scatter, einsum, masked_attention, cached_attention,
        linear_attention, window_attention, rotary, mixer, patches, up_block, pyramid_node, spatial_gate, top_k, reduce_variant,
        integers, tiny, huge, gemm_variant, matmul_broadcast, distances, broadcasts, resize_variant, pad_tile, boxes, softmax_axis,
        cumulative_axis, statistics, fake_quantized, embedding_bag, biaffine, local_norm, dense_many, non_local)
}
