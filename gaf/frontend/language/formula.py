# SPDX-License-Identifier: Apache-2.0
"""The formulas of `rule` lines: numbers, + - * /, min, max, and the parts of a gain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gaf.frontend.language import syntax as s
from gaf.frontend.language.errors import Source, near

NAMES = ("memory", "launch", "latency")
"""Fractions of bytes, launches and modelled time that a fused kernel saves."""


def check_rule(rule: s.Rule, source: Source) -> None:
    """A rule's settings are `gain`, a formula of the parts of a gain. Raises LanguageError."""
    for setting in rule.settings:
        if setting.name != "gain":
            raise source.error(f"a rule has no '{setting.name}'", setting.span, expected="gain")
        _check_formula(setting.value, NAMES, source)


def _check_formula(e: s.Expression, known: Sequence[str], source: Source) -> None:
    match e:
        case s.Number():
            return
        case s.Name(name):
            if name not in known:
                raise source.error(
                    f"unknown name '{name}'", e.span, expected=", ".join(known), hint=near(name, known)
                )
        case s.Unary("-", operand):
            _check_formula(operand, known, source)
        case s.Binary("+" | "-" | "*" | "/", left, right):
            _check_formula(left, known, source)
            _check_formula(right, known, source)
        case s.Call("min" | "max", args):
            for a in args:
                _check_formula(a.value, known, source)
        case _:
            raise source.error(
                "this is no formula", e.span, expected="numbers, + - * /, min, max and " + ", ".join(known)
            )


def evaluate_formula(e: s.Expression, values: Mapping[str, float]) -> float:
    """The value of a rule's formula; `values` gives its names. Raises ZeroDivisionError."""
    match e:
        case s.Number(value):
            return float(value)
        case s.Name(name):
            return values[name]
        case s.Unary(_, operand):
            return -evaluate_formula(operand, values)
        case s.Call(name, args):
            return (min if name == "min" else max)(evaluate_formula(a.value, values) for a in args)
        case s.Binary(op, left, right):
            a, b = evaluate_formula(left, values), evaluate_formula(right, values)
            return {"+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b, "/": lambda: a / b}[op]()
    raise TypeError(f"not a formula: {e!r}")
