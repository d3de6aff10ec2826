# SPDX-License-Identifier: Apache-2.0
"""Dependent reductions in one pass: which folds can go on while what they depend on is still being folded.

A sum whose body depends on another reduction over the same axes takes a second pass, unless its state can be
*moved* from one value of that reduction to the next. A small prover finds, in the product that is summed,

* factors without the folded axes, which are taken out of the sum (`sum x * r` = `r * sum x`);
* `exp(rate * (x - max x))`: moving multiplies by `exp(rate * (old - new))`, at most 1;
* `(x - mean x)**2`: moving adds `count * (old mean - new mean)**2` (Chan, Golub, LeVeque 1979).

It reads nodes, not names: softmax, log-sum-exp, cross-entropy, variance, norms and attention come in any spelling.
States are float32. Rows of -inf keep their meaning: while they run, the lowest finite number stands for -inf, and in
the end `shift - shift` is added, which is NaN where the original is.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from gaf.dialects.common.index import Expr, product
from gaf.dialects.common.scalar import FUNCTIONS
from gaf.fusion.nodes import Region

RULE = "online-reductions"
"""Name by which `FusionConfig.disabled_rules` switches these rewrites off."""

LOWEST = float(np.finfo(np.float32).min)
"""Stands for -inf as a running maximum: exp(-inf - it) is 0."""

CLOSE = 1e-6
"""Coefficients are float32 numbers: so much they may differ from what they should be, relatively."""

PROBES = (-1e4, -50.0, -1.0, 0.0, 1.0, 3.5, 1e4, math.inf)
"""Values of a maximum at which a function of it has to be the maximum itself."""


@dataclass(frozen=True)
class Term:
    """A factor of a product: a node, or the inverse of one."""

    node: int
    inverse: bool = False


@dataclass(frozen=True)
class Fold:
    """How one pass folds the reduction `node`: its state folds the product of `terms`.

    `outside` are factors of the result that the sum has in common. If the terms depend on the reduction `follows`
    of the same pass, they are computed with its running value in place of the node `running`, and the state is
    moved when that value changes; `rate` is the factor of the difference from it.
    """

    node: int
    terms: tuple[Term, ...]
    outside: tuple[Term, ...] = ()
    follows: int | None = None
    running: int | None = None
    rate: float = 1.0
    is_moment: bool = False


def fold_passes(region: Region, contractions: Collection[int] = ()) -> list[list[Fold]]:
    """The passes over the reduced axes, each with its folds in the order of their dependences.

    All reductions of the region fold the same axes; so do the `contractions`, if any. Without the rewrites
    (`region.one_pass` false) there is a pass for every level of dependent reductions.
    """
    prover = _Prover(region, contractions)
    passes: list[list[Fold]] = []
    at: dict[int, int] = {}
    for number in prover.folds:
        below = prover.depends[number] - {number}
        last = max((at[b] for b in below), default=0)
        late = {b for b in below if at[b] == last}
        fold = prover.plain(number)
        if late:
            found = prover.separate(number, late, passes[last]) if region.one_pass else None
            fold, last = (found, last) if found is not None else (fold, last + 1)
        at[number] = last
        if last == len(passes):
            passes.append([])
        passes[last].append(fold)
    return passes


class _Prover:
    def __init__(self, region: Region, contractions: Collection[int]) -> None:
        self.region, self.nodes = region, region.nodes
        self.folds = sorted([*region.reductions(), *contractions])
        self.depends: list[frozenset[int]] = []
        """Folds that every node is computed from, itself included."""
        self.inputs: list[frozenset[int]] = []
        """Inputs that every node is computed from."""
        own = set(self.folds)
        for i, node in enumerate(self.nodes):
            below = frozenset().union(*(self.depends[a] for a in node.args))
            self.depends.append(below | {i} if i in own else below)
            read = frozenset([node.input] if node.kind == "load" else ())
            self.inputs.append(read.union(*(self.inputs[a] for a in node.args)))

    def plain(self, number: int) -> Fold:
        """The fold of what stands there."""
        return Fold(number, tuple(Term(a) for a in self.nodes[number].args))

    # -- the sum ------------------------------------------------------------------------------------

    def separate(self, number: int, late: Collection[int], folds: Sequence[Fold]) -> Fold | None:
        """The fold of a reduction in the pass that makes `late`; None if it has to wait for them."""
        node = self.nodes[number]
        if node.kind != "contract" and node.function != "sum":
            return None
        over = set(node.over)
        terms = [t for a in node.args for t in self._factors(Term(a), node.kind == "contract")]
        outside = [t for t in terms if not self.nodes[t.node].axes & over and self._late(t.node, late)]
        inside = [t for t in terms if t not in outside]
        moving = [t for t in inside if self._late(t.node, late)]
        rest = [t for t in inside if t not in moving]
        if outside and not self._is_safe(outside, rest, late):
            return None
        kept = tuple(inside) if outside else self.plain(number).terms
        if not moving:
            return Fold(number, kept, tuple(outside))
        plain = {f.node for f in folds if f.follows is None and not f.outside}
        if len(moving) == 1 and not moving[0].inverse:
            found = self._peak(moving[0].node, over, late, plain)
            return found and Fold(number, kept, tuple(outside), *found)
        scale = math.prod(self._number(t.node) or math.nan for t in rest) if rest else 1.0
        squared = len(moving) == 2 and moving[0] == moving[1] and not moving[0].inverse
        if squared and scale > 0 and not outside and not any(t.inverse for t in rest):
            found = self._mean(moving[0].node, over, late, plain)
            return found and Fold(number, kept, (), *found[:2], found[2] * math.sqrt(scale), is_moment=True)
        return None

    def _late(self, number: int, late: Collection[int]) -> bool:
        return not self.depends[number].isdisjoint(late)

    def _factors(self, term: Term, through_cast: bool = False) -> list[Term]:
        """The factors of a product, in order. The cube's operands are rounded to its dtype: factors may be taken out
        before that as well as after it.
        """
        node = self.nodes[term.node]
        if node.kind == "map" and node.function == "cast" and through_cast and node.dtype.is_float:
            return self._factors(Term(node.args[0], term.inverse))
        if node.kind == "map" and node.function in ("mul", "div"):
            first, second = node.args
            return [
                *self._factors(Term(first, term.inverse)),
                *self._factors(Term(second, term.inverse ^ (node.function == "div"))),
            ]
        if node.kind == "map" and node.function == "reciprocal":
            return self._factors(Term(node.args[0], not term.inverse))
        if node.kind == "map" and node.function == "pow" and self._number(node.args[1]) == 2.0:
            return 2 * self._factors(Term(node.args[0], term.inverse))
        return [term]

    def _is_safe(self, outside: Sequence[Term], rest: Sequence[Term], late: Collection[int]) -> bool:
        """Taking factors out doesn't overflow where the product didn't: they come from sums, and what they scale
        enters what is left only once. `x / max|x|` is there to keep squares small, and stays.
        """
        below = {d for t in outside for d in self.depends[t.node] if d in late}
        if any(self.nodes[d].kind != "contract" and self.nodes[d].function != "sum" for d in below if self._direct(d, outside)):
            return False
        scaled = frozenset().union(*(self.inputs[d] for d in below))
        return sum(not self.inputs[t.node].isdisjoint(scaled) for t in rest) <= 1

    def _direct(self, fold: int, outside: Sequence[Term]) -> bool:
        """Whether factors read a fold otherwise than through other folds, and as more than a condition."""
        stack = [t.node for t in outside]
        seen: set[int] = set()
        while stack:
            number = stack.pop()
            if number == fold:
                return True
            if number not in seen and number not in self.folds and not self.nodes[number].dtype.is_bool:
                seen.add(number)
                stack += self.nodes[number].args
        return False

    # -- what moves ---------------------------------------------------------------------------------

    def _peak(
        self, number: int, over: set[str], late: Collection[int], plain: Collection[int]
    ) -> tuple[int, int, float] | None:
        """(maximum, node that stands for it, rate) of `exp(rate * (x - max x))`."""
        node = self.nodes[number]
        if node.kind != "map" or node.function != "exp":
            return None
        line = self._linear(node.args[0])
        (shift, *others) = [n for n in line if n is not None and self._late(n, late)] or [None]
        if shift is None or others or self.nodes[shift].axes & over:
            return None
        rate = -line.pop(shift)
        peak = next((p for p in self.depends[shift] & plain if self._is_maximum(shift, p, over)), None)
        if peak is None or rate <= 0 or not math.isfinite(rate):
            return None
        wanted = {n: rate * c for n, c in self._linear(self.nodes[peak].args[0]).items()}
        return (peak, shift, rate) if _equal(line, wanted) else None

    def _is_maximum(self, number: int, peak: int, over: set[str]) -> bool:
        """Whether a node is a maximum over the folded axes, but maybe for rows of -inf only."""
        node = self.nodes[peak]
        if node.kind != "reduce" or node.function != "max" or set(node.over) != over:
            return False
        with np.errstate(all="ignore"):
            return all(self._value(number, peak, np.float32(p)) == np.float32(p) for p in PROBES)

    def _value(self, number: int, at: int, value: np.float32) -> Any:
        """A node as a function of another one; NaN if it isn't one."""
        node = self.nodes[number]
        if number == at:
            return value
        if node.kind == "number":
            return np.float32(node.value)
        if node.kind != "map" or node.function == "cast":
            return np.float32(math.nan)
        return FUNCTIONS[node.function].numpy(*(self._value(a, at, value) for a in node.args))

    def _mean(
        self, number: int, over: set[str], late: Collection[int], plain: Collection[int]
    ) -> tuple[int, int, float] | None:
        """(sum, the sum itself, rate) of `rate * (x - mean x)`."""
        line = self._linear(number)
        (term, *others) = [n for n in line if n is not None and self._late(n, late)] or [None]
        if term is None or others or self.nodes[term].axes & over:
            return None
        weight = -line.pop(term)
        count = product(self.region.axes[a] for a in over)
        node, known = self.nodes[term], count.as_int()
        if node.kind == "map" and node.function == "div" and self.nodes[node.args[1]].kind == "extent":
            if self.nodes[node.args[1]].index[0] != count:
                return None
            term, rate = node.args[0], weight
        elif known is not None:
            rate = weight * known
        else:
            return None
        total = self.nodes[term]
        if term not in plain or total.kind != "reduce" or total.function != "sum" or set(total.over) != over:
            return None
        wanted = {n: rate * c for n, c in self._linear(total.args[0]).items()}
        return (term, term, rate) if _equal(line, wanted) else None

    def _linear(self, number: int) -> dict[int | None, float]:
        """A node as a sum of nodes with number coefficients; None stands for 1."""
        node = self.nodes[number]
        if node.kind == "number":
            return {None: node.value}
        if node.kind == "map":
            args = node.args
            match node.function:
                case "add" | "sub":
                    sign = 1.0 if node.function == "add" else -1.0
                    return _sum(self._linear(args[0]), self._linear(args[1]), sign)
                case "neg":
                    return _sum({}, self._linear(args[0]), -1.0)
                case "mul" | "div":
                    for value, factor in ((args[0], args[1]), (args[1], args[0]))[: 2 - (node.function == "div")]:
                        found = self._number(factor)
                        if found:
                            scale = found if node.function == "mul" else 1 / found
                            return _sum({}, self._linear(value), scale)
                case "cast" if node.dtype.name == "f32" and self.nodes[args[0]].dtype.is_float:
                    return self._linear(args[0])
        return {number: 1.0}

    def _number(self, number: int) -> float | None:
        node = self.nodes[number]
        return node.value if node.kind == "number" else None


