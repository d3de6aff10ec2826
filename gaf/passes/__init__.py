# SPDX-License-Identifier: Apache-2.0
"""Compiler passes, one a file: a module listed here holds the pass that is named like its file."""

PASS_MODULES: tuple[str, ...] = (
    "gaf.passes.graph.canonicalize",
    "gaf.passes.graph.fold_constants",
    "gaf.passes.graph.cse",
    "gaf.passes.graph.dce",
    "gaf.passes.graph.sink_views",
    "gaf.passes.graph.narrow_integers",
    "gaf.passes.graph.address_slices",
    "gaf.passes.graph.fold_batch_norm",
    "gaf.passes.graph.pack_matmuls",
    "gaf.passes.graph.several_passes",
    "gaf.passes.graph.fuse",
    "gaf.passes.graph.overlap_collectives",
    "gaf.passes.graph.lower_graph",
    "gaf.passes.tile.tile_plan",
    "gaf.passes.tile.limit_tiles",
    "gaf.passes.tile.lower_tile",
    "gaf.passes.ascendc.insert_sync",
    "gaf.passes.ascendc.verify_limits",
    "gaf.passes.verify_level",
)
"""Every pass of gaf, in the order in which a pipeline would use it.

Module `gaf.passes.graph.fold_constants` holds the pass `fold-constants`. Nothing is imported before its use.
"""

PIPELINES: dict[str, str] = {
    "clean-graph": "gaf.passes.named:CleanGraph",
    "to-fused": "gaf.passes.named:ToFused",
    "to-tile": "gaf.passes.named:ToTile",
    "to-ascendc": "gaf.passes.named:ToAscendC",
}
"""Names that stand for several passes, each with the class that lists them."""
