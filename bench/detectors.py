"""Writes torchvision's detectors as ONNX models (opset 12, float32, random weights), their suppression of boxes included.

usage: detectors.py FOLDER [NAME ...]    needs python3-torchvision

  ssdlite      SSDlite, MobileNet v3, 320 x 320
  ssdlite_91   the same of COCO's 91 classes, each of which has a number of boxes that the image decides
  ssd_91       SSD, VGG-16, 300 x 300, 91 classes
  faster_rcnn  Faster R-CNN, MobileNet v3 and a feature pyramid, 320 x 320
  retinanet    RetinaNet, ResNet-50, 256 x 256
  fcos         FCOS, ResNet-50, 256 x 256
  mask_rcnn    Mask R-CNN, ResNet-50, 224 x 224: masks pasted in a loop
  keypoint_rcnn  Keypoint R-CNN, ResNet-50, 224 x 224

How many boxes there are depends on the image. Files that are there stay. The paths are printed. Exit code 2: bad usage.
"""
import os
import sys
import warnings

import torch
from torchvision.models import detection

WEIGHTS = dict(weights=None, weights_backbone=None)

MODELS = {
    'ssdlite': (320, lambda side: detection.ssdlite320_mobilenet_v3_large(num_classes=21, **WEIGHTS)),
    'ssdlite_91': (320, lambda side: detection.ssdlite320_mobilenet_v3_large(num_classes=91, **WEIGHTS)),
    'ssd_91': (300, lambda side: detection.ssd300_vgg16(num_classes=91, **WEIGHTS)),
    'faster_rcnn': (320, lambda side: detection.fasterrcnn_mobilenet_v3_large_320_fpn(num_classes=21, **WEIGHTS)),
    'retinanet': (256, lambda side: detection.retinanet_resnet50_fpn(num_classes=21, min_size=side, max_size=side, **WEIGHTS)),
    'fcos': (256, lambda side: detection.fcos_resnet50_fpn(num_classes=21, min_size=side, max_size=side, **WEIGHTS)),
    'mask_rcnn': (224, lambda side: detection.maskrcnn_resnet50_fpn(num_classes=5, min_size=side, max_size=side, **WEIGHTS)),
    'keypoint_rcnn': (224, lambda side: detection.keypointrcnn_resnet50_fpn(num_classes=2, min_size=side, max_size=side, **WEIGHTS)),
}


def main():
    folder, names = (sys.argv[1], sys.argv[2:] or list(MODELS)) if len(sys.argv) > 1 else (None, [])
    unknown = [name for name in names if name not in MODELS]
    if not folder or unknown:
        print(f'error: no model is called {unknown[0]}' if unknown else 'error: FOLDER is missing', file=sys.stderr)
        print(__doc__.split('\n\n')[1], file=sys.stderr)
        sys.exit(2)
    warnings.filterwarnings('ignore')
    os.makedirs(folder, exist_ok=True)
    for name in names:
        path, (side, make) = os.path.join(folder, f'{name}.onnx'), MODELS[name]
        if not os.path.exists(path):
            torch.manual_seed(3)
            with torch.no_grad():
                torch.onnx.export(make(side).eval(), ([torch.rand(3, side, side)],), path, opset_version=12)
        print(path)


if __name__ == '__main__':
    main()
