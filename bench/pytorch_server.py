"""PyTorch as one side of a race (race.js):  python3 pytorch_server.py MODEL THREADS INPUT.npy

MODEL is torchvision's architecture of that name, dqn, or a recurrent operator as recurrent_models.py names its files
(lstm_h512_t32_b1_bidirectional_l2), with seeded random weights: fair for time, for none of these
kernels looks at values, and no use for comparing outputs, which ONNX Runtime is there for. The model is traced and
frozen; of the ways PyTorch offers from there the fastest on this machine races. First prints {"variant": its name},
or {"variant": null} when there is no such architecture.
"""
import json
import os
import re
import sys

# OpenBLAS has threads of its own, which torch.set_num_threads does not reach: read when the library is loaded.
for variable in ('OMP_NUM_THREADS', 'OPENBLAS_NUM_THREADS'):
    os.environ[variable] = sys.argv[2]

import numpy
import pytorch_side
import torch
import torchvision


def dqn():
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(4, 32, 8, stride=4), nn.ReLU(), nn.Conv2d(32, 64, 4, stride=2), nn.ReLU(), nn.Conv2d(64, 64, 3),
        nn.ReLU(), nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, 6))


def recurrent(op, hidden, bidirectional, layers, width):
    kind = {'rnn': torch.nn.RNN, 'gru': torch.nn.GRU, 'lstm': torch.nn.LSTM}[op]
    return kind(width, int(hidden), num_layers=int(layers or 1), bidirectional=bool(bidirectional))


def build(name, width):
    torch.manual_seed(0)
    if name == 'dqn':
        return dqn().eval()
    if found := re.fullmatch(r'(rnn|gru|lstm)_h(\d+)_t\d+_b\d+(_bidirectional)?(?:_l(\d+))?', name):
        return recurrent(*found.groups(), width).eval()
    architecture = getattr(torchvision.models, name, None)
    if architecture is None:
        return None
    settings = {'aux_logits': False, 'init_weights': False} if name == 'inception_v3' else {}
    return architecture(weights=None, **settings).eval()


def variants(model, x):
    """(name, module, input) of each way to run it."""
    def frozen(x):
        return torch.jit.freeze(torch.jit.trace(model, x))
    if x.dim() == 3:  # a sequence: one call of a library either way
        yield 'eager', model, x
        yield 'frozen', frozen(x), x
        return
    yield 'frozen', frozen(x), x
    yield 'optimized', torch.jit.optimize_for_inference(frozen(x)), x
    if x.dim() == 4:
        last = x.to(memory_format=torch.channels_last)
        model.to(memory_format=torch.channels_last)
        yield 'frozen, channels last', frozen(last), last
        yield 'optimized, channels last', torch.jit.optimize_for_inference(frozen(last)), last


def main():
    name, threads, file = sys.argv[1:4]
    torch.set_num_threads(int(threads))
    torch.set_num_interop_threads(1)
    torch.set_flush_denormal(True)
    x = torch.from_numpy(numpy.load(file))
    model = build(name, x.shape[-1])
    if model is None:
        print('{"variant": null}', flush=True)
        return
    label, module, x = pytorch_side.fastest(variants(model, x), 5)
    print(json.dumps({'variant': label}), flush=True)
    pytorch_side.serve(module, x)


with torch.inference_mode():
    main()
