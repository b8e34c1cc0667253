"""Networks of images that mix places in ways of their own, made small: each function gives a module and its inputs.

For paper_networks.py.
"""
import torch
import torch.nn.functional as F
from network_parts import convolution
from torch import nn


def stack(*layers):
    return nn.Sequential(*layers)


class LayerNorm2d(nn.Module):
    """Norm over the channels of each place of an image."""

    def __init__(self, d):
        super().__init__()
        self.norm = nn.LayerNorm(d)

    def forward(self, x):
        return self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Residual(nn.Module):
    def __init__(self, *layers):
        super().__init__()
        self.layers = stack(*layers)

    def forward(self, x):
        return x + self.layers(x)


def feed_forward(d, factor=4):
    return Residual(LayerNorm2d(d), nn.Conv2d(d, factor * d, 1), nn.GELU(), nn.Conv2d(factor * d, d, 1))


def van():
    """Visual attention network: a dilated depthwise 7x7 after a 5x5 as a gate (Guo et al. 2022)."""

    class LargeKernel(nn.Module):
        def __init__(self, d):
            super().__init__()
            self.into, self.out = nn.Conv2d(d, d, 1), nn.Conv2d(d, d, 1)
            self.near = nn.Conv2d(d, d, 5, padding=2, groups=d)
            self.far = nn.Conv2d(d, d, 7, padding=9, dilation=3, groups=d)
            self.mix = nn.Conv2d(d, d, 1)

        def forward(self, x):
            u = F.gelu(self.into(x))
            return self.out(u * self.mix(self.far(self.near(u))))

    d = 60
    blocks = [layer for _ in range(3) for layer in (Residual(nn.BatchNorm2d(d), LargeKernel(d)), feed_forward(d))]
    return stack(nn.Conv2d(3, d, 7, 4, 3), *blocks), (torch.randn(1, 3, 160, 160),)


def focal():
    """FocalNet: contexts of three sizes, gated (Yang et al. 2022)."""

    class Modulation(nn.Module):
        def __init__(self, d, levels=3):
            super().__init__()
            self.levels, self.d = levels, d
            self.into = nn.Conv2d(d, 2 * d + levels + 1, 1)
            self.context = nn.ModuleList(nn.Conv2d(d, d, 3 + 2 * k, padding=1 + k, groups=d) for k in range(levels))
            self.mix, self.out = nn.Conv2d(d, d, 1), nn.Conv2d(d, d, 1)

        def forward(self, x):
            q, context, gates = torch.split(self.into(x), [self.d, self.d, self.levels + 1], 1)
            total = 0
            for k, layer in enumerate(self.context):
                context = F.gelu(layer(context))
                total = total + context * gates[:, k:k + 1]
            total = total + F.gelu(context.mean((2, 3), keepdim=True)) * gates[:, self.levels:]
            return self.out(q * self.mix(total))

    d = 72
    blocks = [layer for _ in range(3) for layer in (Residual(LayerNorm2d(d), Modulation(d)), feed_forward(d))]
    return stack(nn.Conv2d(3, d, 4, 4), *blocks), (torch.randn(1, 3, 144, 176),)


