# SPDX-License-Identifier: Apache-2.0
"""Collectives: ops whose result depends on what other ranks hold. They are launches of their own (HCCL),
never kernels.

A run belongs to one rank of a group. What the others hold comes from `Ranks`: by default every rank holds
what this one holds (`Alike`), so that a model of one rank runs and verifies alone; `acting_as` sets another,
e.g. ranks that are simulated side by side. Collectives of a PyTorch process group that is initialised use
that group.
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from xdsl.ir import Operation
from xdsl.irdl import operand_def, result_def, traits_def
from xdsl.traits import EffectInstance, MemoryEffect

from gaf.dialects.common.index import const, exact_div
from gaf.dialects.graph.contract import (
    AtenContext,
    ExportContext,
    GraphOp,
    ImportContext,
    graph_op,
    int_prop,
    str_prop,
)
from gaf.dialects.graph.meaning import Opaque
from gaf.dialects.graph.ops.common import computing, finish, format_dims, norm_axis
from gaf.dialects.graph.ops.torch_call import to_numpy, to_torch
from gaf.dialects.graph.types import TensorType
from gaf.errors import InvalidInputError

FOLDS = {"sum": np.add, "mean": np.add, "max": np.maximum, "min": np.minimum, "prod": np.multiply}
"""How ranks' values are joined; HCCL has all but the mean, which is a sum and a scale."""

TORCH_FOLDS = {"sum": "sum", "avg": "mean", "product": "prod", "max": "max", "min": "min"}
"""PyTorch's names of reductions."""


# -- the other ranks ------------------------------------------------------------------------------------


class Ranks(Protocol):
    """The group that a run belongs to; `rank` is the number of this one."""

    rank: int

    def gather(self, x: np.ndarray, ranks: int) -> Sequence[np.ndarray]:
        """What all ranks hold, in their order, given what this one does. `ranks`: the size of the group, 0 if
        the model doesn't say.
        """
        ...


@dataclass(frozen=True)
class Alike:
    """Every rank holds what this one holds; a group of unknown size has one rank."""

    rank: int = 0

    def gather(self, x: np.ndarray, ranks: int) -> Sequence[np.ndarray]:
        return [x] * max(1, ranks)


@dataclass(frozen=True)
class TorchGroup:
    """A process group of `torch.distributed` that is initialised in this process."""

    group: Any
    rank: int

    def gather(self, x: np.ndarray, ranks: int) -> Sequence[np.ndarray]:
        import torch
        import torch.distributed as dist

        tensor = to_torch(np.ascontiguousarray(x))
        parts = [torch.empty_like(tensor) for _ in range(dist.get_world_size(self.group))]
        dist.all_gather(parts, tensor, group=self.group)
        return [to_numpy(p) for p in parts]


_acting: ContextVar[Ranks | None] = ContextVar("gaf_ranks", default=None)


@contextmanager
def acting_as(ranks: Ranks) -> Iterator[None]:
    """Inside the block (of this thread), collectives exchange their data with `ranks`."""
    token = _acting.set(ranks)
    try:
        yield
    finally:
        _acting.reset(token)


def ranks_of(group: str) -> Ranks:
    """Who a collective of `group` exchanges data with: see the module docstring."""
    acting = _acting.get()
    if acting is not None:
        return acting
    found = torch_group(group) if group else None
    return found if found is not None else Alike()


def torch_group(group: str) -> TorchGroup | None:
    """The process group that PyTorch knows under this name in this process, or None."""
    if "torch" not in sys.modules:
        return None
    import torch.distributed as dist

    if not dist.is_available() or not dist.is_initialized():
        return None
    try:
        found = dist.distributed_c10d._resolve_process_group(group)
    except (LookupError, RuntimeError, ValueError):  # a name of another process, or of a saved program
        return None
    return TorchGroup(found, dist.get_rank(found))


# -- the ops --------------------------------------------------------------------------------------------


class CollectiveEffects(MemoryEffect):
    """Unknown effects: all ranks have to meet, so collectives are neither merged, dropped nor swapped."""

    @classmethod
    def get_effects(cls, op: Operation) -> set[EffectInstance] | None:
        return None


