"""Kinds of random whole networks of a few milliseconds each: every one draws its widths and depths, and returns (output,
label of the sizes)."""
import numpy
from onnx import TensorProto

from random_graph import conv, dense, dims_text, gelu, group_norm, layer_norm, silu
from random_sequence_blocks import mixer_block
from random_wide_blocks import attend, heads_of


def batch_norm(g, x, channels):
    variance = g.constant((numpy.abs(g.rng.standard_normal(channels)) + .5).astype('f4'))
    return g.op('BatchNormalization', x, g.weight(channels), g.weight(channels), g.weight(channels), variance)


def doubled(g, x, mode='nearest'):
    scales = g.constant(numpy.array([1, 1, 2, 2], 'f4'))
    return g.op('Resize', x, '', scales, mode=mode, coordinate_transformation_mode='asymmetric', nearest_mode='floor')


def self_attention(g, x, batch, tokens, heads, depth):
    """Three projections, attention and the output's; x is batch x tokens x (heads depth)."""
    width = heads * depth
    query, key, value = (heads_of(g, dense(g, x, width, width), batch, tokens, heads, depth) for _ in range(3))
    y = g.op('Transpose', attend(g, query, key, value, depth), perm=[0, 2, 1, 3])
    return dense(g, g.op('Reshape', y, g.ints(batch, tokens, width)), width, width)


def feed_forward(g, x, width, hidden, function):
    return dense(g, function(g, dense(g, x, width, hidden)), hidden, width)


def encoder_layer(g, x, batch, tokens, heads, depth, hidden):
    width = heads * depth
    x = g.op('Add', x, self_attention(g, layer_norm(g, x, width), batch, tokens, heads, depth))
    return g.op('Add', x, feed_forward(g, layer_norm(g, x, width), width, hidden, gelu))


