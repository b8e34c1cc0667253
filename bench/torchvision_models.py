"""Models of torchvision with random weights (seed 5), as ONNX files.

usage: torchvision_models.py FOLDER [NAME ...]      (all of MODELS without names)

Videos are 8 or 16 frames of 112 or 224, RAFT compares two images of 128 x 160 in 4 updates. Attention of ViT is exported as it is
trained: ONNX has no form of the fused operator. Detectors: detectors.py. The paths are printed. Exit code 2: bad usage.
"""
import os
import sys
import warnings

import torch
import torchvision
from torch.onnx import register_custom_op_symbolic

IMAGES = ('maxvit_t vit_b_32 swin_v2_t efficientnet_v2_s resnext50_32x4d regnet_x_400mf mnasnet0_5 squeezenet1_0 '
          'shufflenet_v2_x0_5 lraspp_mobilenet_v3_large').split()
VIDEOS = {'mc3_18': (8, 112), 'r2plus1d_18': (8, 112), 's3d': (16, 224), 'mvit_v1_b': (16, 224)}
MODELS = [*IMAGES, *VIDEOS, 'raft_small']


class Results(torch.nn.Module):
    """`model` with `results` of what it gives."""

    def __init__(self, model, results):
        super().__init__()
        self.model, self.results = model, results

    def forward(self, *inputs):
        return self.results(self.model, *inputs)


def model_and_inputs(name):
    get = torchvision.models.get_model
    if name in VIDEOS:
        frames, size = VIDEOS[name]
        return get(name, weights=None), (torch.randn(1, 3, frames, size, size),)
    if name == 'raft_small':
        images = tuple(torch.randn(1, 3, 128, 160) for _ in range(2))
        return Results(get(name, weights=None), lambda m, a, b: m(a, b, num_flow_updates=4)[-1]), images
    image = torch.randn(1, 3, 224, 224)
    if name.startswith('lraspp'):
        return Results(get(name, weights=None, weights_backbone=None), lambda m, x: m(x)['out']), (image,)
    return get(name, weights=None), (image,)


def main():
    folder, names = (sys.argv[1], sys.argv[2:] or MODELS) if len(sys.argv) > 1 else (None, [])
    unknown = [name for name in names if name not in MODELS]
    if not folder or unknown:
        print(f'error: no model is called {unknown[0]}' if unknown else 'error: FOLDER is missing', file=sys.stderr)
        print(__doc__.split('\n\n')[1], file=sys.stderr)
        sys.exit(2)
    warnings.filterwarnings('ignore')
    # swin_v2's biases of keys are zeroed in place.
    register_custom_op_symbolic('aten::zero', lambda g, x: g.op('Mul', x, g.op('Constant', value_t=torch.tensor(0.0))), 16)
    os.makedirs(folder, exist_ok=True)
    for name in names:
        torch.manual_seed(5)
        model, inputs = model_and_inputs(name)
        with torch.set_grad_enabled(name.startswith('vit')):
            path = os.path.join(folder, f'{name}.onnx')
            torch.onnx.export(model.eval(), inputs, path, opset_version=16)
        print(path, flush=True)


if __name__ == '__main__':
    main()
