# SPDX-License-Identifier: Apache-2.0
"""What people call an op: the names in patterns, candidates and log lines."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from xdsl.ir import Operation, SSAValue

from gaf.dialects.graph.contract import GraphOp, location_name
from gaf.dialects.graph.ops.binary import DivOp, MulOp
from gaf.dialects.graph.ops.custom import CustomOp, GenericOp
from gaf.dialects.graph.ops.foreign import ForeignOp
from gaf.dialects.graph.ops.random import RunSaltOp
from gaf.dialects.graph.ops.structure import ConstantOp, WeightOp
from gaf.dialects.graph.registry import all_ops, onnx_names

MACROS = (
    "LayerNorm",
    "RMSNorm",
    "Softmax",
    "LogSoftmax",
    "Gelu",
    "QuickGelu",
    "Silu",
    "Mish",
    "HardSwish",
    "Softplus",
    "Linear",
    "Gate",
    "Scale",
)
"""Names that stand for a group of ops, found by what the ops compute."""

_ALIASES = {
    "swish": "silu",
    "fastgelu": "gelu",
    "layernormalization": "layernorm",
    "rmsnormalization": "rmsnorm",
    "simplifiedlayernormalization": "rmsnorm",
    "gemm": "linear",
    "multiply": "mul",
    "divide": "div",
    "subtract": "sub",
}


@lru_cache(maxsize=4096)
def plain(name: str) -> str:
    """A name without case, underscores and synonyms: `layer_norm` is `layernorm`."""
    text = re.sub(r"[^a-z0-9.]", "", name.lower())
    return _ALIASES.get(text, text)


@lru_cache(maxsize=1024)
def class_title(cls: type[Operation]) -> str:
    """`MatMul`, `LayerNorm`: from the ONNX name of an op class, else from its name in the IR."""
    names = getattr(cls, "ONNX", ())
    if not names:
        return "".join(p.capitalize() for p in cls.name.rpartition(".")[2].split("_"))
    return names[0].rpartition(".")[2].replace("Normalization", "Norm")


def op_type(op: Operation) -> str:
    """What people call this op; ops of other frameworks and custom ops go by their own name."""
    if isinstance(op, ForeignOp):
        return op.op_type.data
    if isinstance(op, CustomOp):
        return op.callee.data.rpartition(":")[2]
    if isinstance(op, GenericOp):
        return op.label.data
    return class_title(type(op))


def op_title(op: Operation) -> str:
    """`op_type`, with `Scale` for a multiplication or division by a constant scalar."""
    if isinstance(op, MulOp | DivOp) and is_scalar_constant(op.operands[1]):
        return "Scale"
    if isinstance(op, MulOp) and is_scalar_constant(op.operands[0]):
        return "Scale"
    return op_type(op)


def is_scalar_constant(value: SSAValue) -> bool:
    """A constant with one element."""
    owner = value.owner
    return isinstance(owner, ConstantOp) and owner.value.array.size == 1


def op_names(op: Operation) -> frozenset[str]:
    """All names (in `plain` form) that a pattern may use for this op."""
    found = set(_class_names(type(op))) | {plain(op_type(op)), plain(op_title(op))}
    if isinstance(op, ForeignOp):
        found.add(plain(op.qualified_name))
    return frozenset(found)


@lru_cache(maxsize=1024)
def _class_names(cls: type[Operation]) -> frozenset[str]:
    names = {cls.name.rpartition(".")[2], class_title(cls)}
    names |= {n.rpartition(".")[2] for n in getattr(cls, "ONNX", ())}
    names |= set(getattr(cls, "GAF", ()))
    return frozenset(plain(n) for n in names)


@lru_cache(maxsize=1)
def known_names() -> dict[str, str]:
    """Every name that gaf knows, in `plain` form -> as people write it."""
    found: dict[str, str] = {plain(n): n for n in onnx_names()}
    for cls in all_ops():
        if not (cls.ONNX or cls.ATEN or cls.GAF):
            continue  # constants, weights, holders of ops from elsewhere
        for name in _class_names(cls):
            found.setdefault(name, class_title(cls))
    found.update({plain(n): n for n in MACROS})
    return found


def node_name(op: Operation) -> str:
    """The model node that an op came from, or the op's own name."""
    return location_name(op) or op.name


def computes(op: Operation) -> bool:
    """Not a constant, not a number of the run and not a view."""
    return isinstance(op, GraphOp) and not op.IS_VIEW and not isinstance(op, ConstantOp | WeightOp | RunSaltOp)


def join_names(names: Iterable[str]) -> str:
    """`MatMul + Add + Softmax`; casts are named only if there is nothing else, and runs are named once."""
    titles = list(names)
    shown = [t for t in titles if t not in ("Cast", "CastLike")] or titles[:1]
    return " + ".join(t for i, t in enumerate(shown) if i == 0 or t != shown[i - 1])
