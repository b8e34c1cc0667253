"""Two layers of operators of com.microsoft, as real exports are made of them, as ONNX files.

usage: contrib_networks.py FOLDER    needs python3-onnx python3-numpy

bert.onnx: an encoder as ONNX Runtime's optimizer leaves it (EmbedLayerNormalization, Attention, SkipLayerNormalization, BiasGelu),
gpt.onnx: a decoder as it leaves that (Attention with a past, FastGelu), llama_fp32.onnx and llama_4bit.onnx: a decoder as model
builders write it (GroupQueryAttention, SkipSimplifiedLayerNormalization; MatMul or MatMulNBits). Batch, length and past are open,
inputs `ids`, `past_0` ... ; weights are random, of seed 0. The paths are printed. Exit code 2: bad usage.
"""
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper

WORDS, PLACES = 1000, 512


class Graph:
    def __init__(self):
        self.nodes, self.held, self.inputs, self.outputs = [], [], [], []
        self.random = np.random.default_rng(0)
        self.count = 0

    def constant(self, value):
        self.count += 1
        self.held.append(numpy_helper.from_array(np.asarray(value), f'c{self.count}'))
        return f'c{self.count}'

    def weights(self, *shape, scale=0.05):
        return self.constant((self.random.standard_normal(shape) * scale).astype(np.float32))

    def node(self, op, operands, outputs=1, domain='com.microsoft', **attributes):
        self.count += 1
        names = [f'v{self.count}_{i}' for i in range(outputs)] if isinstance(outputs, int) else outputs
        self.nodes.append(helper.make_node(op, operands, names, domain=domain, **attributes))
        return names[0] if len(names) == 1 else names

    def skip_norm(self, op, operands, **attributes):
        """The norm and the sum that was normalized; what a norm tells of itself is left out."""
        self.count += 1
        names = [f'v{self.count}_norm', '', '', f'v{self.count}_sum']
        self.node(op, operands, names, **attributes)
        return names[0], names[3]

    def standard(self, op, operands, outputs=1, **attributes):
        return self.node(op, operands, outputs, '', **attributes)

    def input(self, name, dims, dtype=T.FLOAT):
        self.inputs.append(helper.make_tensor_value_info(name, dtype, dims))
        return name

    def output(self, name, dims, dtype=T.FLOAT):
        self.outputs.append(helper.make_tensor_value_info(name, dtype, dims))
        return name

    def save(self, folder, name):
        graph = helper.make_graph(self.nodes, name, self.inputs, self.outputs, initializer=self.held)
        versions = [helper.make_opsetid('', 18), helper.make_opsetid('com.microsoft', 1)]
        made = helper.make_model(graph, opset_imports=versions)
        made.ir_version = 8
        path = os.path.join(folder, name + '.onnx')
        onnx.save(made, path)
        print(path, flush=True)

    def extent(self, of, axis):
        return self.standard('Gather', [self.standard('Shape', [of]), self.constant(np.array([axis]))], axis=0)


def ones(width):
    return np.ones(width, np.float32)


def bert(folder, width=256, heads=4):
    g = Graph()
    ids = g.input('ids', ['batch', 'length'], T.INT32)
    norm = [g.constant(ones(width)), g.weights(width)]
    shape = g.standard('Shape', [ids])
    segments = g.standard('ConstantOfShape', [shape], value=helper.make_tensor('', T.INT32, [1], [0]))
    kept = g.standard('ConstantOfShape', [shape], value=helper.make_tensor('', T.INT32, [1], [1]))
    tables = [g.weights(WORDS, width), g.weights(PLACES, width), g.weights(2, width)]
    x, mask = g.node('EmbedLayerNormalization', [ids, segments] + tables + norm + [kept], 2, epsilon=1e-12)
    for _ in range(2):
        attended = g.node('Attention', [x, g.weights(width, 3 * width), g.weights(3 * width), mask], num_heads=heads)
        joined = g.standard('MatMul', [attended, g.weights(width, width)])
        x = g.node('SkipLayerNormalization', [joined, x, g.constant(ones(width)), g.weights(width), g.weights(width)], epsilon=1e-12)
        inner = g.standard('MatMul', [x, g.weights(width, 4 * width)])
        inner = g.standard('MatMul', [g.node('BiasGelu', [inner, g.weights(4 * width)]), g.weights(4 * width, width)])
        x = g.node('SkipLayerNormalization', [inner, x, g.constant(ones(width)), g.weights(width), g.weights(width)], epsilon=1e-12)
    g.standard('Identity', [x], [g.output('y', ['batch', 'length', width])])
    g.save(folder, 'bert')


