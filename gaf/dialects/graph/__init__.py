# SPDX-License-Identifier: Apache-2.0
"""The graph dialect: tensors with symbolic dims, one op class per operator, fused regions."""

from __future__ import annotations

from xdsl.ir import Dialect

from gaf.dialects.common.attributes import ArrayAttr, ExprAttr, ShapeAttr
from gaf.dialects.graph import registry
from gaf.dialects.graph.meaning_attr import MeaningAttr
from gaf.dialects.graph.ops.structure import FusedOp, YieldOp
from gaf.dialects.graph.types import TensorType

Graph = Dialect(
    "graph", [*registry.all_ops(), FusedOp, YieldOp], [TensorType, ArrayAttr, ExprAttr, ShapeAttr, MeaningAttr]
)
