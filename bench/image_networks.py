"""Networks of images and volumes, made small: each function gives a module and its inputs. For paper_networks.py."""
import math

import torch
import torch.nn.functional as F
from network_parts import Attention, convolution
from torch import nn


def mixer():
    """MLP-Mixer, four blocks (Tolstikhin et al. 2021)."""

    class Block(nn.Module):
        def __init__(self, t, d):
            super().__init__()
            self.n1 = nn.LayerNorm(d)
            self.t = nn.Sequential(nn.Linear(t, 2 * t + 3), nn.GELU(), nn.Linear(2 * t + 3, t))
            self.n2 = nn.LayerNorm(d)
            self.c = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

        def forward(self, x):
            x = x + self.t(self.n1(x).transpose(1, 2)).transpose(1, 2)
            return x + self.c(self.n2(x))

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.p = nn.Conv2d(3, 200, 16, 16)
            self.b = nn.Sequential(*[Block(196, 200) for _ in range(4)])
            self.h = nn.Linear(200, 1000)

        def forward(self, x):
            return self.h(self.b(self.p(x).flatten(2).transpose(1, 2)).mean(1))

    return (Network(), (torch.randn(1, 3, 224, 224),))


def convmixer():
    """ConvMixer with 9x9 depthwise kernels (Trockman and Kolter 2022)."""

    class R(nn.Module):
        def __init__(self, f):
            super().__init__()
            self.f = f

        def forward(self, x):
            return x + self.f(x)

    d = 130
    L = [nn.Conv2d(3, d, 7, 7), nn.GELU(), nn.BatchNorm2d(d)]
    for _ in range(4):
        L += [
            R(nn.Sequential(nn.Conv2d(d, d, 9, groups=d, padding=4), nn.GELU(), nn.BatchNorm2d(d))),
            nn.Conv2d(d, d, 1),
            nn.GELU(),
            nn.BatchNorm2d(d),
        ]
    return (nn.Sequential(*L, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(d, 100)), (torch.randn(1, 3, 224, 224),))


def replk():
    """Depthwise kernels of 31x31 and 27x27 (RepLKNet, Ding et al. 2022)."""

    class Block(nn.Module):
        def __init__(self, c, k):
            super().__init__()
            self.a = convolution(c, c, 1)
            self.k = convolution(c, c, k, g=c)
            self.k2 = nn.Conv2d(c, c, 5, padding=2, groups=c)
            self.b = nn.Conv2d(c, c, 1)
            self.f = nn.Sequential(nn.BatchNorm2d(c), nn.Conv2d(c, 4 * c, 1), nn.GELU(), nn.Conv2d(4 * c, c, 1))

        def forward(self, x):
            y = self.a(x)
            x = x + self.b(F.relu(self.k(y) + self.k2(y)))
            return x + self.f(x)

    return (
        nn.Sequential(nn.Conv2d(3, 72, 4, 4), Block(72, 31), nn.Conv2d(72, 144, 2, 2), Block(144, 27)),
        (torch.randn(1, 3, 192, 160),),
    )


def hrnet():
    """Three branches that are fused (HRNet, Sun et al. 2019)."""

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.st = nn.Sequential(convolution(3, 64, 3, 2), convolution(64, 32, 3, 2))
            self.b1 = nn.Sequential(convolution(32, 32), convolution(32, 32))
            self.d = convolution(32, 64, 3, 2)
            self.b2 = nn.Sequential(convolution(64, 64), convolution(64, 64))
            self.d2 = convolution(64, 128, 3, 2)
            self.b3 = nn.Sequential(convolution(128, 128), convolution(128, 128))
            self.u2 = nn.Conv2d(64, 32, 1)
            self.u3 = nn.Conv2d(128, 32, 1)
            self.u32 = nn.Conv2d(128, 64, 1)
            self.h = nn.Conv2d(32, 17, 1)

        def forward(self, x):
            a = self.b1(self.st(x))
            b = self.b2(self.d(a))
            c = self.b3(self.d2(b))
            a = F.relu(
                a
                + F.interpolate(self.u2(b), scale_factor=2.0, mode='nearest')
                + F.interpolate(self.u3(c), scale_factor=4.0, mode='bilinear', align_corners=True)
            )
            b = F.relu(b + F.interpolate(self.u32(c), scale_factor=2.0, mode='bilinear', align_corners=False))
            return (self.h(a), b)

    return (Network(), (torch.randn(1, 3, 256, 192),))


