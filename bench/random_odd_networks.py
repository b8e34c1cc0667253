"""Kinds of random networks that are neither a stack of convolutions nor a transformer as it is usually built: points, graphs, routes,
states, weights that are computed. Each draws its sizes and returns (output, label of the sizes)."""
import math

import numpy
from onnx import TensorProto

from random_graph import conv, dense, dims_text, gelu, group_norm, layer_norm, silu
from random_networks import batch_norm, feed_forward
from random_wide_blocks import attend, heads_of


def point_net(g):
    """A network that points share, the largest over the points, and the same for each point with what all have."""
    batch, points, layers = g.pick(1, 1, 2), g.size(200, 3000), g.pick(2, 3)
    x, width = g.input(batch, 3, points), 3
    for _ in range(layers):
        wider = g.size(16, 160)
        x, width = g.op('Relu', batch_norm(g, conv(g, x, width, wider, 1, spatial=1), wider)), wider
    most = g.op('ReduceMax', x, axes=[2], keepdims=1)
    both = g.op('Concat', x, g.op('Expand', most, g.ints(batch, width, points)), axis=1)
    classes = g.size(4, 60)
    y = g.op('Relu', conv(g, both, 2 * width, width, 1, spatial=1))
    y = g.op('Transpose', conv(g, y, width, classes, 1, spatial=1), perm=[0, 2, 1])
    return g.op('LogSoftmax', y, axis=-1), dims_text(batch, points, layers, width, classes)


def neighbours(g):
    """Dynamic graphs of points: distances of all pairs, the nearest of each, what differs from them, the largest of it."""
    points, width, near, out = g.size(60, 500), g.size(3, 64), g.pick(5, 8, 16, 20), g.size(16, 100)
    x = g.input(1, points, width)
    squares = g.op('ReduceSum', g.op('Mul', x, x), g.ints(2), keepdims=1)
    inner = g.op('MatMul', x, g.op('Transpose', x, perm=[0, 2, 1]))
    far = g.op('Add', g.op('Sub', squares, g.op('Mul', inner, g.scalar(2))), g.op('Transpose', squares, perm=[0, 2, 1]))
    _, chosen = g.op('TopK', far, g.ints(near), outputs=2, axis=-1, largest=0)
    others = g.op('Gather', g.op('Squeeze', x, g.ints(0)), g.op('Squeeze', chosen, g.ints(0)), axis=0)
    own = g.op('Expand', g.op('Reshape', x, g.ints(points, 1, width)), g.ints(points, near, width))
    edges = g.op('Concat', own, g.op('Sub', others, own), axis=-1)
    y = g.op('LeakyRelu', dense(g, edges, 2 * width, out), alpha=.2)
    return g.op('ReduceMax', y, axes=[1], keepdims=0), dims_text(points, width, near, out)


def graph_attention(g):
    """Edges of a graph as two lists of nodes: scores of edges, a softmax over those of a node, sums by scattering."""
    nodes, edges, heads, depth = g.size(40, 1000), g.size(200, 5000), g.pick(1, 2, 4, 8), g.pick(4, 8, 13, 32)
    width = heads * depth
    source, target = (g.constant(g.rng.integers(0, nodes, edges).astype('i8')) for _ in range(2))
    x = g.op('Reshape', dense(g, g.input(nodes, width), width, width), g.ints(nodes, heads, depth))
    both = [g.op('ReduceSum', g.op('Mul', x, g.weight(1, heads, depth)), g.ints(2), keepdims=0) for _ in range(2)]
    scores = g.op('Add', g.op('Gather', both[0], source, axis=0), g.op('Gather', both[1], target, axis=0))
    scores = g.op('Exp', g.op('LeakyRelu', scores, alpha=.2))
    places = g.op('Unsqueeze', target, g.ints(1))
    g.opset = 16  # the first whose scattering adds
    total = g.op('ScatterND', g.constant(numpy.zeros((nodes, heads), 'f4')), places, scores, reduction='add')
    share = g.op('Div', scores, g.op('Add', g.op('Gather', total, target, axis=0), g.scalar(1e-9)))
    sent = g.op('Mul', g.op('Gather', x, source, axis=0), g.op('Unsqueeze', share, g.ints(2)))
    y = g.op('ScatterND', g.constant(numpy.zeros((nodes, heads, depth), 'f4')), places, sent, reduction='add')
    return g.op('Elu', g.op('Reshape', y, g.ints(nodes, width))), dims_text(nodes, edges, heads, depth)


