# SPDX-License-Identifier: Apache-2.0
"""Models as people write them: small ones of the common families, each with an input."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F
from torch import nn


class Residual(nn.Module):
    """Two convolutions with batch norms around a shortcut, in-place activations."""

    def __init__(self, channels: int, out: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out)
        self.conv2, self.bn2 = nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        y += self.shortcut(x)
        return self.relu(y)


class ResNet(nn.Module):
    """Stem, one residual block, pooled features."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)
        )  # fmt: skip
        self.block, self.pool, self.fc = Residual(8, 16, 2), nn.AdaptiveAvgPool2d((1, 1)), nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(torch.flatten(self.pool(self.block(self.stem(x))), 1))


class MobileNet(nn.Module):
    """Inverted residual with a depthwise convolution and squeeze-excitation."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.Hardswish())
        self.expand = nn.Sequential(nn.Conv2d(8, 16, 1), nn.BatchNorm2d(16), nn.ReLU6())
        self.depth = nn.Sequential(nn.Conv2d(16, 16, 3, 1, 1, groups=16), nn.BatchNorm2d(16), nn.ReLU6())
        self.squeeze, self.excite = nn.Conv2d(16, 4, 1), nn.Conv2d(4, 16, 1)
        self.project = nn.Conv2d(16, 8, 1)
        self.head = nn.Sequential(nn.Linear(8, 12), nn.Hardswish(), nn.Dropout(0.2), nn.Linear(12, 5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        y = self.depth(self.expand(x))
        y = y * F.hardsigmoid(self.excite(F.relu(self.squeeze(F.adaptive_avg_pool2d(y, 1)))))
        return self.head((x + self.project(y)).mean([2, 3]))


class UNet(nn.Module):
    """Down, up by transposed convolution and by interpolation, padded to the size of the skip connection."""

    def __init__(self) -> None:
        super().__init__()
        self.down1, self.down2, self.up1 = self.convolutions(3, 8), self.convolutions(8, 16), self.convolutions(16, 8)
        self.up, self.out = nn.ConvTranspose2d(16, 8, 2, 2), nn.Conv2d(8, 2, 1)

    @staticmethod
    def convolutions(channels: int, out: int) -> nn.Module:
        """Convolution, group norm, SiLU, convolution."""
        return nn.Sequential(
            nn.Conv2d(channels, out, 3, padding=1), nn.GroupNorm(2, out), nn.SiLU(), nn.Conv2d(out, out, 3, padding=1)
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        up = self.up(b)
        up = F.pad(up, [0, a.size(3) - up.size(3), 0, a.size(2) - up.size(2)])
        wide = F.interpolate(b, size=a.shape[2:], mode="bilinear", align_corners=False)[:, :8]
        return self.out(self.up1(torch.cat([a, up + wide], 1)))


class ViT(nn.Module):
    """Patches, class token, one pre-norm block with nn.MultiheadAttention."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.patch, self.head = nn.Conv2d(3, width, 4, 4), nn.Linear(width, 10)
        self.token, self.place = nn.Parameter(torch.zeros(1, 1, width)), nn.Parameter(torch.randn(1, 17, width))
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), tokens], 1) + self.place
        y = self.norm1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return self.head((x + self.mlp(self.norm2(x)))[:, 0])


class Tagger(nn.Module):
    """Embedding, LSTM in both directions, log-probabilities and the last state."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(30, 16, padding_idx=0)
        self.lstm = nn.LSTM(16, 12, bidirectional=True, batch_first=True)
        self.fc = nn.Linear(24, 5)

    def forward(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y, (h, _) = self.lstm(self.embed(ids))
        return F.log_softmax(self.fc(y), -1), h


class Decoder(nn.Module):
    """One layer of a language model: rotary positions, grouped queries, a cache that is written in place."""

    def __init__(self, width: int = 32, heads: int = 4, groups: int = 2, length: int = 16) -> None:
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.q, self.o = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.k, self.v = (nn.Linear(width, groups * self.size, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(width, 48, bias=False) for _ in range(2))
        self.down = nn.Linear(48, width, bias=False)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(1, groups, length, self.size))
        step = 10000.0 ** -(torch.arange(0, self.size, 2) / self.size)
        self.register_buffer("step", step, persistent=False)

    def rotated(self, x: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        """Rotary embedding by halves."""
        angle = (place[:, None] * self.step).repeat(1, 2)
        a, b = x.chunk(2, -1)
        return x * angle.cos() + torch.cat([-b, a], -1) * angle.sin()

    def forward(self, x: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        y = self.norm1(x)
        split = lambda t, n: t.view(batch, length, n, self.size).transpose(1, 2)
        q = self.rotated(split(self.q(y), self.heads), place)
        self.keys.index_copy_(2, place, self.rotated(split(self.k(y), self.groups), place))
        self.values.index_copy_(2, place, split(self.v(y), self.groups))
        k, v = (t.repeat_interleave(self.heads // self.groups, 1) for t in (self.keys, self.values))
        seen = torch.arange(k.size(2)) <= place[:, None]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen[None, None])
        x = x + self.o(y.transpose(1, 2).reshape(batch, length, width))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Experts(nn.Module):
    """A mixture of experts: the two best of four for each token."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.gate = nn.Linear(width, 4)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 24), nn.GELU(), nn.Linear(24, width)) for _ in range(4)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight, chosen = torch.topk(self.gate(x).softmax(-1), 2, -1)
        weight = weight / weight.sum(-1, keepdim=True)
        result = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            result += expert(x) * (weight * (chosen == i)).sum(-1, keepdim=True)
        return result


