"""Kinds of random blocks of sequences: attention with masks and caches, signals in time, tokens, tables. Each draws its sizes
and returns (output, label of the sizes)."""
import numpy
from onnx import TensorProto

from random_graph import activation, conv, dense, dims_text, gelu, layer_norm, silu
from random_wide_blocks import attend, heads_of


def conv_causal(g):
    """WaveNet's gate: a causal dilated convolution, tanh times sigmoid, a 1x1 and the sum."""
    channels, length, dilation = g.size(6, 120), g.size(60, 3000), g.pick(1, 2, 4, 16, 64)
    x = g.input(g.pick(1, 1, 4), channels, length)
    padded = g.op('Pad', x, g.ints(0, 0, dilation, 0, 0, 0))
    a, b = (conv(g, padded, channels, channels, 2, 1, dilation, 1, spatial=1, pads=[0, 0]) for _ in range(2))
    y = conv(g, g.op('Mul', g.op('Tanh', a), g.op('Sigmoid', b)), channels, channels, 1, spatial=1)
    return g.op('Add', x, y), f'{channels}x{length}_d{dilation}'


def conformer_conv(g):
    """Pointwise, gated linear unit, depthwise in time, batch norm, SiLU, pointwise."""
    channels, length, kernel = g.size(12, 250), g.size(20, 500), g.pick(7, 15, 31)
    x = g.op('Transpose', g.input(1, length, channels), perm=[0, 2, 1])
    a, b = g.op('Split', conv(g, x, channels, 2 * channels, 1, spatial=1), g.ints(channels, channels), outputs=2, axis=1)
    y = conv(g, g.op('Mul', a, g.op('Sigmoid', b)), channels, channels, kernel, channels, spatial=1)
    variance = g.constant((numpy.abs(g.rng.standard_normal(channels)) + .5).astype('f4'))
    y = silu(g, g.op('BatchNormalization', y, g.weight(channels), g.weight(channels), g.weight(channels), variance))
    return g.op('Transpose', conv(g, y, channels, channels, 1, spatial=1), perm=[0, 2, 1]), f'{channels}x{length}_k{kernel}'


def masked_attention(g):
    """Grouped queries, and a mask of padding that is an input."""
    batch, tokens, groups, each, depth = g.pick(1, 2, 4), g.size(5, 200), g.pick(1, 2, 3), g.pick(2, 4), g.pick(16, 20, 32, 64)
    heads = groups * each
    query = g.input(batch, heads, tokens, depth)

    def shared():
        x = g.op('Reshape', g.input(batch, groups, tokens, depth), g.ints(batch, groups, 1, tokens, depth))
        return g.op('Reshape', g.op('Expand', x, g.ints(batch, groups, each, tokens, depth)), g.ints(batch, heads, tokens, depth))

    y = attend(g, query, shared(), shared(), depth, g.input(batch, 1, 1, tokens))
    return g.op('Transpose', y, perm=[0, 2, 1, 3]), dims_text(batch, tokens, groups, each, depth)


def cached_attention(g):
    """One or a few new tokens against a cache: keys and values joined, then attention."""
    batch, new, past = g.pick(1, 1, 4), g.pick(1, 1, 3), g.size(7, 700)
    heads, depth = g.pick(1, 2, 5, 8, 12), g.pick(16, 40, 64, 128)
    width = heads * depth
    x = g.input(batch, new, width)
    query, key, value = (heads_of(g, dense(g, x, width, width), batch, new, heads, depth) for _ in range(3))
    key, value = (g.op('Concat', g.input(batch, heads, past, depth), y, axis=2) for y in (key, value))
    y = g.op('Transpose', attend(g, query, key, value, depth), perm=[0, 2, 1, 3])
    return dense(g, g.op('Reshape', y, g.ints(batch, new, width)), width, width), dims_text(batch, new, past, heads, depth)


