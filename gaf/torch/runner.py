# SPDX-License-Identifier: Apache-2.0
"""Runs a fused model on CPU tensors; memory is shared with numpy in both directions where possible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from gaf.dialects.common.index import Expr
from gaf.dialects.graph.ops.structure import FusedOp
from gaf.dialects.graph.ops.torch_call import to_numpy, to_torch

if TYPE_CHECKING:
    from gaf.compiler import FusedModel


def is_plain(tensor: Any) -> bool:
    """True for a dense CPU tensor with data: no subclass, no wrapper of functorch, no fake tensor."""
    return (
        type(tensor) in (torch.Tensor, torch.nn.Parameter)
        and tensor.layout is torch.strided
        and tensor.device.type == "cpu"
        and not torch._C._functorch.is_functorch_wrapped_tensor(tensor)
    )


class Runner:
    """Calls a fused model with tensors by name and returns its outputs as tensors, in order."""

    def __init__(self, fused: FusedModel, engine: str = "auto") -> None:
        self.fused = fused
        self.executor = fused.executor(engine)
        model = fused.model
        self.names, self.types = model.input_names, model.input_types
        returned = model.returned
        # what a kernel wrote belongs to nobody else; other results may be inputs, weights or views of them
        self.fresh = [isinstance(v.owner, FusedOp) and returned.index(v) == i for i, v in enumerate(returned)]

    def run(self, tensors: Mapping[str, torch.Tensor]) -> tuple[list[torch.Tensor], dict[str, np.ndarray]]:
        """(outputs, the inputs as arrays). Raises GafError for inputs that the model doesn't take."""
        arrays = {name: to_numpy(tensors[name]) for name in self.names}
        results = self.executor.run(arrays)
        outputs = [
            to_torch(array if fresh else np.array(array, order="C", copy=True))
            for array, fresh in zip(results.values(), self.fresh)
        ]
        return outputs, arrays

    def sizes(self, arrays: Mapping[str, np.ndarray]) -> Mapping[str, int]:
        """The values of the model's symbols for these inputs."""
        return self.executor.symbols([arrays[n] for n in self.names])


def restrided(tensor: torch.Tensor, strides: Sequence[Expr] | None, env: Mapping[str, int]) -> torch.Tensor:
    """The tensor with the strides of PyTorch's own result; itself if these are in row-major order."""
    if strides is None:
        return tensor
    result = torch.empty_strided(tensor.shape, [s.evaluate(env) for s in strides], dtype=tensor.dtype)
    return result.copy_(tensor)
