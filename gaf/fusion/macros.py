# SPDX-License-Identifier: Apache-2.0
"""Finds LayerNorm, Softmax, GELU and the like in any spelling, by what a group computes and not by op names.

A group between one source value and one result is turned into a region and evaluated in float64 on probes. It
is a norm if every lane of the result is an affine function of the normalised probe, an activation if it
equals a formula of the op table. Names found here label groups and serve patterns; they never decide
legality.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from xdsl.ir import Operation, SSAValue

from gaf.dialects.common import scalar
from gaf.dialects.graph.contract import tensor_type
from gaf.dialects.graph.ops import activation
from gaf.dialects.graph.ops.binary import MulOp
from gaf.dialects.graph.ops.matmul import MatMulOp
from gaf.fusion import names
from gaf.fusion.opgraph import OpGraph, is_constant
from gaf.fusion.region import NotFusible, Region, build_region
from gaf.fusion.work import Sizes

MAX_STEPS = 14
"""Ops looked at behind the first op of a macro; the longest known spelling of LayerNorm has eleven."""

ROWS = 6
"""Probe rows: two determine scale and bias of a lane, the others test them."""

_CURVED = {"exp", "log", "tanh", "sigmoid", "erf", "relu"}


@dataclass(frozen=True)
class Macro:
    """Ops (numbers) that together are what people call `name`."""

    name: str
    ops: frozenset[int]

    @property
    def last(self) -> int:
        return max(self.ops)


def find_macros(graph: OpGraph, env: Sizes) -> list[Macro]:
    """All macros of a graph in order of their last op; the longest spelling of each is kept."""
    finder = _Finder(graph, env)
    found = [*finder.norms(), *finder.activations()]
    taken: set[int] = set()
    kept: list[Macro] = []
    for macro in sorted(found, key=lambda m: (-len(m.ops), m.last)):
        if not taken & macro.ops:
            kept.append(macro)
            taken |= macro.ops
    kept += finder.linears()
    kept += finder.gates(kept)
    return sorted(kept, key=lambda m: (m.last, -len(m.ops), m.name))


class _Finder:
    def __init__(self, graph: OpGraph, env: Sizes) -> None:
        self.graph, self.env = graph, env
        self.known: dict[tuple, str | None] = {}

    # -- seeds ------------------------------------------------------------------------------------

    def norms(self) -> Iterator[Macro]:
        """Macros with a reduction, from the reduction's source to the first result that closes them."""
        g = self.graph
        closed: set[int] = set()
        for i in range(len(g.ops)):
            if i in closed or not self.reduces(i):
                continue
            for source in self.origins(g.ops[i].operands[0], 2):
                macro = self.longest(source, i, "norm")
                if macro is not None:
                    closed |= macro.ops
                    yield macro
                    break

    def activations(self) -> Iterator[Macro]:
        g = self.graph
        for i in range(len(g.ops)):
            meaning = g.meaning(i)
            if meaning is None or not meaning.is_elementwise or not _calls(meaning.stages[0].body) & _CURVED:
                continue
            if isinstance(
                g.ops[i], activation.GeluOp | activation.SiluOp | activation.MishOp | activation.SoftplusOp
            ):
                continue  # a node of its own already
            best: Macro | None = None
            for source in self.origins(g.ops[i].operands[0], 6):
                macro = self.longest(source, i, "activation")
                if macro is not None and (best is None or len(macro.ops) > len(best.ops)):
                    best = macro
            if best is not None:
                yield best

    def linears(self) -> Iterator[Macro]:
        """A matmul with a weight, and the bias that is added to it."""
        g = self.graph
        for i, op in enumerate(g.ops):
            if not isinstance(op, MatMulOp) or not self.is_weight(op.operands[1]):
                continue
            users = list(g.consumers(i))
            if len(users) == 1 and names.op_type(g.ops[users[0]]) == "Add":
                others = [o for o in g.ops[users[0]].operands if g.root(o) is not op.results[0]]
                if len(others) == 1 and self.is_weight(others[0]) and tensor_type(others[0]).rank <= 2:
                    yield Macro("Linear", frozenset((i, users[0])))
                    continue
            yield Macro("Linear", frozenset((i,)))

    def gates(self, macros: list[Macro]) -> Iterator[Macro]:
        """A product with an activation of an activation tensor."""
        g = self.graph
        names_of = {m.last: m for m in macros}
        for i, op in enumerate(g.ops):
            if not isinstance(op, MulOp) or names.op_title(op) == "Scale":
                continue
            for operand in op.operands:
                owner = g.root(operand).owner
                if not isinstance(owner, Operation):
                    continue
                j = g.number[owner]
                act = names.plain(names.op_type(owner)) in (
                    "sigmoid",
                    "gelu",
                    "silu",
                    "tanh",
                    "relu",
                    "hardsigmoid",
                )
                inner = names_of.get(j)
                if (act or (inner is not None and inner.name in names.MACROS[4:9])) and list(
                    g.consumers(j)
                ) == [i]:
                    yield Macro("Gate", frozenset((i, *(inner.ops if inner is not None else (j,)))))
                    break

    # -- paths ------------------------------------------------------------------------------------

    def is_weight(self, value: SSAValue) -> bool:
        """A constant, or a model input of rank 1 or 2 (a `.gaf` model takes its weights as inputs)."""
        root = self.graph.root(value)
        if isinstance(root.owner, Operation):
            return is_constant(root.owner)
        return 1 <= tensor_type(root).rank <= 2

    def reduces(self, number: int) -> bool:
        """A plain reduction: one operand, read by one reducing stage (a mean divides in a second one)."""
        meaning = self.graph.meaning(number)
        if meaning is None or len(self.graph.ops[number].operands) != 1:
            return False
        readers = [s for s in meaning.stages if any(r.operand is not None for r in s.reads)]
        return len(readers) == 1 and bool(readers[0].reduced)

    def origins(self, value: SSAValue, steps: int) -> Iterator[SSAValue]:
        """The value, and what it was computed from by elementwise ops with one operand that varies."""
        value = self.graph.root(value)
        yield value
        for _ in range(steps):
            owner = value.owner
            i = self.graph.number.get(owner) if isinstance(owner, Operation) else None
            meaning = self.graph.meaning(i) if i is not None else None
            if meaning is None or not meaning.is_elementwise:
                return
            varying = {self.graph.root(o) for o in owner.operands if not self.is_weight(o)}  # type: ignore[union-attr]
            if len(varying) != 1:
                if len(varying) != 2:
                    return
                # x * f(x): the other operand leads back to the same source
                varying = {v for v in varying if tensor_type(v).shape == tensor_type(value).shape}
                varying = {min(varying, key=self.position)} if varying else set()
                if not varying:
                    return
            value = varying.pop()
            yield value

    def position(self, value: SSAValue) -> int:
        return self.graph.number[value.owner] if isinstance(value.owner, Operation) else -1

    def longest(self, source: SSAValue, seed: int, family: str) -> Macro | None:
        """The longest group from `source` through op `seed` that has a name."""
        best: Macro | None = None
        shape = tensor_type(source).shape
        for end in self.downstream(seed):
            if tensor_type(self.graph.ops[end].results[0]).shape != shape:
                continue
            ops = self.between(source, end, seed)
            if ops is None or len(ops) < 2:
                continue
            name = self.name(ops, end, family)
            if name is not None:
                best = Macro(name, frozenset(ops))
        return best

    def downstream(self, seed: int) -> Iterator[int]:
        """Ops that depend on `seed` through elementwise ops, reductions and views, nearest first."""
        found = [seed]
        queue = [seed]
        while queue and len(found) <= MAX_STEPS:
            for c in sorted(self.graph.consumers(queue.pop(0))):
                meaning = self.graph.meaning(c)
                if c in found or meaning is None:
                    continue
                if meaning.is_elementwise or self.reduces(c):
                    found.append(c)
                    queue.append(c)
        return iter(sorted(found))

    def between(self, source: SSAValue, end: int, seed: int) -> set[int] | None:
        """Ops on the way from `source` to `end`; None if there are too many or a value of them is read
        elsewhere.
        """
        g = self.graph
        start = self.position(source)
        ops: set[int] = set()
        stack = [end]
        while stack:
            i = stack.pop()
            if i in ops:
                continue
            meaning = g.meaning(i)
            if meaning is None or i <= start or len(ops) > MAX_STEPS:
                return None
            ops.add(i)
            for operand in g.ops[i].operands:
                value = g.root(operand)
                if value is source or not isinstance(value.owner, Operation) or is_constant(value.owner):
                    continue
                stack.append(g.number[value.owner])
        if seed not in ops:
            return None
        if any(c not in ops for i in ops if i != end for c in g.consumers(i)):
            return None
        return ops

    # -- names ------------------------------------------------------------------------------------

    def name(self, ops: set[int], end: int, family: str) -> str | None:
        outputs = [self.graph.ops[end].results[0]]
        key = self.graph.signature(ops, outputs)[0]
        if key not in self.known:
            operations = [self.graph.ops[i] for i in ops | self.graph.folded]
            try:
                region = build_region([self.graph.ops[i] for i in ops] + _views(operations), outputs)
                self.known[key] = recognise(region, self.env, family)
            except NotFusible:
                self.known[key] = None
        return self.known[key]


