# SPDX-License-Identifier: Apache-2.0
"""Collectives of PyTorch programs: traced as graph ops, run on the process group that is there."""

from __future__ import annotations

import socket

import numpy as np
import pytest

import gaf
from gaf.dialects.graph.ops.collective import AllReduceOp
from gaf.runtime.ranks import run_ranks

torch = pytest.importorskip("torch")
dist, mp, nn = torch.distributed, pytest.importorskip("torch.multiprocessing"), torch.nn
pytestmark = pytest.mark.skipif(not dist.is_available(), reason="this PyTorch has no torch.distributed")


class RowParallel(nn.Module):
    """Half of a linear layer: the ranks' products are added up, then the bias and the residual."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 32, bias=False)
        self.norm = nn.LayerNorm(32)

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        from torch.distributed._functional_collectives import all_reduce

        return self.norm(all_reduce(self.linear(x), "sum", dist.group.WORLD) + residual)


def test_traced_all_reduce_is_a_graph_op(lone_group: None) -> None:
    torch.manual_seed(0)
    module, x, residual = RowParallel().eval(), torch.randn(4, 16), torch.randn(4, 32)
    graph = gaf.torch_to_graph(torch.export.export(module, (x, residual)))
    (op,) = (op for op in graph.block.ops if isinstance(op, AllReduceOp))
    assert op.attrs()["reduce"] == "sum" and op.attrs()["ranks"] == 1
    fused = gaf.fuse(graph)
    assert len(fused.fused_ops) == 2 and len(fused.host_ops) == 1
    found = fused.run(dict(zip(graph.input_names, (x.numpy(), residual.numpy()))), engine="interpreter")
    np.testing.assert_allclose(next(iter(found.values())), module(x, residual).detach(), rtol=1e-4, atol=1e-5)


def test_program_of_a_group_that_is_gone_runs_simulated(lone_group: None) -> None:
    """Without its process group, the ranks can be simulated: the sum is that of what they hold."""
    torch.manual_seed(0)
    module, x, residual = RowParallel().eval(), torch.randn(4, 16), torch.randn(4, 32)
    graph = gaf.torch_to_graph(torch.export.export(module, (x, residual)))
    for op in graph.block.ops:
        if isinstance(op, AllReduceOp):
            op.properties.update(AllReduceOp.make([op.x], {**op.attrs(), "ranks": 2}).properties)
    fused = gaf.fuse(graph)
    names = graph.input_names
    xs = [torch.randn(4, 16), torch.randn(4, 16)]
    results = run_ranks(
        lambda i: fused.run(i, engine="interpreter"),
        [dict(zip(names, (v.numpy(), residual.numpy()))) for v in xs],
    )
    expected = module.norm(module.linear(xs[0] + xs[1]) + residual).detach()
    for result in results:
        np.testing.assert_allclose(next(iter(result.values())), expected, rtol=1e-4, atol=1e-5)


def _rank(rank: int, port: int, wanted: torch.Tensor, x: torch.Tensor, residual: torch.Tensor) -> None:
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    torch.manual_seed(0)
    module = RowParallel().eval()
    compiled = torch.compile(module, backend="gaf")
    with torch.no_grad():
        torch.testing.assert_close(compiled(x[rank], residual), wanted, rtol=1e-4, atol=1e-5)
    dist.destroy_process_group()


@pytest.mark.slow
def test_compiled_module_on_two_processes() -> None:
    torch.manual_seed(0)
    module = RowParallel().eval()
    x, residual = torch.randn(2, 4, 16), torch.randn(4, 32)
    with torch.no_grad():
        wanted = module.norm(module.linear(x[0] + x[1]) + residual)
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    mp.spawn(_rank, (port, wanted, x, residual), nprocs=2)
