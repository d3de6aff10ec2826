# SPDX-License-Identifier: Apache-2.0
"""Where a node of an FX graph comes from: module path, source line; and ops as the user counts them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

import torch
from torch import fx

_ITEM = re.compile(r"\[['\"]?([^'\"\]]+)['\"]?\]")
# Calls that are no operation to the person who wrote the model
_SILENT = frozenset(
    {"alias", "detach", "lift_fresh_copy", "lift_fresh", "sym_size", "sym_numel", "sym_constrain_range"}
    | {"sym_constrain_range_for_size", "scalar_tensor", "_local_scalar_dense", "item"}
)


def module_path(node: fx.Node) -> str:
    """The path of the innermost module call that a node belongs to: `encoder.layer.0`."""
    stack = node.meta.get("nn_module_stack")
    return _path(list(stack.values())[-1]) if stack else ""


def _path(entry: object) -> str:
    path = entry[0] if isinstance(entry, tuple) else str(entry)
    for prefix in ("L['self']", "L['fn']", "L__self__"):
        path = path.removeprefix(prefix)
    path = path.replace("._modules", "")
    return _ITEM.sub(r".\1", path).strip(".")


def op_name(node: fx.Node) -> str:
    """The name of the called op without namespace and overload: `linear`."""
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        return target._schema.name.rpartition("::")[2]
    return getattr(target, "__name__", str(target))


def source_line(node: fx.Node) -> str | None:
    """`file.py:12` of the user's line that made a node: the innermost frame outside torch, if known."""
    trace = node.meta.get("stack_trace") or ""
    frames = re.findall(r'File "([^"]+)", line (\d+)', trace)
    own = [f for f in frames if "/torch/" not in f[0]] or frames
    return f"{own[-1][0].rpartition('/')[2]}:{own[-1][1]}" if own else None


class Locations:
    """Names nodes `path.op`; a name that is taken gets a number."""

    def __init__(self) -> None:
        self._taken: Counter[str] = Counter()

    def of(self, node: fx.Node) -> str:
        """The name of a node; each call counts as another node."""
        stem = ".".join(filter(None, (module_path(node), op_name(node))))
        count = self._taken[stem]
        self._taken[stem] += 1
        return f"{stem}_{count}" if count else stem


def count_ops(nodes: Iterable[fx.Node]) -> int:
    """Calls of leaf modules plus ops outside leaf modules, on the graph as it was captured.

    A leaf module is one that calls no other module; the model itself is none.
    """
    calls: list[str] = []
    inner: set[str] = set()
    for node in nodes:
        called = isinstance(node.target, torch._ops.OpOverload | torch._ops.HigherOrderOperator)
        if node.op != "call_function" or not called:
            continue
        stack = list(node.meta.get("nn_module_stack") or {})  # one key a call: `fc`, `fc@1`
        inner.update(stack[:-1])  # these call others
        if op_name(node) not in _SILENT and not op_name(node).startswith("_assert"):
            calls.append(stack[-1] if len(stack) > 1 else "")  # the outermost module is the model
    leaves = {call for call in calls if call and call not in inner}
    return len(leaves) + sum(call not in leaves for call in calls)
