# SPDX-License-Identifier: Apache-2.0
"""Cycles of vector instructions on A2 and rates of its copy engines, per core: a cost table with its sources.

Vector rows are the public fits `cycles = slope * elements + start` for float32 (graph-autofusion,
perf_param_v1.cpp), with slopes raised to the machine's floor of one 256-byte repeat per cycle where the fit
lies below it (asc-devkit, table of theoretical vector throughput). Ln has no fit: it takes the throughput row
of Exp and Exp's start.
"""

from __future__ import annotations

from dataclasses import dataclass

from gaf.dialects.common.index import Expr, ExprLike, expr

FLOOR_F32 = 1 / 64
"""Cycles per float32 element of an instruction that covers one repeat a cycle."""

VECTOR_F32: dict[str, tuple[float, float]] = {
    "Abs": (FLOOR_F32, 20.06), "Relu": (FLOOR_F32, 20.02), "LeakyRelu": (FLOOR_F32, 20.02),
    "Add": (0.0206, 23.22), "Sub": (0.0213, 22.13), "Mul": (0.0206, 23.23), "Div": (0.0454, 29.09),
    "Max": (0.0215, 20.13), "Min": (0.0215, 20.13), "Maxs": (FLOOR_F32, 20.09), "Mins": (FLOOR_F32, 20.09),
    "And": (FLOOR_F32, 20.06), "Or": (FLOOR_F32, 20.06), "Not": (FLOOR_F32, 20.06),
    "Adds": (FLOOR_F32, 22.09), "Muls": (FLOOR_F32, 23.10),
    "Exp": (0.0313, 28.04), "Ln": (0.0313, 28.04), "Sqrt": (0.0313, 29.00),
    "Rsqrt": (FLOOR_F32, 21.10), "Reciprocal": (FLOOR_F32, 21.06),
    "Tanh": (0.1570, 153.93), "Erf": (0.6038, 458.29), "Sin": (0.6038, 458.29), "Cos": (0.6038, 458.29),
    "Tan": (0.6038, 458.29), "Atan": (0.6038, 458.29), "Power": (0.6199, 730.11),
    "Select": (0.0229, 43.99), "CompareScalar": (0.0161, 21.97), "Compare": (FLOOR_F32, 21.03),
    "Duplicate": (FLOOR_F32, 17.00), "CreateVecIndex": (FLOOR_F32, 17.00), "Brcb": (FLOOR_F32, 13.07),
    "Copy": (0.0157, 13.00), "Cast": (FLOOR_F32, 20.44), "WholeReduce": (0.1094, 32.00),
    "Gather": (0.1875, 15.00),
}  # fmt: skip
"""Instruction -> (cycles per element, start cycles).

Estimated: Sin, Cos, Tan and Atan as Erf, CreateVecIndex as Duplicate, And, Or and Not (per 32 bits) as Abs.
"""

GM_TO_UB = (8.1, 27.01)
"""Bytes per cycle with all vector cores at work (9.9 from 25,000 bytes on), and start cycles, of one load."""

UB_TO_GM = (9.96, 12.09)
"""Bytes per cycle with all vector cores at work, and start cycles, of one store."""

CUBE_MACS = {"f32": 16 * 16 * 4, "f16": 16 * 16 * 16, "bf16": 16 * 16 * 16}
"""Multiply-adds per cycle of the cube (asc-devkit, NPU architecture 2201); float32 is true float32."""

BARRIER = 30.0
"""Start-to-start cycles that a PIPE_V barrier costs: estimated, no figure is published."""


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


def _rate(instruction: str) -> tuple[float, float]:
    match instruction:
        case "GmToUb":
            return 1 / GM_TO_UB[0], GM_TO_UB[1]
        case "UbToGm":
            return 1 / UB_TO_GM[0], UB_TO_GM[1]
        case "Mmad.f32" | "Mmad.f16" | "Mmad.bf16":
            return 1 / CUBE_MACS[instruction.partition(".")[2]], 26.0
        case "PipeBarrier":
            return 0.0, BARRIER
    return VECTOR_F32[instruction]


FREE: tuple[Cost, ...] = ()
