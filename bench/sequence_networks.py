"""Networks of sounds, sequences, points and graphs, made small: a function gives a module and its inputs. For paper_networks.py."""
import torch
import torch.nn.functional as F
from network_parts import Attention, EncoderLayer, convolution
from torch import nn


def whisper_enc():
    """Whisper's encoder, two layers (Radford et al. 2022)."""

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.c1 = nn.Conv1d(80, 384, 3, padding=1)
            self.c2 = nn.Conv1d(384, 384, 3, 2, 1)
            self.p = nn.Parameter(torch.randn(375, 384))
            self.l = nn.ModuleList([EncoderLayer(384, 6, 1536) for _ in range(2)])
            self.n = nn.LayerNorm(384)

        def forward(self, x):
            x = F.gelu(self.c2(F.gelu(self.c1(x)))).transpose(1, 2) + self.p
            for l in self.l:
                x = l(x)
            return self.n(x)

    return (Network(), (torch.randn(1, 80, 750),))


def conformer():
    """Two blocks behind a subsampling front end (Gulati et al. 2020)."""

    class Block(nn.Module):
        def __init__(self, d, h):
            super().__init__()
            self.f1 = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.SiLU(), nn.Linear(4 * d, d))
            self.n = nn.LayerNorm(d)
            self.a = Attention(d, h)
            self.nc = nn.LayerNorm(d)
            self.p1 = nn.Conv1d(d, 2 * d, 1)
            self.dw = nn.Conv1d(d, d, 31, padding=15, groups=d)
            self.bn = nn.BatchNorm1d(d)
            self.p2 = nn.Conv1d(d, d, 1)
            self.f2 = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.SiLU(), nn.Linear(4 * d, d))
            self.no = nn.LayerNorm(d)

        def forward(self, x):
            x = x + 0.5 * self.f1(x)
            x = x + self.a(self.n(x))
            y = self.nc(x).transpose(1, 2)
            y = self.p2(F.silu(self.bn(self.dw(F.glu(self.p1(y), 1)))))
            x = x + y.transpose(1, 2)
            x = x + 0.5 * self.f2(x)
            return self.no(x)

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.c = nn.Sequential(nn.Conv2d(1, 144, 3, 2), nn.ReLU(), nn.Conv2d(144, 144, 3, 2), nn.ReLU())
            self.l = nn.Linear(144 * 19, 144)
            self.b = nn.Sequential(Block(144, 4), Block(144, 4))

        def forward(self, x):
            x = self.c(x)
            x = x.permute(0, 2, 1, 3).flatten(2)
            return self.b(self.l(x))

    return (Network(), (torch.randn(1, 1, 333, 80),))


def wavenet():
    """Nine gated dilated layers (van den Oord et al. 2016)."""

    class Network(nn.Module):
        def __init__(self, c=60):
            super().__init__()
            self.i = nn.Conv1d(1, c, 1)
            self.f = nn.ModuleList([nn.Conv1d(c, 2 * c, 2, dilation=2**i) for i in range(9)])
            self.r = nn.ModuleList([nn.Conv1d(c, c, 1) for i in range(9)])
            self.s = nn.ModuleList([nn.Conv1d(c, 128, 1) for i in range(9)])
            self.o = nn.Sequential(nn.ReLU(), nn.Conv1d(128, 128, 1), nn.ReLU(), nn.Conv1d(128, 256, 1))

        def forward(self, x):
            x = self.i(x)
            k = 0
            for i in range(9):
                y = self.f[i](F.pad(x, (2**i, 0)))
                a, b = y.chunk(2, 1)
                y = torch.tanh(a) * torch.sigmoid(b)
                k = k + self.s[i](y)
                x = x + self.r[i](y)
            return self.o(k)

    return (Network(), (torch.randn(1, 1, 1600),))


def dlrm():
    """Embeddings, their products and two MLPs (DLRM, Naumov et al. 2019)."""

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.e = nn.ModuleList([nn.Embedding(n, 40) for n in (1000, 37, 20000, 16, 911, 77)])
            self.b = nn.Sequential(nn.Linear(13, 200), nn.ReLU(), nn.Linear(200, 40), nn.ReLU())
            self.t = nn.Sequential(nn.Linear(40 + 21, 300), nn.ReLU(), nn.Linear(300, 100), nn.ReLU(), nn.Linear(100, 1))
            i, j = torch.tril_indices(7, 7, -1)
            self.register_buffer('ij', i * 7 + j)

        def forward(self, x, ids):
            b = self.b(x)
            z = torch.stack([b] + [self.e[i](ids[:, i]) for i in range(6)], 1)
            g = (z @ z.transpose(1, 2)).flatten(1)[:, self.ij]
            return torch.sigmoid(self.t(torch.cat([b, g], 1)))

    return (Network(), (torch.randn(128, 13), torch.randint(0, 16, (128, 6))))


def nerf():
    """3,300 points of 100 rays, and their volume rendering (NeRF, Mildenhall et al. 2020)."""

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Sequential(nn.Linear(63, 128), *sum([[nn.ReLU(), nn.Linear(128, 128)] for _ in range(3)], []), nn.ReLU())
            self.b = nn.Sequential(nn.Linear(128 + 63, 128), nn.ReLU(), nn.Linear(128, 129))
            self.c = nn.Sequential(nn.Linear(128 + 27, 64), nn.ReLU(), nn.Linear(64, 3))
            self.register_buffer('f', 2.0 ** torch.arange(10))
            self.register_buffer('g', 2.0 ** torch.arange(4))

        def pe(self, x, f):
            y = (x[..., None, :] * f[:, None]).flatten(-2)
            return torch.cat([x, torch.sin(y), torch.cos(y)], -1)

        def forward(self, x, d, t):
            p = self.pe(x, self.f)
            h = self.b(torch.cat([self.a(p), p], -1))
            sg = F.softplus(h[..., 0])
            rgb = torch.sigmoid(self.c(torch.cat([h[..., 1:], self.pe(d, self.g)], -1)))
            al = 1 - torch.exp(-sg * t)
            w = al * torch.exp(torch.cumsum(torch.log(1 - al + 1e-06), 1))
            return (w[..., None] * rgb).sum(1)

    return (Network(), (torch.randn(100, 33, 3), torch.randn(100, 33, 3), torch.rand(100, 33)))


