# SPDX-License-Identifier: Apache-2.0
"""Models as people write them, through every way in; results and buffers as in PyTorch's float64."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

import gaf

torch = pytest.importorskip("torch")
from torch import nn

from tests.torch.models import assert_close
from tests.torch.user_models import MODELS

FAST = {("decoder", "module"), ("running", "module"), ("recommender", "trace")}
WAYS: dict[str, Callable[[nn.Module, tuple[Any, ...]], Any]] = {}


def way(function: Callable[[nn.Module, tuple[Any, ...]], Any]) -> Callable[[nn.Module, tuple[Any, ...]], Any]:
    WAYS[function.__name__] = function
    return function


@way
def module(made: nn.Module, args: tuple[Any, ...]) -> nn.Module:
    return fused(gaf.torch_to_graph(made, args))


@way
def trace(made: nn.Module, args: tuple[Any, ...]) -> nn.Module:
    return fused(gaf.torch_to_graph(torch.jit.trace(made, args, check_trace=False)))


@way
def dynamic(made: nn.Module, args: tuple[Any, ...]) -> nn.Module:
    model = gaf.torch_to_graph(made, args, dynamic_shapes=tuple({0: torch.export.Dim.AUTO} for _ in args))
    assert all(t.symbols() for t in model.input_types[: len(args)])
    return fused(model)


@way
def compiled(made: nn.Module, args: tuple[Any, ...]) -> Any:
    torch._dynamo.reset()
    return torch.compile(made, backend="gaf")


def fused(model: gaf.Model) -> nn.Module:
    return gaf.graph_to_torch(gaf.fuse(model))


def wide(value: Any) -> Any:
    return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value.clone()


CASES = [
    pytest.param(name, how, marks=() if (name, how) in FAST else pytest.mark.slow)
    for name in MODELS
    for how in WAYS
    if (name, how) not in (("decoder", "dynamic"),)  # its first dimension is one sequence, no batch
]


@pytest.mark.parametrize(("name", "how"), CASES)
def test_results_and_buffers(name: str, how: str) -> None:
    torch.manual_seed(0)
    made, args = MODELS[name]()
    made.eval()
    exact = copy.deepcopy(made).double()
    copies = lambda: tuple(a.clone() for a in args)
    with torch.no_grad():
        # a trace runs the module itself, which may change its buffers
        subject = WAYS[how](copy.deepcopy(made) if how != "trace" else made, copies())
        if how == "trace":
            for buffer, start in zip(made.buffers(), exact.buffers()):
                buffer.copy_(start)
        for rows in (None, None, -1) if how == "dynamic" else (None, None):
            given = tuple(a[:rows] for a in args)
            expected = exact(*map(wide, given))
            assert_close(subject(*(a.clone() for a in given)), expected, 2e-5)
    if isinstance(subject, nn.Module) and hasattr(subject, "fallbacks_taken"):
        assert not subject.fallbacks_taken
        for buffer, wanted in zip(subject.buffers(), exact.buffers(), strict=True):
            assert_close(buffer, wanted)