def hornet():
    """HorNet: recursive gated convolutions (Rao et al. 2022)."""

    class Gated(nn.Module):
        def __init__(self, d, order=3):
            super().__init__()
            self.dims = [d // 2**k for k in reversed(range(order))]
            self.into = nn.Conv2d(d, 2 * d, 1)
            self.depthwise = nn.Conv2d(sum(self.dims), sum(self.dims), 7, padding=3, groups=sum(self.dims))
            self.steps = nn.ModuleList(nn.Conv2d(a, b, 1) for a, b in zip(self.dims, self.dims[1:]))
            self.out = nn.Conv2d(d, d, 1)
            self.first = 2 * d - sum(self.dims)

        def forward(self, x):
            first, rest = torch.split(self.into(x), [self.first, sum(self.dims)], 1)
            gates = torch.split(self.depthwise(rest), self.dims, 1)
            x = first * gates[0]
            for step, gate in zip(self.steps, gates[1:]):
                x = step(x) * gate
            return self.out(x)

    d = 64
    blocks = [layer for _ in range(3) for layer in (Residual(LayerNorm2d(d), Gated(d)), feed_forward(d))]
    return stack(nn.Conv2d(3, d, 4, 4), *blocks), (torch.randn(1, 3, 128, 128),)


class Turned(nn.Module):
    """Attention across channels, of unit rows of places: XCiT's; with `depthwise`, Restormer's."""

    def __init__(self, d, heads, depthwise=False):
        super().__init__()
        self.heads = heads
        self.into = stack(nn.Conv2d(d, 3 * d, 1), *([nn.Conv2d(3 * d, 3 * d, 3, 1, 1, groups=3 * d)] if depthwise else []))
        self.out = nn.Conv2d(d, d, 1)
        self.temperature = nn.Parameter(torch.ones(heads, 1, 1))

    def forward(self, x):
        b, c, h, w = x.shape
        q, k, v = self.into(x).reshape(b, 3, self.heads, c // self.heads, h * w).unbind(1)
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        attention = torch.softmax(q @ k.transpose(-2, -1) * self.temperature, -1)
        return self.out((attention @ v).reshape(b, c, h, w))


def xcit():
    """Cross-covariance image transformer (El-Nouby et al. 2021)."""
    d = 96

    def local():
        return Residual(LayerNorm2d(d), nn.Conv2d(d, d, 3, 1, 1, groups=d), nn.GELU(), nn.BatchNorm2d(d),
                        nn.Conv2d(d, d, 3, 1, 1, groups=d))

    blocks = [layer for _ in range(3) for layer in (Residual(LayerNorm2d(d), Turned(d, 6)), local(), feed_forward(d))]
    return stack(nn.Conv2d(3, d, 8, 8), *blocks), (torch.randn(1, 3, 224, 224),)


def restormer():
    """Restormer: transposed attention and gated depthwise layers, at two resolutions (Zamir et al. 2022)."""

    class Gate(nn.Module):
        def __init__(self, d):
            super().__init__()
            self.into, self.out = nn.Conv2d(d, 5 * d, 1), nn.Conv2d(5 * d // 2, d, 1)
            self.depthwise = nn.Conv2d(5 * d, 5 * d, 3, 1, 1, groups=5 * d)

        def forward(self, x):
            a, b = self.depthwise(self.into(x)).chunk(2, 1)
            return self.out(F.gelu(a) * b)

    def block(d, heads):
        return stack(Residual(LayerNorm2d(d), Turned(d, heads, True)), Residual(LayerNorm2d(d), Gate(d)))

    inner = stack(nn.Conv2d(24, 12, 3, 1, 1), nn.PixelUnshuffle(2), block(48, 2), block(48, 2), nn.Conv2d(48, 96, 3, 1, 1),
                  nn.PixelShuffle(2))
    return stack(nn.Conv2d(3, 24, 3, 1, 1), block(24, 1), Residual(inner), nn.Conv2d(24, 3, 3, 1, 1)), (torch.randn(1, 3, 96, 128),)


def nafnet():
    """NAFNet: gates instead of activations, channel attention of means (Chen et al. 2022)."""

    class Half(nn.Module):
        def forward(self, x):
            a, b = x.chunk(2, 1)
            return a * b

    class Scaled(nn.Module):
        def __init__(self, d):
            super().__init__()
            self.scale = stack(nn.AdaptiveAvgPool2d(1), nn.Conv2d(d, d, 1))

        def forward(self, x):
            return x * self.scale(x)

    def block(d):
        return stack(
            Residual(LayerNorm2d(d), nn.Conv2d(d, 2 * d, 1), nn.Conv2d(2 * d, 2 * d, 3, 1, 1, groups=2 * d), Half(), Scaled(d),
                     nn.Conv2d(d, d, 1)), Residual(LayerNorm2d(d), nn.Conv2d(d, 2 * d, 1), Half(), nn.Conv2d(d, d, 1)))

    down = stack(nn.Conv2d(32, 64, 2, 2), block(64), block(64), nn.Conv2d(64, 128, 1), nn.PixelShuffle(2))
    layers = [nn.Conv2d(3, 32, 3, 1, 1), block(32), Residual(down), block(32), nn.Conv2d(32, 3, 3, 1, 1)]
    return stack(*layers), (torch.randn(1, 3, 128, 96),)


def involution():
    """RedNet's involution: kernels of 7x7 places computed for each place (Li et al. 2021)."""

    class Involution(nn.Module):
        def __init__(self, d, k=7, groups=4):
            super().__init__()
            self.k, self.groups = k, groups
            self.kernels = stack(convolution(d, d // 4, 1), nn.Conv2d(d // 4, k * k * groups, 1))

        def forward(self, x):
            b, c, h, w = x.shape
            kernels = self.kernels(x).reshape(b, self.groups, 1, self.k**2, h, w)
            places = F.unfold(x, self.k, padding=self.k // 2)
            return (kernels * places.reshape(b, self.groups, c // self.groups, self.k**2, h, w)).sum(3).reshape(b, c, h, w)

    layers = [convolution(3, 64, 3, 2), Residual(Involution(64)), convolution(64, 64, 1), Residual(Involution(64))]
    return stack(*layers), (torch.randn(1, 3, 80, 80),)


def mobilevit():
    """MobileViT's block: attention among places at the same spot of 2x2 patches (Mehta and Rastegari 2022)."""

    class Unfolded(nn.Module):
        def __init__(self, d):
            super().__init__()
            self.layers = nn.ModuleList(
                nn.TransformerEncoderLayer(d, 4, 2 * d, batch_first=True, norm_first=True, activation=F.silu) for _ in range(2))

        def forward(self, x):
            b, c, h, w = x.shape
            x = x.reshape(b, c, h // 2, 2, w // 2, 2).permute(0, 3, 5, 2, 4, 1).reshape(b * 4, h * w // 4, c)
            for layer in self.layers:
                x = layer(x)
            return x.reshape(b, 2, 2, h // 2, w // 2, c).permute(0, 5, 3, 1, 4, 2).reshape(b, c, h, w)

    def silu(i, o, k, s=1):
        return stack(nn.Conv2d(i, o, k, s, k // 2, bias=False), nn.BatchNorm2d(o), nn.SiLU())

    block = Residual(silu(64, 64, 3), nn.Conv2d(64, 96, 1, bias=False), Unfolded(96), silu(96, 64, 1))
    return stack(silu(3, 24, 3, 2), silu(24, 48, 3, 2), silu(48, 64, 3, 2), block, silu(64, 160, 1)), (torch.randn(1, 3, 256, 192),)


def cost_volume():
    """A stereo network: shifted features side by side, 3-D convolutions, a soft minimum (GC-Net, Kendall et al. 2017)."""

    class Network(nn.Module):
        def __init__(self, d=24):
            super().__init__()
            self.features = stack(convolution(3, 24, 5, 2), convolution(24, 24, 3, 2), nn.Conv2d(24, 16, 3, 1, 1))
            self.volume = stack(nn.Conv3d(32, 16, 3, 1, 1), nn.ReLU(), nn.Conv3d(16, 24, 3, 2, 1), nn.ReLU(),
                                nn.ConvTranspose3d(24, 16, 3, 2, 1, 1), nn.ReLU(), nn.Conv3d(16, 1, 3, 1, 1))
            self.d = d

        def forward(self, left, right):
            left, right = self.features(left), self.features(right)
            shifted = [torch.cat([left, F.pad(right, (k, 0))[..., :right.shape[-1]]], 1) for k in range(self.d)]
            costs = F.interpolate(self.volume(torch.stack(shifted, 2)).squeeze(1), scale_factor=4, mode='bilinear')
            return (torch.softmax(-costs, 1) * torch.arange(self.d).reshape(1, -1, 1, 1)).sum(1)

    return Network(), (torch.randn(1, 3, 96, 160), torch.randn(1, 3, 96, 160))


def raft():
    """RAFT's correlation of all pairs, pyramids of it, and one look-up by grid sampling (Teed and Deng 2020)."""

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.features = stack(convolution(3, 32, 7, 2), convolution(32, 48, 3, 2), convolution(48, 64, 3, 2), nn.Conv2d(64, 96, 1))
            self.flow = stack(nn.Conv2d(3 * 49, 64, 1), nn.ReLU(), nn.Conv2d(64, 2, 3, 1, 1))

        def forward(self, a, b):
            a, b = self.features(a), self.features(b)
            n, c, h, w = a.shape
            pairs = (a.flatten(2).transpose(1, 2) @ b.flatten(2) / c**0.5).reshape(h * w, 1, h, w)
            y, x = torch.meshgrid(torch.arange(h), torch.arange(w), indexing='ij')
            places = torch.stack([x, y], -1).reshape(h * w, 1, 1, 2).float()
            r = torch.arange(-3, 4).float()
            window = torch.stack(torch.meshgrid(r, r, indexing='ij'), -1).reshape(1, 7, 7, 2)
            found = []
            for level in range(3):
                size = torch.tensor([w // 2**level - 1, h // 2**level - 1]).float()
                grid = 2 * (places / 2**level + window) / size - 1
                found.append(F.grid_sample(pairs, grid, align_corners=True).reshape(1, h, w, 49))
                pairs = F.avg_pool2d(pairs, 2)
            return self.flow(torch.cat(found, -1).permute(0, 3, 1, 2))

    return Network(), (torch.randn(1, 3, 128, 160), torch.randn(1, 3, 128, 160))


def dit():
    """Diffusion transformer: norms scaled and shifted by what time says (Peebles and Xie 2023)."""

    class Block(nn.Module):
        def __init__(self, d, heads):
            super().__init__()
            self.heads = heads
            self.n1, self.n2 = nn.LayerNorm(d, elementwise_affine=False), nn.LayerNorm(d, elementwise_affine=False)
            self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
            self.mlp = stack(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))
            self.modulation = stack(nn.SiLU(), nn.Linear(d, 6 * d))

        def forward(self, x, c):
            s1, k1, g1, s2, k2, g2 = self.modulation(c).unsqueeze(1).chunk(6, -1)
            b, t, d = x.shape
            q, k, v = self.qkv(self.n1(x) * (1 + k1) + s1).reshape(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
            attended = (torch.softmax(q @ k.transpose(-2, -1) * (d // self.heads)**-0.5, -1) @ v).transpose(1, 2).reshape(b, t, d)
            x = x + g1 * self.out(attended)
            return x + g2 * self.mlp(self.n2(x) * (1 + k2) + s2)

    class Network(nn.Module):
        def __init__(self, d=216):
            super().__init__()
            self.patches = nn.Conv2d(4, d, 2, 2)
            self.blocks = nn.ModuleList(Block(d, 6) for _ in range(3))
            self.last = nn.Linear(d, 16)

        def forward(self, x, c):
            h = self.patches(x).flatten(2).transpose(1, 2)
            for block in self.blocks:
                h = block(h, c)
            return F.pixel_shuffle(self.last(h).transpose(1, 2).reshape(-1, 16, x.shape[2] // 2, x.shape[3] // 2), 2)

    return Network(), (torch.randn(1, 4, 28, 28), torch.randn(1, 216))


def u2net():
    """U2-Net's block: a small U-Net with dilated middle within a layer (Qin et al. 2020)."""

    class Block(nn.Module):
        def __init__(self, i, m, o):
            super().__init__()
            self.into = convolution(i, o, 3)
            self.down = nn.ModuleList([convolution(o, m, 3), convolution(m, m, 3), convolution(m, m, 3)])
            self.middle = stack(nn.Conv2d(m, m, 3, 1, 2, 2), nn.BatchNorm2d(m), nn.ReLU())
            self.up = nn.ModuleList([convolution(2 * m, m, 3), convolution(2 * m, m, 3), convolution(2 * m, o, 3)])

        def forward(self, x):
            x = self.into(x)
            h, kept = x, []
            for layer in self.down:
                h = layer(h)
                kept.append(h)
                h = F.max_pool2d(h, 2, 2, ceil_mode=True)
            h = self.middle(h)
            for layer in self.up:
                other = kept.pop()
                h = layer(torch.cat([F.interpolate(h, size=other.shape[2:], mode='bilinear', align_corners=False), other], 1))
            return x + h

    layers = [Block(3, 16, 40), nn.MaxPool2d(2), Block(40, 20, 72), nn.Conv2d(72, 1, 3, 1, 1), nn.Sigmoid()]
    return stack(*layers), (torch.randn(1, 3, 150, 150),)


def pixel_cnn():
    """Gated PixelCNN: masked convolutions above and beside (van den Oord et al. 2016)."""

    class Gated(nn.Module):
        def __init__(self, d):
            super().__init__()
            self.above, self.beside = nn.Conv2d(d, 2 * d, (2, 3)), nn.Conv2d(d, 2 * d, (1, 2))
            self.down, self.out = nn.Conv2d(2 * d, 2 * d, 1), nn.Conv2d(d, d, 1)

        def forward(self, both):
            above, beside = both
            v = self.above(F.pad(above, (1, 1, 1, 0)))
            h = self.beside(F.pad(beside, (1, 0))) + self.down(F.pad(v, (0, 0, 1, 0))[:, :, :-1])
            def gate(x):
                a, b = x.chunk(2, 1)
                return torch.tanh(a) * torch.sigmoid(b)
            return gate(v), beside + self.out(gate(h))

    class Network(nn.Module):
        def __init__(self, d=50):
            super().__init__()
            self.first = nn.Conv2d(1, d, 7, padding=3)
            self.layers = nn.ModuleList(Gated(d) for _ in range(5))
            self.last = stack(nn.ReLU(), nn.Conv2d(d, 256, 1))

        def forward(self, x):
            both = (self.first(x), self.first(x))
            for layer in self.layers:
                both = layer(both)
            return self.last(both[1])

    return Network(), (torch.randn(1, 1, 28, 28),)


NETWORKS = {network.__name__: network for network in (
    van, focal, hornet, xcit, restormer, nafnet, involution, mobilevit, cost_volume, raft, dit, u2net, pixel_cnn)}
