# SPDX-License-Identifier: Apache-2.0
"""Einsum: sums of products over named dims, written as matrix products, products and sums at import."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gaf.dialects.common.index import Expr, const
from gaf.dialects.graph.contract import AtenContext, ImportContext, tensor_type
from gaf.dialects.graph.ops.binary import MulOp
from gaf.dialects.graph.ops.macros import Expansion
from gaf.dialects.graph.ops.matmul import MatMulOp
from gaf.dialects.graph.ops.reduce import ReduceSumOp
from gaf.dialects.graph.ops.shape import TransposeOp, UnsqueezeOp, expanded, reshaped
from gaf.dialects.graph.ops.slice import sliced
from gaf.errors import InvalidInputError

ELLIPSIS = "."
"""Labels of the dims that `...` stands for are this and their distance from its end."""


@dataclass(frozen=True)
class _Term:
    """A value and the label of each of its dims."""

    value: Any
    labels: tuple[str, ...]

    def size(self, label: str) -> Expr:
        return tensor_type(self.value).shape[self.labels.index(label)]


class Einsum(Expansion):
    """Products of operands whose dims have letters, summed over the letters that the result lacks.

    Operands are multiplied from the left; a letter that both sides share is summed by a matrix product where each
    side has letters of its own. `...` stands for dims that broadcast, a letter twice in one operand for a diagonal.
    """

    ONNX = ("Einsum",)
    ATEN = ("aten.einsum.default",)

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        equation = ctx.attr("equation")
        if equation is None:
            raise ctx.unsupported("Einsum without an equation")
        return einsum(ctx, str(equation), [o for o in ctx.operands if o is not None])

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        return einsum(ctx, str(ctx.attr("equation")), ctx.operands)


def einsum(ctx: ImportContext, equation: str, operands: Sequence[Any]) -> Any:
    """Emit the ops of an equation such as `bij,bjk->bik`; returns the result.

    Raises InvalidInputError for an equation that doesn't fit the operands, UnsupportedError for the diagonal of a
    symbolic matrix.
    """
    inputs, output = _parse(equation, [tensor_type(o).rank for o in operands])
    terms = [_diagonals(ctx, _Term(o, labels)) for o, labels in zip(operands, inputs, strict=True)]
    while len(terms) > 1:
        a, b, *rest = terms
        needed = set(output).union(*(t.labels for t in rest))
        terms = [_product(ctx, a, b, needed), *rest]
    return _in_order(ctx, _summed(ctx, terms[0], set(output)), output).value


def _parse(equation: str, ranks: Sequence[int]) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    """The labels of the operands' dims and of the result's."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    words = left.split(",")
    if not all(re.fullmatch(r"[A-Za-z]*(\.\.\.)?[A-Za-z]*", w) for w in (*words, right)):
        raise InvalidInputError("an einsum equation of other signs", expected="like 'ij,jk->ik'", got=equation)
    if len(words) != len(ranks):
        raise InvalidInputError(
            "an einsum equation for another number of operands", expected=f"{len(ranks)} terms", got=equation
        )
    hidden = 0
    inputs = []
    for word, rank in zip(words, ranks, strict=True):
        count = rank - len(word.replace("...", ""))
        if count < 0 or (count > 0 and "..." not in word):
            raise InvalidInputError(
                f"the einsum term '{word}' doesn't fit its operand", expected=f"{rank} dims", got=equation
            )
        hidden = max(hidden, count if "..." in word else 0)
        inputs.append(_labels(word, count))
    if not arrow:  # without a result's labels: what appears once, in order of the alphabet, behind the hidden dims
        counts = Counter(left.replace("...", "").replace(",", ""))
        right = ("..." if "..." in left else "") + "".join(sorted(c for c, n in counts.items() if n == 1))
    output = _labels(right, hidden)
    known = {label for labels in inputs for label in labels}
    if len(set(output)) < len(output) or not set(output) <= known:
        raise InvalidInputError(
            "an einsum result with a label that is there twice, or in no operand", expected="each label once", got=equation
        )
    return inputs, output


def _labels(word: str, hidden: int) -> tuple[str, ...]:
    before, dots, after = word.partition("...")
    return (*before, *(f"{ELLIPSIS}{hidden - i}" for i in range(hidden if dots else 0)), *after)


def _diagonals(ctx: ImportContext, term: _Term) -> _Term:
    """A label that an operand has twice becomes one dim."""
    for label in term.labels:
        if term.labels.count(label) > 1:
            first = term.labels.index(label)
            second = term.labels.index(label, first + 1)
            if term.size(label) != tensor_type(term.value).shape[second]:
                raise InvalidInputError(f"the dims '{label}' of one einsum operand differ", got=tensor_type(term.value))
            others = tuple(name for i, name in enumerate(term.labels) if i not in (first, second))
            return _diagonals(ctx, _Term(diagonal(ctx, term.value, first, second), (*others, label)))
    return term


