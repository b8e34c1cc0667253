"""Attention of several heads by itself, as ONNX files: a product, what is added to its scores, a softmax, another product.

usage: attention_models.py FOLDER [--random COUNT] [--seed S]    needs python3-onnx python3-numpy

A list of lengths that models have; with --random COUNT as many others: heads, lengths and widths by chance, keys as rows or
columns, scaled before or after, masked by a tensor, by keys, by a triangle or not at all. The paths are printed. Exit code 2:
bad usage.
"""
import argparse
import os
import random

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper


def save(folder, name, batch, heads, rows, columns, width, values, scale='after', mask=None, rows_of_keys=True, turned=True):
    """q, k, v of (batch, heads, length, width); keys as (.., width, length) unless rows_of_keys; turned: results lie by token."""
    inputs, nodes, constants = [], [], [numpy_helper.from_array(np.array(width**-0.5, 'f4'), 'scale')]

    def operand(name, *shape):
        inputs.append(helper.make_tensor_value_info(name, T.FLOAT, shape))
        return name

    def node(op, *operands, **attributes):
        nodes.append(helper.make_node(op, operands, [f't{len(nodes)}'], **attributes))
        return nodes[-1].output[0]

    q = operand('q', batch, heads, rows, width)
    k = operand('k', batch, heads, *((columns, width) if rows_of_keys else (width, columns)))
    v = operand('v', batch, heads, columns, values)
    if rows_of_keys:
        k = node('Transpose', k, perm=[0, 1, 3, 2])
    if scale == 'before':
        q = node('Mul', q, 'scale')
    scores = node('MatMul', q, k)
    if scale == 'after':
        scores = node('Mul', scores, 'scale')
    if mask in ('all', 'keys'):
        scores = node('Add', scores, operand('mask', batch, 1, rows if mask == 'all' else 1, columns))
    if mask == 'triangle':
        seen = np.tril(np.ones((rows, columns), bool))
        constants += [numpy_helper.from_array(seen, 'seen'), numpy_helper.from_array(np.array(-1e9, 'f4'), 'least')]
        scores = node('Where', 'seen', scores, 'least')
    result = node('MatMul', node('Softmax', scores, axis=-1), v)
    shape = [batch, heads, rows, values]
    if turned:
        result = node('Transpose', result, perm=[0, 2, 1, 3])
        shape = [batch, rows, heads, values]
    outputs = [helper.make_tensor_value_info(result, T.FLOAT, shape)]
    graph = helper.make_graph(nodes, 'attention', inputs, outputs, constants)
    path = os.path.join(folder, f'{name}.onnx')
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid('', 17)]), path)
    print(path)


def by_chance(folder, count):
    def length():
        return random.choice([random.randint(9, 1200), random.choice([64, 128, 197, 256, 257, 384, 512, 577, 640, 1000, 1024])])

    made = 0
    while made < count:
        batch, heads, rows, columns = random.choice([1, 1, 2, 3]), random.choice([1, 3, 4, 8, 12]), length(), length()
        if random.random() < 0.6:
            columns = rows
        width = random.choice([8, 16, 20, 32, 33, 40, 48, 64, 64, 64, 72, 80, 96, 128])
        values = width if random.random() < 0.8 else random.choice([16, 24, 65, 100])
        scores = batch * heads * rows * columns
        # Scores that a cache of 1 MiB does not hold, and products of some milliseconds.
        if not 5e5 < scores < 1.5e7 or scores * (width + values) > 3e9:
            continue
        scale, mask = random.choice(['before', 'after', None]), random.choice([None, None, 'all', 'keys', 'triangle'])
        name = f'r{made:02d}_{batch}x{heads}x{rows}x{columns}_{width}_{values}_{scale}_{mask}'
        save(folder, name, batch, heads, rows, columns, width, values, scale, mask, random.random() < 0.5, random.random() < 0.6)
        made += 1


def of_models(folder):
    for tokens in (128, 197, 384, 512, 577, 1024, 1500, 2048):
        save(folder, f'tokens_{tokens}', 1, 12, tokens, tokens, 64, 64)
    save(folder, 'masked_384', 1, 12, 384, 384, 64, 64, mask='keys')
    save(folder, 'causal_512', 1, 12, 512, 512, 64, 64, mask='triangle')
    save(folder, 'batch_128', 8, 12, 128, 128, 64, 64)
    save(folder, 'image_4096', 1, 8, 4096, 4096, 40, 40)
    save(folder, 'image_of_text', 1, 8, 4096, 77, 40, 40)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('folder')
    parser.add_argument('--random', type=int, default=0)
    parser.add_argument('--seed', type=int, default=0)
    arguments = parser.parse_args()
    os.makedirs(arguments.folder, exist_ok=True)
    random.seed(arguments.seed)
    if arguments.random:
        by_chance(arguments.folder, arguments.random)
    else:
        of_models(arguments.folder)


main()