def gpt(folder, width=256, heads=4):
    g = Graph()
    ids = g.input('ids', ['batch', 'length'], T.INT64)
    pasts = [g.input(f'past_{i}', [2, 'batch', heads, 'past', width // heads]) for i in range(2)]
    total = g.standard('Add', [g.extent(ids, 1), g.extent(pasts[0], 3)])
    mask_shape = g.standard('Concat', [g.extent(ids, 0), total], axis=0)
    mask = g.standard('ConstantOfShape', [mask_shape], value=helper.make_tensor('', T.INT32, [1], [1]))
    first, last, step = (g.standard('Squeeze', [v]) for v in (g.extent(pasts[0], 3), total, g.constant(np.array([1]))))
    places = g.standard('Range', [first, last, step])
    table = g.weights(WORDS, width)
    x = g.standard('Add', [g.standard('Gather', [table, ids]), g.standard('Gather', [g.weights(PLACES, width), places])])
    normed = g.standard('LayerNormalization', [x, g.constant(ones(width)), g.weights(width)])
    for layer, past in enumerate(pasts):
        present = g.output(f'present_{layer}', [2, 'batch', heads, 'total', width // heads])
        operands = [normed, g.weights(width, 3 * width), g.weights(3 * width), mask, past]
        attended = g.node('Attention', operands, [f'attended_{layer}', present], num_heads=heads, unidirectional=1)[0]
        joined = g.standard('MatMul', [attended, g.weights(width, width)])
        norm = [g.constant(ones(width)), g.weights(width), g.weights(width)]
        normed, x = g.skip_norm('SkipLayerNormalization', [joined, x] + norm, epsilon=1e-5)
        inner = g.node('FastGelu', [g.standard('MatMul', [normed, g.weights(width, 4 * width)]), g.weights(4 * width)])
        inner = g.standard('MatMul', [inner, g.weights(4 * width, width)])
        norm = [g.constant(ones(width)), g.weights(width), g.weights(width)]
        normed, x = g.skip_norm('SkipLayerNormalization', [inner, x] + norm, epsilon=1e-5)
    g.standard('MatMul', [normed, g.weights(width, WORDS)], [g.output('logits', ['batch', 'length', WORDS])])
    g.save(folder, 'gpt')


def llama(folder, name, bits, width=512, heads=8, kv_heads=2, block=32):
    g = Graph()
    size = width // heads

    def product(x, k, n):
        if not bits:
            return g.standard('MatMul', [x, g.weights(k, n)])
        packed = g.random.integers(0, 256, (n, k // block, block * bits // 8), endpoint=False).astype(np.uint8)
        scales = (0.003 + 0.01 * g.random.random(n * k // block)).astype(np.float32)
        return g.node('MatMulNBits', [x, g.constant(packed), g.constant(scales)], K=k, N=n, bits=bits, block_size=block)

    ids = g.input('ids', ['batch', 'length'], T.INT64)
    cache = ['batch', kv_heads, 'past', size]
    pasts = [[g.input(f'past_{i}_{part}', cache) for part in ('key', 'value')] for i in range(2)]
    # As model builders have it: of a mask of all tokens there are, which is all ones here.
    total = g.standard('Add', [g.extent(ids, 1), g.extent(pasts[0][0], 2)])
    mask_shape = g.standard('Concat', [g.extent(ids, 0), total], axis=0)
    mask = g.standard('ConstantOfShape', [mask_shape], value=helper.make_tensor('', T.INT64, [1], [1]))
    valid = g.standard('ReduceSum', [mask, g.constant(np.array([1]))], keepdims=0)
    valid = g.standard('Cast', [g.standard('Sub', [valid, g.constant(np.array([1]))])], to=T.INT32)
    total = g.standard('Cast', [g.standard('Squeeze', [g.extent(mask, 1)])], to=T.INT32)
    angles = np.arange(PLACES)[:, None] / 10000 ** (np.arange(size // 2) * 2 / size)
    cosines, sines = g.constant(np.cos(angles).astype(np.float32)), g.constant(np.sin(angles).astype(np.float32))
    x = g.standard('Gather', [g.weights(WORDS, width, scale=1.0), ids])
    normed = g.standard('SimplifiedLayerNormalization', [x, g.constant(ones(width))], axis=-1, epsilon=1e-5, stash_type=1)
    for layer, (key, value) in enumerate(pasts):
        queries, keys, values = (product(normed, width, n * size) for n in (heads, kv_heads, kv_heads))
        kept = [g.output(f'present_{layer}_{part}', ['batch', kv_heads, 'total', size]) for part in ('key', 'value')]
        operands = [queries, keys, values, key, value, valid, total, cosines, sines]
        attended = g.node('GroupQueryAttention', operands, [f'attended_{layer}'] + kept, num_heads=heads, kv_num_heads=kv_heads, do_rotary=1)[0]
        joined = product(attended, width, width)
        normed, x = g.skip_norm('SkipSimplifiedLayerNormalization', [x, joined, g.constant(ones(width))], epsilon=1e-5)
        gate, up = product(normed, width, 3 * width), product(normed, width, 3 * width)
        gate = g.standard('Mul', [gate, g.standard('Sigmoid', [gate])])
        down = product(g.standard('Mul', [gate, up]), 3 * width, width)
        normed, x = g.skip_norm('SkipSimplifiedLayerNormalization', [x, down, g.constant(ones(width))], epsilon=1e-5)
    last = product(normed, width, WORDS + 24)
    g.standard('Identity', [last], [g.output('logits', ['batch', 'length', WORDS + 24])])
    g.save(folder, name)


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith('-'):
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    bert(folder)
    gpt(folder)
    llama(folder, 'llama_fp32', 0)
    llama(folder, 'llama_4bit', 4)


if __name__ == '__main__':
    main()