def _views(operations: list[Operation]) -> list[Operation]:
    return [o for o in operations if getattr(o, "IS_VIEW", False)]


def _calls(body: Any) -> set[str]:
    if isinstance(body, scalar.Call):
        return {body.function}.union(*(_calls(o) for o in body.args))
    return set()


# -- fingerprints -----------------------------------------------------------------------------------


def recognise(region: Region, env: Sizes, family: str | None = None) -> str | None:
    """The name of what a region computes, or None: a norm, a softmax, or an activation of the op table."""
    if len(region.outputs) != 1 or any(n.kind in ("contract", "coord", "rank", "scan") or n.guards for n in region.nodes):
        return None
    reduced = {a for n in region.nodes if n.kind == "reduce" for a in n.over}
    try:
        if reduced:
            return _norm(region, env, reduced) if family in (None, "norm") else None
        return _activation(region) if family in (None, "activation") else None
    except (KeyError, ValueError, OverflowError):
        return None


def _full_load(region: Region, axes: frozenset[str]) -> int | None:
    """The one load with all axes of the result; the others must have fewer."""
    full = [i for i, n in enumerate(region.nodes) if n.kind == "load" and n.axes == axes]
    return full[0] if len(full) == 1 else None


def _norm(region: Region, env: Sizes, reduced: set[str]) -> str | None:
    result = region.nodes[region.outputs[0].node]
    x = _full_load(region, result.axes)
    if len(reduced) != 1 or x is None or not reduced < result.axes and reduced != result.axes:
        return None
    (lanes,) = reduced
    rows = sorted(result.axes - reduced)
    loads = [i for i, n in enumerate(region.nodes) if n.kind == "load" and i != x]
    if any(region.nodes[i].axes & set(rows) for i in loads):
        return None
    length = region.axes[lanes].evaluate(env)
    if not 3 <= length <= 65536:
        return None
    rng = np.random.default_rng(7)
    axes = [*rows, lanes]
    shape = [ROWS if i == 0 else 1 for i in range(len(rows))] + [length]
    if not rows:
        axes, shape = ["", lanes], [ROWS, length]
    probe = rng.standard_normal(shape) * 2

    def run(data: np.ndarray, parameter: float | None) -> np.ndarray:
        values = {x: data}
        for i in loads:
            size = [length if a in region.nodes[i].axes else 1 for a in axes]
            values[i] = np.full(size, parameter) if parameter is not None else rng.uniform(0.5, 2.0, size)
        out = evaluate(region, axes, values, env)
        return np.broadcast_to(out, data.shape).reshape(ROWS, length)

    flat = probe.reshape(ROWS, length)
    got = run(probe, None)
    shifted = flat - flat.max(-1, keepdims=True)
    terms = np.exp(shifted)
    if _close(got, terms / terms.sum(-1, keepdims=True)):
        return "Softmax"
    if _close(got, shifted - np.log(terms.sum(-1, keepdims=True))):
        return "LogSoftmax"
    data = probe * 30 + 7 * np.arange(ROWS).reshape([ROWS, *[1] * (probe.ndim - 1)])
    flat = data.reshape(ROWS, length)
    centred = flat - flat.mean(-1, keepdims=True)
    layer = centred / np.sqrt((centred**2).mean(-1, keepdims=True))
    rms = flat / np.sqrt((flat**2).mean(-1, keepdims=True))
    got, ones, zeros = run(data, None), run(data, 1.0), run(data, 0.0)
    for name, unit in (("LayerNorm", layer), ("RMSNorm", rms)):
        if _affine(got, unit) is None:
            continue
        gains = [g for g in (_affine(ones, unit), _affine(zeros, unit)) if g is not None]
        if any(np.allclose(g, 1.0, atol=1e-4) for g in gains):
            return name
    return None


