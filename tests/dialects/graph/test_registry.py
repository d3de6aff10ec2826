# SPDX-License-Identifier: Apache-2.0
"""The registry: every op is complete, names are unique, unknown names get the nearest known one."""

from __future__ import annotations

import inspect

import pytest

from gaf.dialects.graph import Graph, registry
from gaf.dialects.graph.contract import GraphOp
from gaf.dialects.graph.ops.macros import expansions
from gaf.dialects.graph.ops.structure import ConstantOp, WeightOp

HELD = (ConstantOp, WeightOp)  # data, not operators: no name in a model format
WRITTEN = ("graph.foreign", "graph.generic", "graph.custom")  # what they mean is written on each op
# frontends and passes make them, users never write them
MADE = (
    *("graph.assume_shape", "graph.positions", "graph.max_pool_positions", "graph.loop", "graph.if"),
    *("graph.overlap", "graph.run_salt", "graph.random_uniform", "graph.random_normal"),
)
OPERATORS = [op for op in registry.all_ops() if op not in HELD and op.name not in WRITTEN + MADE]


@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.name)
def test_op_is_complete(op: type[GraphOp]) -> None:
    """Types, reference and meaning are the op's own (or its family's), never the defaults of the base."""
    for rule in ("infer", "meaning"):
        assert getattr(op, rule) is not getattr(GraphOp, rule)
        assert getattr(op, rule) != getattr(GraphOp, rule)
    own = {op.reference, op.reference_with_symbols} - {GraphOp.reference, GraphOp.reference_with_symbols}
    assert own
    assert op.GAF, "a name in the .gaf language"
    assert op.ONNX or op.ATEN, "a name in a model format"
    assert op.ONNX or op.to_onnx is not GraphOp.to_onnx, "a way to be written as ONNX"
    assert op.__doc__ and op.__doc__ != GraphOp.__doc__ and not op.__doc__.startswith("Base")
    assert "__doc__" in vars(op) and vars(op)["__doc__"]


def test_dialect_holds_every_op() -> None:
    assert set(registry.all_ops()) <= set(Graph.operations)


def test_names_lead_to_their_owner() -> None:
    for entry in (*registry.all_ops(), *expansions()):
        for name in entry.ONNX:
            domain, _, op_type = name.rpartition(".")
            assert registry.by_onnx(domain, op_type) is entry
        for name in entry.ATEN:
            assert registry.by_aten(name) is entry
        for name in entry.GAF:
            assert registry.by_gaf(name) is entry
    assert registry.by_onnx("ai.onnx", "Add") is registry.by_onnx("", "Add") is registry.by_name("graph.add")


def test_expansions_are_documented() -> None:
    for entry in expansions():
        assert entry.__doc__ and inspect.getdoc(entry).endswith(".")


def test_unknown_names() -> None:
    assert registry.by_onnx("", "Reluu") is None
    assert registry.nearest_onnx("", "Reluu") == "Relu"
    # a domain's names are its own: nothing is carried over
    assert registry.by_onnx("com.microsoft", "Relu") is None
    assert registry.nearest_onnx("com.acme", "Relu") is None
    assert registry.by_gaf("sofmax") is None
    assert registry.nearest_gaf("sofmax") == "softmax"
    assert registry.by_name("graph.nothing") is None


def test_ops_of_the_issue_are_known() -> None:
    """The operators that the demo model and plain BERT, GPT-2 and ViT exports use."""
    wanted = [
        *(
            "Add",
            "Sub",
            "Mul",
            "Div",
            "Pow",
            "Max",
            "Min",
            "Clip",
            "Neg",
            "Erf",
            "Exp",
            "Log",
            "Sqrt",
            "Reciprocal",
        ),
        *(
            "Relu",
            "Gelu",
            "Sigmoid",
            "Tanh",
            "Softmax",
            "LayerNormalization",
            "MatMul",
            "Gemm",
            "Conv",
            "Cast",
        ),
        *(
            "Equal",
            "Less",
            "GreaterOrEqual",
            "And",
            "Or",
            "Not",
            "IsNaN",
            "Where",
            "ReduceMax",
            "ReduceMean",
            "ReduceSum",
        ),
        *(
            "Reshape",
            "Flatten",
            "Transpose",
            "Squeeze",
            "Unsqueeze",
            "Expand",
            "Tile",
            "Slice",
            "Split",
            "Concat",
            "Pad",
        ),
        *("Gather", "GatherND", "Shape", "ConstantOfShape", "Range", "Trilu", "Constant", "Identity"),
    ]
    known = {*registry.onnx_names(), "Constant"}  # the importer itself takes Constant
    assert [name for name in wanted if name not in known] == []
