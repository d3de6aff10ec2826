# SPDX-License-Identifier: Apache-2.0
"""A PyTorch block through gaf in three ways: graph and back, torch.compile, and a training step."""

from __future__ import annotations

import torch
from torch import nn

import gaf


class Gate(nn.Module):
    """x * sigmoid(x * g), the operator nobody else knows."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.g = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.sigmoid(x * self.g)


class Block(nn.Module):
    """LayerNorm, gate, Linear."""

    def __init__(self, width: int = 768) -> None:
        super().__init__()
        self.norm, self.gate, self.proj = nn.LayerNorm(width), Gate(width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.proj(self.gate(self.norm(x)))


def main() -> None:
    """Print what each way gives."""
    torch.manual_seed(0)
    block, x = Block().eval(), torch.randn(4, 32, 768)
    batch = torch.export.Dim("batch", max=256)

    graph = gaf.torch_to_graph(block, x, dynamic_shapes={"x": {0: batch}})
    fused = gaf.fuse(graph)
    print(f"{graph.num_ops} ops become {fused.num_ops} kernels: {', '.join(k.name for k in fused.kernels)}")

    module = gaf.graph_to_torch(fused)  # the same parameters, generated kernels
    with torch.no_grad():
        for size in (4, 7):
            y = torch.randn(size, 32, 768)
            print(f"batch {size}: largest difference {(module(y) - block(y)).abs().max():.1e}")

    module(x).square().mean().backward()  # kernels forward, PyTorch backward
    print(f"gradient of the gate: {block.gate.g.grad.norm():.4f}")

    compiled = torch.compile(block, backend="gaf")  # forward and backward graphs become kernels
    block.zero_grad()
    compiled(x).square().mean().backward()
    print(f"the same, compiled:   {block.gate.g.grad.norm():.4f}")


if __name__ == "__main__":
    main()