def wav2vec():
    """Strided convolutions, a grouped positional one, an encoder layer (wav2vec 2.0, Baevski et al. 2020)."""

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.c = nn.ModuleList(
                [
                    nn.Conv1d(1 if i == 0 else 96, 96, k, st, bias=False)
                    for i, (k, st) in enumerate([(10, 5), (3, 2), (3, 2), (3, 2), (2, 2)])
                ]
            )
            self.n = nn.GroupNorm(96, 96)
            self.p = nn.Conv1d(96, 96, 64, padding=32, groups=8)
            self.e = EncoderLayer(96, 3, 400)

        def forward(self, x):
            for i, c in enumerate(self.c):
                x = c(x)
                if i == 0:
                    x = self.n(x)
                x = F.gelu(x)
            x = x + F.gelu(self.p(x)[..., :-1])
            return self.e(x.transpose(1, 2))

    return (Network(), (torch.randn(1, 1, 16000),))


def crnn():
    """A recogniser of text: convolutions and two bidirectional LSTM layers (Shi et al. 2015)."""

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.c = nn.Sequential(
                convolution(1, 32),
                nn.MaxPool2d(2),
                convolution(32, 64),
                nn.MaxPool2d(2),
                convolution(64, 128),
                nn.MaxPool2d((2, 1)),
                convolution(128, 128),
                nn.MaxPool2d((2, 1)),
            )
            self.r = nn.LSTM(256, 96, 2, bidirectional=True)
            self.o = nn.Linear(192, 97)

        def forward(self, x):
            x = self.c(x)
            x = x.flatten(1, 2).permute(2, 0, 1)
            y, _ = self.r(x)
            return self.o(y).log_softmax(-1)

    return (Network(), (torch.randn(1, 1, 32, 200),))


def gcn():
    """Graph attention by gather and scatter (Velickovic et al. 2018)."""

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(50, 64)
            self.b = nn.Linear(64, 64)
            self.q = nn.Linear(64, 1)
            self.o = nn.Linear(64, 7)

        def forward(self, x, src, dst):
            z = torch.zeros(500, 64)
            h = F.relu(z.scatter_add(0, dst[:, None].expand(3000, 64), self.a(x)[src]))
            e = F.leaky_relu(self.q(h)[src] + self.q(h)[dst]).exp()
            d = torch.zeros(500, 1).scatter_add(0, dst[:, None], e)
            h = z.scatter_add(0, dst[:, None].expand(3000, 64), self.b(h)[src] * e) / (d + 1e-06)
            return self.o(h)

    return (Network(), (torch.randn(500, 50), torch.randint(0, 500, (3000,)), torch.randint(0, 500, (3000,))))


def perceiver():
    """60 latents that attend to 2,500 points (Jaegle et al. 2021)."""

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.l = nn.Parameter(torch.randn(1, 60, 120))
            self.p = nn.Linear(35, 120)
            self.x = Attention(120, 1)
            self.e = nn.ModuleList([EncoderLayer(120, 5, 240) for _ in range(3)])
            self.o = nn.Linear(120, 10)

        def forward(self, x):
            y = self.l + self.x(self.l, self.p(x))
            for e in self.e:
                y = e(y)
            return self.o(y.mean(1))

    return (Network(), (torch.randn(1, 2500, 35),))


def t5_rel():
    """Three encoder layers with biases of relative positions (T5, Raffel et al. 2020)."""

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.e = nn.Embedding(1000, 160)
            self.l = nn.ModuleList([EncoderLayer(160, 5, 500, rel=77, act=nn.ReLU) for _ in range(3)])
            self.o = nn.Linear(160, 1000, bias=False)

        def forward(self, i, m):
            x = self.e(i)
            k = (1 - m[:, None, None, :].float()) * -1000000000.0
            for l in self.l:
                x = l(x, k)
            return self.o(x).log_softmax(-1)

    return (Network(), (torch.randint(0, 1000, (3, 77)), torch.ones(3, 77, dtype=torch.long)))


def tcn_gru():
    """A temporal convolutional network, a bidirectional GRU, attention pooling (Bai et al. 2018)."""

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.c = nn.Sequential(
                *[
                    nn.Sequential(
                        nn.ConstantPad1d((2 * 2**i, 0), 0.0),
                        nn.Conv1d(24 if i == 0 else 70, 70, 3, dilation=2**i),
                        nn.PReLU(70),
                    )
                    for i in range(5)
                ]
            )
            self.g = nn.GRU(70, 50, batch_first=True, bidirectional=True)
            self.a = nn.Linear(100, 1)
            self.o = nn.Linear(100, 12)

        def forward(self, x):
            y = self.c(x).transpose(1, 2)
            y, _ = self.g(y)
            w = self.a(torch.tanh(y)).softmax(1)
            return self.o((w * y).sum(1))

    return (Network(), (torch.randn(4, 24, 120),))


NETWORKS = {f.__name__: f for f in (whisper_enc, conformer, wavenet, dlrm, nerf, wav2vec, crnn, gcn, perceiver, t5_rel, tcn_gru)}