class CollectiveOp(GraphOp):
    """Base: one tensor of each of `ranks` ranks (0: the model doesn't say how many) in, one out.

    `group` names the process group in the framework that the model comes from; "" is the default one.
    """

    x = operand_def(TensorType)
    ranks = int_prop()
    group = str_prop()
    result = result_def(TensorType)
    traits = traits_def(CollectiveEffects())

    MOVES: ClassVar[int]
    """Times that (ranks - 1) / ranks of the larger tensor goes through a rank's links."""

    @classmethod
    def check(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> None:
        """Raises InvalidInputError for a group without ranks or an unknown reduction."""
        if attrs["ranks"] < 0:
            raise InvalidInputError(
                f"{cls.name}: a group of {attrs['ranks']} ranks", expected="1 or more, or 0 (unknown)"
            )
        reduce = attrs.get("reduce", "sum")
        if reduce not in FOLDS:
            raise InvalidInputError(f"{cls.name}: unknown reduction", expected=", ".join(FOLDS), got=reduce)

    @property
    @abstractmethod
    def axis_moved(self) -> int | None:
        """The axis that ranks share out among each other, or None: the maps of all axes are the identity."""

    def reference(self, *args: np.ndarray, wide: bool = False) -> Sequence[np.ndarray]:
        attrs, (x,) = self.attrs(), args
        ranks = ranks_of(attrs["group"])
        parts = list(ranks.gather(np.asarray(x), attrs["ranks"]))
        if attrs["ranks"] and len(parts) != attrs["ranks"]:
            raise InvalidInputError(
                "the group that runs has another size than the model says", where=self.location_name(),
                expected=f"{attrs['ranks']} ranks", got=len(parts),
            )  # fmt: skip
        return [finish(self.join(parts, ranks.rank), self.result_tensor_types()[0].dtype, wide)]

    @abstractmethod
    def join(self, parts: Sequence[np.ndarray], rank: int) -> np.ndarray:
        """The result of `rank`, given what all ranks hold."""

    def fold(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """The ranks' values reduced in the order of the ranks; 16-bit floats in float32."""
        reduce = self.attrs()["reduce"]
        total = computing(parts[0]).copy()
        with np.errstate(all="ignore"):
            for part in parts[1:]:
                total = FOLDS[reduce](total, computing(part))
            return total / len(parts) if reduce == "mean" else total

    def meaning(self) -> Opaque:
        return Opaque(
            f"{type(self).__name__.removesuffix('Op')} is a launch of HCCL's: it moves data between ranks"
        )

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        """One op for each operand: several tensors in one node are independent."""
        attrs = cls.onnx_attributes(ctx)
        made = [ctx.emit(cls, [o], **attrs) for o in ctx.operands if o is not None]
        return made[0] if len(made) == 1 else made

    @classmethod
    def onnx_attributes(cls, ctx: ImportContext) -> dict[str, Any]:
        """Properties of a node; `group_size` and `reduction` may be written on any of them."""
        attrs: dict[str, Any] = {"ranks": int(ctx.attr("group_size", 0)), "group": ""}
        if "reduce" in cls.gaf_defaults():
            attrs["reduce"] = str(ctx.attr("reduction", "sum"))
        return attrs

    @classmethod
    def torch_attributes(cls, ctx: AtenContext) -> dict[str, Any]:
        """`reduce`, `ranks` and `group` of a functional collective."""
        group = str(ctx.attr("group_name", "") or "")
        known = torch_group(group)
        attrs: dict[str, Any] = {"group": group, "ranks": int(ctx.attr("group_size", 0))}
        if not attrs["ranks"] and known is not None:
            import torch.distributed as dist

            attrs["ranks"] = dist.get_world_size(known.group)
        if ctx.has("reduce_op"):
            reduce = str(ctx.attr("reduce_op"))
            if reduce not in TORCH_FOLDS:
                raise ctx.unsupported(f"a reduction '{reduce}' over ranks", expected=", ".join(TORCH_FOLDS))
            attrs["reduce"] = TORCH_FOLDS[reduce]
        return attrs


@graph_op
class AllReduceOp(CollectiveOp):
    """The `reduce` (sum, mean, max, min, prod) of all ranks' tensors, on every rank."""

    name = "graph.all_reduce"
    ONNX = ("com.microsoft.AllReduce", "com.microsoft.NcclAllReduce", "gaf.AllReduce")
    ATEN = (
        "_c10d_functional.all_reduce.default",
        "_c10d_functional.all_reduce_coalesced.default",
    )
    GAF = ("all_reduce",)
    GAF_DEFAULTS = {"reduce": "sum", "ranks": 0, "group": ""}
    reduce = str_prop()

    MOVES = 2

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        cls.check(operands, attrs)
        return [operands[0]]

    @property
    def axis_moved(self) -> int | None:
        return None

    def join(self, parts: Sequence[np.ndarray], rank: int) -> np.ndarray:
        return self.fold(parts)

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        attrs = cls.torch_attributes(ctx)
        made = [ctx.emit(cls, [o], **attrs) for o in ctx.operands if o is not None]
        return made if "coalesced" in ctx.op_type else made[0]

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        """ONNX Runtime's operator for a sum; it has no attributes, so what else is known needs gaf's own."""
        attrs = self.attrs()
        if attrs["reduce"] == "sum" and not attrs["ranks"]:
            return ctx.node("AllReduce", inputs, domain="com.microsoft")
        return ctx.node(
            "AllReduce", inputs, domain="gaf", reduction=attrs["reduce"], group_size=attrs["ranks"]
        )


class SharedAxisOp(CollectiveOp):
    """Base: along `axis`, the tensor of a rank is one of `ranks` equal parts of the whole, in the ranks'
    order.
    """

    axis = int_prop()

    @property
    def axis_moved(self) -> int | None:
        return norm_axis(self.attrs()["axis"], self.operand_tensor_types()[0].rank, self.name)

    @classmethod
    def check(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> None:
        super().check(operands, attrs)
        if not attrs["ranks"]:
            raise InvalidInputError(
                f"{cls.name}: the shape of the result needs the number of ranks", expected="1 or more"
            )
        norm_axis(attrs["axis"], operands[0].rank, cls.name)


@graph_op
class AllGatherOp(SharedAxisOp):
    """All ranks' tensors joined along `axis`, on every rank."""

    name = "graph.all_gather"
    ONNX = ("com.microsoft.AllGather", "gaf.AllGather")
    ATEN = ("_c10d_functional.all_gather_into_tensor.default",)
    GAF = ("all_gather",)
    GAF_DEFAULTS = {"axis": 0, "group": ""}

    MOVES = 1

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        cls.check(operands, attrs)
        (x,) = operands
        axis, shape = norm_axis(attrs["axis"], x.rank, cls.name), list(x.shape)
        shape[axis] = shape[axis] * const(attrs["ranks"])
        return [TensorType.of(shape, x.dtype)]

    def join(self, parts: Sequence[np.ndarray], rank: int) -> np.ndarray:
        return np.concatenate(parts, axis=self.attrs()["axis"])

    @classmethod
    def onnx_attributes(cls, ctx: ImportContext) -> dict[str, Any]:
        ranks = int(ctx.attr("group_size", 1))
        return {
            "ranks": ranks,
            "group": "",
            "axis": int(ctx.attr("axis", 1)),
        }  # the schema's default is axis 1

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        return ctx.emit(cls, [ctx.operands[0]], axis=0, **cls.torch_attributes(ctx))

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        attrs = self.attrs()
        return ctx.node(
            "AllGather", inputs, domain="com.microsoft", axis=attrs["axis"], group_size=attrs["ranks"]
        )


@graph_op
class ReduceScatterOp(SharedAxisOp):
    """The `reduce` of all ranks' tensors, of which a rank gets its part along `axis`."""

    name = "graph.reduce_scatter"
    ONNX = ("gaf.ReduceScatter",)
    ATEN = ("_c10d_functional.reduce_scatter_tensor.default",)
    GAF = ("reduce_scatter",)
    GAF_DEFAULTS = {"reduce": "sum", "axis": 0, "group": ""}
    reduce = str_prop()

    MOVES = 1

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        cls.check(operands, attrs)
        (x,) = operands
        axis, shape = norm_axis(attrs["axis"], x.rank, cls.name), list(x.shape)
        share = exact_div(shape[axis], const(attrs["ranks"]))
        if share is None:
            raise InvalidInputError(
                f"{cls.name}: axis {axis} can't be shared out evenly",
                expected=f"a multiple of {attrs['ranks']} ranks", got=format_dims(x.shape),
            )  # fmt: skip
        shape[axis] = share
        return [TensorType.of(shape, x.dtype)]

    def join(self, parts: Sequence[np.ndarray], rank: int) -> np.ndarray:
        return np.split(self.fold(parts), len(parts), axis=self.attrs()["axis"])[rank]

    @classmethod
    def onnx_attributes(cls, ctx: ImportContext) -> dict[str, Any]:
        return {**super().onnx_attributes(ctx), "axis": int(ctx.attr("axis", 0))}

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        return ctx.emit(cls, [ctx.operands[0]], axis=0, **cls.torch_attributes(ctx))

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        attrs = self.attrs()
        return ctx.node(
            "ReduceScatter", inputs, domain="gaf",
            axis=attrs["axis"], reduction=attrs["reduce"], group_size=attrs["ranks"],
        )  # fmt: skip


__all__ = [
    "AllGatherOp",
    "AllReduceOp",
    "Alike",
    "CollectiveOp",
    "Ranks",
    "ReduceScatterOp",
    "TorchGroup",
    "acting_as",
    "ranks_of",
    "torch_group",
]
