"""Models of torchvision with random weights (seed 3), float32, as ONNX files.

usage: torchvision_models.py FOLDER [NAME ...]    needs python3-torchvision

Images (224 x 224): maxvit_t vit_b_32 swin_v2_t efficientnet_v2_s resnext50_32x4d regnet_x_400mf mnasnet0_5 squeezenet1_0
shufflenet_v2_x0_5 lraspp_mobilenet_v3_large. Attention of ViT is exported as it is trained: ONNX has no form of the fused operator.
Videos: mc3_18 r2plus1d_18 (8 frames of 112 x 112), s3d mvit_v1_b (16 of 224 x 224).
Optical flow: raft_small (two images of 128 x 160, 4 updates).
Detectors, their suppression of boxes included; how many boxes there are depends on the image:

  ssdlite      SSDlite, MobileNet v3, 320 x 320
  ssdlite_91   the same of COCO's 91 classes, each of which has a number of boxes that the image decides
  ssd_91       SSD, VGG-16, 300 x 300, 91 classes
  faster_rcnn  Faster R-CNN, MobileNet v3 and a feature pyramid, 320 x 320
  retinanet    RetinaNet, ResNet-50, 256 x 256
  fcos         FCOS, ResNet-50, 256 x 256
  mask_rcnn    Mask R-CNN, ResNet-50, 224 x 224: masks pasted in a loop
  keypoint_rcnn  Keypoint R-CNN, ResNet-50, 224 x 224

All of them without names. Files that are there stay. The paths are printed. Exit code 2: bad usage.
"""
import os
import sys
import warnings

import torch
import torchvision
from torch.onnx import register_custom_op_symbolic
from torchvision.models import detection

WEIGHTS = dict(weights=None, weights_backbone=None)


class Part(torch.nn.Module):
    """What `part` takes of the results of `model`."""

    def __init__(self, model, part):
        super().__init__()
        self.model, self.part = model, part

    def forward(self, *inputs):
        return self.part(self.model, *inputs)


def image_model(name):
    return torchvision.models.get_model(name, weights=None), (torch.randn(1, 3, 224, 224),), 16


def lraspp(name):
    model = torchvision.models.get_model(name, **WEIGHTS)
    return Part(model, lambda m, x: m(x)['out']), (torch.randn(1, 3, 224, 224),), 16


def video_model(frames, side):
    return lambda name: (torchvision.models.get_model(name, weights=None), (torch.randn(1, 3, frames, side, side),), 16)


def raft(name):
    images = tuple(torch.randn(1, 3, 128, 160) for _ in range(2))
    return Part(torchvision.models.get_model(name, weights=None), lambda m, a, b: m(a, b, num_flow_updates=4)[-1]), images, 16


def detector(make, side, classes, sized=False):
    sizes = dict(min_size=side, max_size=side) if sized else {}
    return lambda name: (make(num_classes=classes, **sizes, **WEIGHTS), ([torch.rand(3, side, side)],), 12)


# name: what makes the model, its inputs and the opset, given the name
MODELS = {
    **dict.fromkeys(('maxvit_t', 'vit_b_32', 'swin_v2_t', 'efficientnet_v2_s', 'resnext50_32x4d', 'regnet_x_400mf', 'mnasnet0_5',
                     'squeezenet1_0', 'shufflenet_v2_x0_5'), image_model),
    'lraspp_mobilenet_v3_large': lraspp,
    **dict.fromkeys(('mc3_18', 'r2plus1d_18'), video_model(8, 112)),
    **dict.fromkeys(('s3d', 'mvit_v1_b'), video_model(16, 224)),
    'raft_small': raft,
    'ssdlite': detector(detection.ssdlite320_mobilenet_v3_large, 320, 21),
    'ssdlite_91': detector(detection.ssdlite320_mobilenet_v3_large, 320, 91),
    'ssd_91': detector(detection.ssd300_vgg16, 300, 91),
    'faster_rcnn': detector(detection.fasterrcnn_mobilenet_v3_large_320_fpn, 320, 21),
    'retinanet': detector(detection.retinanet_resnet50_fpn, 256, 21, sized=True),
    'fcos': detector(detection.fcos_resnet50_fpn, 256, 21, sized=True),
    'mask_rcnn': detector(detection.maskrcnn_resnet50_fpn, 224, 5, sized=True),
    'keypoint_rcnn': detector(detection.keypointrcnn_resnet50_fpn, 224, 2, sized=True),
}


def main():
    folder, names = (sys.argv[1], sys.argv[2:] or list(MODELS)) if len(sys.argv) > 1 else (None, [])
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
        path = os.path.join(folder, f'{name}.onnx')
        if not os.path.exists(path):
            torch.manual_seed(3)
            model, inputs, opset = MODELS[name](name)
            with torch.set_grad_enabled(name.startswith('vit')):
                torch.onnx.export(model.eval(), inputs, path, opset_version=opset)
        print(path, flush=True)


if __name__ == '__main__':
    main()