def linear_attention(g):
    """elu(query) + 1 times (elu(key) + 1)' value."""
    batch, tokens, heads, depth = g.pick(1, 2), g.size(20, 700), g.pick(1, 3, 8), g.pick(16, 24, 64)
    query, key, value = (g.input(batch, heads, tokens, depth) for _ in range(3))
    query, key = (g.op('Add', g.op('Elu', x), g.scalar(1)) for x in (query, key))
    memory = g.op('MatMul', g.op('Transpose', key, perm=[0, 1, 3, 2]), value)
    total = g.op('ReduceSum', g.op('Mul', query, g.op('ReduceSum', key, g.ints(2))), g.ints(-1))
    return g.op('Div', g.op('MatMul', query, memory), total), dims_text(batch, tokens, heads, depth)


def window_attention(g):
    """Swin's windows, shifted: a roll, a partition, attention with a bias, and back."""
    windows, side, heads, depth = g.pick(1, 2, 3, 4), g.pick(3, 5, 7, 8), g.pick(1, 2, 3, 6), g.pick(8, 16, 32)
    rows, width, shift, tokens = windows * side, heads * depth, side // 2, side * side
    x = g.input(1, rows, rows, width)
    for axis in (1, 2):
        parts = [g.op('Slice', x, g.ints(a), g.ints(b), g.ints(axis)) for a, b in ((shift, rows), (0, shift))]
        x = g.op('Concat', *parts, axis=axis)
    x = g.op('Transpose', g.op('Reshape', x, g.ints(windows, side, windows, side, width)), perm=[0, 2, 1, 3, 4])
    x = g.op('Reshape', x, g.ints(windows * windows, tokens, width))
    parts = g.op('Split', dense(g, x, width, 3 * width), g.ints(width, width, width), outputs=3, axis=-1)
    y = attend(g, *(heads_of(g, part, windows ** 2, tokens, heads, depth) for part in parts), depth, g.weight(heads, tokens, tokens))
    y = g.op('Reshape', g.op('Transpose', y, perm=[0, 2, 1, 3]), g.ints(windows, windows, side, side, width))
    return g.op('Reshape', g.op('Transpose', y, perm=[0, 2, 1, 3, 4]), g.ints(1, rows, rows, width)), dims_text(windows, side, heads, depth)


def rotary(g):
    """Positions turned into query and key, by halves or by pairs."""
    batch, tokens, heads, depth = g.pick(1, 1, 3), g.size(4, 400), g.pick(1, 4, 9), 2 * g.pick(8, 16, 20, 32)
    x, half = g.input(batch, heads, tokens, depth), depth // 2
    if g.pick(True, False):
        a, b = g.op('Split', x, g.ints(half, half), outputs=2, axis=-1)
        turned, way = g.op('Concat', g.op('Neg', b), a, axis=-1), 'halves'
    else:
        a, b = (g.op('Slice', x, g.ints(i), g.ints(depth), g.ints(3), g.ints(2)) for i in range(2))
        pairs = [g.op('Unsqueeze', y, g.ints(-1)) for y in (g.op('Neg', b), a)]
        turned, way = g.op('Reshape', g.op('Concat', *pairs, axis=-1), g.ints(batch, heads, tokens, depth)), 'pairs'
    y = g.op('Add', g.op('Mul', x, g.weight(tokens, depth)), g.op('Mul', turned, g.weight(tokens, depth)))
    return y, f'{dims_text(batch, tokens, heads, depth)}_{way}'


def mixer_block(g, x, tokens, width, across, along):
    """An MLP-Mixer's two halves: across tokens by `across` hidden units, then along channels by `along`."""
    y = g.op('Transpose', layer_norm(g, x, width), perm=[0, 2, 1])
    y = dense(g, gelu(g, dense(g, y, tokens, across)), across, tokens)
    x = g.op('Add', x, g.op('Transpose', y, perm=[0, 2, 1]))
    return g.op('Add', x, dense(g, gelu(g, dense(g, layer_norm(g, x, width), width, along)), along, width))


def mixer(g):
    batch, tokens, width, hidden = g.pick(1, 1, 3), g.size(9, 200), g.size(16, 300), g.size(16, 500)
    return mixer_block(g, g.input(batch, tokens, width), tokens, width, hidden, hidden), dims_text(batch, tokens, width, hidden)