def experts(g):
    """Tokens are sent to the best two of some networks, by weights that are zero for the others."""
    tokens, width, hidden, count, best = g.size(4, 200), g.size(24, 200), g.size(32, 300), g.pick(4, 6, 8), 2
    x = g.input(tokens, width)
    shares, chosen = g.op('TopK', g.op('Softmax', g.op('MatMul', x, g.weight(width, count)), axis=-1), g.ints(best), outputs=2, axis=-1)
    shares = g.op('Div', shares, g.op('ReduceSum', shares, g.ints(1), keepdims=1))
    routes = g.op('ScatterElements', g.constant(numpy.zeros((tokens, count), 'f4')), chosen, shares, axis=1)
    inner = g.op('MatMul', g.op('Unsqueeze', x, g.ints(0)), g.weight(count, width, hidden))
    out = g.op('MatMul', silu(g, inner), g.weight(count, hidden, width))
    routes = g.op('Unsqueeze', g.op('Transpose', routes, perm=[1, 0]), g.ints(2))
    return g.op('Add', x, g.op('ReduceSum', g.op('Mul', out, routes), g.ints(0), keepdims=0)), dims_text(tokens, width, hidden, count)


def turned(g, x, batch, tokens, heads, depth):
    """Rotary positions, by halves."""
    half = depth // 2
    a, b = g.op('Split', x, g.ints(half, half), outputs=2, axis=-1)
    other = g.op('Concat', g.op('Neg', b), a, axis=-1)
    angles = numpy.outer(numpy.arange(tokens), 10000. ** -(numpy.arange(depth) % half / half)).astype('f4')
    return g.op('Add', g.op('Mul', x, g.constant(numpy.cos(angles))), g.op('Mul', other, g.constant(numpy.sin(angles))))


def llama_block(g):
    """Root mean squares, rotary positions, keys that several heads share, a causal mask, a gated feed-forward."""
    batch, tokens, groups, each, depth = g.pick(1, 1, 2), g.size(6, 200), g.pick(1, 2, 3), g.pick(2, 3, 4), 2 * g.pick(8, 12, 16, 32)
    heads, hidden = groups * each, g.size(64, 900)
    width = heads * depth

    def normal(x):
        mean = g.op('ReduceMean', g.op('Mul', x, x), axes=[-1], keepdims=1)
        return g.op('Mul', g.op('Div', x, g.op('Sqrt', g.op('Add', mean, g.scalar(1e-6)))), g.weight(width))

    x = g.input(batch, tokens, width)
    y = normal(x)
    query = turned(g, heads_of(g, g.op('MatMul', y, g.weight(width, width)), batch, tokens, heads, depth), batch, tokens, heads, depth)
    key, value = (heads_of(g, g.op('MatMul', y, g.weight(width, groups * depth)), batch, tokens, groups, depth) for _ in range(2))
    key = turned(g, key, batch, tokens, groups, depth)
    key, value = (g.op('Reshape', g.op('Expand', g.op('Unsqueeze', z, g.ints(2)), g.ints(batch, groups, each, tokens, depth)),
                       g.ints(batch, heads, tokens, depth)) for z in (key, value))
    mask = g.constant(numpy.triu(numpy.full((tokens, tokens), -1e9, 'f4'), 1))
    y = g.op('Reshape', g.op('Transpose', attend(g, query, key, value, depth, mask), perm=[0, 2, 1, 3]), g.ints(batch, tokens, width))
    x = g.op('Add', x, g.op('MatMul', y, g.weight(width, width)))
    y = normal(x)
    y = g.op('Mul', silu(g, g.op('MatMul', y, g.weight(width, hidden))), g.op('MatMul', y, g.weight(width, hidden)))
    return g.op('Add', x, g.op('MatMul', y, g.weight(hidden, width))), dims_text(batch, tokens, groups, each, depth, hidden)


def axial_attention(g):
    """Attention along the rows of an image, then along its columns."""
    heads, depth, rows, columns = g.pick(1, 2, 4), g.pick(8, 12, 20), g.size(6, 48), g.size(6, 48)
    width = heads * depth
    x = g.input(1, width, rows, columns)
    for perm, lines, length in (([0, 2, 3, 1], rows, columns), ([0, 3, 2, 1], columns, rows)):
        y = g.op('Reshape', g.op('Transpose', x, perm=perm), g.ints(lines, length, width))
        parts = g.op('Split', dense(g, y, width, 3 * width), g.ints(width, width, width), outputs=3, axis=-1)
        y = attend(g, *(heads_of(g, part, lines, length, heads, depth) for part in parts), depth)
        y = g.op('Reshape', g.op('Transpose', y, perm=[0, 2, 1, 3]), g.ints(1, lines, length, width))
        x = g.op('Add', x, g.op('Transpose', y, perm=[0, 3, 1, 2] if perm[1] == 2 else [0, 3, 2, 1]))
    return x, dims_text(heads, depth, rows, columns)


