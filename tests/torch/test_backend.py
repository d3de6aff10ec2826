# SPDX-License-Identifier: Apache-2.0
"""`torch.compile(backend="gaf")`: found by name; forward and backward in kernels; breaks and fallbacks."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import gaf

torch = pytest.importorskip("torch")
from torch import nn

from tests.torch.models import GatedBlock, assert_close, in_float64

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def fresh_dynamo() -> Any:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The graphs that the backend compiles."""
    from gaf.torch import backend

    graphs: list[Any] = []
    build = backend.CompiledGraph._build

    def record(self: Any, *args: Any) -> None:
        graphs.append(self)
        build(self, *args)

    monkeypatch.setattr(backend.CompiledGraph, "_build", record)
    return graphs


def test_inference(compiled: list[Any]) -> None:
    block, x = GatedBlock().eval(), torch.randn(5, 24)
    with torch.no_grad():
        assert_close(torch.compile(block, backend="gaf")(x), in_float64(block, x))
    assert [g.kind for g in compiled] == ["inference"] and compiled[0].runner is not None
    assert compiled[0].reason is None


def test_training_step_through_forward_and_backward_kernels(compiled: list[Any]) -> None:
    torch.manual_seed(0)
    block, x = GatedBlock(), torch.randn(5, 24)
    optimised = gaf.optimize(block)
    leaf, other = (x.clone().requires_grad_() for _ in range(2))
    optimised(leaf).pow(2).sum().backward()
    got = [leaf.grad, *(p.grad.clone() for p in block.parameters())]
    block.zero_grad()
    block(other).pow(2).sum().backward()
    for a, b in zip(got, [other.grad, *(p.grad for p in block.parameters())]):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    assert [g.kind for g in compiled] == ["forward", "backward"]
    assert all(g.runner is not None and g.reason is None for g in compiled)


@pytest.mark.slow
def test_dynamic_sizes_share_one_graph(compiled: list[Any]) -> None:
    block = GatedBlock().eval()
    call = torch.compile(block, backend="gaf", dynamic=True)
    with torch.no_grad():
        for rows in (3, 7, 11):
            x = torch.randn(rows, 24)
            assert_close(call(x), in_float64(block, x))
    assert len(compiled) == 1 and compiled[0].runner is not None


@pytest.mark.slow
def test_graph_breaks_and_python_around_kernels() -> None:
    def step(x: torch.Tensor) -> tuple[torch.Tensor, str]:
        y = torch.relu(x) * 2
        kind = "big" if y.sum().item() > 0 else "small"  # dynamo splits here
        return (y + 1 if kind == "big" else y - 1), kind

    call = torch.compile(step, backend="gaf")
    for x in (torch.ones(3, 4), -torch.ones(3, 4)):
        got, expected = call(x), step(x)
        assert got[1] == expected[1]
        torch.testing.assert_close(got[0], expected[0])


def test_mutation_and_views(compiled: list[Any]) -> None:
    def step(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        x.mul_(2).add_(y.sum(1, keepdim=True))
        z = (x + 1).t()
        return x[1:], z, z[0]

    x, y = torch.randn(4, 5), torch.randn(4, 5)
    x2 = x.clone()
    got = torch.compile(step, backend="gaf")(x, y)
    expected = step(x2, y)
    torch.testing.assert_close(got, expected)
    torch.testing.assert_close(x, x2)
    got[1].zero_()
    assert (got[2] == 0).all()  # a view of the other result
    x.fill_(3.0)
    assert (got[0] == 3).all()  # a view of the input
    assert compiled and compiled[0].runner is not None


def test_what_gaf_cannot_do_stays_in_pytorch(caplog: pytest.LogCaptureFixture) -> None:
    def spectrum(x: torch.Tensor) -> torch.Tensor:
        return torch.fft.rfft(x * 2).abs() + 1

    x = torch.randn(3, 8)
    with caplog.at_level(logging.WARNING, "gaf.torch"):
        torch.testing.assert_close(torch.compile(spectrum, backend="gaf")(x), spectrum(x))
    messages = [r.message for r in caplog.records if r.name == "gaf.torch"]
    assert len(messages) == 1 and "aten._fft_r2c" in messages[0] and "runs in PyTorch" in messages[0]


@pytest.mark.slow
def test_training_with_dropout() -> None:
    net = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Dropout(0.5))
    call = torch.compile(net, backend="gaf")
    x = torch.randn(64, 16)
    y = call(x)
    dropped = (y == 0) & (net[:2](x) > 0)
    assert 0.3 < dropped.float().sum() / (net[:2](x) > 0).sum() < 0.7
    y.sum().backward()  # the mask of the forward pass
    kept = (y > 0).float() * 2
    torch.testing.assert_close(net[0].bias.grad, kept.sum(0), rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_options_are_checked_and_reach_fuse(compiled: list[Any]) -> None:
    x = torch.randn(3, 4)
    config = gaf.FusionConfig(enable_autofuse=False)
    gaf.optimize(lambda x: torch.relu(x) * 2 + 1, config=config)(x)
    assert len(compiled[0].runner.fused.fused_ops) == 3
    with pytest.raises(Exception, match="no option 'speed'"):
        torch.compile(torch.relu, backend="gaf", options={"speed": 11})(x)


@pytest.mark.slow
@pytest.mark.parametrize(
    "order", ["import gaf\nimport torch", "import torch\nimport gaf", "import torch._dynamo\nimport gaf"]
)
def test_backend_is_known_whatever_is_imported_first(order: str) -> None:
    program = f"{order}\nimport torch._dynamo.backends.registry as r\nprint(r.lookup_backend('gaf').__name__)"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "gaf_backend"
