# SPDX-License-Identifier: Apache-2.0
"""Applies rewrite rules to a fixpoint: indexed by root operation, located, counted, and sure to stop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import UNKNOWN_LOC, LocationAttr, UnknownLoc
from xdsl.ir import Operation
from xdsl.pattern_rewriter import (
    PatternRewriter,
    PatternRewriterListener,
    PatternRewriteWalker,
    RewritePattern,
)
from xdsl.transforms.dead_code_elimination import is_trivially_dead

from gaf.errors import GafError, InternalError, first_line
from gaf.passes import registry
from gaf.passes.diagnostics import op_text, where

DEAD_CODE = "erase-dead"
"""The name under which the driver counts operations that it erased because nothing uses them."""


@dataclass(frozen=True, eq=False)
class RewriteRule:
    """A named rewrite of operations of the `roots` classes (subclasses included).

    `rewrite(op, rewriter)` looks at `op` and either leaves everything alone or changes it through `rewriter`.
    Among the rules for an operation the one with the highest `benefit` is tried first.
    """

    name: str
    roots: tuple[type[Operation], ...]
    rewrite: Callable[[Any, PatternRewriter], None]
    benefit: int = 1
    doc: str = ""

    @staticmethod
    def of(pattern: RewritePattern, *roots: type[Operation], benefit: int = 1) -> RewriteRule:
        """An xDSL `RewritePattern` as a rule; it is named after its class."""
        cls = type(pattern)
        return RewriteRule(cls.__name__, roots, pattern.match_and_rewrite, benefit, cls.__doc__ or "")


def rewrite_rule(
    *roots: type[Operation], benefit: int = 1, into: str | None = None
) -> Callable[[Callable[[Any, PatternRewriter], None]], RewriteRule]:
    """Decorator: makes a function a `RewriteRule` named like it, in kebab-case.

    With `into="canonicalize"` the rule also joins the rules of that pass, whoever wrote the pass.
    """

    def wrap(function: Callable[[Any, PatternRewriter], None]) -> RewriteRule:
        name = function.__name__.strip("_").replace("_", "-")
        rule = RewriteRule(name, roots, function, benefit, (function.__doc__ or "").strip())
        if into is not None:
            registry.add_rule(into, rule)
        return rule

    return wrap


@dataclass
class RewriteLog:
    """What the drivers did while it was active: for every driver, how often each rule changed something."""

    fired: dict[str, Counter[str]] = field(default_factory=dict)
    verify_touched: bool = False
    """Verify every inserted or modified operation after each rewrite, so that an error names the rule."""


@dataclass(frozen=True)
class RewriteResult:
    """Outcome of one run: whether anything changed, and how often each rule did."""

    fired: Counter[str]

    @property
    def changed(self) -> bool:
        return bool(self.fired)


_active_log: ContextVar[RewriteLog | None] = ContextVar("gaf_rewrite_log", default=None)


@contextmanager
def record_rewrites(*, verify_touched: bool = False) -> Iterator[RewriteLog]:
    """Collects rule counts of every driver that runs inside, for `--explain`, reports and tests."""
    log = RewriteLog(verify_touched=verify_touched)
    token = _active_log.set(log)
    try:
        yield log
    finally:
        _active_log.reset(token)


class RuleDriver:
    """Rewrites everything inside an operation until no rule changes anything any more.

    Operations that a rule inserts get the location of the operation it matched, if they have none.
    More rewrites than `budget` (default: 2000 + 20 for each operation at the start) are an `InternalError`
    that names the rules; so is any unexpected exception in a rule. A `GafError` of a rule passes through,
    with the place added. `erase_dead` also erases pure operations without uses.
    """

    def __init__(
        self,
        name: str,
        rules: Sequence[RewriteRule],
        *,
        budget: int | None = None,
        erase_dead: bool = False,
    ) -> None:
        self.name = name
        # sorted is stable: equal benefits keep the order of the list
        self.rules = tuple(sorted((*rules, *registry.rules_for(name)), key=lambda rule: -rule.benefit))
        self.budget = budget
        self.erase_dead = erase_dead
        self._index: dict[type[Operation], tuple[RewriteRule, ...]] = {}

    def run(self, root: Operation) -> RewriteResult:
        """Rewrites the regions of `root` in place."""
        log = _active_log.get()
        budget = self.budget if self.budget is not None else 2000 + 20 * sum(1 for _ in root.walk())
        run = _Run(self, budget, log is not None and log.verify_touched)
        listener = PatternRewriterListener(
            operation_insertion_handler=[run.inserted],
            operation_modification_handler=[run.touched.append] if run.verify else [],
        )
        walker = PatternRewriteWalker(run, listener=listener)
        try:
            for region in root.regions:
                walker.rewrite_region(region)
        except _Stop as stop:
            raise stop.error from stop.error.__cause__
        finally:
            if log is not None:
                log.fired.setdefault(self.name, Counter()).update(run.fired)
        return RewriteResult(run.fired)

    def rules_for(self, op_type: type[Operation]) -> tuple[RewriteRule, ...]:
        """The rules for operations of a class, best first."""
        found = self._index.get(op_type)
        if found is None:
            found = tuple(rule for rule in self.rules if issubclass(op_type, rule.roots))
            self._index[op_type] = found
        return found


class _Stop(BaseException):
    """Carries an error through the walker, which would turn an `Exception` into a dump of the module."""

    def __init__(self, error: GafError) -> None:
        self.error = error


class _Run(RewritePattern):
    """One run of a driver: the pattern that the walker calls for every operation, and its counters."""

    def __init__(self, driver: RuleDriver, budget: int, verify: bool) -> None:
        self.driver = driver
        self.budget = budget
        self.verify = verify
        self.fired: Counter[str] = Counter()
        self.touched: list[Operation] = []
        self._left = budget
        self._location: LocationAttr = UNKNOWN_LOC

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if self.driver.erase_dead and is_trivially_dead(op):
            rewriter.erase(op)
            self._count(DEAD_CODE)
            return
        for rule in self.driver.rules_for(type(op)):
            self._location = op.location
            try:
                rule.rewrite(op, rewriter)
                if not rewriter.has_done_action:
                    continue
                self._count(rule.name)
                if self.verify:
                    self._verify_touched()
                return
            except Exception as error:
                raise _Stop(self._located(error, rule, op)) from error

    def inserted(self, op: Operation) -> None:
        """Gives an inserted operation and what it holds the location of the matched one."""
        if self.verify:
            self.touched.append(op)
        if not isinstance(self._location, UnknownLoc):
            for inner in op.walk() if op.regions else (op,):
                if isinstance(inner.location, UnknownLoc):
                    inner.location = self._location

    def _count(self, name: str) -> None:
        self.fired[name] += 1
        self._left -= 1
        if self._left < 0:
            often = ", ".join(f"{rule} ({count} times)" for rule, count in self.fired.most_common(3))
            raise _Stop(
                InternalError(
                    f"{self.driver.name}: rewriting did not end after {self.budget} rewrites; "
                    f"the rules that fired most: {often}",
                    hint="rules that undo each other, or one that matches its own result, go on for ever",
                )
            )

    def _verify_touched(self) -> None:
        touched, self.touched = self.touched, []
        for op in touched:
            if op.parent is not None:
                op.verify(verify_nested_ops=False)

    def _located(self, error: Exception, rule: RewriteRule, op: Operation) -> GafError:
        if isinstance(error, GafError):
            if error.where is None:
                error.where = where(op)
            return error
        located = InternalError(
            f"rule '{rule.name}' of {self.driver.name} failed: {type(error).__name__}: {first_line(error)}",
            where=where(op),
            got=op_text(op) if op.parent is not None else None,
        )
        located.__cause__ = error
        return located
