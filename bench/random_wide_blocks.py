"""25 more kinds of random blocks, wider in what they ask: each draws its sizes and returns (output, label of the sizes),
and the output's type where it is not float32."""
import numpy
from onnx import TensorProto

from random_graph import activation, conv, dense, dims_text, group_norm, layer_norm, silu


def plain(values):
    """1x7 -> '1x7', 3x3 -> '3': a kernel, stride or dilation in a label."""
    return str(values[0]) if len(set(values)) == 1 else dims_text(*values)


def conv_chain(g):
    """Two to four convolutions with odd numbers of channels."""
    channels = [g.odd(3, 89) for _ in range(g.pick(3, 4, 5))]
    dims = g.size(7, 45), g.size(7, 45)
    x, kernels = g.input(1, channels[0], *dims), []
    for before, after in zip(channels, channels[1:]):
        kernels.append(g.pick(1, 3, 3, 5))
        x = activation(g, conv(g, x, before, after, kernels[-1]))
    return x, f'{"-".join(map(str, channels))}_{dims_text(*dims)}_k{"".join(map(str, kernels))}'


def depthwise1d(g):
    channels, length, kernel = g.size(8, 500), g.size(30, 2000), g.pick(3, 5, 9, 31)
    stride, dilation = g.pick(1, 1, 2), g.pick(1, 1, 2, 4)
    x = conv(g, g.input(1, channels, length), channels, channels, kernel, channels, dilation, stride, spatial=1)
    return activation(g, x), f'{channels}x{length}_k{kernel}s{stride}d{dilation}'


def conv_variant(g):
    """Rectangular kernels; strides, dilations and pads of each side on their own; few groups."""
    groups = g.pick(1, 1, 2, 3)
    inputs, outputs = groups * g.size(3, 60), groups * g.size(3, 60)
    dims = g.size(20, 60), g.size(20, 60)
    kernel = g.pick((1, 7), (7, 1), (3, 5), (2, 2), (1, 3), (4, 4), (3, 3))
    stride, dilation = (g.pick(1, 1, 2, 3), g.pick(1, 2, 3)), (g.pick(1, 1, 2), g.pick(1, 1, 3))
    pads = [g.pick(*range(k)) for k in kernel + kernel]
    x = conv(g, g.input(1, inputs, *dims), inputs, outputs, kernel, groups, dilation, stride, pads=pads)
    label = f'{inputs}x{dims_text(*dims)}_{outputs}_k{plain(kernel)}s{plain(stride)}d{plain(dilation)}g{groups}p{"".join(map(str, pads))}'
    return activation(g, x), label


def depthwise_variant(g):
    """Several outputs a channel, dilated, strided."""
    channels, each, dims = g.size(5, 200), g.pick(1, 2, 3), (g.size(14, 60), g.size(14, 60))
    kernel, stride, dilation = g.pick(2, 3, 5, 7), g.pick(1, 2, 3), g.pick(1, 2, 3)
    x = conv(g, g.input(1, channels, *dims), channels, each * channels, kernel, channels, dilation, stride)
    return activation(g, x), f'{channels}x{dims_text(*dims)}_m{each}k{kernel}s{stride}d{dilation}'


def transposed_variant(g):
    """1-D and 2-D, strides 1 to 3, output padding, groups."""
    spatial, groups, stride = g.pick(1, 2, 2), g.pick(1, 1, 2), g.pick(1, 2, 3)
    inputs, outputs, kernel = groups * g.size(4, 60), groups * g.size(3, 50), g.pick(2, 3, 4, 5)
    dims = [g.size(50, 600)] if spatial == 1 else [g.size(7, 30), g.size(7, 30)]
    extra = [g.pick(*range(stride)) for _ in dims]
    x = conv(g, g.input(1, inputs, *dims), inputs, outputs, kernel, groups, 1, stride, 'ConvTranspose', spatial, output_padding=extra)
    return activation(g, x), f'{inputs}x{dims_text(*dims)}_{outputs}_k{kernel}s{stride}g{groups}o{plain(extra)}'


