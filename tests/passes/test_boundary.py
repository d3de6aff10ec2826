# SPDX-License-Identifier: Apache-2.0
"""SSA dominance on random programs against a slow definition, and the error classes of the checks."""

from __future__ import annotations


import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp, i32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.dialects.test import TestOp
from xdsl.ir import Block, Operation, Region, SSAValue

from gaf.errors import InternalError, InvalidInputError
from gaf.passes.boundary import check_dominance, check_level
from tests.work import count_calls


@st.composite
def nested_programs(draw: st.DrawFn) -> ModuleOp:
    """Ops, some with a nested region, whose operands are drawn from all values of the program."""
    ops: list[Operation] = []

    def block(depth: int) -> Block:
        made = []
        for _ in range(draw(st.integers(1, 4))):
            nested = depth < 2 and draw(st.booleans())
            regions = [Region(block(depth + 1))] if nested else []
            made.append(TestOp(result_types=[i32], regions=regions))
            ops.append(made[-1])
        return Block(made, arg_types=[i32] * draw(st.integers(0, 1)))

    module = ModuleOp(Region(block(0)))
    values: list[SSAValue] = [r for op in ops for r in op.results]
    values += [a for op in (module, *ops) for region in op.regions for a in region.block.args]
    for op in ops:
        op.operands = [draw(st.sampled_from(values))] if draw(st.booleans()) else []
    return module


def dominates(value: SSAValue, user: Operation) -> bool:
    """The definition: going outwards from the use, the value is a block argument or an earlier result."""
    at: Operation | None = user
    while at is not None and at.parent is not None:
        if value in at.parent.args:
            return True
        before = at.prev_op
        while before is not None:
            if value in before.results:
                return True
            before = before.prev_op
        at = at.parent_op()
    return False


@given(nested_programs())
def test_dominance_agrees_with_its_definition(module: ModuleOp) -> None:
    legal = all(dominates(operand, op) for op in module.walk() for operand in op.operands)
    if legal:
        check_dominance(module)
    else:
        with pytest.raises(InvalidInputError, match="used before or outside of its definition"):
            check_dominance(module)


def test_an_isolated_region_sees_nothing_outside() -> None:
    outside = TestOp(result_types=[i32])
    function = FuncOp("f", ((), ()), Region(Block([TestOp(operands=outside.results), ReturnOp()])))
    with pytest.raises(InvalidInputError, match="operand 0 is used before or outside"):
        check_dominance(ModuleOp([outside, function]))


def test_the_caller_chooses_the_error_class() -> None:
    late = TestOp(result_types=[i32])
    with pytest.raises(InternalError):
        check_level(ModuleOp([TestOp(operands=late.results), late]), error=InternalError)


def test_an_empty_function_body_is_named() -> None:
    module = ModuleOp([FuncOp("f", ((), ()), Region(Block()))])
    with pytest.raises(InvalidInputError, match="func.func: a region of this operation is empty"):
        check_level(module)


def test_work_grows_linearly() -> None:
    """Ten times the operations take about ten times the work (a quadratic check takes a hundred times)."""

    def work(count: int) -> int:
        ops = [TestOp(result_types=[i32])]
        for _ in range(count):
            ops.append(
                TestOp(operands=[ops[-1].results[0], ops[len(ops) // 2].results[0]], result_types=[i32])
            )
        module = ModuleOp(ops)
        return count_calls(lambda: check_dominance(module))

    assert work(3_000) < 15 * work(300)
