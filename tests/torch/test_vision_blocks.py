# SPDX-License-Identifier: Apache-2.0
"""Blocks of vision models: every convolution, pool and resize in a kernel, epilogues in the same one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn
from torch.nn import functional as F

import gaf
from gaf.compiler import FusedModel
from gaf.runtime.compiler import find_compiler

SLOW = pytest.mark.slow
CHECK = pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler on this machine")


class Residual(nn.Module):
    """The start of a ResNet: stem, pool, a block that halves the image, classifier."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width))
        self.first = nn.Sequential(nn.Conv2d(width, width, 3, 2, 1, bias=False), nn.BatchNorm2d(width))
        self.second = nn.Sequential(nn.Conv2d(width, 2 * width, 1, bias=False), nn.BatchNorm2d(2 * width))
        self.shortcut = nn.Sequential(nn.Conv2d(width, 2 * width, 1, 2, bias=False), nn.BatchNorm2d(2 * width))
        self.head = nn.Linear(2 * width, 10)

    def forward(self, x: Any) -> Any:
        x = F.max_pool2d(torch.relu(self.stem(x)), 3, 2, 1)
        x = torch.relu(self.second(torch.relu(self.first(x))) + self.shortcut(x))
        return self.head(x.mean((2, 3)))


class Inverted(nn.Module):
    """The block of a MobileNet: widen, depthwise convolution, narrow, residual."""

    def __init__(self, width: int = 8, inner: int = 24) -> None:
        super().__init__()
        self.widen = nn.Sequential(nn.Conv2d(width, inner, 1, bias=False), nn.BatchNorm2d(inner))
        self.depthwise = nn.Sequential(nn.Conv2d(inner, inner, 3, 1, 1, groups=inner, bias=False), nn.BatchNorm2d(inner))
        self.narrow = nn.Sequential(nn.Conv2d(inner, width, 1, bias=False), nn.BatchNorm2d(width))

    def forward(self, x: Any) -> Any:
        return x + self.narrow(F.relu6(self.depthwise(F.relu6(self.widen(x)))))


class Patches(nn.Module):
    """The embedding of a vision transformer."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.project, self.norm = nn.Conv2d(3, width, 8, 8), nn.LayerNorm(width)

    def forward(self, x: Any) -> Any:
        return self.norm(self.project(x).flatten(2).transpose(1, 2))


class UNet(nn.Module):
    """Down, up again by interpolation or a transposed convolution, and the skip connection."""

    def __init__(self, mode: str, width: int = 8) -> None:
        super().__init__()
        self.mode = mode
        self.down, self.low = nn.Conv2d(3, width, 3, 1, 1), nn.Conv2d(width, 2 * width, 3, 1, 1)
        self.up = nn.ConvTranspose2d(2 * width, 2 * width, 2, 2)
        self.out = nn.Conv2d(3 * width, 4, 3, 1, 1)

    def forward(self, x: Any) -> Any:
        x = F.silu(self.down(x))
        y = F.silu(self.low(F.avg_pool2d(x, 2)))
        y = self.up(y) if self.mode == "learned" else F.interpolate(y, scale_factor=2.0, mode=self.mode)
        return self.out(torch.cat([x, y], 1))


def judged(module: Any, shape: tuple[int, ...], engine: str) -> FusedModel:
    """Fuse a module in inference mode, demand that the host has no op, and compare all kernels with float64."""
    torch.manual_seed(0)
    model = gaf.load_model(module.eval(), example_inputs=(torch.randn(shape),))
    fused = gaf.fuse(model)
    assert not fused.fallbacks, [str(f) for f in fused.fallbacks]
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    result = fused.verify({model.input_names[0]: x}, engine=engine)
    wrong = [c for c in [*result.launches, *result.outputs] if not c.ok]
    assert not wrong, "\n".join(f"{c.kernel or c.name}: {c.error:.2e} {c.note}" for c in wrong)
    assert not result.violations, result.violations[0]
    return fused


BLOCKS = {
    "residual": (Residual, (2, 3, 32, 32), 5),
    "inverted": (Inverted, (2, 8, 14, 14), 3),
    "patches": (Patches, (2, 3, 32, 32), 2),
    "u-net, nearest": (lambda: UNet("nearest"), (2, 3, 16, 16), 4),
    "u-net, bilinear": (lambda: UNet("bilinear"), (2, 3, 16, 16), 4),
    "u-net, learned": (lambda: UNet("learned"), (2, 3, 16, 16), 4),
}


@pytest.mark.parametrize("name", [pytest.param(n, marks=SLOW) if n in ("residual", "u-net, learned") else n for n in BLOCKS])
def test_blocks(name: str) -> None:
    module, shape, most = BLOCKS[name]
    fused = judged(module(), shape, "interpreter")
    launched = {k.name.removesuffix("_streamed") for k in fused.kernels}  # a variant for other sizes is no launch
    assert len(launched) <= most


@SLOW
@CHECK
@pytest.mark.parametrize("name", BLOCKS)
def test_compiled_blocks(name: str) -> None:
    module, shape, _ = BLOCKS[name]
    judged(module(), shape, "check")
