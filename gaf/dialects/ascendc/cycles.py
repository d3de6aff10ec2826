# SPDX-License-Identifier: Apache-2.0
"""What calls cost on one core of A2: the figures of `gaf.target.timing`, by instruction, for whole programs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from gaf.dialects.common.index import Expr, ExprLike, expr
from gaf.target import DEFAULT, rates
from gaf.target.timing import VECTOR_COSTS, Timing

_FLOAT = 4  # bytes: calls are priced as if on float32, which kernels compute in

VECTOR_F32: dict[str, tuple[float, float]] = {
    name: (cost.slope(_FLOAT), cost.start(_FLOAT)) for name, cost in VECTOR_COSTS.items()
}
"""Instruction -> (cycles per element, start cycles) on float32."""

BARRIER = 30.0
"""Start-to-start cycles that a PIPE_V barrier costs [estimated]: no figure is published."""


@dataclass(frozen=True)
class Cost:
    """`calls` executions of one instruction over `amount` elements, bytes or MACs in total."""

    instruction: str
    amount: Expr
    calls: Expr

    @classmethod
    def of(cls, instruction: str, amount: ExprLike, calls: ExprLike = 1) -> Cost:
        return cls(instruction, expr(amount), expr(calls))

    def cycles(self, env: dict[str, int]) -> float:
        """Cycles for the given values of all names; raises KeyError for a missing name."""
        rate, start = _rate(self.instruction)
        return rate * self.amount.evaluate(env) + start * self.calls.evaluate(env)


@cache
def _rate(instruction: str) -> tuple[float, float]:
    """Cycles per element, byte or MAC, and per call; copies with all vector cores at work."""
    timing = Timing.of()
    match instruction.partition("."):
        case ("GmToUb", _, _):
            return 1 / timing.load_rate(DEFAULT.aiv_cores), timing.load_start
        case ("UbToGm", _, _):
            return 1 / timing.store_rate(DEFAULT.aiv_cores), timing.store_start
        case ("Mmad", _, kind):
            return 1 / rates(DEFAULT).macs(kind), timing.mmad_start
        case ("PipeBarrier", _, _):
            return 0.0, BARRIER
    return VECTOR_F32[instruction]


FREE: tuple[Cost, ...] = ()