def diagonal(ctx: ImportContext, x: Any, first: int, second: int, offset: int = 0, size: Expr | None = None) -> Any:
    """Emit the diagonal of two dims, which becomes the last: every (columns + 1)-th element of flat rows.

    Raises UnsupportedError for a symbolic or empty matrix.
    """
    type_ = tensor_type(x)
    rows, columns = type_.shape[first], type_.shape[second]
    size = rows if size is None else size
    if (step := columns.as_int()) is None or size == 0:
        raise ctx.unsupported("a diagonal of a symbolic or empty matrix", got=type_)
    others = [i for i in range(type_.rank) if i not in (first, second)]
    perm = (*others, first, second)
    if perm != tuple(range(type_.rank)):
        x = ctx.emit(TransposeOp, [x], perm=perm)
    flat = reshaped(ctx, x, (*(type_.shape[i] for i in others), rows * columns))
    start = const(offset) if offset >= 0 else columns * const(-offset)
    return sliced(ctx, flat, {len(others): (start, size, step + 1)})


def _summed(ctx: ImportContext, term: _Term, needed: set[str]) -> _Term:
    """Without the labels that nothing needs."""
    axes = tuple(i for i, label in enumerate(term.labels) if label not in needed)
    if not axes:
        return term
    value = ctx.emit(ReduceSumOp, [term.value], axes=axes, keepdims=False)
    return _Term(value, tuple(label for label in term.labels if label in needed))


def _in_order(ctx: ImportContext, term: _Term, labels: tuple[str, ...]) -> _Term:
    """With its dims in the order of `labels`, which are the same."""
    if term.labels == labels:
        return term
    perm = tuple(term.labels.index(label) for label in labels)
    return _Term(ctx.emit(TransposeOp, [term.value], perm=perm), labels)


def _product(ctx: ImportContext, a: _Term, b: _Term, needed: set[str]) -> _Term:
    """The product of two operands, summed over the labels that nothing else needs."""
    a, b = _summed(ctx, a, needed | set(b.labels)), _summed(ctx, b, needed | set(a.labels))
    shared = [label for label in a.labels if label in b.labels]
    batch = tuple(label for label in shared if label in needed)
    summed = tuple(label for label in shared if label not in needed)
    rows = tuple(label for label in a.labels if label not in shared)
    columns = tuple(label for label in b.labels if label not in shared)
    if not (summed and rows and columns):  # no matrices: elementwise, then a sum
        order = (*batch, *rows, *columns, *summed)
        value = ctx.emit(MulOp, [_aligned(ctx, t, order) for t in (a, b)])
        return _summed(ctx, _Term(value, order), needed)
    a, b = (_stretched(ctx, t, other, summed) for t, other in ((a, b), (b, a)))
    depth = _volume(a, summed)
    left = _in_order(ctx, a, (*batch, *rows, *summed))
    right = _in_order(ctx, b, (*batch, *summed, *columns))
    matrix = ctx.emit(
        MatMulOp,
        [
            reshaped(ctx, left.value, (*map(a.size, batch), _volume(a, rows), depth)),
            reshaped(ctx, right.value, (*map(b.size, batch), depth, _volume(b, columns))),
        ],
    )
    wide = tensor_type(matrix).shape[: len(batch)]
    value = reshaped(ctx, matrix, (*wide, *map(a.size, rows), *map(b.size, columns)))
    return _Term(value, (*batch, *rows, *columns))


def _aligned(ctx: ImportContext, term: _Term, order: Sequence[str]) -> Any:
    """The value with a dim for every label of `order`, of size 1 where it has none."""
    own = _in_order(ctx, term, tuple(label for label in order if label in term.labels))
    missing = tuple(i for i, label in enumerate(order) if label not in term.labels)
    return ctx.emit(UnsqueezeOp, [own.value], axes=missing) if missing else own.value


def _stretched(ctx: ImportContext, term: _Term, other: _Term, labels: Sequence[str]) -> _Term:
    """With dims of size 1 as long as the other operand's, for labels that a matrix product sums."""
    shape = [other.size(label) if label in labels and s == 1 else s
             for label, s in zip(term.labels, tensor_type(term.value).shape, strict=True)]  # fmt: skip
    return _Term(expanded(ctx, term.value, shape), term.labels)


def _volume(term: _Term, labels: Sequence[str]) -> Expr:
    size = const(1)
    for label in labels:
        size = size * term.size(label)
    return size
