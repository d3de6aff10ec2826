# SPDX-License-Identifier: Apache-2.0
"""Chains of view ops in an FX graph: which results share memory, and how to make one from the other."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import fx

from gaf.dialects.common.index import Expr
from gaf.errors import UnsupportedError
from gaf.frontend.torch.types import size_of

Step = tuple[Any, tuple[Any, ...], dict[str, Any]]
"""A view op, its arguments behind the tensor (sizes as Expr), its keyword arguments."""


def view_chain(node: fx.Node) -> list[tuple[fx.Node, tuple[Step, ...]]]:
    """(node, steps that lead from it to the given one): the node itself, then what it is a view of, ..."""
    chain: list[tuple[fx.Node, tuple[Step, ...]]] = [(node, ())]
    for source, step in _sources(node):
        chain.append((source, (*step, *chain[-1][1])))
    return chain


def _sources(node: fx.Node) -> Iterator[tuple[fx.Node, tuple[Step, ...]]]:
    while True:
        picked: tuple[Step, ...] = ()
        if node.target is operator.getitem and isinstance(node.args[0], fx.Node):
            picked = ((operator.getitem, (node.args[1],), {}),)
            node = node.args[0]
        if not _is_view(node, several=bool(picked)):
            return
        try:
            rest = tuple(_plain(a) for a in node.args[1:])
            step = (node.target, rest, {k: _plain(v) for k, v in node.kwargs.items()})
        except UnsupportedError:
            return
        node = node.args[0]  # type: ignore[assignment]
        yield node, (step, *picked)


def _is_view(node: fx.Node, several: bool) -> bool:
    target = node.target
    if (
        not isinstance(target, torch._ops.OpOverload)
        or not node.args
        or not isinstance(node.args[0], fx.Node)
    ):
        return False
    returns = target._schema.returns
    info = returns[0].alias_info if len(returns) == 1 else None
    lists = len(returns) == 1 and isinstance(returns[0].type, torch.ListType)
    return info is not None and not info.is_write and lists is several


def _plain(value: Any) -> Any:
    """An argument of a view with sizes as expressions. Raises UnsupportedError for tensors."""
    match value:
        case fx.Node():
            inner = value.meta.get("val")
            if not isinstance(inner, torch.SymInt | int):
                raise UnsupportedError("a view that depends on a tensor")
            return size_of(inner)
        case list() | tuple():
            return [_plain(v) for v in value]
    return value


def replay(tensor: torch.Tensor, steps: tuple[Step, ...], env: Mapping[str, int]) -> torch.Tensor:
    """The view of `tensor`; `env` gives the values of symbols."""
    value: Any = tensor
    for op, args, kwargs in steps:
        value = op(value, *numbers(args, env), **numbers(kwargs, env))
    return value


def numbers(value: Any, env: Mapping[str, int]) -> Any:
    """Sizes in a structure of arguments as numbers."""
    match value:
        case Expr():
            return value.evaluate(dict(env))
        case list() | tuple():
            return type(value)(numbers(v, env) for v in value)
        case dict():
            return {k: numbers(v, env) for k, v in value.items()}
    return value