def batch_matmul_transposed(g):
    """One operand or both stored with the last two axes the other way round; sometimes one right operand for all."""
    batch, heads, shared = g.pick(1, 2, 5), g.size(1, 12), g.pick(False, False, True)
    m, k, n = g.size(3, 200), g.size(5, 130), g.size(3, 200)
    side = g.pick('left', 'right', 'both')
    swap = [0, 1, 3, 2]
    left = g.op('Transpose', g.input(batch, heads, k, m), perm=swap) if side != 'right' else g.input(batch, heads, m, k)
    outer = (1, 1) if shared else (batch, heads)
    right = g.op('Transpose', g.input(*outer, n, k), perm=swap) if side != 'left' else g.input(*outer, k, n)
    return g.op('MatMul', left, right), f'{dims_text(batch, heads, m, k, n)}_{side}{"_shared" if shared else ""}'


def heads_of(g, x, batch, tokens, heads, depth):
    """batch x tokens x (heads depth) -> batch x heads x tokens x depth."""
    return g.op('Transpose', g.op('Reshape', x, g.ints(batch, tokens, heads, depth)), perm=[0, 2, 1, 3])


def attend(g, query, key, value, depth, mask=None):
    """softmax(query key' / sqrt(depth) + mask) value; all of them batch x heads x tokens x depth."""
    scores = g.op('MatMul', query, g.op('Transpose', key, perm=[0, 1, 3, 2]))
    scores = g.op('Mul', scores, g.scalar(depth ** -.5))
    if mask is not None:
        scores = g.op('Add', scores, mask)
    return g.op('MatMul', g.op('Softmax', scores, axis=-1), value)


def odd_attention(g):
    """Causal self-attention with odd numbers of heads, depth and tokens, all three projections in one product."""
    batch, tokens, heads, depth = g.pick(1, 1, 3), g.odd(7, 199), g.pick(1, 3, 5, 7), g.odd(5, 89)
    width = heads * depth
    parts = dense(g, g.input(batch, tokens, width), width, 3 * width)
    parts = g.op('Split', parts, g.ints(width, width, width), outputs=3, axis=-1)
    mask = g.constant(numpy.triu(numpy.full((tokens, tokens), -1e9, 'f4'), 1))
    y = attend(g, *(heads_of(g, part, batch, tokens, heads, depth) for part in parts), depth, mask)
    y = g.op('Reshape', g.op('Transpose', y, perm=[0, 2, 1, 3]), g.ints(batch, tokens, width))
    return dense(g, y, width, width), dims_text(batch, tokens, heads, depth)


def cross_attention(g):
    """Queries from one sequence, keys and values from another of its own length and width."""
    tokens, others, context = g.size(8, 300), g.size(5, 150), g.size(16, 500)
    heads, depth = g.pick(1, 4, 5, 8), g.pick(16, 20, 40, 64)
    width = heads * depth
    x, y = g.input(1, tokens, width), g.input(1, others, context)
    query = heads_of(g, g.op('MatMul', x, g.weight(width, width)), 1, tokens, heads, depth)
    key, value = (heads_of(g, g.op('MatMul', y, g.weight(context, width)), 1, others, heads, depth) for _ in range(2))
    z = g.op('Transpose', attend(g, query, key, value, depth), perm=[0, 2, 1, 3])
    z = dense(g, g.op('Reshape', z, g.ints(1, tokens, width)), width, width)
    return g.op('Add', x, z), f'{tokens}+{others}x{context}_{heads}x{depth}'


def root_mean_square_norm(g, x, width):
    """In one of the ways that exporters write it."""
    mean = g.op('Add', g.op('ReduceMean', g.op('Mul', x, x), axes=[-1]), g.scalar(1e-6))
    way = g.pick('divide', 'reciprocal', 'power')
    if way == 'divide':
        normal = g.op('Div', x, g.op('Sqrt', mean))
    elif way == 'reciprocal':
        normal = g.op('Mul', x, g.op('Reciprocal', g.op('Sqrt', mean)))
    else:
        normal = g.op('Mul', x, g.op('Pow', mean, g.scalar(-.5)))
    return g.op('Mul', normal, g.weight(width))


