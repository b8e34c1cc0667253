"""Writes ONNX models with open dimensions (opset 14, float32, random weights), for races at many sizes.

usage: dynamic_models.py FOLDER [NAME ...]    needs python3-torch, python3-onnx

  bilstm2       two layers of LSTM of 128, both directions, over 64 features: batch and length open
  gpt2_2l_kv    two layers of GPT-2 of 768 with caches of keys and values: batch, length and past open
  llama_2l_kv   two layers of Llama of 512, two heads of keys for eight of queries, with caches: the same

Files that are there stay. The paths are printed. The same names give the same files. Exit code 2: bad usage.
"""
import math
import os
import sys

import torch
from torch import nn

LAYERS = 2


class Gpt2(nn.Module):
    def __init__(self, width=768, heads=12, words=50257, positions=1024):
        super().__init__()
        self.heads = heads
        self.words, self.positions = nn.Embedding(words, width), nn.Embedding(positions, width)
        layers = lambda make: nn.ModuleList(make() for _ in range(LAYERS))
        self.norm1, self.norm2 = layers(lambda: nn.LayerNorm(width)), layers(lambda: nn.LayerNorm(width))
        self.qkv, self.out = layers(lambda: nn.Linear(width, 3 * width)), layers(lambda: nn.Linear(width, width))
        self.up, self.down = layers(lambda: nn.Linear(width, 4 * width)), layers(lambda: nn.Linear(4 * width, width))
        self.last = nn.LayerNorm(width)

    def forward(self, ids, pos, past_k, past_v):
        x, keys, values = self.words(ids) + self.positions(pos), [], []
        batch, length, width = x.shape
        for i in range(LAYERS):
            parts = self.qkv[i](self.norm1[i](x)).view(batch, length, 3, self.heads, width // self.heads)
            q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
            x = x + self.out[i](attend(q, k, v, past_k[i], past_v[i], keys, values).transpose(1, 2).reshape(batch, length, width))
            x = x + self.down[i](nn.functional.gelu(self.up[i](self.norm2[i](x))))
        return self.last(x) @ self.words.weight.t(), torch.stack(keys), torch.stack(values)


class Rms(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


class Llama(nn.Module):
    def __init__(self, width=512, heads=8, key_heads=2, inner=1376, words=4096):
        super().__init__()
        self.heads, self.key_heads, self.size = heads, key_heads, width // heads
        layers = lambda make: nn.ModuleList(make() for _ in range(LAYERS))
        linear = lambda a, b: layers(lambda: nn.Linear(a, b, False))
        self.words, self.logits, self.last = nn.Embedding(words, width), nn.Linear(width, words, False), Rms(width)
        self.norm1, self.norm2 = layers(lambda: Rms(width)), layers(lambda: Rms(width))
        self.q, self.k, self.v = linear(width, width), linear(width, key_heads * self.size), linear(width, key_heads * self.size)
        self.out, self.gate, self.up, self.down = linear(width, width), linear(width, inner), linear(width, inner), linear(inner, width)
        self.register_buffer('frequencies', 1 / 10000 ** (torch.arange(0, self.size, 2).float() / self.size))

    def rotated(self, x, pos):
        angles = pos[:, None, :, None].float() * self.frequencies
        a, b = x.chunk(2, -1)
        return x * torch.cat([angles.cos()] * 2, -1) + torch.cat([-b, a], -1) * torch.cat([angles.sin()] * 2, -1)

    def forward(self, ids, pos, past_k, past_v):
        x, keys, values = self.words(ids), [], []
        batch, length, width = x.shape
        split = lambda y, heads: y.view(batch, length, heads, self.size).transpose(1, 2)
        for i in range(LAYERS):
            y = self.norm1[i](x)
            q, k = self.rotated(split(self.q[i](y), self.heads), pos), self.rotated(split(self.k[i](y), self.key_heads), pos)
            y = attend(q, k, split(self.v[i](y), self.key_heads), past_k[i], past_v[i], keys, values)
            x = x + self.out[i](y.transpose(1, 2).reshape(batch, length, width))
            y = self.norm2[i](x)
            x = x + self.down[i](nn.functional.silu(self.gate[i](y)) * self.up[i](y))
        return self.logits(self.last(x)), torch.stack(keys), torch.stack(values)


def attend(q, k, v, past_k, past_v, keys, values):
    """Causal attention to the past and the new; appends the caches."""
    k, v = torch.cat([past_k, k], 2), torch.cat([past_v, v], 2)
    keys.append(k)
    values.append(v)
    batch, heads, length, size = q.shape
    whole, group = k.size(2), heads // k.size(1)
    if group > 1:
        k, v = (each[:, :, None].expand(-1, -1, group, -1, -1).reshape(batch, heads, whole, size) for each in (k, v))
    scores = q @ k.transpose(-1, -2) / math.sqrt(size)
    later = torch.arange(whole).view(1, whole) > torch.arange(length).view(length, 1) + (whole - length)
    return scores.masked_fill(later, -1e9).softmax(-1) @ v


def with_caches(model, words, heads):
    caches = [torch.randn(LAYERS, 1, heads, 3, 64) for _ in range(2)]
    axes = {'ids': {0: 'b', 1: 't'}, 'pos': {0: 'b', 1: 't'}, 'past_k': {1: 'b', 3: 'p'}, 'past_v': {1: 'b', 3: 'p'}}
    outputs = {'logits': {0: 'b', 1: 't'}, 'present_k': {1: 'b', 3: 'pt'}, 'present_v': {1: 'b', 3: 'pt'}}
    return model, (torch.randint(0, words, (1, 4)), torch.arange(3, 7).view(1, 4), *caches), axes, outputs


MODELS = {
    'bilstm2': lambda: (nn.LSTM(64, 128, num_layers=2, bidirectional=True, batch_first=True), (torch.randn(2, 20, 64),),
                        {'x': {0: 'b', 1: 't'}}, {'y': {0: 'b', 1: 't'}, 'hn': {1: 'b'}, 'cn': {1: 'b'}}),
    'gpt2_2l_kv': lambda: with_caches(Gpt2(), 50257, 12),
    'llama_2l_kv': lambda: with_caches(Llama(), 4096, 2),
}


def main():
    if len(sys.argv) < 2 or any(name not in MODELS for name in sys.argv[2:]):
        print(f'error: usage: dynamic_models.py FOLDER [{" | ".join(MODELS)} ...]', file=sys.stderr)
        sys.exit(2)
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    torch.set_num_threads(1)
    for name in sys.argv[2:] or MODELS:
        path = os.path.join(folder, name + '.onnx')
        if not os.path.exists(path):
            torch.manual_seed(0)
            model, inputs, axes, outputs = MODELS[name]()
            with torch.no_grad():
                torch.onnx.export(model.eval(), inputs, path + '.tmp', input_names=list(axes), output_names=list(outputs),
                                  dynamic_axes={**axes, **outputs}, opset_version=14)
            os.rename(path + '.tmp', path)
        print(path)


if __name__ == '__main__':
    main()
