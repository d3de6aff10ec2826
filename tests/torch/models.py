# SPDX-License-Identifier: Apache-2.0
"""Small PyTorch modules and custom ops that several tests use."""

from __future__ import annotations

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn
from torch.utils import _pytree as pytree


class Gate(nn.Module):
    """x * sigmoid(x * g)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.g = nn.Parameter(torch.randn(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.sigmoid(x * self.g)


class GatedBlock(nn.Module):
    """LayerNorm, gate, Linear."""

    def __init__(self, width: int = 24, out: int = 8) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.gate = Gate(width)
        self.proj = nn.Linear(width, out)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.proj(self.gate(self.norm(x)))


class Quantise(torch.autograd.Function):
    """Rounds to multiples of 1/15; the gradient passes straight through."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return torch.round(x * 15) / 15

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad


class Quantised(nn.Module):
    """A user's autograd.Function and a user's op in one chain."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(torch.ops.gaftest.gate(Quantise.apply(x) + 1, 1.5))


class WritesCache(nn.Module):
    """Sums of a cache before and after an op that writes to it."""

    def forward(self, cache: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        before = cache.sum(0)
        torch.ops.gaftest.cache_write(cache, torch.tanh(v) + 1, 2)
        return cache.sum(0) - before, before * 2


@torch.library.custom_op("gaftest::gate", mutates_args=())
def gate(x: torch.Tensor, alpha: float) -> torch.Tensor:
    return x * torch.sigmoid(alpha * x)


@gate.register_fake
def _(x: torch.Tensor, alpha: float) -> torch.Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("gaftest::cache_write", mutates_args={"cache"})
def cache_write(cache: torch.Tensor, v: torch.Tensor, position: int) -> None:
    cache[position] = v


@cache_write.register_fake
def _(cache: torch.Tensor, v: torch.Tensor, position: int) -> None:
    return None


@torch.library.custom_op("gaftest::push", mutates_args={"cache"})
def push(cache: torch.Tensor, v: torch.Tensor, position: int) -> torch.Tensor:
    cache[position] = v
    return cache.sum(0)


@push.register_fake
def _(cache: torch.Tensor, v: torch.Tensor, position: int) -> torch.Tensor:
    return torch.empty_like(v)


def in_float64(module: nn.Module, *args: Any) -> Any:
    """What the module computes in float64: the oracle."""

    def wide(tree: Any) -> Any:
        return pytree.tree_map_only(
            torch.Tensor, lambda t: t.detach().double() if t.is_floating_point() else t.clone(), tree
        )

    with torch.no_grad():
        return copy.deepcopy(module).double()(*wide(args))


def assert_close(got: Any, expected: Any, tolerance: float = 1e-5) -> None:
    """Compares trees of tensors: same structure and shapes, values within `tolerance` of the oracle."""
    got_flat, got_spec = pytree.tree_flatten(got)
    flat, spec = pytree.tree_flatten(expected)
    assert got_spec == spec
    for a, b in zip(got_flat, flat):
        if isinstance(b, torch.Tensor):
            torch.testing.assert_close(a.double(), b.double(), rtol=tolerance, atol=tolerance)
        else:
            assert a == b
