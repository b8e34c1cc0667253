"""Networks of sounds, series and tables, made small: each function gives a module and its inputs. For paper_networks.py."""
import torch
import torch.nn.functional as F
from torch import nn


class Snake(nn.Module):
    """x + sin(a x)^2 / a (Ziyin et al. 2020)."""

    def __init__(self, d):
        super().__init__()
        self.a = nn.Parameter(torch.rand(1, d, 1) + 0.5)

    def forward(self, x):
        return x + torch.sin(self.a * x)**2 / self.a


class Residual(nn.Module):
    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        return x + self.layers(x)


def hifigan():
    """HiFi-GAN's generator: transposed convolutions, dilated blocks of three kernels (Kong et al. 2020)."""

    class Fused(nn.Module):
        def __init__(self, d):
            super().__init__()
            self.blocks = nn.ModuleList(
                nn.Sequential(*[
                    Residual(nn.LeakyReLU(0.1), nn.Conv1d(d, d, k, 1, dilation * (k - 1) // 2, dilation), nn.LeakyReLU(0.1),
                             nn.Conv1d(d, d, k, 1, (k - 1) // 2)) for dilation in (1, 3, 5)
                ]) for k in (3, 7, 11))

        def forward(self, x):
            return sum(block(x) for block in self.blocks) / 3

    layers = [nn.Conv1d(80, 128, 7, 1, 3)]
    for d, s in ((128, 8), (64, 8), (32, 2), (16, 2)):
        layers += [nn.LeakyReLU(0.1), nn.ConvTranspose1d(d, d // 2, 2 * s, s, s // 2), Fused(d // 2)]
    return nn.Sequential(*layers, nn.LeakyReLU(0.1), nn.Conv1d(8, 1, 7, 1, 3), nn.Tanh()), (torch.randn(1, 80, 32),)


def encodec():
    """EnCodec without its recurrent layer: strided convolutions, residual vector quantization (Defossez et al. 2022)."""

    class Quantizer(nn.Module):
        def __init__(self, d, codes=256, stages=4):
            super().__init__()
            self.books = nn.ParameterList(nn.Parameter(torch.randn(codes, d)) for _ in range(stages))

        def forward(self, x):
            x = x.transpose(1, 2)
            total = 0
            for book in self.books:
                distances = (x * x).sum(-1, keepdim=True) - 2 * x @ book.t() + (book * book).sum(-1)
                code = book[distances.argmin(-1)]
                total, x = total + code, x - code
            return total.transpose(1, 2)

    def unit(d):
        return Residual(Snake(d), nn.Conv1d(d, d // 2, 3, 1, 1), Snake(d // 2), nn.Conv1d(d // 2, d, 1))

    down = [nn.Conv1d(1, 16, 7, 1, 3)]
    for d, s in ((16, 2), (32, 4), (64, 5)):
        down += [unit(d), Snake(d), nn.Conv1d(d, 2 * d, 2 * s, s, (s + 1) // 2)]
    up = []
    for d, s in ((128, 5), (64, 4), (32, 2)):
        up += [Snake(d), nn.ConvTranspose1d(d, d // 2, 2 * s, s, (s + 1) // 2, s % 2), unit(d // 2)]
    return nn.Sequential(*down, Quantizer(128), *up, Snake(16), nn.Conv1d(16, 1, 7, 1, 3)), (torch.randn(1, 1, 16000),)


def conv_tasnet():
    """Conv-TasNet: dilated depthwise blocks under a global norm, masks on learned frames (Luo and Mesgarani 2019)."""

    def block(d, h, dilation):
        return Residual(nn.Conv1d(d, h, 1), nn.PReLU(), nn.GroupNorm(1, h), nn.Conv1d(h, h, 3, 1, dilation, dilation, groups=h), nn.PReLU(),
                        nn.GroupNorm(1, h), nn.Conv1d(h, d, 1))

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.frames, self.sounds = nn.Conv1d(1, 256, 16, 8), nn.ConvTranspose1d(256, 1, 16, 8)
            self.masks = nn.Sequential(nn.GroupNorm(1, 256), nn.Conv1d(256, 90, 1), *[block(90, 180, 2**k) for k in range(5)], nn.PReLU(),
                                       nn.Conv1d(90, 512, 1), nn.Sigmoid())

        def forward(self, x):
            frames = F.relu(self.frames(x))
            masks = self.masks(frames).reshape(2, 256, -1)
            return self.sounds(masks * frames)

    return Network(), (torch.randn(1, 1, 8000),)


def ecapa():
    """ECAPA-TDNN: Res2 blocks of dilated convolutions, squeeze and excitation, attentive statistics (Desplanques et al. 2020)."""

    def rectified(i, o, k, dilation=1):
        return nn.Sequential(nn.Conv1d(i, o, k, 1, k // 2 * dilation, dilation), nn.ReLU(), nn.BatchNorm1d(o))

    class Res2(nn.Module):
        def __init__(self, d, dilation, scale=8):
            super().__init__()
            self.scale = scale
            self.into, self.out = rectified(d, d, 1), rectified(d, d, 1)
            self.parts = nn.ModuleList(rectified(d // scale, d // scale, 3, dilation) for _ in range(scale - 1))
            self.gate = nn.Sequential(nn.AdaptiveAvgPool1d(1), nn.Conv1d(d, 64, 1), nn.ReLU(), nn.Conv1d(64, d, 1), nn.Sigmoid())

        def forward(self, x):
            parts = torch.chunk(self.into(x), self.scale, 1)
            done, last = [parts[0]], 0
            for part, layer in zip(parts[1:], self.parts):
                last = layer(part + last)
                done.append(last)
            y = self.out(torch.cat(done, 1))
            return x + y * self.gate(y)

    class Network(nn.Module):
        def __init__(self, d=192):
            super().__init__()
            self.first = rectified(80, d, 5)
            self.blocks = nn.ModuleList(Res2(d, k) for k in (2, 3, 4))
            self.joined = nn.Sequential(nn.Conv1d(3 * d, 384, 1), nn.ReLU())
            self.attention = nn.Sequential(nn.Conv1d(3 * 384, 96, 1), nn.Tanh(), nn.Conv1d(96, 384, 1))
            self.last = nn.Linear(768, 150)

        def forward(self, x):
            x = self.first(x)
            seen = []
            for block in self.blocks:
                x = block(x)
                seen.append(x)
            x = self.joined(torch.cat(seen, 1))
            mean = x.mean(2, keepdim=True)
            deviation = ((x - mean)**2).mean(2, keepdim=True).clamp(1e-6).sqrt()
            weights = torch.softmax(self.attention(torch.cat([x, mean.expand_as(x), deviation.expand_as(x)], 1)), 2)
            mean = (weights * x).sum(2)
            deviation = ((weights * x * x).sum(2) - mean * mean).clamp(1e-6).sqrt()
            return self.last(torch.cat([mean, deviation], 1))

    return Network(), (torch.randn(2, 80, 203),)


def dual_path():
    """DPRNN: recurrent layers within and across chunks (Luo et al. 2020)."""

    class Path(nn.Module):
        def __init__(self, d, h):
            super().__init__()
            self.rnn, self.back, self.norm = nn.LSTM(d, h, batch_first=True, bidirectional=True), nn.Linear(2 * h, d), nn.GroupNorm(1, d)

        def forward(self, x):  # (batch, d, within, across)
            b, d, k, s = x.shape
            y = self.back(self.rnn(x.permute(0, 3, 2, 1).reshape(b * s, k, d))[0]).reshape(b, s, k, d).permute(0, 3, 2, 1)
            return x + self.norm(y)

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.within, self.across = Path(48, 32), Path(48, 32)

        def forward(self, x):
            return self.across(self.within(x).transpose(2, 3)).transpose(2, 3)

    return Network(), (torch.randn(1, 48, 40, 50),)


def demucs():
    """Demucs: strided convolutions with gates, an LSTM in the middle, and back (Defossez et al. 2019)."""

    class Network(nn.Module):
        def __init__(self, d=32, depth=4):
            super().__init__()
            dims = [2] + [d * 2**k for k in range(depth)]
            levels, last = list(zip(dims, dims[1:])), dims[-1]
            self.down = nn.ModuleList(
                nn.Sequential(nn.Conv1d(i, o, 8, 4, 2), nn.ReLU(), nn.Conv1d(o, 2 * o, 1), nn.GLU(1)) for i, o in levels)
            self.lstm, self.linear = nn.LSTM(last, last, 1, bidirectional=True), nn.Linear(2 * last, last)
            self.up = nn.ModuleList(
                nn.Sequential(nn.Conv1d(o, 2 * o, 3, 1, 1), nn.GLU(1), nn.ConvTranspose1d(o, i, 8, 4, 2))
                for i, o in reversed(levels))

        def forward(self, x):
            kept = []
            for layer in self.down:
                x = layer(x)
                kept.append(x)
            x = self.linear(self.lstm(x.permute(2, 0, 1))[0]).permute(1, 2, 0)
            for layer in self.up:
                x = layer(x + kept.pop())
            return x

    return Network(), (torch.randn(1, 2, 8192),)


def retention():
    """RetNet's parallel form: decays instead of a softmax (Sun et al. 2023)."""

    class Block(nn.Module):
        def __init__(self, d, heads, t):
            super().__init__()
            self.heads = heads
            self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
            self.q, self.k, self.v, self.g, self.out = (nn.Linear(d, d, bias=False) for _ in range(5))
            self.up, self.down = nn.Linear(d, 2 * d), nn.Linear(2 * d, d)
            distance = torch.arange(t).reshape(-1, 1) - torch.arange(t)
            decay = 1 - 2.0**-(5 + torch.arange(heads).float())
            self.register_buffer('decay', torch.where(distance >= 0, decay.reshape(-1, 1, 1)**distance.clamp(0), torch.zeros(())))

        def forward(self, x):
            b, t, d = x.shape
            y = self.n1(x)
            q, k, v = (f(y).reshape(b, t, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
            kept = ((q @ k.transpose(-2, -1)) * self.decay) @ v
            kept = F.layer_norm(kept.transpose(1, 2), (d // self.heads,)).reshape(b, t, d)
            x = x + self.out(F.silu(self.g(y)) * kept)
            return x + self.down(F.gelu(self.up(self.n2(x))))

    return nn.Sequential(*[Block(180, 5, 150) for _ in range(3)]), (torch.randn(1, 150, 180),)


def n_beats():
    """N-BEATS: stacks of dense layers that explain what is left of a series (Oreshkin et al. 2020)."""

    class Network(nn.Module):
        def __init__(self, past=168, ahead=24, width=256):
            super().__init__()
            self.blocks = nn.ModuleList(
                nn.Sequential(nn.Linear(past, width), nn.ReLU(), *[nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(3)],
                              nn.Linear(width, past + ahead)) for _ in range(6))
            self.past, self.ahead = past, ahead

        def forward(self, x):
            total = 0
            for block in self.blocks:
                back, forward = torch.split(block(x), [self.past, self.ahead], -1)
                x, total = x - back, total + forward
            return total

    return Network(), (torch.randn(32, 168),)


def tab_net():
    """TabNet's steps with sparsemax by sorting (Arik and Pfister 2021; Martins and Astudillo 2016)."""

    def sparsemax(z):
        ordered = torch.topk(z, z.shape[-1], -1)[0]
        ranks = torch.arange(1, z.shape[-1] + 1).float()
        sums = ordered.cumsum(-1) - 1
        support = (ranks * ordered > sums).float()
        count = support.sum(-1, keepdim=True)
        threshold = (sums * (ranks == count).float()).sum(-1, keepdim=True) / count
        return torch.relu(z - threshold)

    class Glu(nn.Module):
        def __init__(self, i, o):
            super().__init__()
            self.layer, self.norm = nn.Linear(i, 2 * o), nn.BatchNorm1d(2 * o)

        def forward(self, x):
            return F.glu(self.norm(self.layer(x)))

    class Network(nn.Module):
        def __init__(self, features=54, d=40, steps=4):
            super().__init__()
            self.shared = nn.ModuleList([Glu(features, 2 * d), Glu(2 * d, 2 * d)])
            self.own = nn.ModuleList(nn.ModuleList([Glu(2 * d, 2 * d), Glu(2 * d, 2 * d)]) for _ in range(steps))
            self.masks = nn.ModuleList(nn.Sequential(nn.Linear(d, features), nn.BatchNorm1d(features)) for _ in range(steps))
            self.last, self.d = nn.Linear(d, 7), d

        def forward(self, x):
            prior, attention, total = torch.ones_like(x), x[:, :self.d], 0
            for own, mask in zip(self.own, self.masks):
                m = sparsemax(mask(attention) * prior)
                prior = prior * (1.3 - m)
                h = self.shared[1](self.shared[0](x * m))
                for layer in own:
                    h = (h + layer(h)) * 0.7071
                decision, attention = torch.split(h, [self.d, self.d], -1)
                total = total + torch.relu(decision)
            return self.last(total)

    return Network(), (torch.randn(256, 54),)


def flow():
    """RealNVP: couplings that scale and shift half of the values by the other (Dinh et al. 2017)."""

    class Network(nn.Module):
        def __init__(self, d=62, h=150, layers=6):
            super().__init__()
            self.nets = nn.ModuleList(
                nn.Sequential(nn.Linear(d // 2, h), nn.LeakyReLU(), nn.Linear(h, h), nn.LeakyReLU(), nn.Linear(h, d))
                for _ in range(layers))

        def forward(self, x):
            a, b = x.chunk(2, -1)
            determinant = 0
            for net in self.nets:
                s, t = net(a).chunk(2, -1)
                s = torch.tanh(s)
                a, b = b * torch.exp(s) + t, a
                determinant = determinant + s.sum(-1)
            return torch.cat([a, b], -1), determinant

    return Network(), (torch.randn(500, 62),)


def fourier():
    """FNet: the real part of a Fourier transform of both axes, as products (Lee-Thorp et al. 2022)."""

    class Block(nn.Module):
        def __init__(self, t, d):
            super().__init__()
            for name, n in (('t', t), ('d', d)):
                angle = 2 * torch.pi * torch.arange(n).reshape(-1, 1) * torch.arange(n) / n
                self.register_buffer('cos_' + name, torch.cos(angle))
                self.register_buffer('sin_' + name, torch.sin(angle))
            self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
            self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

        def forward(self, x):
            x = self.n1(x + self.cos_t @ (x @ self.cos_d) - self.sin_t @ (x @ self.sin_d))
            return self.n2(x + self.mlp(x))

    return nn.Sequential(*[Block(130, 192) for _ in range(3)]), (torch.randn(1, 130, 192),)


def sincnet():
    """SincNet's front: band-pass filters of 251 taps from two numbers each, pooling, norms (Ravanelli and Bengio 2018)."""

    class Sinc(nn.Module):
        def __init__(self, count=80, taps=251):
            super().__init__()
            self.low, self.band = nn.Parameter(torch.rand(count, 1) * 0.3), nn.Parameter(torch.rand(count, 1) * 0.1)
            n = torch.arange(1, taps // 2 + 1).float()
            self.register_buffer('n', n)
            self.register_buffer('window', torch.hamming_window(taps))

        def forward(self, x):
            low, high = self.low.abs(), (self.low.abs() + self.band.abs())
            def half(f):
                return torch.sin(2 * torch.pi * f * self.n) / (torch.pi * self.n)
            right = half(high) - half(low)
            kernel = torch.cat([right.flip(1), 2 * (high - low), right], 1) * self.window
            return F.conv1d(x, kernel.unsqueeze(1))

    def after(i, o, k):
        return [nn.MaxPool1d(3), nn.BatchNorm1d(i), nn.LeakyReLU(), nn.Conv1d(i, o, k)]

    layers = [Sinc(), *after(80, 60, 5), *after(60, 60, 5), nn.MaxPool1d(3), nn.Flatten(), nn.Linear(60 * 107, 128)]
    return nn.Sequential(*layers), (torch.randn(1, 1, 3200),)


NETWORKS = {network.__name__: network for network in (
    hifigan, encodec, conv_tasnet, ecapa, dual_path, demucs, retention, n_beats, tab_net, flow, fourier, sincnet)}