def esrgan():
    """Three dense blocks and a pixel shuffle (ESRGAN, Wang et al. 2018)."""

    class D(nn.Module):
        def __init__(self, c=32, g=16):
            super().__init__()
            self.c = nn.ModuleList([nn.Conv2d(c + i * g, g if i < 4 else c, 3, 1, 1) for i in range(5)])

        def forward(self, x):
            f = [x]
            for i in range(4):
                f.append(F.leaky_relu(self.c[i](torch.cat(f, 1)), 0.2))
            return x + 0.2 * self.c[4](torch.cat(f, 1))

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.i = nn.Conv2d(3, 32, 3, 1, 1)
            self.d = nn.Sequential(D(), D(), D())
            self.u = nn.Conv2d(32, 128, 3, 1, 1)
            self.o = nn.Conv2d(32, 3, 3, 1, 1)

        def forward(self, x):
            f = self.i(x)
            f = f + self.d(f)
            return self.o(F.leaky_relu(F.pixel_shuffle(self.u(f), 2), 0.2))

    return (Network(), (torch.randn(1, 3, 61, 83),))


def diffusion_unet():
    """A denoising U-Net with self- and cross-attention (Rombach et al. 2022)."""

    class R(nn.Module):
        def __init__(self, i, o, t=128):
            super().__init__()
            self.n1 = nn.GroupNorm(8, i)
            self.c1 = nn.Conv2d(i, o, 3, 1, 1)
            self.t = nn.Linear(t, o)
            self.n2 = nn.GroupNorm(8, o)
            self.c2 = nn.Conv2d(o, o, 3, 1, 1)
            self.sk = nn.Conv2d(i, o, 1) if i != o else nn.Identity()

        def forward(self, x, t):
            h = self.c1(F.silu(self.n1(x))) + self.t(F.silu(t))[:, :, None, None]
            return self.sk(x) + self.c2(F.silu(self.n2(h)))

    class SA(nn.Module):
        def __init__(self, c):
            super().__init__()
            self.n = nn.GroupNorm(8, c)
            self.a = Attention(c, 4)
            self.x = Attention(c, 4)
            self.l = nn.LayerNorm(c)

        def forward(self, x, c):
            B, C, H, W = x.shape
            y = self.n(x).flatten(2).transpose(1, 2)
            y = y + self.a(y)
            y = y + self.x(self.l(y), c)
            return x + y.transpose(1, 2).reshape(B, C, H, W)

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.te = nn.Sequential(nn.Linear(64, 128), nn.SiLU(), nn.Linear(128, 128))
            self.i = nn.Conv2d(4, 48, 3, 1, 1)
            self.r1 = R(48, 48)
            self.d1 = nn.Conv2d(48, 48, 3, 2, 1)
            self.r2 = R(48, 96)
            self.a2 = SA(96)
            self.d2 = nn.Conv2d(96, 96, 3, 2, 1)
            self.m = R(96, 96)
            self.am = SA(96)
            self.u2 = R(192, 96)
            self.au = SA(96)
            self.u1 = R(144, 48)
            self.o = nn.Sequential(nn.GroupNorm(8, 48), nn.SiLU(), nn.Conv2d(48, 4, 3, 1, 1))

        def forward(self, x, t, c):
            f = torch.exp(-math.log(10000.0) * torch.arange(32) / 32)
            e = t[:, None] * f
            t = self.te(torch.cat([e.sin(), e.cos()], 1))
            a = self.r1(self.i(x), t)
            b = self.a2(self.r2(self.d1(a), t), c)
            m = self.am(self.m(self.d2(b), t), c)
            u = self.au(self.u2(torch.cat([F.interpolate(m, scale_factor=2.0), b], 1), t), c)
            u = self.u1(torch.cat([F.interpolate(u, scale_factor=2.0), a], 1), t)
            return self.o(u)

    return (Network(), (torch.randn(2, 4, 48, 40), torch.rand(2) * 100, torch.randn(2, 19, 96)))