def _sum(a: Mapping[int | None, float], b: Mapping[int | None, float], factor: float) -> dict[int | None, float]:
    found = dict(a)
    for n, c in b.items():
        found[n] = found.get(n, 0.0) + factor * c
    return {n: c for n, c in found.items() if c}


def _equal(a: Mapping[int | None, float], b: Mapping[int | None, float]) -> bool:
    return a.keys() == b.keys() and all(abs(a[n] - b[n]) <= CLOSE * abs(b[n]) for n in a)


# -- states -----------------------------------------------------------------------------------------


class Arithmetic(Protocol):
    """What states are computed with: tiles of a kernel, or arrays."""

    def map(self, function: str, *args: Any) -> Any:
        """A scalar function, element by element."""

    def number(self, value: float | Expr) -> Any:
        """A constant, or a size."""


def stand_in(fold: Fold, on: Arithmetic, followed: Any, count: Any, total: float | Expr) -> Any:
    """The running value in place of the node `fold.running`, `count` elements of `total` being folded."""
    if fold.is_moment:  # the sum that `total` elements would have
        return on.map("mul", on.map("div", followed, count), on.number(total))
    return on.map("max", followed, on.number(LOWEST))


def shrink(fold: Fold, on: Arithmetic, followed: Any, final: Any) -> Any:
    """What a sum of exponentials shrinks by when its maximum grows from `followed` to `final`."""
    low = on.number(LOWEST)
    distance = on.map("sub", on.map("max", followed, low), on.map("max", final, low))
    if fold.rate != 1.0:
        distance = on.map("mul", distance, on.number(fold.rate))
    return on.map("exp", distance)