def rms_norm(g):
    rows, width = g.size(5, 2000), g.size(30, 1500)
    return root_mean_square_norm(g, g.input(rows, width), width), dims_text(rows, width)


def swiglu(g):
    """A gated feed-forward half: RMS norm, silu(x gate) * (x up), down, residual."""
    tokens, width, hidden = g.size(1, 150), g.size(40, 450), g.size(60, 1300)
    x = g.input(tokens, width)
    normal = root_mean_square_norm(g, x, width)
    gate, up = (g.op('MatMul', normal, g.weight(width, hidden)) for _ in range(2))
    down = g.op('MatMul', g.op('Mul', silu(g, gate), up), g.weight(hidden, width))
    return g.op('Add', x, down), dims_text(tokens, width, hidden)


def group_norm_silu(g):
    """Half of a diffusion model's residual block: group norm, SiLU, 3x3 convolution."""
    groups, each, side, out = g.pick(2, 4, 8, 16), g.pick(2, 5, 8), g.size(7, 48), g.size(5, 90)
    shape = (g.pick(1, 2), groups * each, side, side)
    x = silu(g, group_norm(g, g.input(*shape), shape, groups))
    return conv(g, x, groups * each, out, 3), f'{shape[0]}x{groups}g{each}x{side}_{out}'


def instance_norm(g):
    shape = g.pick(1, 2), g.size(3, 120), g.size(7, 80), g.size(7, 80)
    normal = g.op('InstanceNormalization', g.input(*shape), g.weight(shape[1]), g.weight(shape[1]))
    return g.op('LeakyRelu', normal, alpha=.2), dims_text(*shape)