def vqvae():
    """VQ-VAE: distances to a codebook, their argmin, a decoder (van den Oord et al. 2017)."""

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.e = nn.Sequential(
                nn.Conv2d(3, 64, 4, 2, 1), nn.ReLU(), nn.Conv2d(64, 64, 4, 2, 1), nn.ReLU(), nn.Conv2d(64, 50, 3, 1, 1)
            )
            self.c = nn.Embedding(300, 50)
            self.d = nn.Sequential(
                nn.Conv2d(50, 64, 3, 1, 1),
                nn.ReLU(),
                nn.ConvTranspose2d(64, 64, 4, 2, 1),
                nn.ReLU(),
                nn.ConvTranspose2d(64, 3, 4, 2, 1),
            )

        def forward(self, x):
            z = self.e(x)
            B, C, H, W = z.shape
            f = z.permute(0, 2, 3, 1).reshape(-1, C)
            d = (f**2).sum(1, keepdim=True) - 2 * f @ self.c.weight.t() + (self.c.weight**2).sum(1)
            i = d.argmin(1)
            q = self.c(i).view(B, H, W, C).permute(0, 3, 1, 2)
            return (self.d(q), i)

    return (Network(), (torch.randn(1, 3, 96, 112),))


def bifpn():
    """A weighted bidirectional pyramid with heads (EfficientDet, Tan et al. 2020)."""

    class Sep(nn.Module):
        def __init__(self, c, o):
            super().__init__()
            self.d = nn.Conv2d(c, c, 3, 1, 1, groups=c, bias=False)
            self.p = nn.Conv2d(c, o, 1)
            self.b = nn.BatchNorm2d(o)

        def forward(self, x):
            return self.b(self.p(self.d(x)))

    class Network(nn.Module):
        def __init__(self, c=64):
            super().__init__()
            self.up = nn.ModuleList([Sep(c, c) for _ in range(3)])
            self.dn = nn.ModuleList([Sep(c, c) for _ in range(3)])
            self.w = nn.Parameter(torch.rand(12))
            self.cls = nn.Sequential(Sep(c, c), nn.SiLU(), Sep(c, 9 * 20))
            self.box = nn.Sequential(Sep(c, c), nn.SiLU(), Sep(c, 36))

        def forward(self, a, b, c, d):
            P = [a, b, c, d]
            T = [None] * 4
            T[3] = d
            w = F.relu(self.w)
            for i in (2, 1, 0):
                T[i] = self.up[i](
                    F.silu(
                        (w[2 * i] * P[i] + w[2 * i + 1] * F.interpolate(T[i + 1], scale_factor=2.0))
                        / (w[2 * i] + w[2 * i + 1] + 0.0001)
                    )
                )
            for i in (1, 2, 3):
                T[i] = self.dn[i - 1](
                    F.silu(
                        (w[5 + 2 * i] * T[i] + w[6 + 2 * i - 1] * F.max_pool2d(T[i - 1], 3, 2, 1))
                        / (w[5 + 2 * i] + w[6 + 2 * i - 1] + 0.0001)
                    )
                )
            return (
                torch.cat([self.cls(t).permute(0, 2, 3, 1).reshape(1, -1, 20) for t in T], 1).sigmoid(),
                torch.cat([self.box(t).permute(0, 2, 3, 1).reshape(1, -1, 4) for t in T], 1),
            )

    return (Network(), tuple((torch.randn(1, 64, n, n) for n in (64, 32, 16, 8))))


def unet3d():
    """3D U-Net with instance norms (Cicek et al. 2016)."""

    def b(i, o):
        return nn.Sequential(
            nn.Conv3d(i, o, 3, 1, 1),
            nn.InstanceNorm3d(o, affine=True),
            nn.LeakyReLU(0.01),
            nn.Conv3d(o, o, 3, 1, 1),
            nn.InstanceNorm3d(o, affine=True),
            nn.LeakyReLU(0.01),
        )

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = b(2, 12)
            self.b = b(12, 24)
            self.c = b(24, 48)
            self.u1 = nn.ConvTranspose3d(48, 24, 2, 2)
            self.d = b(48, 24)
            self.u2 = nn.ConvTranspose3d(24, 12, 2, 2)
            self.e = b(24, 12)
            self.o = nn.Conv3d(12, 4, 1)

        def forward(self, x):
            a = self.a(x)
            b = self.b(F.max_pool3d(a, 2))
            c = self.c(F.max_pool3d(b, 2))
            b = self.d(torch.cat([self.u1(c), b], 1))
            return self.o(self.e(torch.cat([self.u2(b), a], 1)))

    return (Network(), (torch.randn(1, 2, 24, 32, 28),))


