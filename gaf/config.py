# SPDX-License-Identifier: Apache-2.0
"""`FusionConfig`: what a user can decide about fusion, with the defaults of the contract."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from gaf.errors import InvalidInputError

_CHOICES = {
    "objective": ("traffic", "time"),
    "numerics": ("fast", "strict"),
    "matmul_precision": ("fp32", "hf32", "fp16"),
    "strategy": ("greedy", "optimal", "none"),
    "atb": ("off", "prefer"),
    "rule_errors": ("report", "raise"),
}


REWRITES = ("fold-batch-norm", "pack-matmuls", "online-reductions", "overlap-collectives")
"""Rewrites that `FusionConfig.disabled_rules` switches off, besides rules of the user."""


@dataclass(frozen=True)
class FusionConfig:
    """Options of `gaf.fuse`.

    `enable_autofuse=False` joins only what rules of the user ask for. `max_fusion_depth` bounds the
    contractions and reductions (a LayerNorm, in any spelling, is one) on the longest path inside one kernel.
    `cost_threshold` is the part of its members' unfused time that a kernel must save. `objective="traffic"`
    looks for the fewest HBM bytes, then kernels, unless that is modelled more than 15 % slower than apart;
    "time" for the least modelled time. `cost_model` is a `gaf.CostModel`. `strategy` is how groups are
    searched: "greedy", "optimal" (exact on small clusters) or "none". `symbols` are the sizes at which
    symbolic dims are priced (128 by default). `core_budget` (cube cores) and `l2_budget` (bytes) say how much
    of the chip the model may count on. `atb="prefer"` leaves whole patterns that ATB has operators for alone.
    `disabled_rules` switches rules off by name, and the rewrites "fold-batch-norm", "pack-matmuls", "overlap-collectives"
    and "online-reductions" (softmax and norms of long rows in one pass, attention of long rows); `groups`
    (names of model nodes) are joined, where legal, instead of searching, e.g. to repeat the plan of another size;
    `rule_errors` says whether a rule that fails is reported or stops the compilation; `tuning` bounds tiling
    parameters by kernel, as `gaf tune` finds them (`gaf.read_tuning` reads its file).

    `numerics="fast"` computes fp16 and bf16 chains in fp32, "strict" rounds after every op. Raises
    InvalidInputError for values out of range. `matmul_precision="hf32"` lets the cube round the f32 operands
    of matmuls to 11 bits of mantissa, at twice the speed (the CPU's fast engine keeps all bits); "fp16" is
    refused: no kernel form has it yet.
    """

    enable_superkernel: bool = True
    enable_autofuse: bool = True
    max_fusion_depth: int | None = None
    cost_threshold: float = 0.0
    cost_model: object | None = None
    target: str = "ascend910b3"
    objective: str = "traffic"
    numerics: str = "fast"
    matmul_precision: str = "fp32"
    strategy: str = "greedy"
    atb: str = "off"
    symbols: Mapping[str, int] | None = None
    core_budget: int | None = None
    l2_budget: int | None = None
    disabled_rules: tuple[str, ...] = ()
    groups: tuple[tuple[str, ...], ...] | None = None
    rule_errors: str = "report"
    tuning: Mapping[str, Mapping[str, int]] | None = None

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise InvalidInputError(
                    f"FusionConfig.{name} has an unknown value",
                    expected=" or ".join(choices),
                    got=getattr(self, name),
                )
        if self.max_fusion_depth is not None and (
            not _whole(self.max_fusion_depth) or self.max_fusion_depth < 0
        ):
            raise InvalidInputError(
                "FusionConfig.max_fusion_depth is negative", expected=">= 0", got=self.max_fusion_depth
            )
        threshold = self.cost_threshold
        if (
            not isinstance(threshold, int | float)
            or not math.isfinite(threshold)
            or not 0.0 <= threshold <= 1.0
        ):
            raise InvalidInputError(
                "FusionConfig.cost_threshold is out of range", expected="0..1", got=threshold
            )
        for name, least in (("core_budget", 1), ("l2_budget", 0)):
            value = getattr(self, name)
            if value is not None and (not _whole(value) or value < least):
                raise InvalidInputError(
                    f"FusionConfig.{name} is out of range", expected=f">= {least}", got=value
                )
        for symbol, size in (self.symbols or {}).items():
            if not _whole(size) or size < 1:
                raise InvalidInputError(
                    f"FusionConfig.symbols['{symbol}'] is no size", expected=">= 1", got=size
                )
        if self.cost_model is not None and not hasattr(self.cost_model, "estimate_latency"):
            raise InvalidInputError(
                "FusionConfig.cost_model is no cost model", expected="an instance of gaf.CostModel",
                got=type(self.cost_model).__name__,
            )  # fmt: skip
        if isinstance(self.cost_model, type):
            raise InvalidInputError(
                "FusionConfig.cost_model is a class",
                expected="an instance",
                hint=f"{self.cost_model.__name__}()",
            )
        if self.matmul_precision == "fp16":
            raise InvalidInputError(
                "kernels that multiply f32 tensors in fp16 are not there yet",
                where="FusionConfig.matmul_precision",
                expected="fp32 or hf32",
                got=self.matmul_precision,
            )

    @property
    def strict(self) -> bool:
        return self.numerics == "strict"


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
