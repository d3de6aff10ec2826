# SPDX-License-Identifier: Apache-2.0
"""The rule driver: order, locations, counts, the rewrite budget and errors."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import (
    FileLineColLoc,
    IntAttr,
    ModuleOp,
    StringAttr,
    i1,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.dialects.func import ReturnOp
from xdsl.dialects.test import TestOp, TestPureOp
from xdsl.ir import Operation
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from gaf.errors import GafError, InternalError, UnsupportedError
from gaf.passes import registry
from gaf.passes.driver import DEAD_CODE, RewriteRule, RuleDriver, record_rewrites, rewrite_rule

PLACE = FileLineColLoc(StringAttr("m.onnx"), IntAttr(3), IntAttr(1))


def producer(type_: object) -> TestOp:
    return TestOp(result_types=[type_])


def module_with(*ops: Operation) -> ModuleOp:
    """A module of `ops`, all at `PLACE`, whose last results are used."""
    for op in ops:
        op.location = PLACE
    return ModuleOp([*ops, TestOp(operands=ops[-1].results)])


def types(module: ModuleOp) -> list[object]:
    return [t for op in module.ops for t in op.result_types]


@rewrite_rule(TestOp)
def narrow(op: TestOp, rewriter: PatternRewriter) -> None:
    """i64 -> i32 -> i16 -> i8."""
    steps = {i64: i32, i32: i16, i16: i8}
    if op.results and op.results[0].type in steps:
        rewriter.replace(op, producer(steps[op.results[0].type]))


@rewrite_rule(TestOp)
def widen(op: TestOp, rewriter: PatternRewriter) -> None:
    if op.results and op.results[0].type == i32:
        rewriter.replace(op, producer(i64))


def test_runs_to_a_fixpoint_and_counts() -> None:
    module = module_with(producer(i64), producer(i32))
    result = RuleDriver("narrow-all", [narrow]).run(module)
    assert types(module) == [i8, i8]
    assert result.changed and result.fired == {"narrow": 5}


def test_nothing_to_do_is_no_change() -> None:
    result = RuleDriver("narrow-all", [narrow]).run(module_with(producer(i8)))
    assert not result.changed and not result.fired


def test_inserted_operations_get_the_location_of_the_matched_one() -> None:
    own = FileLineColLoc(StringAttr("other.py"), IntAttr(7), IntAttr(2))

    @rewrite_rule(TestOp)
    def split(op: TestOp, rewriter: PatternRewriter) -> None:
        if op.results and op.results[0].type == i64:
            first = producer(i1)
            first.location = own
            inner = producer(i1)
            rewriter.replace(
                op, [first, TestOp(result_types=[i8], regions=[ModuleOp([inner]).detach_region(0)])]
            )

    module = module_with(producer(i64))
    RuleDriver("split-all", [split]).run(module)
    first, second, _ = module.ops
    assert first.location == own
    assert second.location == PLACE
    assert next(iter(second.regions[0].block.ops)).location == PLACE


def test_higher_benefit_goes_first_and_equal_ones_keep_their_order() -> None:
    def setter(name: str, type_: object, benefit: int) -> RewriteRule:
        def rewrite(op: TestOp, rewriter: PatternRewriter) -> None:
            if op.results and op.results[0].type == i64:
                rewriter.replace(op, producer(type_))

        return RewriteRule(name, (TestOp,), rewrite, benefit)

    module = module_with(producer(i64))
    rules = [setter("low", i1, 1), setter("high", i8, 5), setter("high-too", i16, 5)]
    assert RuleDriver("choose", rules).run(module).fired == {"high": 1}
    assert types(module) == [i8]


def test_rules_are_indexed_by_root_and_its_subclasses() -> None:
    def never(op: Operation, rewriter: PatternRewriter) -> None: ...

    by_class = RewriteRule("exact", (TestOp,), never)
    by_base = RewriteRule("any", (Operation,), never)
    driver = RuleDriver("index", [by_class, by_base])
    assert driver.rules_for(TestOp) == (by_class, by_base)
    assert driver.rules_for(ModuleOp) == (by_base,)


def test_an_xdsl_pattern_is_a_rule() -> None:
    class Narrow(RewritePattern):
        def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
            if isinstance(op, TestOp):
                narrow.rewrite(op, rewriter)

    module = module_with(producer(i16))
    assert RuleDriver("narrow-all", [RewriteRule.of(Narrow(), TestOp)]).run(module).fired == {"Narrow": 1}


def test_rules_that_undo_each_other_are_named() -> None:
    module = module_with(producer(i64))
    with pytest.raises(InternalError) as failure:
        RuleDriver("ping-pong", [widen, narrow], budget=100).run(module)
    message = str(failure.value)
    assert "ping-pong: rewriting did not end after 100 rewrites" in message
    assert "widen (5" in message and "narrow (5" in message


def test_the_default_budget_stops_too() -> None:
    with pytest.raises(InternalError, match="did not end after 20"):
        RuleDriver("ping-pong", [widen, narrow]).run(module_with(producer(i64)))


def test_a_failing_rule_is_named_without_a_module_dump() -> None:
    @rewrite_rule(TestOp)
    def broken_rule(op: TestOp, rewriter: PatternRewriter) -> None:
        raise KeyError("axis")

    with pytest.raises(InternalError) as failure:
        RuleDriver("fold", [broken_rule]).run(module_with(producer(i64)))
    assert str(failure.value).startswith(
        "m.onnx:3:1: test.op: rule 'broken-rule' of fold failed: KeyError: 'axis'"
    )
    assert isinstance(failure.value.__cause__, KeyError)
    assert "builtin.module" not in str(failure.value) and not hasattr(failure.value, "__notes__")


def test_a_users_error_passes_through_with_its_place() -> None:
    @rewrite_rule(TestOp)
    def refuse(op: TestOp, rewriter: PatternRewriter) -> None:
        raise UnsupportedError("no such dtype")

    with pytest.raises(UnsupportedError) as failure:
        RuleDriver("lower", [refuse]).run(module_with(producer(i64)))
    assert str(failure.value) == "m.onnx:3:1: test.op: no such dtype"


def test_dead_code_is_erased_on_request_only() -> None:
    def dead() -> ModuleOp:
        return ModuleOp([TestPureOp(result_types=[i64]), TestOp()])

    kept, cleaned = dead(), dead()
    assert not RuleDriver("keep", []).run(kept).changed
    assert RuleDriver("clean", [], erase_dead=True).run(cleaned).fired == {DEAD_CODE: 1}
    assert [type(op) for op in cleaned.ops] == [TestOp]


def test_log_counts_by_driver() -> None:
    with record_rewrites() as log:
        RuleDriver("a", [narrow]).run(module_with(producer(i64)))
        RuleDriver("a", [narrow]).run(module_with(producer(i16)))
        RuleDriver("b", [narrow]).run(module_with(producer(i8)))
    RuleDriver("c", [narrow]).run(module_with(producer(i64)))
    assert log.fired == {"a": {"narrow": 4}, "b": {}}


def test_verifying_touched_operations_names_the_rule() -> None:
    @rewrite_rule(TestOp)
    def make_invalid(op: TestOp, rewriter: PatternRewriter) -> None:
        if op.results and op.results[0].type == i64:
            rewriter.insert(ReturnOp())  # not inside a function
            rewriter.replace(op, producer(i8))

    RuleDriver("quiet", [make_invalid]).run(module_with(producer(i64)))
    with record_rewrites(verify_touched=True), pytest.raises(InternalError) as failure:
        RuleDriver("loud", [make_invalid]).run(module_with(producer(i64)))
    assert "rule 'make-invalid' of loud failed: VerifyException: 'func.return'" in str(
        failure.value
    )


def test_a_rule_can_join_a_pass_from_outside() -> None:
    with registry.scoped_registry():

        @rewrite_rule(TestOp, into="verify-level")
        def joined(op: TestOp, rewriter: PatternRewriter) -> None: ...

        assert joined in RuleDriver("verify-level", []).rules
        assert joined not in RuleDriver("another", []).rules
    assert joined not in RuleDriver("verify-level", []).rules
    with pytest.raises(GafError, match="unknown pass 'verify-leve'"):
        rewrite_rule(TestOp, into="verify-leve")(lambda op, rewriter: None)