def yolo():
    """CSP blocks, a pyramid and boxes as distributions (YOLOv8)."""
    A = nn.SiLU

    class C2f(nn.Module):
        def __init__(self, i, o, n=1):
            super().__init__()
            self.h = o // 2
            self.a = convolution(i, o, 1, act=A)
            self.m = nn.ModuleList(
                [nn.Sequential(convolution(self.h, self.h, act=A), convolution(self.h, self.h, act=A)) for _ in range(n)]
            )
            self.b = convolution((2 + n) * self.h, o, 1, act=A)

        def forward(self, x):
            y = list(self.a(x).split((self.h, self.h), 1))
            for m in self.m:
                y.append(y[-1] + m(y[-1]))
            return self.b(torch.cat(y, 1))

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Sequential(
                convolution(3, 16, 3, 2, act=A),
                convolution(16, 32, 3, 2, act=A),
                C2f(32, 32),
                convolution(32, 64, 3, 2, act=A),
                C2f(64, 64, 2),
            )
            self.b = nn.Sequential(convolution(64, 128, 3, 2, act=A), C2f(128, 128, 2))
            self.c = nn.Sequential(convolution(128, 256, 3, 2, act=A), C2f(256, 256))
            self.p1 = convolution(256, 128, 1, act=A)
            self.p2 = convolution(512, 256, 1, act=A)
            self.f1 = C2f(384, 128)
            self.f2 = C2f(192, 64)
            self.h = nn.ModuleList([nn.Conv2d(c, 64 + 10, 1) for c in (64, 128)])

        def forward(self, x):
            a = self.a(x)
            b = self.b(a)
            c = self.p1(self.c(b))
            q = [c]
            for _ in range(3):
                q.append(F.max_pool2d(q[-1], 5, 1, 2))
            c = self.p2(torch.cat(q, 1))
            b = self.f1(torch.cat([F.interpolate(c, scale_factor=2.0), b], 1))
            a = self.f2(torch.cat([F.interpolate(b, scale_factor=2.0), a], 1))
            o = torch.cat([h(t).flatten(2) for h, t in zip(self.h, (a, b))], 2)
            d, c = o.split((64, 10), 1)
            B, _, L = d.shape
            d = (d.view(B, 4, 16, L).softmax(2) * torch.arange(16.0).view(1, 1, 16, 1)).sum(2)
            return (d, c.sigmoid())

    return (Network(), (torch.randn(1, 3, 224, 288),))


def lin_att():
    """Linear attention on images of several scales (EfficientViT, Cai et al. 2023)."""

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.q = nn.Conv2d(64, 192, 1, bias=False)
            self.d = nn.Conv2d(192, 192, 5, padding=2, groups=192)
            self.p = nn.Conv2d(192, 192, 1, groups=12)
            self.o = nn.Conv2d(128, 64, 1)

        def forward(self, x):
            y = self.q(x)
            y = torch.cat([y, self.p(self.d(y))], 1)
            B, C, H, W = y.shape
            y = y.view(B, -1, 48, H * W).transpose(-1, -2)
            q, k, v = (F.relu(y[..., :16]), F.relu(y[..., 16:32]), F.pad(y[..., 32:], (0, 1), value=1.0))
            o = q @ (k.transpose(-1, -2) @ v)
            o = o[..., :-1] / (o[..., -1:] + 1e-05)
            return x + self.o(o.transpose(-1, -2).reshape(B, -1, H, W))

    return (nn.Sequential(Network(), nn.Hardswish(), Network()), (torch.randn(1, 64, 28, 36),))


