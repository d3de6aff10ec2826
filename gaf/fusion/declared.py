# SPDX-License-Identifier: Apache-2.0
"""Fusion rules that `.gaf` files declare, as `FusionRule` objects."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gaf.dialects.graph.model import Model
from gaf.errors import InvalidInputError
from gaf.frontend.language.formula import evaluate_formula
from gaf.frontend.language.syntax import Rule
from gaf.fusion.rules import FusionRule, Subgraph, fusion_rules, registered_rules

if TYPE_CHECKING:
    from gaf.frontend.language.program import Program


class DeclaredRule(FusionRule):
    """`rule name: (A | B) >> C { gain = 0.7 * memory + 0.3 }`.

    In the formula `memory`, `launch` and `latency` are the fractions of bytes, launches and modelled time
    that the fused kernel saves. Without a formula the gain is the modelled one.
    """

    def __init__(self, rule: Rule, where: str) -> None:
        super().__init__(rule.name, [(f"slot{i}", list(names)) for i, names in enumerate(rule.slots)])
        self.where = where
        self.formula = next((x.value for x in rule.settings if x.name == "gain"), None)

    def evaluate_gain(self, subgraph: Subgraph) -> float:
        if self.formula is None:
            return super().evaluate_gain(subgraph)
        values = {
            "memory": subgraph.memory_reduction,
            "launch": subgraph.launch_reduction,
            "latency": subgraph.latency_reduction,
        }
        try:
            return evaluate_formula(self.formula, values)
        except ZeroDivisionError:
            raise InvalidInputError(
                f"the gain of rule '{self.name}' divides by 0", where=self.where
            ) from None


def program_rules(program: Program) -> list[FusionRule]:
    """The rules of a program, those of imported files included.

    Raises InvalidInputError for a slot that names no known op.
    """
    rules: list[FusionRule] = []
    for rule in program.rules.values():
        made = DeclaredRule(rule, program.source.name)
        try:
            made.slots()
        except InvalidInputError as error:
            raise program.source.wrap(error, rule.name_span) from None
        rules.append(made)
    return rules


def load_rules(path: str | os.PathLike[str]) -> list[FusionRule]:
    """The rules of a `.gaf` file, to register or to use in a `with gaf.fusion_rules(*rules)` block."""
    from gaf.frontend.language.program import load_program

    return program_rules(load_program(path))


@contextmanager
def declared_rules(model: Model) -> Iterator[None]:
    """The rules that the model's own `.gaf` file declares hold inside; a registered rule of the same name wins."""
    program = model.origin
    if not getattr(program, "rules", None):  # only programs of the language have rules
        yield
        return
    taken = {r.title for r in registered_rules()}
    with fusion_rules(*(r for r in program_rules(program) if r.title not in taken)):
        yield