def squeeze_excite(g):
    """Channels scaled by what a small network makes of their means."""
    channels, dims = g.size(9, 250), (g.size(7, 56), g.size(7, 56))
    squeezed = max(3, channels // g.pick(4, 6, 16))
    x = g.input(1, channels, *dims)
    y = g.op('Relu', conv(g, g.op('GlobalAveragePool', x), channels, squeezed, 1))
    gate = g.op(g.pick('Sigmoid', 'HardSigmoid'), conv(g, y, squeezed, channels, 1))
    return g.op('Mul', x, gate), f'{channels}x{dims_text(*dims)}_{squeezed}'


def inverted_residual(g):
    """MobileNetV2's block with odd widths: expand, depthwise, project, and the sum where shapes agree."""
    inputs, factor, stride, kernel = g.odd(5, 65), g.pick(2, 4, 6), g.pick(1, 1, 2), g.pick(3, 3, 5)
    outputs = inputs if stride == 1 and g.pick(True, False) else g.odd(5, 65)
    dims = g.size(7, 56), g.size(7, 56)
    hidden, x = inputs * factor, g.input(1, inputs, *dims)

    def relu6(y):
        return g.op('Clip', y, g.scalar(0), g.scalar(6))

    y = relu6(conv(g, x, inputs, hidden, 1))
    y = relu6(conv(g, y, hidden, hidden, kernel, group=hidden, stride=stride))
    y = conv(g, y, hidden, outputs, 1)
    if stride == 1 and inputs == outputs:
        y = g.op('Add', x, y)
    return y, f'{inputs}-{hidden}-{outputs}_{dims_text(*dims)}_k{kernel}s{stride}'


def residual_block(g):
    """Two convolutions with batch norms, the second after a sum."""
    channels, dims = g.size(5, 90), (g.size(7, 45), g.size(7, 45))
    x = g.input(1, channels, *dims)

    def normed(y):
        variance = g.constant((numpy.abs(g.rng.standard_normal(channels)) + .5).astype('f4'))
        y = conv(g, y, channels, channels, 3)
        return g.op('BatchNormalization', y, g.weight(channels), g.weight(channels), g.weight(channels), variance)

    return g.op('Relu', g.op('Add', normed(g.op('Relu', normed(x))), x)), f'{channels}x{dims_text(*dims)}'


def lstm_cell(g):
    """One to four steps of an LSTM, unrolled: the new hidden state."""
    batch, inputs, hidden, steps = g.pick(1, 1, 7), g.size(10, 300), g.size(10, 300), g.pick(1, 2, 4)
    xs = [g.input(batch, inputs) for _ in range(steps)]
    h, c = g.input(batch, hidden), g.input(batch, hidden)
    of_input, of_hidden, bias = g.weight(4 * hidden, inputs), g.weight(4 * hidden, hidden), g.weight(4 * hidden)
    for x in xs:
        gates = g.op('Gemm', h, of_hidden, g.op('Gemm', x, of_input, bias, transB=1), transB=1)
        i, f, o, new = g.op('Split', gates, g.ints(*[hidden] * 4), outputs=4, axis=1)
        kept = g.op('Mul', g.op('Sigmoid', f), c)
        c = g.op('Add', kept, g.op('Mul', g.op('Sigmoid', i), g.op('Tanh', new)))
        h = g.op('Mul', g.op('Sigmoid', o), g.op('Tanh', c))
    return h, dims_text(batch, inputs, hidden, steps)


def gru_cell(g):
    """One to four steps of a GRU, unrolled: the new hidden state."""
    batch, inputs, hidden, steps = g.pick(1, 1, 7), g.size(10, 300), g.size(10, 300), g.pick(1, 2, 4)
    xs, h = [g.input(batch, inputs) for _ in range(steps)], g.input(batch, hidden)
    of_input, of_hidden = g.weight(inputs, 3 * hidden), g.weight(hidden, 3 * hidden)
    for x in xs:
        a = g.op('Split', g.op('MatMul', x, of_input), g.ints(*[hidden] * 3), outputs=3, axis=1)
        b = g.op('Split', g.op('MatMul', h, of_hidden), g.ints(*[hidden] * 3), outputs=3, axis=1)
        update, reset = (g.op('Sigmoid', g.op('Add', a[i], b[i])) for i in range(2))
        new = g.op('Tanh', g.op('Add', a[2], g.op('Mul', reset, b[2])))
        h = g.op('Add', new, g.op('Mul', update, g.op('Sub', h, new)))
    return h, dims_text(batch, inputs, hidden, steps)


def arg_reduce(g):
    """The index of the largest or least along an axis."""
    shape, axis = (g.size(2, 40), g.size(8, 150), g.size(8, 150)), g.pick(0, 1, 2)
    op_type, keep = g.pick('ArgMax', 'ArgMin'), g.pick(0, 1)
    y = g.op(op_type, g.input(*shape), axis=axis, keepdims=keep)
    return y, f'{op_type[3:].lower()}{dims_text(*shape)}_{axis}', TensorProto.INT64


def slice_pad_concat(g):
    """Two cuts of an image, one of every second column, padded back and put together."""
    channels, rows, columns = g.size(3, 80), g.size(12, 80), g.size(12, 80)
    top, left, mode = g.pick(1, 2, 5), g.pick(1, 3, 4), g.pick('constant', 'reflect', 'edge')
    x = g.input(1, channels, rows, columns)
    lower = g.op('Slice', x, g.ints(top, left), g.ints(rows, columns), g.ints(2, 3))
    lower = g.op('Pad', lower, g.ints(0, 0, top, left, 0, 0, 0, 0), mode=mode)
    sparse = g.op('Slice', x, g.ints(0), g.ints(columns), g.ints(3), g.ints(2))
    sparse = g.op('Pad', sparse, g.ints(0, 0, 0, 0, 0, 0, 0, columns // 2), g.scalar(.5))
    return g.op('Tanh', g.op('Concat', lower, sparse, axis=1)), f'{channels}x{rows}x{columns}_{top}_{left}_{mode}'


def where_clip(g):
    """A choice by comparison, of clipped values, with a row that is broadcast."""
    rows, columns = g.size(10, 900), g.size(10, 900)
    x, y = g.input(rows, columns), g.input(rows, columns)
    larger = g.op(g.pick('Greater', 'Less'), x, g.pick(y, g.weight(columns)))
    clipped = g.op('Clip', g.op('Mul', x, g.weight(columns)), g.scalar(-.7), g.scalar(1.1))
    return g.op('Where', larger, clipped, g.op('Abs', y)), dims_text(rows, columns)


def global_pool_head(g):
    """The end of a classifier: 1x1 convolution, global pool, dense layer, softmax."""
    channels, features, classes, dims = g.size(8, 150), g.size(16, 300), g.size(5, 1000), (g.size(4, 20), g.size(4, 20))
    x = g.op('Relu', conv(g, g.input(1, channels, *dims), channels, features, 1))
    x = g.op('Flatten', g.op(g.pick('GlobalAveragePool', 'GlobalAveragePool', 'GlobalMaxPool'), x))
    x = g.op('Gemm', x, g.weight(classes, features), g.weight(classes), transB=1)
    return g.op('Softmax', x, axis=-1), f'{channels}x{dims_text(*dims)}_{features}_{classes}'


def log_softmax(g):
    """Along any axis; as one node, or by the logarithm of a sum of exponentials."""
    shape, axis = (g.size(2, 30), g.size(8, 150), g.size(8, 150)), g.pick(1, 2, 2)
    x = g.input(*shape)
    if g.pick(True, False):
        y = g.op('LogSoftmax', x, axis=axis)
    else:
        y = g.op('Sub', x, g.op('ReduceLogSumExp', x, axes=[axis]))
    return y, f'{dims_text(*shape)}_{axis}'


def embedding_norm(g):
    """Rows of a table by indices that are an input, with positions, then a layer norm."""
    rows, width, batch, tokens = g.size(100, 5000), g.size(8, 400), g.pick(1, 1, 4), g.size(5, 300)
    indices = g.input(batch, tokens, dtype=TensorProto.INT64)
    x = g.op('Add', g.op('Gather', g.weight(rows, width), indices), g.weight(tokens, width))
    return layer_norm(g, x, width), f'{rows}x{width}_{batch}x{tokens}'


def depth_to_space(g):
    """A convolution whose channels become pixels, or pixels that become channels first."""
    block, channels, dims = g.pick(2, 2, 3), g.size(3, 40), (g.size(6, 30), g.size(6, 30))
    way = g.pick('DCR', 'CRD', 'SpaceToDepth')
    many = channels * block * block
    if way == 'SpaceToDepth':
        x = g.op(way, g.input(1, channels, dims[0] * block, dims[1] * block), blocksize=block)
        return activation(g, conv(g, x, many, channels, 1)), f'{channels}x{dims_text(*dims)}_b{block}_{way}'
    x = conv(g, g.input(1, channels, *dims), channels, many, 3)
    return activation(g, g.op('DepthToSpace', x, blocksize=block, mode=way)), f'{channels}x{dims_text(*dims)}_b{block}_{way}'


def pool3d(g):
    channels, dims = g.size(3, 60), (g.size(6, 20), g.size(8, 30), g.size(8, 30))
    kernel, stride, op_type = g.pick(2, 3), g.pick(1, 2), g.pick('MaxPool', 'AveragePool')
    more = {'count_include_pad': g.pick(0, 1)} if op_type == 'AveragePool' else {}
    x = g.input(1, channels, *dims)
    y = g.op(op_type, x, kernel_shape=[kernel] * 3, strides=[stride] * 3, pads=[kernel // 2] * 6, **more)
    return y, f'{op_type[:3].lower()}{channels}x{dims_text(*dims)}_k{kernel}s{stride}'


KINDS = {
    block.__name__: block for block in (
        conv_chain, depthwise1d, conv_variant, depthwise_variant, transposed_variant, batch_matmul_transposed, odd_attention,
        cross_attention, rms_norm, swiglu, group_norm_silu, instance_norm, squeeze_excite, inverted_residual, residual_block,
        lstm_cell, gru_cell, arg_reduce, slice_pad_concat, where_clip, global_pool_head, log_softmax, embedding_norm,
        depth_to_space, pool3d)
}
