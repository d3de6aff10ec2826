# SPDX-License-Identifier: Apache-2.0
"""The positions that a kernel gathers or scatters at, checked before a launch: fast code would clamp them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import NameLoc

from gaf.dialects.common.index import Expr, Func, expr, mod
from gaf.dialects.graph.contract import location_name
from gaf.dialects.graph.ops.scatter import ScatterBase
from gaf.dialects.graph.ops.structure import FusedOp
from gaf.dialects.tile.memory import LoadOp
from gaf.dialects.tile.structure import KernelOp
from gaf.dialects.tile.types import GmType
from gaf.errors import InvalidInputError


@dataclass(frozen=True)
class IndexRead:
    """Positions `ids[at]` along dim `axis` of `table`, which has `size` elements there; read by model node `node`.

    `extents` gives the range of every axis in `at`; negative positions count from the end.
    """

    ids: str
    at: tuple[Expr, ...]
    extents: tuple[tuple[str, Expr], ...]
    table: str
    axis: int
    size: Expr
    node: str


def index_reads(kernel: KernelOp) -> list[IndexRead]:
    """All gathers of a tile kernel."""
    names = dict(zip(kernel.body.block.args, kernel.arg_names.data, strict=True))
    extents = {a.name: a.extent for a in kernel.axes if not a.hull}
    extents |= {f"{name}.lo": size for name, size in extents.items()}
    found: dict[IndexRead, None] = {}
    for op in kernel.walk():
        if not isinstance(op, LoadOp):
            continue
        source = op.source.type
        assert isinstance(source, GmType)
        node = op.location.desc.data if isinstance(op.location, NameLoc) else ""  # type: ignore[attr-defined]
        for axis, index in enumerate(op.index):
            atom = _read(index, source.shape[axis])
            used = sorted({n for a in atom.args for n in a.names()} & extents.keys()) if atom is not None else []
            if atom is not None and all(not _nested(a) for a in atom.args):
                sizes = tuple((name, extents[name]) for name in used)
                table = names.get(op.source, "workspace")
                found[IndexRead(atom.tag, atom.args, sizes, table, axis, source.shape[axis], node)] = None
    return list(found)


def _read(index: Expr, size: Expr) -> Func | None:
    """The `read` that an index expression is, maybe modulo the size of its dim."""
    for atom in index.atoms():
        inner = atom
        if isinstance(atom, Func) and atom.name == "mod":
            inner = next((a for a in atom.args[0].atoms()), atom)
        if isinstance(inner, Func) and inner.name == "read":
            plain = Expr({(inner,): 1})
            return inner if index in (plain, mod(plain, size)) else None
    return None


def _nested(value: Expr) -> bool:
    return any(isinstance(a, Func) and (a.name == "read" or any(map(_nested, a.args))) for a in value.atoms())


def check_indices(reads: list[IndexRead], arrays: Mapping[str, np.ndarray], env: Mapping[str, int]) -> None:
    """Raises InvalidInputError for a position outside its axis, naming node, position, index and axis."""
    for read in reads:
        ids, size = arrays[read.ids], read.size.evaluate(env)
        if ids.size == 0 or (ids.min() >= -size and ids.max() < size):
            continue
        place = np.indices([e.evaluate(env) for _, e in read.extents], sparse=True)
        names = {**env, **dict(zip((n for n, _ in read.extents), place))}
        at = np.broadcast_arrays(*(np.asarray(expr(e).evaluate(names)) for e in read.at))
        used = ids[tuple(at)] if at else ids  # what isn't read may hold anything
        wrong = np.argwhere((used < -size) | (used >= size))
        if len(wrong):
            first = tuple(wrong[0])
            where = tuple(int(a[first]) for a in at)
            raise InvalidInputError(
                f"an index into axis {read.axis} of '{read.table}' is out of range",
                where=read.node or None,
                expected=f"{-size}..{size - 1}: the axis has {size} elements",
                got=f"{used[first]} at {list(where)} of '{read.ids}'",
                hint="check the indices, or the size of the table",
            )


@dataclass(frozen=True)
class ScatterPlaces:
    """Operand `operand` of a fused op names positions in axes of these sizes, one for each entry of its last dim.

    A single size is that of all its elements.
    """

    operand: int
    sizes: tuple[Expr, ...]
    node: str


def scatter_places(fused: FusedOp) -> list[ScatterPlaces]:
    """The scatters of a fused op whose positions come from outside; a kernel ignores positions out of range."""
    arguments = list(fused.block.args)
    return [
        ScatterPlaces(arguments.index(op.indices), tuple(op.places()), location_name(op) or op.name)
        for op in fused.members
        if isinstance(op, ScatterBase) and op.indices in arguments
    ]


def check_places(places: list[ScatterPlaces], operands: Sequence[np.ndarray], env: Mapping[str, int]) -> None:
    """Raises InvalidInputError for a position outside its axis, naming node, position and size."""
    for place in places:
        ids = operands[place.operand]
        sizes = np.asarray([e.evaluate(env) for e in place.sizes])
        bound = sizes if len(sizes) > 1 else sizes[0]
        wrong = np.argwhere((ids < -bound) | (ids >= bound))
        if len(wrong):
            first = tuple(int(i) for i in wrong[0])
            size = int(sizes[first[-1]] if len(sizes) > 1 else sizes[0])
            raise InvalidInputError(
                "a position of a scatter is out of range",
                where=place.node,
                expected=f"{-size}..{size - 1}: the axis has {size} elements",
                got=f"{ids[first]} at {list(first)} of the indices",
                hint="check the indices",
            )