def patches(g):
    """A vision transformer's start: a strided convolution, tokens, a class token, positions, layer norm."""
    batch, patch, width, side = g.pick(1, 1, 4), g.pick(4, 7, 14, 16), g.size(16, 400), g.pick(3, 5, 8, 14)
    y = conv(g, g.input(batch, 3, side * patch, side * patch), 3, width, patch, stride=patch, pads=[0] * 4)
    y = g.op('Transpose', g.op('Reshape', y, g.ints(batch, width, side * side)), perm=[0, 2, 1])
    y = g.op('Concat', g.op('Expand', g.weight(1, 1, width), g.ints(batch, 1, width)), y, axis=1)
    return layer_norm(g, g.op('Add', y, g.weight(side * side + 1, width)), width), f'{batch}x{side}_{patch}_{width}'


def statistics(g):
    """A speaker network's pooling: mean and deviation over time, then a dense layer."""
    batch, channels, length, out = g.pick(1, 1, 8), g.size(16, 500), g.size(10, 500), g.size(16, 300)
    x = g.input(batch, channels, length)
    mean = g.op('ReduceMean', x, axes=[2])
    variance = g.op('ReduceMean', g.op('Pow', g.op('Sub', x, mean), g.scalar(2)), axes=[2])
    both = g.op('Concat', mean, g.op('Sqrt', g.op('Add', variance, g.scalar(1e-5))), axis=1)
    return dense(g, g.op('Flatten', both), 2 * channels, out), dims_text(batch, channels, length, out)


def embedding_bag(g):
    """Means of rows of a large table, several tables side by side, and a dense layer: a recommender's start."""
    tables, batch, each, width = g.pick(2, 3, 5), g.pick(1, 8, 64), g.pick(1, 4, 20), g.size(8, 100)
    bags = []
    for _ in range(tables):
        rows = g.op('Gather', g.weight(g.size(100, 9000), width), g.input(batch, each, dtype=TensorProto.INT64))
        bags.append(g.op('ReduceMean', rows, axes=[1], keepdims=0))
    x = g.op('Concat', *bags, axis=1)
    out = g.size(8, 200)
    return g.op('Relu', dense(g, x, tables * width, out)), f'{tables}x{batch}x{each}x{width}_{out}'


def biaffine(g):
    """A parser's scores: x W y' and a bias of each."""
    batch, tokens, width, labels = g.pick(1, 1, 3), g.size(5, 100), g.size(10, 150), g.pick(1, 3, 9)
    x, y = g.input(batch, 1, tokens, width), g.input(batch, 1, tokens, width)
    scores = g.op('MatMul', g.op('MatMul', x, g.weight(labels, width, width)), g.op('Transpose', y, perm=[0, 1, 3, 2]))
    return g.op('Add', scores, g.weight(labels, 1, 1)), dims_text(batch, tokens, width, labels)


def dense_many(g):
    """Three dimensions of rows, and heads that share an input."""
    shape, width = (g.pick(1, 2, 16), g.size(2, 60), g.size(1, 20)), g.size(8, 300)
    x = g.input(*shape, width)
    heads = [activation(g, dense(g, x, width, g.size(2, 200))) for _ in range(g.pick(1, 2, 3))]
    return (g.op('Concat', *heads, axis=-1) if len(heads) > 1 else heads[0]), f'{dims_text(*shape)}x{width}_{len(heads)}'


def non_local(g):
    """Attention between all places of an image, by 1x1 convolutions."""
    channels, inner, side = g.size(8, 120), g.size(4, 60), g.size(5, 26)
    x = g.input(1, channels, side, side)
    a, b, c = (g.op('Reshape', conv(g, x, channels, inner, 1), g.ints(1, inner, side * side)) for _ in range(3))
    scores = g.op('Softmax', g.op('MatMul', g.op('Transpose', a, perm=[0, 2, 1]), b), axis=-1)
    y = g.op('MatMul', c, g.op('Transpose', scores, perm=[0, 2, 1]))
    y = conv(g, g.op('Reshape', y, g.ints(1, inner, side, side)), inner, channels, 1)
    return g.op('Add', x, y), f'{channels}x{inner}x{side}'
