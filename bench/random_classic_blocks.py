"""The first 25 kinds of random blocks: each draws its sizes and returns (output, label of the sizes).

Results are compared between versions of Lathe by these kinds, so their order, distributions and draws stay as they are.
"""
import numpy

from random_graph import activation, conv, dims_text, gelu, group_norm, layer_norm


def matmul(g):
    m, k, n = g.size(1, 700), g.size(16, 700), g.size(3, 900)
    return g.op('MatMul', g.input(m, k), g.weight(k, n)), dims_text(m, k, n)


def batch_matmul(g):
    b, m, k, n = g.size(2, 24), g.size(4, 200), g.size(8, 130), g.size(4, 200)
    return g.op('MatMul', g.input(b, m, k), g.input(b, k, n)), dims_text(b, m, k, n)


def dense(g):
    m, k, n = g.pick(1, 1, 3, 17, 64), g.size(40, 1500), g.size(5, 7000)
    return g.op('Gemm', g.input(m, k), g.weight(n, k), g.weight(n), transB=1), dims_text(m, k, n)


def mlp(g):
    """Three dense layers and a softmax."""
    m = g.pick(1, 8, 37)
    widths = [g.size(30, 600) for _ in range(4)]
    x = g.input(m, widths[0])
    for before, after in zip(widths, widths[1:]):
        x = activation(g, g.op('Gemm', x, g.weight(after, before), g.weight(after), transB=1))
    return g.op('Softmax', x, axis=-1), f'{m}x' + '-'.join(map(str, widths))


def one_conv(g, dims, in_channels, out_channels, kernel, group=1, dilation=1, stride=1, batch=1, op_type='Conv'):
    """A convolution and an activation on a model's input."""
    x = conv(g, g.input(batch, in_channels, *dims), in_channels, out_channels, kernel, group, dilation, stride, op_type, len(dims))
    label = f'{dims_text(batch, in_channels, *dims)}_{out_channels}_k{kernel}s{stride}d{dilation}g{group}'
    return activation(g, x), label


def conv2d(g):
    in_channels, dims = g.size(3, 150), (g.size(7, 70), g.size(7, 70))
    return one_conv(g, dims, in_channels, g.size(3, 150), g.pick(1, 3, 3, 5, 7), stride=g.pick(1, 1, 2), batch=g.pick(1, 1, 4))


def conv1d(g):
    return one_conv(g, (g.size(50, 4000),), g.size(1, 100), g.size(8, 150), g.pick(1, 3, 5, 9, 25), stride=g.pick(1, 2, 5))


def conv3d(g):
    return one_conv(g, (g.size(6, 20), g.size(10, 30), g.size(10, 30)), g.size(3, 32), g.size(4, 48), 3)


def grouped(g):
    groups, each = g.pick(2, 4, 8), g.pick(4, 6, 8, 12, 20)
    dims = (g.size(10, 50), g.size(10, 50))
    return one_conv(g, dims, groups * each, groups * g.pick(each, 2 * each, 5), 3, group=groups, stride=g.pick(1, 2))


def dilated(g):
    return one_conv(g, (g.size(20, 60), g.size(20, 60)), g.size(8, 100), g.size(8, 100), 3, dilation=g.pick(2, 4, 12))


def transposed(g):
    dims = (g.size(8, 40), g.size(8, 40))
    return one_conv(g, dims, g.size(8, 100), g.size(4, 64), g.pick(2, 3, 4), stride=2, op_type='ConvTranspose')


def depthwise(g):
    channels, dims = g.size(8, 400), (g.size(10, 80), g.size(10, 80))
    return one_conv(g, dims, channels, channels, g.pick(3, 5), group=channels, stride=g.pick(1, 2))


def softmax(g):
    rows, width = g.size(50, 3000), g.size(5, 2000)
    return g.op('Softmax', g.input(rows, width), axis=-1), dims_text(rows, width)


def layer_norm_rows(g):
    rows, width = g.size(20, 2000), g.size(30, 1100)
    return layer_norm(g, g.input(rows, width), width), dims_text(rows, width)


def group_norm_image(g):
    groups, each, side = g.pick(1, 4, 8), g.pick(4, 8, 10), g.size(10, 60)
    shape = (2, groups * each, side, side)
    return activation(g, group_norm(g, g.input(*shape), shape, groups)), f'{groups}g{each}x{side}'


def attention(g):
    """Self-attention of several heads, from the tokens to the output projection."""
    batch, tokens, heads, depth = g.pick(1, 1, 4), g.size(10, 260), g.pick(2, 3, 8), g.pick(16, 24, 64)
    width, x = heads * depth, g.input(batch, tokens, heads * depth)

    def projection(perm):
        y = g.op('Add', g.op('MatMul', x, g.weight(width, width)), g.weight(width))
        return g.op('Transpose', g.op('Reshape', y, g.ints(batch, tokens, heads, depth)), perm=perm)

    query, key, value = projection([0, 2, 1, 3]), projection([0, 2, 3, 1]), projection([0, 2, 1, 3])
    scores = g.op('Softmax', g.op('Div', g.op('MatMul', query, key), g.scalar(depth ** .5)), axis=-1)
    y = g.op('Transpose', g.op('MatMul', scores, value), perm=[0, 2, 1, 3])
    y = g.op('Reshape', y, g.ints(batch, tokens, width))
    return g.op('MatMul', y, g.weight(width, width)), dims_text(batch, tokens, heads, depth)


