"""Writes a Llama twice, as ONNX (opset 17) and as GGUF, the file of llama.cpp, for races and checks. Its weights are random, or a trained model's.

usage: llama_model.py FOLDER [--layers 16] [--width 1024] [--heads 16] [--kv-heads 4] [--hidden 2816] [--vocabulary 32000] ...
further: [--context 2048] [--q8] [--seed 0] [--weights MODEL.bin]    needs python3-onnx, python3-numpy

FOLDER/llama.onnx: inputs ids (1, t) and pos (1, t), int64, past_k and past_v (layers, 1, kv heads, p, head size); outputs
logits (1, 1, vocabulary), those of the last token alone as llama.cpp gives them, present_k and present_v. FOLDER/llama.gguf:
the same weights; with --q8 those of matrices are Q8_0 (blocks of 32 signed bytes under one scale in half precision). All
in float32 elsewhere. FOLDER/llama.json: layers, kv_heads, head, vocabulary, matrix_bytes (what a token reads of the matrices in float32). The
same arguments give the same files. MODEL.bin is of llama2c's format (version 0): its sizes replace those of the flags. Exit code 2: bad usage.
"""
import argparse
import itertools
import json
import math
import os
import struct

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

EPSILON, THETA = 1e-5, 10000.0


class Parser(argparse.ArgumentParser):
    def error(self, message):
        """One line, without the usage."""
        self.exit(2, f'error: {message}\n')


def parse_arguments():
    parser = Parser(usage=__doc__.splitlines()[2][len('usage: '):])
    parser.add_argument('folder')
    for name, default in [('layers', 16), ('width', 1024), ('heads', 16), ('kv-heads', 4), ('hidden', 2816), ('vocabulary', 32000),
                          ('context', 2048), ('seed', 0)]:
        parser.add_argument(f'--{name}', default=default, type=int)
    parser.add_argument('--q8', action='store_true')
    parser.add_argument('--weights', help='of a trained model, in the format of llama2c')
    arguments = parser.parse_args()
    if arguments.weights:
        try:
            arguments.trained = read_llama2c(arguments)
        except (OSError, ValueError, struct.error) as error:
            parser.error(f'{arguments.weights}: {error}')
    if arguments.width % arguments.heads or arguments.width // arguments.heads % 2:
        parser.error(f'{arguments.heads} heads of even size cannot make {arguments.width}')
    if arguments.heads % arguments.kv_heads:
        parser.error(f'{arguments.kv_heads} heads of keys cannot serve {arguments.heads}')
    if arguments.q8 and (arguments.width % 32 or arguments.hidden % 32):
        parser.error('rows of Q8_0 must be multiples of 32 long')
    arguments.head = arguments.width // arguments.heads
    return arguments


def read_llama2c(arguments):
    """The weights as weights_of() gives them; sets the sizes. The file has each kind for all layers, one kind after another."""
    with open(arguments.weights, 'rb') as file:
        data = file.read()
    width, hidden, layers, heads, kv_heads, vocabulary, context = struct.unpack('<7i', data[:28])
    if min(width, hidden, layers, heads, kv_heads, context) < 1 or vocabulary == 0:
        raise ValueError('no model in the format of llama2c')
    arguments.width, arguments.hidden, arguments.layers, arguments.heads = width, hidden, layers, heads
    arguments.kv_heads, arguments.vocabulary, arguments.context = kv_heads, abs(vocabulary), context
    head, at, weights = width // heads, 28, {}

    def read(*shape):
        nonlocal at
        count = math.prod(shape)
        if at + 4 * count > len(data):
            raise ValueError('the file ends within a tensor')
        array = numpy.frombuffer(data, '<f4', count, at).reshape(shape)
        at += 4 * count
        return array

    def read_layers(name, *shape):
        for i in range(layers):
            weights[f'blk.{i}.{name}'] = read(*shape)
    weights['token_embd'] = read(abs(vocabulary), width)
    kinds = [('attn_norm', width), ('attn_q', width, width), ('attn_k', kv_heads * head, width), ('attn_v', kv_heads * head, width),
             ('attn_output', width, width), ('ffn_norm', width), ('ffn_gate', hidden, width), ('ffn_down', width, hidden), ('ffn_up', hidden, width)]
    for kind in kinds:
        read_layers(*kind)
    weights['output_norm'] = read(width)
    read(context, head)  # cosines and sines of all positions, which both files compute
    weights['output'] = weights['token_embd'] if vocabulary > 0 else read(-vocabulary, width)
    for i, (name, count) in itertools.product(range(layers), [('attn_q', heads), ('attn_k', kv_heads)]):
        weights[f'blk.{i}.{name}'] = by_halves(weights[f'blk.{i}.{name}'], count)
    return weights


