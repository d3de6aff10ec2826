# SPDX-License-Identifier: Apache-2.0
"""The tile dialect: one fused kernel as loops over named axes, with exact sequential meaning."""

from __future__ import annotations

from xdsl.ir import Dialect

from gaf.dialects.tile.attributes import (
    AxesAttr,
    Axis,
    BindingsAttr,
    Guard,
    GuardsAttr,
    NamesAttr,
    NumberAttr,
)
from gaf.dialects.tile.compute import CallOp, FillOp, IndexOp, MapOp, ViewOp
from gaf.dialects.tile.folds import ContractOp, MergeOp, ReduceOp, ScanOp
from gaf.dialects.tile.rank import RankedOp, RankOp
from gaf.dialects.tile.memory import LoadOp, MoveOp, StoreOp
from gaf.dialects.tile.structure import ForOp, GridOp, KernelOp, SyncOp, WorkspaceOp, YieldOp
from gaf.dialects.tile.types import GmType, TileType

Tile = Dialect(
    "tile",
    [
        KernelOp,
        GridOp,
        ForOp,
        YieldOp,
        WorkspaceOp,
        SyncOp,
        LoadOp,
        StoreOp,
        MoveOp,
        FillOp,
        IndexOp,
        MapOp,
        ViewOp,
        RankOp,
        RankedOp,
        ReduceOp,
        MergeOp,
        ScanOp,
        ContractOp,
        CallOp,
    ],
    [GmType, TileType, AxesAttr, NamesAttr, BindingsAttr, GuardsAttr, NumberAttr],
)

__all__ = [
    "AxesAttr",
    "Axis",
    "BindingsAttr",
    "CallOp",
    "ContractOp",
    "FillOp",
    "ForOp",
    "GmType",
    "GridOp",
    "Guard",
    "GuardsAttr",
    "IndexOp",
    "KernelOp",
    "LoadOp",
    "MapOp",
    "MergeOp",
    "MoveOp",
    "NamesAttr",
    "NumberAttr",
    "ReduceOp",
    "ScanOp",
    "StoreOp",
    "SyncOp",
    "Tile",
    "TileType",
    "ViewOp",
    "WorkspaceOp",
    "YieldOp",
]