def conv_gru(g):
    """Some steps of a recurrent network whose state is an image."""
    inputs, state, rows, columns, steps = g.size(1, 40), g.size(4, 64), g.size(8, 48), g.size(8, 48), g.pick(2, 3, 5)
    frames, h = g.input(steps, inputs, rows, columns), g.input(1, state, rows, columns)
    def gate(wide):
        return g.weight(wide, inputs + state, 3, 3), g.weight(wide)
    gates, new = gate(2 * state), gate(state)
    for step in range(steps):
        x = g.op('Slice', frames, g.ints(step), g.ints(step + 1), g.ints(0))
        both = g.op('Sigmoid', g.op('Conv', g.op('Concat', x, h, axis=1), *gates, pads=[1] * 4))
        reset, update = g.op('Split', both, g.ints(state, state), outputs=2, axis=1)
        y = g.op('Tanh', g.op('Conv', g.op('Concat', x, g.op('Mul', reset, h), axis=1), *new, pads=[1] * 4))
        h = g.op('Add', g.op('Mul', g.op('Sub', g.scalar(1), update), h), g.op('Mul', update, y))
    return h, dims_text(inputs, state, rows, columns, steps)


def super_resolution(g):
    """Residual blocks without norms, channels spread over places, and what the image has when enlarged."""
    channels, side, wide, factor, blocks = g.size(8, 64), g.size(12, 80), g.size(12, 80), g.pick(2, 3, 4), g.pick(2, 3)
    image = g.input(1, 3, side, wide)
    first = x = conv(g, image, 3, channels, 3)
    for _ in range(blocks):
        y = g.op('PRelu', conv(g, x, channels, channels, 3), g.weight(channels, 1, 1))
        x = g.op('Add', x, conv(g, y, channels, channels, 3))
    y = conv(g, g.op('Add', x, first), channels, 3 * factor * factor, 3)
    y = g.op('DepthToSpace', y, blocksize=factor, mode='CRD')
    scales = g.constant(numpy.array([1, 1, factor, factor], 'f4'))
    large = g.op('Resize', image, '', scales, mode='linear', coordinate_transformation_mode='half_pixel')
    return g.op('Clip', g.op('Add', y, large), g.scalar(0), g.scalar(1)), dims_text(channels, side, wide, factor, blocks)


def pool_former(g):
    """An average of the places around instead of attention, less what was there; then two 1x1 convolutions."""
    width, rows, columns, layers = g.size(16, 160), g.size(7, 40), g.size(7, 40), g.pick(2, 3)
    x = conv(g, g.input(1, 3, 4 * rows, 4 * columns), 3, width, 7, stride=4, pads=[3, 3, 3, 3])
    for _ in range(layers):
        y = group_norm(g, x, (1, width, rows, columns), 1)
        pooled = g.op('AveragePool', y, kernel_shape=[3, 3], strides=[1, 1], pads=[1] * 4)
        x = g.op('Add', x, g.op('Mul', g.op('Sub', pooled, y), g.weight(width, 1, 1)))
        y = conv(g, group_norm(g, x, (1, width, rows, columns), 1), width, 4 * width, 1)
        x = g.op('Add', x, g.op('Mul', conv(g, gelu(g, y), 4 * width, width, 1), g.weight(width, 1, 1)))
    return x, dims_text(width, rows, columns, layers)


def conv_next(g):
    """Depthwise convolutions of 7x7, norms of channels that lie last, two dense layers."""
    width, rows, columns, layers = g.size(16, 160), g.size(7, 40), g.size(7, 40), g.pick(2, 3)
    x = conv(g, g.input(1, 3, 4 * rows, 4 * columns), 3, width, 4, stride=4, pads=[0] * 4)
    for _ in range(layers):
        y = g.op('Transpose', conv(g, x, width, width, 7, width), perm=[0, 2, 3, 1])
        y = feed_forward(g, layer_norm(g, y, width), width, 4 * width, gelu)
        x = g.op('Add', x, g.op('Transpose', g.op('Mul', y, g.weight(width)), perm=[0, 3, 1, 2]))
    return x, dims_text(width, rows, columns, layers)


