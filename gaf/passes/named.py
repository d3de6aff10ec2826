# SPDX-License-Identifier: Apache-2.0
"""Named pipelines: `to-ascendc` in a list of passes stands for all passes that lead to that level."""

from __future__ import annotations

from dataclasses import dataclass

from gaf.passes.pipeline import ascendc_pipeline, graph_pipeline, tile_pipeline
from gaf.passes.registry import PipelinePass, option


@dataclass(frozen=True)
class _Clean(PipelinePass):
    strict: bool = option(False, "round fp16 and bf16 after every op, as the unfused model does")
    autofuse: bool = option(True, "join ops; false makes every op its own kernel")

    def expand(self) -> str:
        return graph_pipeline(self.autofuse, self.strict)


@dataclass(frozen=True)
class CleanGraph(_Clean):
    """What a model goes through before kernels are searched: clean-up, and packing of matmuls."""

    name = "clean-graph"


@dataclass(frozen=True)
class _Fused(_Clean):
    max_depth: int | None = option(None, "most contractions and reductions on a path inside a kernel")

    def expand(self) -> str:
        depth = "" if self.max_depth is None else f"max-depth={self.max_depth} "
        return f"{super().expand()},fuse{{autofuse={_text(self.autofuse)} {depth}strict={_text(self.strict)}}}"


@dataclass(frozen=True)
class ToFused(_Fused):
    """From a model to a graph whose ops are grouped into kernels."""

    name = "to-fused"


@dataclass(frozen=True)
class _Tile(_Fused):
    target: str = option("ascend910b3", "chip whose capacities and core counts the kernels are made for")

    def expand(self) -> str:
        return f"{super().expand()},lower-graph{{strict={_text(self.strict)}}},{tile_pipeline(self.target)}"


@dataclass(frozen=True)
class ToTile(_Tile):
    """From a model to tile kernels with their tile sizes."""

    name = "to-tile"


@dataclass(frozen=True)
class ToAscendC(_Tile):
    """From a model to ascendc kernels that are ready to print (`--target=ascendc`)."""

    name = "to-ascendc"

    def expand(self) -> str:
        return f"{super().expand()},{ascendc_pipeline(self.target)}"


def _text(value: bool) -> str:
    return str(value).lower()
