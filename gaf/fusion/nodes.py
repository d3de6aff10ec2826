# SPDX-License-Identifier: Apache-2.0
"""What a region is made of: nodes over named axes, outputs, and linear addresses of their index maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.ir import SSAValue

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import Expr, Func, const, product
from gaf.dialects.graph.contract import tensor_type
from gaf.dialects.graph.meaning import Guard
from gaf.dialects.graph.types import TensorType


class NotFusible(Exception):
    """A group that can't be one kernel; `str(error)` is the binding constraint for the report."""


@dataclass(frozen=True)
class Node:
    """One value of a region, over the axes `axes`. Operands are node numbers.

    kind: "load" (external input at `index`; `value` outside the `guards`, if there are any), "map" (scalar
    function), "number", "extent" (dim value as float), "coord" (index as data), "reduce" (monoid over `over`),
    "contract" (sum of products over `over`), "rank" (what `function`, values or places, says of the elements along
    `over` in the order `order`, along an axis of its own), "scan" (running fold `function` along `over`, without the element itself if `exclusive`).
    """

    kind: str
    dtype: dt.DType
    axes: frozenset[str] = frozenset()
    args: tuple[int, ...] = ()
    function: str = ""
    value: float = 0.0
    index: tuple[Expr, ...] = ()
    input: int = -1
    over: tuple[str, ...] = ()
    guards: tuple[Guard, ...] = ()
    order: str = ""
    exclusive: bool = False


@dataclass(frozen=True)
class Output:
    """A result of the region: node `node` stored at `index` of a tensor of type `type`."""

    node: int
    index: tuple[Expr, ...]
    type: TensorType


@dataclass(frozen=True, eq=False)
class Handed:
    """An array that one stage of a kernel writes and a later one reads: workspace, or the output number `output`."""

    name_hint: str
    type: TensorType
    output: int | None = None


@dataclass
class Region:
    """The nodes of a group in dependency order, its axes (name -> extent), inputs and outputs.

    `one_pass`: dependent reductions may be folded in one pass over their axes (`gaf.fusion.online`).
    """

    axes: dict[str, Expr] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    inputs: list[SSAValue | Handed] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)
    origins: dict[int, str] = field(default_factory=dict)  # node -> model node name
    one_pass: bool = True

    @property
    def input_types(self) -> list[TensorType]:
        return [v.type if isinstance(v, Handed) else tensor_type(v) for v in self.inputs]

    def contracts(self) -> list[int]:
        return [i for i, n in enumerate(self.nodes) if n.kind == "contract"]

    def reductions(self) -> list[int]:
        return [i for i, n in enumerate(self.nodes) if n.kind == "reduce"]

    def accesses(self) -> list[tuple[TensorType, tuple[Expr, ...]]]:
        """(tensor type, index map) of every load and store."""
        types = self.input_types
        found = [(types[n.input], n.index) for n in self.nodes if n.kind == "load"]
        return found + [(o.type, o.index) for o in self.outputs]

    def users(self) -> list[list[int]]:
        result: list[list[int]] = [[] for _ in self.nodes]
        for i, node in enumerate(self.nodes):
            for a in node.args:
                result[a].append(i)
        return result


def address(shape: Sequence[Expr], index: Sequence[Expr], ranges: Mapping[str, Expr]) -> Expr:
    """Row-major element offset of `index` in a tensor of `shape`, simplified."""
    total = const(0)
    for size, i in zip(shape, index):
        total = total * size + i
    return total.simplify(ranges)


def reads_in(e: Expr) -> list[Func]:
    """The `read` atoms (gather indices) inside an expression."""
    found: list[Func] = []
    for atom in e.atoms():
        if isinstance(atom, Func):
            if atom.name == "read":
                found.append(atom)
            for arg in atom.args:
                found += reads_in(arg)
    return found


def direct_names(e: Expr) -> set[str]:
    """Names outside `read` atoms."""
    names: set[str] = set()
    for atom in e.atoms():
        if isinstance(atom, str):
            names.add(atom)
        elif atom.name != "read":
            for arg in atom.args:
                names |= direct_names(arg)
    return names


def read_elements(region: Region, env: Mapping[str, int]) -> list[int]:
    """Elements of every input that a kernel reads: of a slice only its own, of a table as many rows as are looked up.

    Reads through one index map count once, and no input counts more than once as a whole.
    """
    found: list[int | None] = [None] * len(region.inputs)
    for load in dict.fromkeys((n.input, n.index, n.axes) for n in region.nodes if n.kind == "load"):
        number, index, axes = load
        if not any(reads_in(e) for e in index):
            axes = axes & {name for e in index for name in e.names()}
        size = product(region.axes[a] for a in axes).evaluate(env)
        found[number] = (found[number] or 0) + size
    whole = [t.num_elements().evaluate(env) for t in region.input_types]
    return [total if size is None else min(size, total) for size, total in zip(found, whole)]


def region_bytes(region: Region, env: Mapping[str, int]) -> tuple[int, int]:
    """(bytes read, bytes written) with every operand counted once, as far as it is read (`read_elements`)."""
    read = sum(n * t.dtype.bytes for n, t in zip(read_elements(region, env), region.input_types))
    written = sum(o.type.num_bytes().evaluate(env) for o in region.outputs)
    return read, written