def radiance(g):
    """Points along rays: sines and cosines, a network that is joined with its start again, and the light that is left."""
    rays, steps, waves, width = g.size(8, 128), g.pick(16, 24, 32), g.pick(4, 6, 10), g.size(24, 128)
    points = g.input(rays, steps, 3)
    scaled = g.op('Mul', g.op('Unsqueeze', points, g.ints(-1)), g.constant((2. ** numpy.arange(waves)).astype('f4')))
    scaled = g.op('Reshape', scaled, g.ints(rays, steps, 3 * waves))
    start, many = g.op('Concat', points, g.op('Sin', scaled), g.op('Cos', scaled), axis=-1), 3 + 6 * waves
    x = g.op('Relu', dense(g, g.op('Relu', dense(g, start, many, width)), width, width))
    x = g.op('Relu', dense(g, g.op('Concat', x, start, axis=-1), width + many, width))
    light, thick = g.op('Sigmoid', dense(g, x, width, 3)), g.op('Relu', dense(g, x, width, 1))
    thick = g.op('Mul', thick, g.scalar(1 / steps))
    passed = g.op('Exp', g.op('Neg', g.op('CumSum', thick, g.constant(numpy.int64(1)), exclusive=1)))
    share = g.op('Mul', passed, g.op('Sub', g.scalar(1), g.op('Exp', g.op('Neg', thick))))
    return g.op('ReduceSum', g.op('Mul', share, light), g.ints(1), keepdims=0), dims_text(rays, steps, waves, width)


def modulated(g):
    """StyleGAN's convolutions: weights that a vector scales, normed and applied to an image."""
    style, inputs, outputs, rows, columns = g.size(16, 200), g.size(4, 96), g.size(4, 96), g.size(8, 48), g.size(8, 48)
    x, scale = g.input(1, inputs, rows, columns), dense(g, g.input(1, style), style, inputs)
    weight = g.op('Mul', g.weight(outputs, inputs, 3, 3), g.op('Reshape', scale, g.ints(1, inputs, 1, 1)))
    total = g.op('ReduceSum', g.op('Mul', weight, weight), g.ints(1, 2, 3), keepdims=1)
    weight = g.op('Div', weight, g.op('Sqrt', g.op('Add', total, g.scalar(1e-6))))
    y = g.op('Conv', x, weight, pads=[1] * 4)
    return g.op('LeakyRelu', g.op('Add', y, g.weight(1, outputs, 1, 1)), alpha=.2), dims_text(style, inputs, outputs, rows, columns)


def tracker(g):
    """What a small image has in common with each part of a large one, channel by channel; then two heads."""
    channels, small, large, out = g.size(8, 128), g.pick(3, 5, 7), g.size(15, 40), g.pick(2, 4, 10)
    first = conv(g, g.input(1, channels, small + 2, small + 2), channels, channels, 3, pads=[0] * 4)
    second = conv(g, g.input(1, channels, large, large), channels, channels, 3)
    y = g.op('Conv', second, g.op('Reshape', first, g.ints(channels, 1, small, small)), group=channels)
    y = g.op('Relu', conv(g, y, channels, channels, 1))
    return conv(g, y, channels, out, 1), dims_text(channels, small, large, out)


def codebook(g):
    """The nearest of some vectors at each place of an image, and a decoder of those."""
    width, count, rows, columns, out = g.size(8, 96), g.size(32, 900), g.size(6, 32), g.size(6, 32), g.size(3, 48)
    x = conv(g, g.input(1, width, rows, columns), width, width, 1)
    flat = g.op('Reshape', g.op('Transpose', x, perm=[0, 2, 3, 1]), g.ints(rows * columns, width))
    table = g.rng.standard_normal((count, width)).astype('f4')
    own = g.op('ReduceSum', g.op('Mul', flat, flat), g.ints(1), keepdims=1)
    far = g.op('Sub', g.op('Add', own, g.constant((table ** 2).sum(1))), g.op('MatMul', flat, g.constant(2 * table.T.copy())))
    chosen = g.op('Gather', g.constant(table), g.op('ArgMin', far, axis=1, keepdims=0), axis=0)
    y = g.op('Transpose', g.op('Reshape', chosen, g.ints(1, rows, columns, width)), perm=[0, 3, 1, 2])
    y = conv(g, y, width, out, 4, stride=2, op_type='ConvTranspose', pads=[1] * 4)
    return g.op('Tanh', y), dims_text(width, count, rows, columns, out)


