"""Writes ONNX models of one recurrent operator each (opset 14, float32), with random weights, for races and checks.

usage: recurrent_models.py FOLDER [--ops LSTM,GRU,RNN] [--hidden 512] [--input N] [--steps 32] [--batch 1,8] [--direction forward] [--lengths] [--layers 1] [--seed 0]    needs python3-onnx, python3-numpy

One file for each combination of what the lists hold: lstm_h512_t32_b1.onnx. The input is as wide as the state unless
--input says otherwise. --lengths adds an input `lengths` (batch; int32). --layers stacks operators, each direction's
states side by side. The paths are printed. The same arguments give the same files. Exit code 2: bad usage.
"""
import argparse
import itertools
import os

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

GATES = {'LSTM': 4, 'GRU': 3, 'RNN': 1}
DIRECTIONS = {'forward': 1, 'reverse': 1, 'bidirectional': 2}


class Parser(argparse.ArgumentParser):
    def error(self, message):
        """One line, without the usage."""
        self.exit(2, f'error: {message}\n')


def numbers(text):
    values = [int(each) for each in text.split(',')]
    if min(values) < 1:
        raise argparse.ArgumentTypeError('sizes must be at least 1')
    return values


def parse_arguments():
    parser = Parser(usage=__doc__.splitlines()[2][len('usage: '):])
    parser.add_argument('folder')
    parser.add_argument('--ops', default='LSTM,GRU,RNN', type=lambda text: text.split(','))
    parser.add_argument('--hidden', default=[512], type=numbers)
    parser.add_argument('--input', type=int)
    parser.add_argument('--steps', default=[32], type=numbers)
    parser.add_argument('--batch', default=[1, 8], type=numbers)
    parser.add_argument('--direction', default='forward', choices=DIRECTIONS)
    parser.add_argument('--lengths', action='store_true')
    parser.add_argument('--layers', default=1, type=int)
    parser.add_argument('--seed', default=0, type=int)
    arguments = parser.parse_args()
    for op in arguments.ops:
        if op not in GATES:
            parser.error(f'no operator is named {op}; there are {", ".join(GATES)}')
    return arguments


def weight(rng, name, shape, depth):
    """Uniform in +-1/sqrt(depth), as trained frameworks begin: states stay where activations bend."""
    return numpy_helper.from_array(rng.uniform(-1, 1, shape).astype(numpy.float32) / numpy.sqrt(depth, dtype=numpy.float32), name)


def recurrent_model(op, hidden, steps, batch, arguments):
    rng = numpy.random.default_rng(arguments.seed)
    ways, gates = DIRECTIONS[arguments.direction], GATES[op]
    width = arguments.input or hidden
    inputs = [helper.make_tensor_value_info('x', TensorProto.FLOAT, [steps, batch, width])]
    nodes, weights, data = [], [], 'x'
    if arguments.lengths:
        inputs.append(helper.make_tensor_value_info('lengths', TensorProto.INT32, [batch]))
    for layer in range(arguments.layers):
        names = [f'{each}{layer}' for each in 'wrb']
        shapes = [(ways, gates * hidden, width), (ways, gates * hidden, hidden), (ways, 2 * gates * hidden)]
        weights += [weight(rng, name, shape, hidden) for name, shape in zip(names, shapes)]
        lengths = ['lengths'] if arguments.lengths else []
        # (steps, ways, batch, hidden) becomes (steps, batch, ways * hidden), the next layer's input.
        nodes += [helper.make_node(op, [data, *names, *lengths], [f'states{layer}', f'last{layer}'], hidden_size=hidden,
                                   direction=arguments.direction),
                  helper.make_node('Transpose', [f'states{layer}'], [f'turned{layer}'], perm=[0, 2, 1, 3]),
                  helper.make_node('Reshape', [f'turned{layer}', 'flat'], [f'y{layer}'])]
        data, width = f'y{layer}', ways * hidden
    weights.append(numpy_helper.from_array(numpy.array([steps, batch, width]), 'flat'))
    outputs = [helper.make_tensor_value_info(data, TensorProto.FLOAT, [steps, batch, width]),
               helper.make_tensor_value_info(f'last{arguments.layers - 1}', TensorProto.FLOAT, [ways, batch, hidden])]
    graph = helper.make_graph(nodes, op.lower(), inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid('', 14)], ir_version=7)


def main():
    arguments = parse_arguments()
    os.makedirs(arguments.folder, exist_ok=True)
    marks = ''.join(f'_{mark}' for mark, there in [
        (arguments.direction, arguments.direction != 'forward'), ('lengths', arguments.lengths),
        (f'l{arguments.layers}', arguments.layers > 1)] if there)
    for op, hidden, steps, batch in itertools.product(arguments.ops, arguments.hidden, arguments.steps, arguments.batch):
        path = os.path.join(arguments.folder, f'{op.lower()}_h{hidden}_t{steps}_b{batch}{marks}.onnx')
        onnx.save(recurrent_model(op, hidden, steps, batch, arguments), path)
        print(path)


if __name__ == '__main__':
    main()