def unet_attention(g):
    """A diffusion model's network: residual blocks with group norms, attention at the lowest resolution, skips."""
    groups, each, side, levels = g.pick(4, 8), g.pick(3, 4, 6, 8), 8 * g.pick(3, 4, 6), g.pick(2, 3)
    base = groups * each

    def residual(x, inputs, outputs, side):
        y = conv(g, silu(g, group_norm(g, x, (1, inputs, side, side), groups)), inputs, outputs, 3)
        y = conv(g, silu(g, group_norm(g, y, (1, outputs, side, side), groups)), outputs, outputs, 3)
        return g.op('Add', y, x if inputs == outputs else conv(g, x, inputs, outputs, 1))

    x, channels, skips, at = conv(g, g.input(1, 3, side, side), 3, base, 3), base, [], side
    for level in range(levels):
        x = residual(x, channels, base * (level + 1), at)
        channels = base * (level + 1)
        skips.append((x, channels))
        x, at = conv(g, x, channels, channels, 3, stride=2), at // 2
    tokens = at * at
    y = g.op('Transpose', g.op('Reshape', group_norm(g, x, (1, channels, at, at), groups), g.ints(1, channels, tokens)), perm=[0, 2, 1])
    y = self_attention(g, y, 1, tokens, groups, channels // groups)
    x = g.op('Add', x, g.op('Reshape', g.op('Transpose', y, perm=[0, 2, 1]), g.ints(1, channels, at, at)))
    for skip, width in reversed(skips):
        x, at = conv(g, doubled(g, x), channels, channels, 3), at * 2
        x = residual(g.op('Concat', x, skip, axis=1), channels + width, width, at)
        channels = width
    return conv(g, silu(g, x), channels, 3, 3), dims_text(base, side, levels)


def conformer(g):
    """A speech encoder: two strided convolutions, then blocks of feed-forward, attention, convolution, feed-forward."""
    frames, heads, depth, layers = 4 * g.size(20, 80), g.pick(3, 4), g.pick(24, 36, 44), g.pick(2, 3)
    width, tokens, kernel = heads * depth, frames // 4, g.pick(7, 15, 31)
    x = g.input(1, 1, frames, 80)
    for channels in (1, 32):
        x = g.op('Relu', conv(g, x, channels, 32, 3, stride=2))
    x = g.op('Reshape', g.op('Transpose', x, perm=[0, 2, 1, 3]), g.ints(1, tokens, 32 * 20))
    x = dense(g, x, 32 * 20, width)

    def half(x):
        return g.op('Add', x, g.op('Mul', feed_forward(g, layer_norm(g, x, width), width, 4 * width, silu), g.scalar(.5)))

    for _ in range(layers):
        x = half(x)
        x = g.op('Add', x, self_attention(g, layer_norm(g, x, width), 1, tokens, heads, depth))
        y = g.op('Transpose', layer_norm(g, x, width), perm=[0, 2, 1])
        a, b = g.op('Split', conv(g, y, width, 2 * width, 1, spatial=1), g.ints(width, width), outputs=2, axis=1)
        y = conv(g, g.op('Mul', a, g.op('Sigmoid', b)), width, width, kernel, width, spatial=1)
        y = conv(g, silu(g, batch_norm(g, y, width)), width, width, 1, spatial=1)
        x = half(g.op('Add', x, g.op('Transpose', y, perm=[0, 2, 1])))
        x = layer_norm(g, x, width)
    return x, dims_text(frames, heads, depth, layers)


def mlp_mixer(g):
    batch, patch, side, width, layers = g.pick(1, 1, 2), g.pick(8, 16), g.pick(6, 8, 10), g.size(60, 260), g.pick(3, 4)
    tokens, x = side * side, g.input(batch, 3, side * patch, side * patch)
    x = conv(g, x, 3, width, patch, stride=patch, pads=[0] * 4)
    x = g.op('Transpose', g.op('Reshape', x, g.ints(batch, width, tokens)), perm=[0, 2, 1])
    for _ in range(layers):
        x = mixer_block(g, x, tokens, width, 2 * tokens, 4 * width)
    x = g.op('ReduceMean', layer_norm(g, x, width), axes=[1], keepdims=0)
    return dense(g, x, width, g.size(10, 1000)), dims_text(batch, patch, side, width, layers)


def wavenet(g):
    """Gated dilated convolutions, a sum of skips, two 1x1 convolutions."""
    channels, skip, length, layers = g.size(16, 80), g.size(16, 120), g.size(300, 2000), g.pick(5, 8)
    x, total = conv(g, g.input(1, 1, length), 1, channels, 1, spatial=1), None
    for layer in range(layers):
        padded = g.op('Pad', x, g.ints(0, 0, 2 ** layer, 0, 0, 0))
        y = conv(g, padded, channels, 2 * channels, 2, 1, 2 ** layer, 1, spatial=1, pads=[0, 0])
        a, b = g.op('Split', y, g.ints(channels, channels), outputs=2, axis=1)
        y = g.op('Mul', g.op('Tanh', a), g.op('Sigmoid', b))
        out = conv(g, y, channels, skip, 1, spatial=1)
        total = out if total is None else g.op('Add', total, out)
        x = g.op('Add', x, conv(g, y, channels, channels, 1, spatial=1))
    y = g.op('Relu', conv(g, g.op('Relu', total), skip, skip, 1, spatial=1))
    return conv(g, y, skip, g.size(16, 256), 1, spatial=1), dims_text(channels, skip, length, layers)


def detector(g):
    """A small backbone, two rounds of EfficientDet's neck, and heads that share their weights between levels."""
    channels, side, classes = g.size(16, 72), 16 * g.pick(8, 12, 16), g.size(2, 40)

    def separable(x, inputs, outputs, stride=1):
        return conv(g, conv(g, x, inputs, inputs, 3, inputs, 1, stride), inputs, outputs, 1)

    x, width, levels = silu(g, conv(g, g.input(1, 3, side, side), 3, 16, 3, stride=2)), 16, []
    for outputs in (24, 40, 80):
        x = silu(g, batch_norm(g, separable(x, width, outputs, 2), outputs))
        x = g.op('Add', x, silu(g, separable(x, outputs, outputs)))
        width = outputs
        levels.append(conv(g, x, width, channels, 1))

    def joined(*maps):
        total = g.op('Mul', maps[0], g.scalar(.5))
        for other in maps[1:]:
            total = g.op('Add', total, g.op('Mul', other, g.scalar(.4)))
        return batch_norm(g, separable(silu(g, total), channels, channels), channels)

    for _ in range(2):
        down = [levels[-1]]
        for level in reversed(levels[:-1]):
            down.insert(0, joined(level, doubled(g, down[0])))
        up = [down[0]]
        for level, middle in zip(levels[1:], down[1:]):
            pooled = g.op('MaxPool', up[-1], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
            up.append(joined(level, middle, pooled))
        levels = up
    weights = [(g.weight(channels, 1, 3, 3), g.weight(9 * out, channels, 1, 1), out) for out in (4, classes)]
    parts = []
    for i, x in enumerate(levels):
        places = (side // 4 >> i) ** 2
        both = []
        for deep, wide, out in weights:
            y = g.op('Conv', silu(g, g.op('Conv', x, deep, group=channels, pads=[1] * 4)), wide)
            both.append(g.op('Reshape', g.op('Transpose', y, perm=[0, 2, 3, 1]), g.ints(1, 9 * places, out)))
        parts.append(g.op('Concat', both[0], g.op('Sigmoid', both[1]), axis=2))
    return g.op('Concat', *parts, axis=1), dims_text(channels, side, classes)


def recommender(g):
    """Large tables, a network for what is dense, products of all pairs, a network on top."""
    batch, tables, width, numbers = g.pick(1, 16, 128), g.pick(6, 10, 20), g.pick(8, 16, 24, 64), g.size(4, 60)
    hidden = g.size(32, 400)
    x = g.op('Relu', dense(g, g.op('Relu', dense(g, g.input(batch, numbers), numbers, hidden)), hidden, width))
    rows = [g.op('Unsqueeze', x, g.ints(1))]
    for _ in range(tables):
        rows.append(g.op('Gather', g.weight(g.size(1000, 60000), width), g.input(batch, 1, dtype=TensorProto.INT64)))
    every = g.op('Concat', *rows, axis=1)
    products = g.op('Mul', g.op('MatMul', every, g.op('Transpose', every, perm=[0, 2, 1])), g.scalar(1 / width))
    products = g.op('Reshape', products, g.ints(batch, (tables + 1) ** 2))
    pairs = [i * (tables + 1) + j for i in range(tables + 1) for j in range(i)]
    y = g.op('Concat', x, g.op('Gather', products, g.ints(*pairs), axis=1), axis=1)
    y = g.op('Relu', dense(g, y, width + len(pairs), hidden))
    return g.op('Sigmoid', dense(g, g.op('Relu', dense(g, y, hidden, hidden)), hidden, 1)), dims_text(batch, tables, width, numbers, hidden)


def vision_transformer(g):
    batch, patch, side, heads, depth, layers = g.pick(1, 1, 3), g.pick(8, 14, 16), g.pick(5, 7, 10), g.pick(3, 5, 6), g.pick(24, 32, 40), g.pick(2, 3)
    width, tokens = heads * depth, side * side + 1
    x = conv(g, g.input(batch, 3, side * patch, side * patch), 3, width, patch, stride=patch, pads=[0] * 4)
    x = g.op('Transpose', g.op('Reshape', x, g.ints(batch, width, side * side)), perm=[0, 2, 1])
    x = g.op('Concat', g.op('Expand', g.weight(1, 1, width), g.ints(batch, 1, width)), x, axis=1)
    x = g.op('Add', x, g.weight(1, tokens, width))
    for _ in range(layers):
        x = encoder_layer(g, x, batch, tokens, heads, depth, 4 * width)
    first = g.op('Gather', layer_norm(g, x, width), g.constant(numpy.int64(0)), axis=1)
    return dense(g, first, width, g.size(10, 1000)), dims_text(batch, patch, side, heads, depth, layers)


def bottlenecks(g):
    """ResNeXt's blocks with squeeze and excitation: grouped convolutions between 1x1 ones."""
    batch, groups, each, side, blocks = g.pick(1, 1, 4), g.pick(4, 8, 12), g.pick(4, 6, 8), g.pick(14, 20, 28), g.pick(2, 3)
    inner = groups * each
    width, function = 2 * inner, g.pick('Relu', 'silu')
    act = (lambda x: silu(g, x)) if function == 'silu' else (lambda x: g.op('Relu', x))
    x = act(conv(g, g.input(batch, 3, 2 * side, 2 * side), 3, width, 7, stride=2))
    for _ in range(blocks):
        y = act(batch_norm(g, conv(g, x, width, inner, 1), inner))
        y = act(batch_norm(g, conv(g, y, inner, inner, 3, groups), inner))
        y = batch_norm(g, conv(g, y, inner, width, 1), width)
        gate = g.op('Relu', conv(g, g.op('GlobalAveragePool', y), width, width // 8, 1))
        y = g.op('Mul', y, g.op('Sigmoid', conv(g, gate, width // 8, width, 1)))
        x = act(g.op('Add', x, y))
    x = g.op('Flatten', g.op('GlobalAveragePool', x))
    return dense(g, x, width, g.size(10, 1000)), dims_text(batch, groups, each, side, blocks)


KINDS = {
    network.__name__: network for network in (
        unet_attention, conformer, mlp_mixer, wavenet, detector, recommender, vision_transformer, bottlenecks)
}
