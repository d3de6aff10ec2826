# SPDX-License-Identifier: Apache-2.0
"""`FusionConfig`: what a user can decide about fusion, with the defaults of the contract."""

from __future__ import annotations

from dataclasses import dataclass

from gaf.errors import InvalidInputError

_CHOICES = {
    "objective": ("traffic", "time"),
    "numerics": ("fast", "strict"),
    "matmul_precision": ("fp32", "hf32", "fp16"),
}


@dataclass(frozen=True)
class FusionConfig:
    """Options of `gaf.fuse`.

    `enable_autofuse=False` makes every op its own kernel. `max_fusion_depth` bounds the contractions and
    reductions on the longest path inside one kernel. `numerics="fast"` computes fp16 and bf16 chains in fp32,
    "strict" rounds after every op. Raises InvalidInputError for values out of range; options that this version
    does not act on yet (`cost_threshold` > 0, `objective="time"`, reduced `matmul_precision`) are refused
    rather than ignored.
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

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise InvalidInputError(
                    f"FusionConfig.{name} has an unknown value", expected=" or ".join(choices), got=getattr(self, name)
                )
        if self.max_fusion_depth is not None and self.max_fusion_depth < 0:
            raise InvalidInputError("FusionConfig.max_fusion_depth is negative", expected=">= 0", got=self.max_fusion_depth)
        if not 0.0 <= self.cost_threshold <= 1.0:
            raise InvalidInputError("FusionConfig.cost_threshold is out of range", expected="0..1", got=self.cost_threshold)

    @property
    def strict(self) -> bool:
        return self.numerics == "strict"
