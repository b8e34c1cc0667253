"""Parts that networks of several papers have in common."""
import math

from torch import nn
import torch


def convolution(i, o, k=3, s=1, g=1, d=1, act=nn.ReLU):
    return nn.Sequential(nn.Conv2d(i, o, k, s, k // 2 * d, d, g, bias=False), nn.BatchNorm2d(o), act())


class Attention(nn.Module):
    def __init__(self, d, h, rel=None):
        super().__init__()
        self.h = h
        self.q = nn.Linear(d, d)
        self.k = nn.Linear(d, d, bias=False)
        self.v = nn.Linear(d, d)
        self.o = nn.Linear(d, d)
        self.rel = rel
        if rel:
            self.bias = nn.Parameter(torch.randn(1, h, rel, rel) * 0.1)

    def forward(self, x, c=None, mask=None):
        c = x if c is None else c
        B, L, D = x.shape
        S = c.shape[1]
        q = self.q(x).view(B, L, self.h, -1).transpose(1, 2)
        k = self.k(c).view(B, S, self.h, -1).transpose(1, 2)
        v = self.v(c).view(B, S, self.h, -1).transpose(1, 2)
        a = q @ k.transpose(-1, -2) / math.sqrt(D // self.h)
        if self.rel:
            a = a + self.bias
        if mask is not None:
            a = a + mask
        return self.o((a.softmax(-1) @ v).transpose(1, 2).reshape(B, L, D))


class EncoderLayer(nn.Module):
    def __init__(self, d, h, f, rel=None, act=nn.GELU):
        super().__init__()
        self.n1 = nn.LayerNorm(d)
        self.a = Attention(d, h, rel)
        self.n2 = nn.LayerNorm(d)
        self.f = nn.Sequential(nn.Linear(d, f), act(), nn.Linear(f, d))

    def forward(self, x, mask=None):
        x = x + self.a(self.n1(x), mask=mask)
        return x + self.f(self.n2(x))