def _affine(got: np.ndarray, unit: np.ndarray) -> np.ndarray | None:
    """Gain per lane if every lane of `got` is an affine function of the same lane of `unit`."""
    low, high = unit.argmin(0), unit.argmax(0)
    lane = np.arange(unit.shape[1])
    gain = (got[high, lane] - got[low, lane]) / (unit[high, lane] - unit[low, lane])
    bias = got[low, lane] - gain * unit[low, lane]
    return gain if _close(got, unit * gain + bias, 1e-4) else None


def _close(a: np.ndarray, b: np.ndarray, tolerance: float = 1e-6) -> bool:
    return bool(np.all(np.isfinite(a))) and float(np.max(np.abs(a - b))) <= tolerance * (
        1e-30 + float(np.max(np.abs(b)))
    )


def _activation(region: Region) -> str | None:
    loads = [i for i, n in enumerate(region.nodes) if n.kind == "load"]
    if len(loads) != 1:
        return None
    probes = np.concatenate([np.linspace(-8, 8, 161), [-0.0, 1e-3, -1e-3]])
    values = evaluate(region, [""], {loads[0]: probes}, {})
    for name, formula in _library():
        if _close(values, formula, 2e-7):
            return name
    return None


@lru_cache(maxsize=1)
def _library() -> tuple[tuple[str, np.ndarray], ...]:
    """Activation name -> values at the probes, from the op table."""
    probes = np.concatenate([np.linspace(-8, 8, 161), [-0.0, 1e-3, -1e-3]])
    entries: tuple[tuple[str, Any, dict[str, Any]], ...] = (
        ("Gelu", activation.GeluOp, {"approximate": "none"}),
        ("Gelu", activation.GeluOp, {"approximate": "tanh"}),
        ("QuickGelu", activation.SiluOp, {"alpha": 1.702}),
        ("Silu", activation.SiluOp, {"alpha": 1.0}),
        ("Mish", activation.MishOp, {}),
        ("HardSwish", activation.HardSwishOp, {}),
        ("Softplus", activation.SoftplusOp, {}),
    )
    return tuple(
        (name, np.asarray(scalar.evaluate(op.body(attrs), [probes]), np.float64))
        for name, op, attrs in entries
    )