def moved(fold: Fold, on: Arithmetic, state: Any, followed: Any, final: Any, count: Any, whole: Any) -> Any:
    """A state made with the value `followed` of what it depends on, as one made with `final`.

    `count` elements are in the state, `whole` in the final value; neither matters unless the fold is a moment.
    """
    if not fold.is_moment:
        return on.map("mul", state, shrink(fold, on, followed, final))
    least = on.number(1.0)
    means = [on.map("div", v, on.map("max", n, least)) for v, n in ((followed, count), (final, whole))]
    distance = on.map("sub", *means)
    if fold.rate != 1.0:
        distance = on.map("mul", distance, on.number(fold.rate))
    return on.map("add", state, on.map("mul", on.map("mul", distance, distance), count))


def finished(fold: Fold, on: Arithmetic, state: Any, shift: Any, factors: Iterable[tuple[Any, bool]]) -> Any:
    """The reduction's value, from its last state, the final value of the node `running`, and (factor, inverse) of
    `outside`.
    """
    if fold.running is not None and not fold.is_moment:
        state = on.map("add", state, on.map("sub", shift, shift))
    for factor, inverse in factors:
        state = on.map("div" if inverse else "mul", state, factor)
    return state


def body(fold: Fold, on: Arithmetic, values: Iterable[Any]) -> Any:
    """The product of the values of `fold.terms`."""
    result = None
    for term, value in zip(fold.terms, values, strict=True):
        if result is None:
            result = on.map("div", on.number(1.0), value) if term.inverse else value
        else:
            result = on.map("div" if term.inverse else "mul", result, value)
    assert result is not None
    return result