def weights_of(arguments):
    """By GGUF's names, (outputs, inputs) each. Rows of queries and keys are turned by halves, as ONNX has them."""
    if arguments.weights:
        return arguments.trained
    rng = numpy.random.default_rng(arguments.seed)

    def matrix(rows, columns):
        return rng.standard_normal((rows, columns), numpy.float32) / numpy.sqrt(columns, dtype=numpy.float32)
    width, kv_width = arguments.width, arguments.kv_heads * arguments.head
    weights = {'token_embd': matrix(arguments.vocabulary, width)}
    for i in range(arguments.layers):
        for name, rows, columns in [('attn_q', width, width), ('attn_k', kv_width, width), ('attn_v', kv_width, width),
                                    ('attn_output', width, width), ('ffn_gate', arguments.hidden, width),
                                    ('ffn_up', arguments.hidden, width), ('ffn_down', width, arguments.hidden)]:
            weights[f'blk.{i}.{name}'] = matrix(rows, columns)
        for name in ('attn_norm', 'ffn_norm'):
            weights[f'blk.{i}.{name}'] = rng.uniform(0.5, 1.5, width).astype(numpy.float32)
    weights['output_norm'] = rng.uniform(0.5, 1.5, width).astype(numpy.float32)
    weights['output'] = matrix(arguments.vocabulary, width)
    return weights


class Graph:
    """Nodes under names that are counted; constants by value."""

    def __init__(self):
        self.nodes, self.initializers, self.constants = [], [], {}

    def add(self, op, *inputs, outputs=None, **attributes):
        names = outputs or [f'{op.lower()}{len(self.nodes)}']
        self.nodes.append(helper.make_node(op, list(inputs), names, **attributes))
        return names[0] if len(names) == 1 else names

    def weight(self, name, array):
        self.initializers.append(numpy_helper.from_array(numpy.array(array, order='C'), name))
        return name

    def constant(self, values, dtype=numpy.int64):
        array = numpy.array(values, dtype)
        key = (array.tobytes(), array.shape, array.dtype.str)
        if key not in self.constants:
            self.constants[key] = self.weight(f'constant{len(self.constants)}', array)
        return self.constants[key]

    def floats(self, value):
        return self.constant(value, numpy.float32)


def norm(graph, x, name, weight):
    mean = graph.add('ReduceMean', graph.add('Mul', x, x), axes=[-1])
    root = graph.add('Sqrt', graph.add('Add', mean, graph.floats(EPSILON)))
    return graph.add('Mul', graph.add('Div', x, root), graph.weight(name, weight))


def rotated(graph, x, turn, head):
    """x (1, heads, t, head) by the angles of its positions: the first half of a head with the second."""
    cosine, sine = turn
    half = head // 2
    first, second = graph.add('Split', x, graph.constant([half, half]), outputs=[f'first_{x}', f'second_{x}'], axis=-1)
    other = graph.add('Concat', graph.add('Neg', second), first, axis=-1)
    return graph.add('Add', graph.add('Mul', x, cosine), graph.add('Mul', other, sine))


def angles(graph, head):
    """Cosines and sines (1, 1, t, head) of the input `pos`."""
    rates = THETA ** (-numpy.arange(0, head, 2) / head)
    place = graph.add('Unsqueeze', graph.add('Cast', 'pos', to=TensorProto.FLOAT), graph.constant([1, 3]))
    angle = graph.add('Mul', place, graph.floats(numpy.concatenate([rates, rates])))
    return graph.add('Cos', angle), graph.add('Sin', angle)


