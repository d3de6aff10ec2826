# SPDX-License-Identifier: Apache-2.0
"""If, Loop and Scan: folded, unrolled, or kept as control flow around bodies with kernels of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import gaf
from gaf.dialects.graph.model import Model, conditions
from gaf.dialects.graph.ops.control import ControlOp, ops_of
from gaf.dialects.graph.ops.structure import FusedOp
from gaf.errors import GafError, InvalidInputError, UnsupportedError
from gaf.frontend.onnx import export_model, load_onnx
from tests.frontend.onnx_models import (
    BOOL,
    F32,
    I64,
    assert_same,
    node,
    onnx_model,
    onnxruntime_results,
    value,
)  # fmt: skip


def graph(
    nodes: Sequence[onnx.NodeProto], inputs: Sequence[onnx.ValueInfoProto], outputs: Sequence[str]
) -> onnx.GraphProto:
    """A body; its outputs have no declared types."""
    return helper.make_graph(list(nodes), "body", list(inputs), [helper.make_empty_tensor_value_info(o) for o in outputs])


def control(model: Model) -> list[str]:
    return [op.name for op in model.block.ops if isinstance(op, ControlOp)]


def check(proto: onnx.ModelProto, inputs: Mapping[str, np.ndarray], kinds: list[str]) -> Model:
    """Import, fused kernels and export with functions give what onnxruntime computes (onnx.reference can't stack)."""
    expected = onnxruntime_results(proto, inputs)
    model = load_onnx(proto)
    assert control(model) == kinds
    assert_same(list(model.run(inputs).values()), expected)
    fused = gaf.fuse(model)
    assert_same(list(fused.run(inputs, engine="interpreter").values()), expected)
    assert fused.verify(inputs, engine="interpreter").ok
    assert str(fused.report)
    written = export_model(fused.model)
    assert_same(onnxruntime_results(written, inputs), expected)
    again = load_onnx(written, keep_fused=True)
    assert_same(list(again.run(inputs).values()), expected)
    assert len([o for o in ops_of(again.block) if isinstance(o, FusedOp)]) == len(fused.fused_ops)
    return model


BODY = [value("i", [], I64), value("going", [], BOOL)]
X = np.random.default_rng(0).standard_normal((3, 40)).astype(np.float32)


def iterate(state_shape: list[object] | None = None) -> onnx.GraphProto:
    """state = tanh(state * w + x); the sum of each state is an output; ends when the sum is below a bound."""
    nodes = [
        node("Mul", ["s", "w"], ["m"]),
        node("Add", ["m", "x"], ["a"]),
        node("Tanh", ["a"], ["t"]),
        node("ReduceSum", ["t", "axes"], ["rows"], keepdims=0),
        node("ReduceMax", ["rows"], ["top"], keepdims=0),
        node("Less", ["top", "bound"], ["more"]),
    ]
    return graph(nodes, [*BODY, value("s", state_shape or [3, 40])], ["more", "t", "rows"])


# without a limit a bound that is never reached would never end
@pytest.mark.parametrize(("bound", "limit"), [(1e9, 11), (5.0, 11), (-1e9, 11), (5.0, None), (-1e9, None)])
def test_loop_with_condition(bound: float, limit: int | None) -> None:
    weights = {"w": np.linspace(0.5, 1.5, 40, dtype=np.float32), "axes": np.int64([1]), "n": np.int64(11)}
    proto = onnx_model(
        [node("Loop", ["n" if limit else "", "", "x"], ["y", "sums"], body=iterate(), name="loop")],
        [value("x", [3, 40]), value("bound", [])],
        ["y", "sums"],
        weights,
    )
    model = check(proto, {"x": X, "bound": np.float32(bound)}, ["graph.loop"])
    assert str(model.output_types[0]) == "f32[3, 40]" and model.output_types[1].shape[0].as_name()


def test_loop_that_never_runs() -> None:
    body = graph(
        [node("Identity", ["going"], ["g"]), node("Relu", ["s"], ["t"])], [*BODY, value("s", [3, 40])], ["g", "t", "t"]
    )
    proto = onnx_model(
        [node("Loop", ["n", "c", "x"], ["y", "all"], body=body)],
        [value("x", [3, 40]), value("n", [], I64), value("c", [], BOOL)],
        ["y", "all"],
    )
    model = load_onnx(proto)
    for n, c, count in ((0, True, 0), (4, False, 0), (4, True, 4)):
        got = gaf.fuse(model).run({"x": X, "n": np.int64(n), "c": np.bool_(c)}, engine="interpreter")
        assert got["all"].shape == (count, 3, 40)
        np.testing.assert_array_equal(got["y"], np.maximum(X, 0) if count else X)


def test_sizes_that_change_from_iteration_to_iteration() -> None:
    body = graph(
        [node("Identity", ["going"], ["g"]), node("Concat", ["s", "x"], ["c"], axis=0), node("Sin", ["c"], ["t"])],
        [*BODY, value("s", None)],
        ["g", "t"],
    )
    proto = onnx_model(
        [node("Loop", ["n", "", "x"], ["y"], body=body, name="grow"), node("Exp", ["y"], ["z"])],
        [value("x", ["r", 40]), value("n", [], I64)],
        ["z"],
    )
    model = check(proto, {"x": X, "n": np.int64(3)}, ["graph.loop"])
    assert model.output_types[0].shape[0].as_name() == "grow_final"
    assert gaf.fuse(model).run({"x": X, "n": np.int64(0)}, engine="interpreter")["z"].shape == (3, 40)


def test_loop_reads_names_from_outside_at_any_depth() -> None:
    inner = graph([node("Mul", ["u", "w"], ["v"]), node("Add", ["v", "x"], ["r"])], [], ["r"])
    other = graph([node("Sub", ["u", "x"], ["r2"])], [], ["r2"])
    body = graph(
        [
            node("Identity", ["going"], ["g"]),
            node("Relu", ["s"], ["u"]),
            node("ReduceMax", ["u"], ["m"], keepdims=0),
            node("Greater", ["m", "bound"], ["big"]),
            node("If", ["big"], ["t"], then_branch=inner, else_branch=other),
        ],
        [*BODY, value("s", ["r", 40])],
        ["g", "t"],
    )
    proto = onnx_model(
        [node("Exp", ["x"], ["e"]), node("Loop", ["n", "", "e"], ["y"], body=body)],
        [value("x", ["r", 40]), value("n", [], I64), value("bound", [])],
        ["y"],
        {"w": np.full(40, 0.5, np.float32)},
    )
    check(proto, {"x": X, "n": np.int64(6), "bound": np.float32(2)}, ["graph.loop"])


@pytest.mark.parametrize("flag", [True, False])
def test_if_at_run_time(flag: bool) -> None:
    branches = [
        graph([node("Mul", ["x", "w"], ["a"]), node("Exp", ["a"], ["r"]), node("Identity", ["x"], ["same"])], [], ["r", "same"]),
        graph([node("Slice", ["x", "one", "three", "one"], ["r"]), node("Neg", ["x"], ["n"])], [], ["r", "n"]),
    ]
    proto = onnx_model(
        [node("If", ["c"], ["y", "z"], then_branch=branches[0], else_branch=branches[1], name="pick")],
        [value("x", ["r", 40]), value("c", [1], BOOL)],
        ["y", "z"],
        {"w": np.ones(40, np.float32), "one": np.int64([1]), "three": np.int64([3])},
    )
    model = check(proto, {"x": X, "c": np.array([flag])}, ["graph.if"])
    assert [str(d) for d in model.output_types[0].shape] == ["r", "pick_0_1"]
    assert [str(d) for d in model.output_types[1].shape] == ["r", "40"]


def test_branches_of_different_types_are_refused() -> None:
    then, other = graph([node("Relu", ["x"], ["r"])], [], ["r"]), graph([node("ReduceSum", ["x"], ["r"], keepdims=0)], [], ["r"])
    proto = onnx_model(
        [node("If", ["c"], ["y"], then_branch=then, else_branch=other, name="pick")],
        [value("x", [3, 4]), value("c", [], BOOL)],
        ["y"],
    )
    with pytest.raises(UnsupportedError, match=r"'pick' \(If\): the two branches give result 0 different types"):
        load_onnx(proto)


def test_squeeze_of_a_size_that_may_be_one() -> None:
    """As exporters write `x.squeeze(1)`: an If that asks whether the size is 1."""
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "one"], ["d"]),
        node("Equal", ["d", "one"], ["c"]),
        node("If", ["c"], ["y"], name="squeeze",
             then_branch=graph([node("Squeeze", ["x", "axes"], ["r"])], [], ["r"]),
             else_branch=graph([node("Identity", ["x"], ["r2"])], [], ["r2"])),
    ]  # fmt: skip
    weights = {"one": np.int64(1), "axes": np.int64([1])}
    model = load_onnx(onnx_model(nodes, [value("x", ["n", "k", 4])], ["y"], weights))
    assert [c.text for c in conditions(model)] == ["k == 1"] and model.output_types[0].rank == 2
    x = np.ones((3, 1, 4), np.float32)
    assert model.run({"x": x})["y"].shape == (3, 4)
    with pytest.raises(InvalidInputError, match="condition.*k == 1"):
        model.run({"x": np.ones((3, 2, 4), np.float32)})


