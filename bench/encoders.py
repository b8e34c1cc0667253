"""Encoders of transformers with random weights (norm first, GELU, 4 times as wide between), as ONNX files (opset 16).

usage: encoders.py FOLDER [LAYERSxWIDTH:HEADS:BATCHxTOKENS ...]    needs python3-torch

Input x, float32 (BATCH, TOKENS, WIDTH); the output is as large. Without sizes: the six of bench/results, three of
them with heads and lengths that are no powers of two. The paths are printed. Exit code 2: bad usage.
"""
import os
import re
import sys
import warnings

import network_parts
import torch
from torch import nn

SIZES = ('4x768:12:1x128', '6x384:6:8x33', '3x320:5:1x77', '2x528:11:1x197', '3x360:9:1x77', '2x300:5:3x50')


def encoder(layers, width, heads):
    return nn.Sequential(*(network_parts.EncoderLayer(width, heads, 4 * width) for _ in range(layers)), nn.LayerNorm(width))


def numbers(size):
    """(layers, width, heads, batch, tokens), or None where `size` isn't such a text or the heads do not divide the width."""
    found = re.fullmatch(r'([1-9]\d*)x([1-9]\d*):([1-9]\d*):([1-9]\d*)x([1-9]\d*)', size)
    whole = found and tuple(map(int, found.groups()))
    return whole if whole and whole[1] % whole[2] == 0 else None


def main():
    sizes = sys.argv[2:] or SIZES
    bad = [size for size in sizes if not numbers(size)]
    if len(sys.argv) < 2 or sys.argv[1].startswith('-') or bad:
        print(f'error: {bad[0]} is not LAYERSxWIDTH:HEADS:BATCHxTOKENS with heads that divide the width' if bad else __doc__, file=sys.stderr)
        sys.exit(2)
    os.makedirs(sys.argv[1], exist_ok=True)
    for size in sizes:
        layers, width, heads, batch, tokens = numbers(size)
        torch.manual_seed(5)
        path = os.path.join(sys.argv[1], f'encoder_{layers}x{width}_h{heads}_b{batch}t{tokens}.onnx')
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter('ignore')
            torch.onnx.export(encoder(layers, width, heads).eval(), torch.randn(batch, tokens, width), path, input_names=['x'], opset_version=16)
        print(path, flush=True)


if __name__ == '__main__':
    main()