def reduce(g):
    shape = g.size(4, 60), g.size(8, 120), g.size(8, 120)
    axes = g.pick([0], [1], [2], [0, 2], [1, 2])
    op_type = g.pick('ReduceMean', 'ReduceMax', 'ReduceL2', 'ReduceMin')
    return g.op(op_type, g.input(*shape), axes=axes), dims_text(*shape) + '_' + ''.join(map(str, axes))


def pool(g):
    channels, side, kernel = g.size(4, 200), g.size(12, 90), g.pick(2, 3, 5)
    op_type, stride = g.pick('MaxPool', 'AveragePool'), g.pick(1, 2)
    x = g.input(1, channels, side, side)
    return g.op(op_type, x, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[kernel // 2] * 4), f'{channels}x{side}k{kernel}'


def elementwise(g):
    """Two to five operators on a matrix, some with a row, a column or a second matrix."""
    rows, columns = g.size(30, 900), g.size(30, 900)
    x, other = g.input(rows, columns), g.input(rows, columns)
    for _ in range(g.rng.integers(2, 6)):
        choice = g.pick('add row', 'multiply', 'exp', 'gelu', 'sigmoid', 'max with column')
        if choice == 'add row':
            x = g.op('Add', x, g.weight(columns))
        elif choice == 'multiply':
            x = g.op('Mul', x, other)
        elif choice == 'exp':
            x = g.op('Exp', g.op('Neg', g.op('Abs', x)))
        elif choice == 'gelu':
            x = gelu(g, x)
        elif choice == 'sigmoid':
            x = g.op('Sigmoid', x)
        else:
            x = g.op('Max', x, g.weight(rows, 1))
    return x, dims_text(rows, columns)


def transpose(g):
    shape = [g.size(5, 80) for _ in range(4)]
    perm = [int(axis) for axis in g.rng.permutation(4)]
    return g.op('Relu', g.op('Transpose', g.input(*shape), perm=perm)), dims_text(*shape) + '_' + ''.join(map(str, perm))


def concat(g):
    """Channels of two images together, then a 1x1 convolution."""
    side, a, b, out = g.size(10, 70), g.size(3, 70), g.size(3, 70), g.size(3, 90)
    both = g.op('Concat', g.input(1, a, side, side), g.input(1, b, side, side), axis=1)
    return activation(g, g.op('Conv', both, g.weight(out, a + b, 1, 1))), f'{a}+{b}x{side}_{out}'


def shuffle(g):
    """ShuffleNet's unit: half of the channels convolved, then the halves interleaved."""
    half, side = g.size(10, 60), g.size(7, 50)
    channels = 2 * half
    left, right = g.op('Split', g.input(1, channels, side, side), g.ints(half, half), outputs=2, axis=1)
    right = g.op('Relu', g.op('Conv', right, g.weight(half, half, 1, 1)))
    pairs = g.op('Reshape', g.op('Concat', left, right, axis=1), g.ints(1, 2, half, side, side))
    y = g.op('Reshape', g.op('Transpose', pairs, perm=[0, 2, 1, 3, 4]), g.ints(1, channels, side, side))
    return y, f'{channels}x{side}'


def gather(g):
    """Rows of a table by constant indices, a sum and a layer norm."""
    rows, width, tokens = g.size(100, 20000), g.size(8, 300), g.size(10, 600)
    x = g.input(tokens, width)
    looked_up = g.op('Gather', g.weight(rows, width), g.constant(g.rng.integers(0, rows, tokens)))
    return layer_norm(g, g.op('Add', looked_up, x), width), dims_text(rows, width, tokens)


def cumulative(g):
    rows, columns = g.size(20, 400), g.size(20, 900)
    return g.op('CumSum', g.input(rows, columns), g.constant(numpy.int64(g.pick(0, 1)))), dims_text(rows, columns)


def resize(g):
    channels, side, mode = g.size(4, 100), g.size(8, 60), g.pick('nearest', 'linear')
    scales = g.constant(numpy.array([1, 1, 2, 2], 'f4'))
    x = g.input(1, channels, side, side)
    return g.op('Resize', x, '', scales, mode=mode, coordinate_transformation_mode='half_pixel'), f'{channels}x{side}_{mode}'


def gelu_block(g):
    """A transformer's feed-forward half: layer norm, two matrix products with GELU between, residual."""
    tokens, width, hidden = g.size(8, 200), g.size(40, 500), g.size(60, 1500)
    x = g.input(tokens, width)
    inner = g.op('Add', g.op('MatMul', layer_norm(g, x, width), g.weight(width, hidden)), g.weight(hidden))
    return g.op('Add', x, g.op('MatMul', gelu(g, inner), g.weight(hidden, width))), dims_text(tokens, width, hidden)


KINDS = {
    'matmul': matmul, 'batch_matmul': batch_matmul, 'dense': dense, 'mlp': mlp, 'conv': conv2d, 'conv1d': conv1d, 'conv3d': conv3d,
    'grouped': grouped, 'dilated': dilated, 'transposed': transposed, 'depthwise': depthwise, 'softmax': softmax,
    'layer_norm': layer_norm_rows, 'group_norm': group_norm_image, 'attention': attention, 'reduce': reduce, 'pool': pool,
    'elementwise': elementwise, 'transpose': transpose, 'concat': concat, 'shuffle': shuffle, 'gather': gather,
    'cumulative': cumulative, 'resize': resize, 'gelu_block': gelu_block,
}