_FOLD = {"sum": np.sum, "max": np.max, "min": np.min, "prod": np.prod}


def evaluate(region: Region, axes: list[str], loads: dict[int, np.ndarray], env: Sizes) -> np.ndarray:
    """The first output of a region in float64 on given values of its load nodes.

    Arrays have one dim per name in `axes` (size 1 where they don't vary). Raises ValueError for other nodes.
    """
    values: list[np.ndarray] = []
    one = [1] * len(axes)
    with np.errstate(all="ignore"):
        for i, node in enumerate(region.nodes):
            match node.kind:
                case "load":
                    value = loads[i]
                case "number":
                    value = np.full(one, node.value)
                case "extent":
                    value = np.full(one, float(node.index[0].evaluate(env)))
                case "map" if node.function == "cast":
                    value = values[node.args[0]]
                    if node.dtype.is_int or node.dtype.is_bool:
                        value = value != 0 if node.dtype.is_bool else np.trunc(value)
                case "map":
                    value = np.asarray(scalar.FUNCTIONS[node.function].numpy(*(values[a] for a in node.args)))
                case "reduce":
                    arg = values[node.args[0]]
                    over = tuple(axes.index(a) for a in node.over)
                    value = np.asarray(_FOLD[node.function](arg, axis=over, keepdims=True))
                case kind:
                    raise ValueError(kind)
            values.append(value)
    return np.asarray(values[region.outputs[0].node], np.float64)