class Diffusion(nn.Module):
    """A block of a diffusion model: time embedding, scale and shift, attention over pixels."""

    def __init__(self, channels: int = 8) -> None:
        super().__init__()
        self.norm, self.conv = nn.GroupNorm(4, channels), nn.Conv2d(channels, channels, 3, padding=1)
        self.time = nn.Linear(16, 2 * channels)
        self.qkv, self.out = nn.Conv2d(channels, 3 * channels, 1), nn.Conv2d(channels, channels, 1)

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        angle = t[:, None] * torch.exp(-math.log(10000) * torch.arange(8) / 8).to(x.dtype)
        time = self.time(F.silu(torch.cat([angle.sin(), angle.cos()], -1)))
        scale, shift = time[:, :, None, None].chunk(2, 1)
        y = self.conv(F.silu(self.norm(x) * (1 + scale) + shift))
        b, c, h, w = y.shape
        q, k, v = self.qkv(y).reshape(b, 3, c, h * w).unbind(1)
        seen = torch.softmax(torch.einsum("bci,bcj->bij", q, k) * c**-0.5, -1)
        return x + self.out(torch.einsum("bij,bcj->bci", seen, v).reshape(b, c, h, w))


class Tied(nn.Module):
    """Input and output embedding are one parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(20, 16), nn.Linear(16, 20, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(F.gelu(self.embed(ids), approximate="tanh"))


class Running(nn.Module):
    """Buffers that every call changes: a count and a moving mean."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))
        self.register_buffer("mean", torch.zeros(6))
        self.fc = nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
        return self.fc(x - self.mean) * self.calls


class Recommender(nn.Module):
    """Bags of categories and a dense part meet in products of pairs."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(10, 8, mode="sum") for _ in range(3))
        self.bottom = nn.Sequential(nn.Linear(5, 8), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(14, 4), nn.ReLU(), nn.Linear(4, 1), nn.Sigmoid())

    def forward(self, dense: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        x = self.bottom(dense)
        rows = torch.stack([x, *(table(ids[:, i]) for i, table in enumerate(self.tables))], 1)
        pairs = torch.bmm(rows, rows.transpose(1, 2))
        i, j = torch.tril_indices(4, 4, -1)
        return self.top(torch.cat([x, pairs[:, i, j]], 1))


class Encoder(nn.Module):
    """nn.TransformerEncoder with a causal mask."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(x.size(1))
        return self.encoder(x, mask=mask, is_causal=True)


Made = tuple[nn.Module, tuple[Any, ...]]

MODELS: dict[str, Callable[[], Made]] = {
    "resnet": lambda: (ResNet(), (torch.randn(2, 3, 32, 32),)),
    "mobilenet": lambda: (MobileNet(), (torch.randn(2, 3, 16, 16),)),
    "unet": lambda: (UNet(), (torch.randn(2, 3, 10, 14),)),
    "vit": lambda: (ViT(), (torch.randn(2, 3, 16, 16),)),
    "tagger": lambda: (Tagger(), (torch.randint(0, 30, (2, 4)),)),
    "decoder": lambda: (Decoder(), (torch.randn(1, 3, 32), torch.tensor([2, 3, 4]))),
    "experts": lambda: (Experts(), (torch.randn(3, 5, 16),)),
    "diffusion": lambda: (Diffusion(), (torch.randn(2, 8, 6, 6), torch.tensor([3.0, 77.0]))),
    "tied": lambda: (Tied(), (torch.randint(0, 20, (2, 5)),)),
    "running": lambda: (Running(), (torch.randn(3, 6),)),
    "recommender": lambda: (Recommender(), (torch.randn(4, 5), torch.randint(0, 10, (4, 3, 2)))),
    "encoder": lambda: (Encoder(), (torch.randn(2, 5, 16),)),
}
"""How to make each model in evaluation mode, and the arguments of one call."""