def scan(size: object, directions: tuple[int, int], axes: tuple[int, int]) -> onnx.ModelProto:
    body = graph(
        [node("Mul", ["h", "w"], ["m"]), node("Add", ["m", "x_t"], ["a"]), node("Tanh", ["a"], ["n"]), node("Exp", ["n"], ["o"])],
        [value("h", [40]), value("x_t", [40])],
        ["n", "o"],
    )
    shape: list[object] = [40]
    shape.insert(axes[0], size)
    return onnx_model(
        [node("Scan", ["h0", "x"], ["h", "y"], body=body, num_scan_inputs=1,
              scan_input_directions=directions[:1], scan_output_directions=directions[1:],
              scan_input_axes=axes[:1], scan_output_axes=axes[1:])],
        [value("h0", [40]), value("x", shape)],
        ["h", "y"],
        {"w": np.linspace(-1, 1, 40, dtype=np.float32)},
    )  # fmt: skip


@pytest.mark.parametrize("directions", [(0, 0), (1, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize(("size", "kinds"), [("steps", ["graph.loop"]), (3, []), (12, ["graph.loop"])])
def test_scan(directions: tuple[int, int], size: object, kinds: list[str]) -> None:
    length = size if isinstance(size, int) else 5
    x = np.random.default_rng(1).standard_normal((length, 40)).astype(np.float32)
    model = check(scan(size, directions, (0, 0)), {"h0": X[0], "x": x}, kinds)
    assert str(model.output_types[1].shape[0]) == str(size)


def test_scan_along_other_axes() -> None:
    x = np.random.default_rng(1).standard_normal((40, 5)).astype(np.float32)
    check(scan("steps", (0, 0), (1, 1)), {"h0": X[0], "x": x}, ["graph.loop"])


def test_scan_of_two_lengths() -> None:
    body = graph([node("Add", ["a", "b"], ["c"])], [value("a", [4]), value("b", [4])], ["c"])
    proto = onnx_model(
        [node("Scan", ["x", "z"], ["y"], body=body, num_scan_inputs=2)],
        [value("x", ["s", 4]), value("z", ["t", 4])],
        ["y"],
    )
    model = load_onnx(proto)
    x = np.ones((5, 4), np.float32)
    np.testing.assert_array_equal(model.run({"x": x, "z": x})["y"], 2 * x)
    with pytest.raises(InvalidInputError, match="condition of the model"):
        model.run({"x": x, "z": x[:3]})


def test_short_loops_are_written_out() -> None:
    body = graph(
        [
            node("Identity", ["going"], ["g"]),
            node("Gather", ["x", "i"], ["row"]),
            node("Add", ["s", "row"], ["t"]),
        ],
        [*BODY, value("s", [40])],
        ["g", "t", "row"],
    )
    proto = onnx_model(
        [node("Loop", ["n", "", "s0"], ["y", "rows"], body=body, name="sum")],
        [value("x", [3, 40]), value("s0", [40])],
        ["y", "rows"],
        {"n": np.int64(3)},
    )
    model = check(proto, {"x": X, "s0": X[0]}, [])
    assert [str(t) for t in model.output_types] == ["f32[40]", "f32[3, 40]"]


def test_text_form(tmp_path: Path) -> None:
    model = load_onnx(scan("steps", (1, 0), (0, 0)))
    gaf.save(model, tmp_path / "m.mlir")
    again = gaf.load_model(tmp_path / "m.mlir")
    assert str(again.module) == str(model.module)
    inputs = {"h0": X[0], "x": np.tile(X, (2, 1))}
    assert_same(list(again.run(inputs).values()), list(model.run(inputs).values()))


def test_what_a_body_may_not_hold() -> None:
    body = graph([node("SequenceConstruct", ["s"], ["t"])], [*BODY, value("s", [4])], ["going", "s", "t"])
    loop = node("Loop", ["n", "", "x"], ["y", "z"], body=body, name="loop")
    with pytest.raises(UnsupportedError, match="SequenceConstruct x1: .*only tensors"):
        load_onnx(onnx_model([loop], [value("x", [4]), value("n", [], I64)], ["y"]))
    changes = graph([node("Cast", ["s"], ["t"], to=I64)], [*BODY, value("s", [4])], ["going", "t"])
    loop = node("Loop", ["n", "", "x"], ["y"], body=changes, name="loop")
    with pytest.raises(UnsupportedError, match="'loop' .Loop.: a value of the loop changes its element type"):
        load_onnx(onnx_model([loop], [value("x", [4]), value("n", [], I64)], ["y"]))
    wrong = node("Loop", ["n", "", "x"], ["y"], body=graph([], BODY, ["going"]), name="loop")
    with pytest.raises(InvalidInputError, match="the body doesn't fit the loop"):
        load_onnx(onnx_model([wrong], [value("x", [4]), value("n", [], I64)], ["y"]))


def test_a_body_that_uses_an_unknown_name() -> None:
    body = graph([node("Add", ["s", "nowhere"], ["t"])], [*BODY, value("s", [4])], ["going", "t"])
    loop = node("Loop", ["n", "", "x"], ["y"], body=body, name="loop")
    with pytest.raises(GafError, match="'nowhere' is used but not defined"):
        load_onnx(onnx_model([loop], [value("x", [4]), value("n", [], I64)], ["y"]))


def test_nodes_are_ordered_by_what_their_bodies_read() -> None:
    body = graph([node("Add", ["s", "late"], ["t"])], [*BODY, value("s", [4])], ["going", "t"])
    nodes = [node("Loop", ["n", "", "x"], ["y"], body=body), node("Exp", ["x"], ["late"])]
    proto = onnx_model(nodes, [value("x", [4]), value("n", [], I64)], ["y"])
    x = np.float32([0, 1, 2, 3])
    np.testing.assert_allclose(
        load_onnx(proto).run({"x": x, "n": np.int64(2)})["y"], x + 2 * np.exp(x), rtol=1e-6
    )


def test_conditions_are_checked_in_bodies() -> None:
    """Sizes that only an iteration has."""
    nodes = [
        node("NonZero", ["s"], ["at"]),
        node("Cast", ["at"], ["f"], to=F32),
        node("Add", ["f", "x"], ["sum"]),
        node("ReduceSum", ["sum"], ["r"], keepdims=0),
        node("Add", ["s", "r"], ["t"]),
    ]
    body = graph(nodes, [*BODY, value("s", [4])], ["going", "t"])
    proto = onnx_model(
        [node("Loop", ["n", "", "s0"], ["y"], body=body)],
        [value("s0", [4]), value("x", ["m"]), value("n", [], I64)],
        ["y"],
    )
    fused = gaf.fuse(load_onnx(proto))
    good = {"s0": np.float32([0, 0, 0, 2]), "x": np.ones(1, np.float32), "n": np.int64(1)}
    np.testing.assert_array_equal(fused.run(good, engine="interpreter")["y"], [4, 4, 4, 6])
    with pytest.raises(InvalidInputError, match="equal|condition"):
        fused.run({**good, "s0": np.ones(4, np.float32), "x": np.ones(3, np.float32)}, engine="interpreter")
