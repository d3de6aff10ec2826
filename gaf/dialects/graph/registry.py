# SPDX-License-Identifier: Apache-2.0
"""Finds graph ops by their names in IR text, ONNX, ATen and `.gaf`."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from functools import lru_cache
from importlib import import_module

from gaf.dialects.graph.contract import GraphOp
from gaf.dialects.graph.ops import FAMILIES
from gaf.dialects.graph.ops.aten import aten_expansions
from gaf.dialects.graph.ops.macros import Expansion, expansions

Importable = type[GraphOp] | type[Expansion]
"""What `from_onnx` or `from_aten` can be called on: an op, or an operator that is written with other ops."""


@lru_cache(maxsize=1)
def all_ops() -> tuple[type[GraphOp], ...]:
    """Every graph op class, family by family, in the order of the source."""
    return tuple(op for family in FAMILIES for op in _ops_of(family))


def _ops_of(family: str) -> Iterator[type[GraphOp]]:
    module = import_module(f"gaf.dialects.graph.ops.{family}")
    for value in vars(module).values():
        own = isinstance(value, type) and issubclass(value, GraphOp) and value.__module__ == module.__name__
        if own and "name" in vars(value):  # bases have none
            yield value


@lru_cache(maxsize=1)
def _tables() -> tuple[dict[tuple[str, str], Importable], dict[str, Importable], dict[str, Importable]]:
    onnx: dict[tuple[str, str], Importable] = {}
    aten: dict[str, Importable] = {}
    gaf: dict[str, Importable] = {}
    for entry in (*all_ops(), *expansions(), *aten_expansions()):
        for name in entry.ONNX:
            domain, _, op_type = name.rpartition(".")
            _add(onnx, (domain, op_type), entry)
        for name in entry.ATEN:
            _add(aten, name, entry)
        for name in entry.GAF:
            _add(gaf, name, entry)
    return onnx, aten, gaf


def _add(table: dict, key: object, entry: Importable) -> None:
    if key in table:
        raise ValueError(f"{key} names both {table[key].__name__} and {entry.__name__}")
    table[key] = entry


def by_onnx(domain: str, op_type: str) -> Importable | None:
    """The op for an ONNX operator; `domain` is "" (or "ai.onnx") for the standard one. None if unknown."""
    return _tables()[0].get(("" if domain == "ai.onnx" else domain, op_type))


def by_aten(name: str) -> Importable | None:
    """The op for an ATen overload such as `aten.add.Tensor`. None if unknown."""
    return _tables()[1].get(name)


def by_gaf(name: str) -> Importable | None:
    """The op for a function name of the `.gaf` language. None if unknown."""
    return _tables()[2].get(name)


def by_name(name: str) -> type[GraphOp] | None:
    """The op with an IR name such as `graph.add`. None if unknown."""
    return next((op for op in all_ops() if op.name == name), None)


def onnx_names(domain: str = "") -> list[str]:
    """The ONNX operators of one domain that are known, sorted."""
    return sorted(op_type for owner, op_type in _tables()[0] if owner == domain)


def nearest_onnx(domain: str, op_type: str) -> str | None:
    """The known ONNX operator of the same domain with the most similar name, for messages."""
    return next(iter(get_close_matches(op_type, onnx_names(domain), n=1, cutoff=0.6)), None)


def aten_names() -> list[str]:
    """The ATen overloads that are known, sorted."""
    return sorted(_tables()[1])


def nearest_aten(name: str) -> str | None:
    """The known ATen overload with the most similar name, for messages."""
    return next(iter(get_close_matches(name, aten_names(), n=1, cutoff=0.7)), None)


def nearest_gaf(name: str) -> str | None:
    """The `.gaf` function with the most similar name, for messages."""
    return next(iter(get_close_matches(name, sorted(_tables()[2]), n=1, cutoff=0.6)), None)