def attention(graph, i, x, weights, turn, unseen, arguments):
    heads, kv_heads, head = arguments.heads, arguments.kv_heads, arguments.head

    def projected(name, count):
        product = graph.add('MatMul', x, graph.weight(f'{name}{i}', weights[f'blk.{i}.attn_{name}'].T))
        return graph.add('Transpose', graph.add('Reshape', product, graph.constant([0, 0, count, head])), perm=[0, 2, 1, 3])
    present = []
    for past, new in [('past_k', rotated(graph, projected('k', kv_heads), turn, head)), ('past_v', projected('v', kv_heads))]:
        before = graph.add('Gather', past, graph.constant(i), axis=0)
        present.append(graph.add('Concat', before, new, axis=2))
    query = rotated(graph, projected('q', heads), turn, head)
    # Heads that share keys are rows of one product: (1, kv heads, heads / kv heads, t, head).
    shared = graph.add('Reshape', query, graph.constant([1, kv_heads, heads // kv_heads, -1, head]))
    keys, values = (graph.add('Unsqueeze', each, graph.constant([2])) for each in present)
    scores = graph.add('MatMul', shared, graph.add('Transpose', keys, perm=[0, 1, 2, 4, 3]))
    scaled = graph.add('Mul', scores, graph.floats(head ** -0.5))
    chances = graph.add('Softmax', graph.add('Where', unseen, graph.floats(-1e9), scaled), axis=-1)
    mixed = graph.add('Reshape', graph.add('MatMul', chances, values), graph.constant([1, heads, -1, head]))
    rows = graph.add('Reshape', graph.add('Transpose', mixed, perm=[0, 2, 1, 3]), graph.constant([0, 0, arguments.width]))
    return graph.add('MatMul', rows, graph.weight(f'o{i}', weights[f'blk.{i}.attn_output'].T)), present


def feed_forward(graph, i, x, weights):
    gate, up = (graph.add('MatMul', x, graph.weight(f'{name}{i}', weights[f'blk.{i}.ffn_{name}'].T)) for name in ('gate', 'up'))
    kept = graph.add('Mul', graph.add('Mul', gate, graph.add('Sigmoid', gate)), up)
    return graph.add('MatMul', kept, graph.weight(f'down{i}', weights[f'blk.{i}.ffn_down'].T))


def unseen_of(graph):
    """(t, p + t): whether a key comes after the token, by the lengths of the inputs."""
    past = graph.add('Gather', graph.add('Shape', 'past_k'), graph.constant(3), axis=0)
    new = graph.add('Gather', graph.add('Shape', 'ids'), graph.constant(1), axis=0)
    keys = graph.add('Range', graph.constant(0), graph.add('Add', past, new), graph.constant(1))
    tokens = graph.add('Range', past, graph.add('Add', past, new), graph.constant(1))
    return graph.add('Greater', graph.add('Unsqueeze', keys, graph.constant([0])), graph.add('Unsqueeze', tokens, graph.constant([1])))


def onnx_model(weights, arguments):
    graph = Graph()
    x = graph.add('Gather', graph.weight('embedding', weights['token_embd']), 'ids', axis=0)
    turn, unseen, presents = angles(graph, arguments.head), unseen_of(graph), []
    for i in range(arguments.layers):
        y, present = attention(graph, i, norm(graph, x, f'attention_norm{i}', weights[f'blk.{i}.attn_norm']), weights, turn, unseen, arguments)
        presents.append(present)
        x = graph.add('Add', x, y)
        x = graph.add('Add', x, feed_forward(graph, i, norm(graph, x, f'feed_norm{i}', weights[f'blk.{i}.ffn_norm']), weights))
    last = graph.add('Slice', x, graph.constant([-1]), graph.constant([2 ** 31]), graph.constant([1]))
    graph.add('MatMul', norm(graph, last, 'last_norm', weights['output_norm']), graph.weight('output', weights['output'].T), outputs=['logits'])
    for k, name in enumerate(('present_k', 'present_v')):
        parts = [graph.add('Unsqueeze', present[k], graph.constant([0])) for present in presents]
        graph.add('Concat', *parts, outputs=[name], axis=0)

    def ports(rows):
        return [helper.make_tensor_value_info(*row) for row in rows]

    def cache(length):
        return [arguments.layers, 1, arguments.kv_heads, length, arguments.head]
    return helper.make_model(helper.make_graph(
        graph.nodes, 'llama',
        ports([('ids', TensorProto.INT64, [1, 't']), ('pos', TensorProto.INT64, [1, 't']), ('past_k', TensorProto.FLOAT, cache('p')),
               ('past_v', TensorProto.FLOAT, cache('p'))]),
        ports([('logits', TensorProto.FLOAT, [1, 1, arguments.vocabulary]), ('present_k', TensorProto.FLOAT, cache('pt')),
               ('present_v', TensorProto.FLOAT, cache('pt'))]),
        graph.initializers), opset_imports=[helper.make_opsetid('', 17)], ir_version=8)


# GGUF (github.com/ggml-org/ggml/blob/master/docs/gguf.md), version 3, little endian.
ALIGNMENT = 32
FLOAT32, Q8_0 = 0, 8  # types of tensors
TYPES = {int: (4, '<I'), float: (6, '<f')}  # of values of metadata: uint32, float32


def gguf_text(text):
    return struct.pack('<Q', len(text)) + text.encode()


def gguf_value(value):
    if isinstance(value, str):
        return struct.pack('<I', 8) + gguf_text(value)
    number, form = TYPES[type(value)]
    return struct.pack('<I', number) + struct.pack(form, value)


def q8_0(array):
    """Bytes: for each 32 numbers of a row their scale in half precision and 32 signed bytes."""
    blocks = array.reshape(-1, 32)
    scales = numpy.abs(blocks).max(axis=1, keepdims=True) / 127
    stored = numpy.zeros(len(blocks), numpy.dtype([('scale', '<f2'), ('values', 'i1', 32)]))
    stored['scale'] = scales[:, 0]
    stored['values'] = numpy.rint(blocks / numpy.where(scales > 0, scales, 1))
    return stored.tobytes()


def interleaved(rows, heads):
    """llama.cpp turns neighbours where ONNX turns halves: rows i and i + half of a head become rows 2 i and 2 i + 1."""
    return rows.reshape(heads, 2, -1, rows.shape[1]).swapaxes(1, 2).reshape(rows.shape)


def by_halves(rows, heads):
    """The inverse of interleaved()."""
    return rows.reshape(heads, -1, 2, rows.shape[1]).swapaxes(1, 2).reshape(rows.shape)


def write_gguf(path, weights, arguments):
    metadata = {
        'general.architecture': 'llama', 'llama.context_length': arguments.context, 'llama.embedding_length': arguments.width,
        'llama.block_count': arguments.layers, 'llama.feed_forward_length': arguments.hidden,
        'llama.attention.head_count': arguments.heads, 'llama.attention.head_count_kv': arguments.kv_heads,
        'llama.attention.layer_norm_rms_epsilon': EPSILON, 'llama.rope.dimension_count': arguments.head,
        'llama.rope.freq_base': THETA, 'llama.vocab_size': arguments.vocabulary, 'tokenizer.ggml.model': 'none',
    }
    header, chunks, offset = b'', [], 0
    for name, array in weights.items():
        if name.endswith(('attn_q', 'attn_k')):
            array = interleaved(array, arguments.heads if name.endswith('q') else arguments.kv_heads)
        quantized = arguments.q8 and array.ndim == 2
        data = q8_0(array) if quantized else array.tobytes()
        # Extents with the one along rows first.
        header += gguf_text(f'{name}.weight') + struct.pack(f'<I{array.ndim}QIQ', array.ndim, *reversed(array.shape),
                                                             Q8_0 if quantized else FLOAT32, offset)
        chunks.append(data + b'\0' * (-len(data) % ALIGNMENT))
        offset += len(chunks[-1])
    header = (b'GGUF' + struct.pack('<IQQ', 3, len(weights), len(metadata)) +
              b''.join(gguf_text(key) + gguf_value(value) for key, value in metadata.items()) + header)
    with open(path, 'wb') as file:
        file.write(header + b'\0' * (-len(header) % ALIGNMENT))
        for chunk in chunks:
            file.write(chunk)


def main():
    arguments = parse_arguments()
    os.makedirs(arguments.folder, exist_ok=True)
    weights = weights_of(arguments)
    write_gguf(os.path.join(arguments.folder, 'llama.gguf'), weights, arguments)
    onnx.save(onnx_model(weights, arguments), os.path.join(arguments.folder, 'llama.onnx'))
    # Of the embedding one row is read.
    matrix_bytes = sum(array.nbytes for name, array in weights.items() if array.ndim == 2 and name != 'token_embd')
    sizes = {name: getattr(arguments, name) for name in ('layers', 'kv_heads', 'head', 'vocabulary')}
    with open(os.path.join(arguments.folder, 'llama.json'), 'w') as file:
        json.dump({**sizes, 'matrix_bytes': matrix_bytes}, file)


if __name__ == '__main__':
    main()