def ghost():
    """Ghost blocks with squeeze and excitation (Han et al. 2020)."""

    class G(nn.Module):
        def __init__(self, i, o):
            super().__init__()
            self.a = convolution(i, (o + 1) // 2, 1)
            self.b = convolution((o + 1) // 2, (o + 1) // 2, 3, g=(o + 1) // 2)
            self.o = o

        def forward(self, x):
            a = self.a(x)
            return torch.cat([a, self.b(a)], 1)[:, : self.o]

    class Block(nn.Module):
        def __init__(self, i, m, o, k):
            super().__init__()
            self.a = G(i, m)
            self.d = nn.Sequential(nn.Conv2d(m, m, k, 1, k // 2, groups=m, bias=False), nn.BatchNorm2d(m))
            self.f1 = nn.Conv2d(m, m // 4, 1)
            self.f2 = nn.Conv2d(m // 4, m, 1)
            self.b = G(m, o)

        def forward(self, x):
            y = self.d(self.a(x))
            y = y * F.hardsigmoid(self.f2(F.relu(self.f1(F.adaptive_avg_pool2d(y, 1)))))
            return x + self.b(y)

    return (
        nn.Sequential(
            convolution(3, 25, 3, 2),
            Block(25, 75, 25, 3),
            Block(25, 61, 25, 5),
            convolution(25, 40, 3, 2),
            Block(40, 120, 40, 5),
            Block(40, 184, 40, 3),
        ),
        (torch.randn(1, 3, 150, 190),),
    )


def res2net():
    """Res2Net blocks (Gao et al. 2019)."""

    class Block(nn.Module):
        def __init__(self, c, w=22, n=4):
            super().__init__()
            self.w = w
            self.a = convolution(c, w * n, 1)
            self.c = nn.ModuleList([convolution(w, w) for _ in range(n - 1)])
            self.b = nn.Sequential(nn.Conv2d(w * n, c, 1, bias=False), nn.BatchNorm2d(c))

        def forward(self, x):
            p = self.a(x).split(self.w, 1)
            o = []
            y = None
            for i, c in enumerate(self.c):
                y = c(p[i] if y is None else y + p[i])
                o.append(y)
            return F.relu(x + self.b(torch.cat(o + [p[-1]], 1)))

    return (
        nn.Sequential(convolution(3, 64, 7, 4), Block(64), Block(64), convolution(64, 128, 3, 2), Block(128, 30), Block(128, 30)),
        (torch.randn(1, 3, 224, 224),),
    )


def cbam_fcn():
    """Channel and spatial attention, a dilated head, bilinear upsampling (CBAM, Woo et al. 2018; FCN)."""

    class Network(nn.Module):
        def __init__(self, c=40):
            super().__init__()
            self.a = convolution(3, c, 5, 2)
            self.m = nn.Sequential(nn.Linear(c, 5), nn.ReLU(), nn.Linear(5, c))
            self.s = nn.Conv2d(2, 1, 7, padding=3)
            self.h = nn.Sequential(convolution(c, c, d=3), nn.Conv2d(c, 21, 1))
            self.t = nn.ConvTranspose2d(21, 21, 8, 4, 2, groups=21, bias=False)

        def forward(self, x):
            x = self.a(x)
            w = torch.sigmoid(self.m(x.mean((2, 3))) + self.m(x.amax((2, 3))))
            x = x * w[:, :, None, None]
            x = x * torch.sigmoid(self.s(torch.cat([x.mean(1, keepdim=True), x.amax(1, keepdim=True)], 1)))
            return self.t(self.h(x)).argmax(1)

    return (Network(), (torch.randn(1, 3, 130, 170),))


def stn():
    """A spatial transformer (Jaderberg et al. 2015)."""

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.l = nn.Sequential(
                nn.Conv2d(3, 16, 7),
                nn.MaxPool2d(2),
                nn.ReLU(),
                nn.Conv2d(16, 20, 5),
                nn.MaxPool2d(2),
                nn.ReLU(),
                nn.Flatten(),
                nn.Linear(20 * 20 * 16, 32),
                nn.ReLU(),
                nn.Linear(32, 6),
            )
            self.c = nn.Sequential(
                convolution(3, 30), convolution(30, 50, 3, 2), nn.AvgPool2d(12), nn.Flatten(), nn.Linear(50 * 4 * 3, 43)
            )
            ys, xs = torch.meshgrid(torch.linspace(-1, 1, 96), torch.linspace(-1, 1, 80))
            self.register_buffer('g', torch.stack([xs, ys, torch.ones_like(xs)], -1).view(1, -1, 3))

        def forward(self, x):
            t = self.l(x).view(-1, 2, 3)
            g = (self.g @ t.transpose(1, 2)).view(-1, 96, 80, 2)
            return self.c(F.grid_sample(x, g, align_corners=False))

    return (Network(), (torch.randn(2, 3, 96, 80),))


NETWORKS = {
    f.__name__: f
    for f in (
        mixer,
        convmixer,
        replk,
        hrnet,
        esrgan,
        diffusion_unet,
        vqvae,
        bifpn,
        unet3d,
        yolo,
        lin_att,
        ghost,
        res2net,
        cbam_fcn,
        stn,
    )
}
