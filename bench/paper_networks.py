"""Small networks after papers that no other benchmark here names, with random weights, as ONNX files (opset 16).

usage: paper_networks.py FOLDER [NAME ...]    needs python3-torch

Images and volumes: mixer convmixer replk hrnet esrgan diffusion_unet vqvae bifpn unet3d yolo lin_att ghost res2net cbam_fcn stn
Sounds, sequences, points and graphs: whisper_enc conformer wavenet dlrm nerf wav2vec crnn gcn perceiver t5_rel tcn_gru
Images whose places are mixed in other ways: van focal hornet xcit restormer nafnet involution mobilevit cost_volume raft dit
  u2net pixel_cnn
Sounds, series and tables: hifigan encodec conv_tasnet ecapa dual_path demucs retention n_beats tab_net flow fourier sincnet

All of them without names. Each is of seed 5, whatever others are made. Files that are there stay. The paths are printed.
Exit code 2: bad usage.
"""
import os
import sys
import warnings

import image_networks
import mixing_networks
import sequence_networks
import signal_networks
import torch

NETWORKS = image_networks.NETWORKS | sequence_networks.NETWORKS | mixing_networks.NETWORKS | signal_networks.NETWORKS


def export(name, path):
    torch.manual_seed(5)
    model, inputs = NETWORKS[name]()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter('ignore')
        torch.onnx.export(model.eval(), inputs, path + '.part', opset_version=16)
    os.replace(path + '.part', path)


def main():
    unknown = [name for name in sys.argv[2:] if name not in NETWORKS]
    if len(sys.argv) < 2 or sys.argv[1].startswith('-') or unknown:
        print(f'error: no network is named {unknown[0]}' if unknown else __doc__, file=sys.stderr)
        sys.exit(2)
    os.makedirs(sys.argv[1], exist_ok=True)
    for name in sys.argv[2:] or NETWORKS:
        path = os.path.join(sys.argv[1], name + '.onnx')
        if not os.path.exists(path):
            export(name, path)
        print(path, flush=True)


if __name__ == '__main__':
    main()
