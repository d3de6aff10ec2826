# SPDX-License-Identifier: Apache-2.0
"""Checks at the borders between levels: op verifiers, SSA dominance (xDSL has none), and allowed dialects."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.irdl.dominance import DominanceInfo
from xdsl.traits import IsolatedFromAbove, NoTerminator
from xdsl.utils.exceptions import VerifyException

from gaf.errors import GafError, InvalidInputError, first_line
from gaf.passes.diagnostics import op_name, op_text, where

LEVEL_DIALECTS: dict[str, frozenset[str]] = {
    "graph": frozenset({"builtin", "func", "graph"}),
    "tile": frozenset({"builtin", "func", "graph", "tile"}),
    "ascendc": frozenset({"builtin", "func", "graph", "ascendc"}),
}
"""The dialects whose operations may occur at a level.

The model's function stays in the graph dialect all the way down: it says which kernel runs on what.
"""

KERNEL_DIALECTS = frozenset({"tile", "ascendc"})
"""Inside an operation of one of these dialects only the same dialect may occur."""


def check_level(
    root: Operation, level: str | None = None, *, error: type[GafError] = InvalidInputError
) -> None:
    """Checks everything under `root`; with a `level`, also that only its dialects occur.

    Raises `error` for the first operation that is wrong: `InvalidInputError` fits a file of the user,
    `InternalError` the output of a pass.
    """
    check_operations(root, error=error)
    check_dominance(root, error=error)
    if level is not None:
        check_dialects(root, level, error=error)


def check_operations(root: Operation, *, error: type[GafError] = InvalidInputError) -> None:
    """Runs the verifier of every operation, with a short message in place of xDSL's dump of the module."""
    for op in root.walk():
        try:
            op.verify(verify_nested_ops=False)
        except (VerifyException, ValueError) as failure:
            raise error(first_line(failure), where=where(op), got=op_text(op)) from failure
        for region in op.regions:
            blocks = region.blocks
            if len(blocks) == 1 and blocks.first.first_op is None and not op.has_trait(NoTerminator):
                raise error("a region of this operation is empty and lacks its terminator", where=where(op))


def check_dialects(root: Operation, level: str, *, error: type[GafError] = InvalidInputError) -> None:
    """Refuses an operation of a dialect that may not occur at `level`, or not inside a kernel."""
    allowed = LEVEL_DIALECTS[level]
    for op in root.walk():
        dialect = _dialect(op)
        if dialect not in allowed:
            raise error(
                f"this operation may not occur at the {level} level",
                where=where(op),
                expected=f"only the dialects {', '.join(sorted(allowed))}",
                got=op_text(op),
            )
        outer = op.parent_op()
        if outer is not None and dialect != _dialect(outer) and _dialect(outer) in KERNEL_DIALECTS:
            raise error(
                f"this operation may not occur inside {op_name(outer)}",
                where=where(op),
                expected=f"only the dialect {_dialect(outer)}",
                got=op_text(op),
            )


def check_dominance(root: Operation, *, error: type[GafError] = InvalidInputError) -> None:
    """Checks that every operand is defined before its use, in a block that dominates the use.

    One walk; linear in the number of operations for regions of one block.
    """
    for region in root.regions:
        _check_region(region, set(), error)


def _check_region(region: Region, visible: set[SSAValue], error: type[GafError]) -> None:
    blocks = tuple(region.blocks)
    if len(blocks) <= 1:
        for block in blocks:
            _forget(visible, _check_block(block, visible, error))
        return
    dominance = DominanceInfo(region)
    for block in blocks:
        above = [v for b in blocks if dominance.strictly_dominates(b, block) for v in _defined_in(b)]
        visible.update(above)
        _forget(visible, _check_block(block, visible, error))
        _forget(visible, above)


def _check_block(block: Block, visible: set[SSAValue], error: type[GafError]) -> list[SSAValue]:
    """Adds the values that `block` defines to `visible`, and returns them."""
    defined: list[SSAValue] = list(block.args)
    visible.update(defined)
    for op in block.ops:
        for index, operand in enumerate(op.operands):
            if operand not in visible:
                raise error(
                    f"operand {index} is used before or outside of its definition",
                    where=where(op),
                    expected="a value defined earlier in this block or in a block around it",
                    got=op_text(op),
                )
        if op.regions:
            inner = set() if op.has_trait(IsolatedFromAbove) else visible
            for region in op.regions:
                _check_region(region, inner, error)
        defined.extend(op.results)
        visible.update(op.results)
    return defined


def _dialect(op: Operation) -> str:
    return op_name(op).partition(".")[0]


def _defined_in(block: Block) -> Iterable[SSAValue]:
    yield from block.args
    for op in block.ops:
        yield from op.results


def _forget(visible: set[SSAValue], values: Iterable[SSAValue]) -> None:
    visible.difference_update(values)