def state_space(g):
    """A gated causal depthwise convolution, then a long sum in which what is old decays: as one masked product."""
    tokens, width, states = g.size(16, 160), g.size(16, 120), g.pick(4, 8, 16)
    x = g.input(1, tokens, width)
    a, gate = g.op('Split', g.op('MatMul', layer_norm(g, x, width), g.weight(width, 2 * width)), g.ints(width, width), outputs=2, axis=-1)
    a = g.op('Pad', g.op('Transpose', a, perm=[0, 2, 1]), g.ints(0, 0, 3, 0, 0, 0))
    a = silu(g, g.op('Transpose', conv(g, a, width, width, 4, width, spatial=1, pads=[0, 0]), perm=[0, 2, 1]))
    into, out = (g.op('MatMul', a, g.weight(width, states)) for _ in range(2))
    decay = g.op('CumSum', g.op('Neg', g.op('Softplus', g.op('MatMul', a, g.weight(width, 1)))), g.constant(numpy.int64(1)))
    between = g.op('Sub', decay, g.op('Transpose', decay, perm=[0, 2, 1]))
    mask = g.constant(numpy.triu(numpy.full((tokens, tokens), -1e9, 'f4'), 1))
    weight = g.op('Mul', g.op('MatMul', out, g.op('Transpose', into, perm=[0, 2, 1])), g.op('Exp', g.op('Add', between, mask)))
    y = g.op('Mul', g.op('MatMul', weight, a), silu(g, gate))
    return g.op('Add', x, g.op('MatMul', y, g.weight(width, width))), dims_text(tokens, width, states)


def capsules(g):
    """Votes of small vectors for larger ones, and some rounds in which those agree on how much each counts."""
    few, many, inner, outer, rounds = g.pick(5, 8, 10), g.size(40, 400), g.pick(4, 8), g.pick(8, 16), g.pick(2, 3)
    x = g.input(many, 1, inner)
    votes = g.op('Reshape', g.op('MatMul', x, g.weight(many, inner, few * outer)), g.ints(many, few, outer))
    logits = g.constant(numpy.zeros((many, few, 1), 'f4'))
    for step in range(rounds):
        total = g.op('ReduceSum', g.op('Mul', g.op('Softmax', logits, axis=1), votes), g.ints(0), keepdims=1)
        squares = g.op('ReduceSum', g.op('Mul', total, total), g.ints(2), keepdims=1)
        y = g.op('Mul', total, g.op('Div', g.op('Sqrt', squares), g.op('Add', squares, g.scalar(1))))
        if step < rounds - 1:
            logits = g.op('Add', logits, g.op('ReduceSum', g.op('Mul', votes, y), g.ints(2), keepdims=1))
    return y, dims_text(few, many, inner, outer, rounds)


def spectrum(g):
    """A signal in frames, windowed, by sines and cosines; bands of its power, their logarithms, a small network."""
    frames, step, bins, bands = g.size(20, 300), g.pick(80, 128, 160), g.pick(101, 129, 201), g.pick(40, 64, 80)
    length = 2 * (bins - 1)
    angles = 2 * math.pi * numpy.outer(numpy.arange(bins), numpy.arange(length)) / length
    window = .5 - .5 * numpy.cos(2 * math.pi * numpy.arange(length) / length)
    signal = g.input(1, 1, step * (frames - 1) + length)
    power = None
    for wave in (numpy.cos(angles), numpy.sin(angles)):
        part = g.op('Conv', signal, g.constant((wave * window)[:, None].astype('f4')), strides=[step])
        part = g.op('Mul', part, part)
        power = part if power is None else g.op('Add', power, part)
    mel = g.op('MatMul', g.constant(numpy.abs(g.rng.standard_normal((bands, bins))).astype('f4')), power)
    logs = g.op('Log', g.op('Max', mel, g.scalar(1e-5)))
    x = g.op('Sub', logs, g.op('ReduceMean', logs, axes=[2], keepdims=1))
    width = g.size(16, 96)
    x = g.op('Relu', conv(g, x, bands, width, 5, spatial=1))
    return g.op('GlobalAveragePool', conv(g, x, width, g.size(4, 40), 3, dilation=2, spatial=1)), dims_text(frames, step, bins, bands, width)


KINDS = {
    network.__name__: network for network in (
        point_net, neighbours, graph_attention, experts, llama_block, axial_attention, conv_gru, super_resolution, pool_former, conv_next,
        radiance, modulated, tracker, codebook, state_space, capsules, spectrum)
}
