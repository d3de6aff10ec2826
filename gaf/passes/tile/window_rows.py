# SPDX-License-Identifier: Apache-2.0
"""Rows of a matmul's right operand over several summed axes: windows of an image that lies line by line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gaf.dialects.common.index import Expr, Func, const, map_atoms, product, sym


@dataclass(frozen=True)
class WindowRows:
    """Row `(o * taps + t) * inner + i` starts at element `o * outer + (t * dilation // stride) * line +
    (t * dilation % stride) * phase + i * step`, from the first row on.
    """

    taps: Expr
    inner: Expr
    outer: Expr
    line: Expr
    phase: Expr
    step: Expr
    dilation: int = 1
    stride: int = 1


def window_rows(total: Expr, over: Sequence[str], extents: Mapping[str, Expr]) -> WindowRows | None:
    """Where the rows of an operand with the offset `total` start, along the summed axes, outermost first; None
    if they follow no such rule.
    """
    sizes = {a: extents[a] for a in over}
    bent = [a for a in over if total.coefficient(a) is None]
    if len(bent) > 1:
        return None
    steps = {a: total.coefficient(a) or const(0) for a in over if a not in bent}
    if not bent:
        groups = _merged(over, steps, sizes)
        if len(groups) > 3:
            return None
        while len(groups) < 3:  # an axis of one position further in
            groups.append((const(1), const(0)))
        (_, outer), (taps, line), (inner, step) = groups
        return WindowRows(taps, inner, outer, line, const(0), step)
    (tap,) = bent
    found = _tap(total, tap)
    at = over.index(tap)
    before, behind = (_merged(part, steps, sizes) for part in (over[:at], over[at + 1 :]))
    if found is None or len(before) > 1 or len(behind) > 1:
        return None
    line, phase, dilation, stride = found
    outer = before[0][1] if before else const(0)
    inner, step = behind[0] if behind else (const(1), const(0))
    return WindowRows(sizes[tap], inner, outer, line, phase, step, dilation, stride)


def _merged(
    over: Sequence[str], steps: Mapping[str, Expr], sizes: Mapping[str, Expr]
) -> list[tuple[Expr, Expr]]:
    """(size, step) of neighbouring axes, those that count on as one."""
    found: list[tuple[Expr, Expr]] = []
    for axis in over:
        if found and found[-1][1] == steps[axis] * sizes[axis]:
            found[-1] = product([found[-1][0], sizes[axis]]), steps[axis]
        else:
            found.append((sizes[axis], steps[axis]))
    return found


def _tap(total: Expr, tap: str) -> tuple[Expr, Expr, int, int] | None:
    """Steps of `tap * dilation // stride` and `tap * dilation % stride` in an offset, dilation and stride."""
    counts: set[tuple[int, int]] = set()

    def atom(found: Func) -> Expr | None:
        if found.name not in ("floordiv", "mod") or tap not in found.args[0].names():
            return None
        dilation, stride = found.args[0].coefficient(tap), found.args[1].as_int()
        number = dilation.as_int() if dilation is not None else None
        if number is None or stride is None or found.args[0] != sym(tap) * number:
            return None
        counts.add((number, stride))
        return sym(f"{tap}/{found.name}")

    named = map_atoms(total, atom)
    line, phase = (named.coefficient(f"{tap}/{name}") for name in ("floordiv", "mod"))
    if len(counts) != 1 or tap in named.names() or line is None or phase is None:
        return None
    dilation, stride = next(iter(counts))
    return line, phase, dilation, stride
