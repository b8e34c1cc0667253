"""Writes small random ONNX models (opset 13 or the first that has an operator): a block or a network each, sizes round and odd, as other people's have them.

usage: random_models.py FOLDER --seed S [--count N] [--kinds classic|rare|networks|odd|quantized|all | --kind K] [--sizes any|round] [--dtype float32|float16]    needs python3-onnx, python3-numpy

Sizes are any, half of them multiples of 8, or round: powers of two and three times those, as hidden sizes and images mostly are.
Kinds take turns: with all of them, the first 25 files are the classic ones of that seed; rare blocks follow the 50th, whole
networks follow them, and blocks of integers come last. A file's name says its number, kind and sizes; the paths are printed. The same arguments give the same files,
byte for byte. Exit code 2: bad usage.
"""
import argparse
import os
import sys

import numpy
import onnx

import random_classic_blocks
import random_networks
import random_odd_networks
import random_placed_blocks
import random_quantized_blocks
import random_rare_blocks
import random_wide_blocks
from random_graph import RandomGraph
from to_float16 import to_float16

KINDS = {'classic': random_classic_blocks.KINDS, 'rare': {**random_rare_blocks.KINDS, **random_placed_blocks.KINDS}, 'networks': {**random_networks.KINDS, **random_odd_networks.KINDS}, 'odd': random_odd_networks.KINDS, 'quantized': random_quantized_blocks.KINDS}
KINDS['all'] = {**KINDS['classic'], **random_wide_blocks.KINDS, **KINDS['rare'], **KINDS['networks'], **KINDS['quantized']}


class Parser(argparse.ArgumentParser):
    def error(self, message):
        """One line, without the usage."""
        self.exit(2, f'error: {message}\n')


def parse_arguments():
    parser = Parser(usage=__doc__.splitlines()[2][len('usage: '):])
    parser.add_argument('folder')
    parser.add_argument('--seed', type=int, required=True)
    parser.add_argument('--count', type=int, default=50)
    parser.add_argument('--kinds', choices=list(KINDS), default='all')
    parser.add_argument('--kind')
    parser.add_argument('--sizes', choices=['any', 'round'], default='any')
    parser.add_argument('--dtype', choices=['float32', 'float16'], default='float32')
    arguments = parser.parse_args()
    if arguments.seed < 0 or arguments.count < 1:
        parser.error('--seed must be at least 0 and --count at least 1')
    kinds = KINDS['all']
    if arguments.kind is not None and arguments.kind not in kinds:
        parser.error(f'no kind is named {arguments.kind}; there are {", ".join(kinds)}')
    return arguments


def main():
    arguments = parse_arguments()
    names = [arguments.kind] if arguments.kind else list(KINDS[arguments.kinds])
    rng = numpy.random.default_rng(arguments.seed)
    os.makedirs(arguments.folder, exist_ok=True)
    for i in range(arguments.count):
        kind = names[i % len(names)]
        graph = RandomGraph(rng, arguments.sizes == 'round')
        output, label, *dtype = KINDS['all'][kind](graph)
        model = graph.model(kind, output, *(dtype or [onnx.TensorProto.FLOAT]))
        path = os.path.join(arguments.folder, f'{i:03d}_{kind}_{label}.onnx')
        onnx.save(to_float16(model) if arguments.dtype == 'float16' else model, path)
        print(path)


if __name__ == '__main__':
    sys.exit(main())
