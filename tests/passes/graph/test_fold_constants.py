# SPDX-License-Identifier: Apache-2.0
"""Constant folding: what is computed early, what is left alone, and what happens to the weights."""

from __future__ import annotations

from collections import Counter
from unittest import mock

import ml_dtypes
import numpy as np
import pytest

from gaf.dialects.graph.contract import GraphOp
from gaf.dialects.graph.model import Model
from gaf.dialects.graph.ops.binary import MulOp
from gaf.dialects.graph.ops.foreign import ForeignOp
from gaf.dialects.graph.ops.structure import ConstantOp, WeightOp
from gaf.errors import InternalError
from tests.passes.graph.harness import array, assert_same, f32, model_of, names, run, t

W = t(16, 8)
WEIGHT = np.random.default_rng(7).standard_normal((16, 8)).astype(np.float32)


def weight(name: str, type_: str = W, value: str | None = None) -> str:
    return f'%{value or name} = graph.weight {{weight = "{name}"}} : () -> {type_}\n'


def fold(model: Model, options: str = "") -> Model:
    after, _ = run(model, f"fold-constants{options}")
    return after


def weight_names(model: Model) -> list[str]:
    """The weights of the store; each is used, and each used one is there."""
    used = [op.weight.data for op in model.module.walk() if isinstance(op, WeightOp)]
    assert set(used) == set(model.weights)
    return sorted(model.weights)


def test_small_results_are_written_into_the_ir() -> None:
    body = f"%a = graph.constant {f32(['1.5', '-2.0'], 2)}\n%b = graph.constant {f32('0.1')}\n" + (
        f"%c = graph.mul %a, %b : ({t(2)}, {t()}) -> {t(2)}\n"
        f"%y = graph.add %x, %c : ({t(3, 2)}, {t(2)}) -> {t(3, 2)}"
    )
    model = model_of(f"%x: {t(3, 2)}", t(3, 2), body, "%y")
    after = fold(model)
    assert names(after) == ["constant", "add"]
    assert_same(model, after, wide_rtol=1e-6)


def test_results_are_in_the_models_own_dtype() -> None:
    for dtype, kind in (("f16", np.float16), ("bf16", ml_dtypes.bfloat16)):
        s = t(2, dtype=dtype)
        body = f"%a = graph.constant {array([1.0, 0.3333], dtype, (2,))}\n%y = graph.exp %a : ({s}) -> {s}"
        after = fold(model_of("", s, body, "%y"))
        (op,) = (op for op in after.block.ops if isinstance(op, ConstantOp))
        expected = np.exp(np.array([1.0, 0.3333], kind).astype(np.float32)).astype(kind)
        assert op.value.array.dtype == kind
        np.testing.assert_array_equal(op.value.array, expected)


def quantized() -> Model:
    q, s = t(16, 8, dtype="i8"), t(1, 8)
    body = (
        weight("q", q) + f"%z = graph.constant {f32(['0.0', '1.0', '-3.0', '5.0'] * 2, 1, 8)}\n"
        f"%s = graph.constant {f32(['0.01', '0.02'] * 4, 1, 8)}\n"
        f"%f = graph.cast %q {{to = f32}} : ({q}) -> {W}\n"
        f"%d = graph.sub %f, %z : ({W}, {s}) -> {W}\n"
        f"%w = graph.mul %d, %s : ({W}, {s}) -> {W}\n"
        f"%y = graph.matmul %x, %w : ({t('B', 16)}, {W}) -> {t('B', 8)}"
    )
    q8 = np.random.default_rng(1).integers(-128, 128, (16, 8)).astype(np.int8)
    return model_of(f"%x: {t('B', 16)}", t("B", 8), body, "%y", {"q": q8})


def test_a_quantized_weight_becomes_one_float_weight() -> None:
    model = quantized()
    after = fold(model)
    assert names(after) == ["weight", "matmul"]
    assert [after.weights[n].dtype for n in weight_names(after)] == [np.float32]
    assert "q" in model.weights  # the other model keeps its own
    assert_same(model, after, wide_rtol=1e-5, sizes={"B": 3})


def test_the_cap_keeps_a_quantized_weight_as_it_is() -> None:
    model = quantized()
    after = fold(model, "{max-bytes=511}")
    assert names(after) == names(model) and weight_names(after) == ["q"]
    assert names(fold(model, "{max-bytes=512}")) == ["weight", "matmul"]


def test_results_no_larger_than_their_operands_fold_above_the_cap() -> None:
    body = weight("w") + f"%v = graph.neg %w : ({W}) -> {W}\n%y = graph.add %x, %v : ({W}, {W}) -> {W}"
    model = model_of(f"%x: {W}", W, body, "%y", {"w": WEIGHT})
    after = fold(model, "{max-bytes=0}")
    assert names(after) == ["weight", "add"]
    assert_same(model, after, wide_rtol=1e-6)


def test_a_result_is_computed_once() -> None:
    body = (
        weight("w")
        + "".join(f"%v{i} = graph.neg %w : ({W}) -> {W}\n" for i in range(2))
        + (
            f"%p = graph.exp %v0 : ({W}) -> {W}\n%q = graph.abs %v0 : ({W}) -> {W}\n"
            f"%r = graph.tanh %v0 : ({W}) -> {W}\n"
            f"%dead = graph.tanh %v0 : ({W}) -> {W}\n"
        )
    )
    model = model_of("", f"{W}, {W}, {W}, {W}", body, "%p, %q, %r, %v0", {"w": WEIGHT})
    calls: Counter[str] = Counter()
    original = GraphOp.reference_with_symbols

    def counted(self: GraphOp, *args: np.ndarray, **kwargs: object) -> object:
        calls[self.name] += 1
        return original(self, *args, **kwargs)  # type: ignore[arg-type]

    with mock.patch.object(GraphOp, "reference_with_symbols", counted):
        after = fold(model)
    # %v1 and %dead have no use: nothing is computed for them
    assert calls == {"graph.neg": 1, "graph.exp": 1, "graph.abs": 1, "graph.tanh": 1}
    assert names(after) == ["weight"] * 4
    assert_same(model, after, wide_rtol=1e-6)


def test_symbolic_results_are_not_folded() -> None:
    s = t("B", 4)
    body = f"%c = graph.constant {f32('2.0')}\n" + (
        f"%e = graph.expand %c {{shape = #graph.shape<[B, 4]>}} : ({t()}) -> {s}\n"
        f"%f = graph.exp %e : ({s}) -> {s}\n%y = graph.add %x, %f : ({s}, {s}) -> {s}"
    )
    model = model_of(f"%x: {s}", s, body, "%y")
    assert names(fold(model)) == names(model)


def test_foreign_ops_are_not_folded() -> None:
    # case 08: a custom op with constant operands is opaque, however pure
    small = t(3)
    model = model_of(
        f"%x: {small}",
        small,
        f"%c = graph.constant {f32(['1.0', '2.0', '3.0'], 3)}\n"
        f"%y = graph.mul %x, %c : ({small}, {small}) -> {small}",
        "%y",
    )
    mul = next(op for op in model.block.ops if isinstance(op, MulOp))
    # "Neg" stands for an op that does have a reference
    gate = ForeignOp.of(
        "onnx", "", "Neg", 17, 'input: "i0" output: "o0" op_type: "Neg"', [mul.operands[1]], model.input_types
    )
    model.block.insert_op_before(gate, mul)
    mul.operands[1] = gate.results[0]
    after = fold(model)
    assert names(after) == ["constant", "foreign", "mul"]
    assert "foreign" in names(run(model, "canonicalize,fold-constants,cse,dce")[0])


def test_views_that_repeat_elements_stay() -> None:
    body = f"%c = graph.constant {f32('2.0')}\n" + (
        f"%e = graph.expand %c {{shape = #graph.shape<[16, 8]>}} : ({t()}) -> {W}\n"
        f"%y = graph.max %x, %e : ({W}, {W}) -> {W}"
    )
    model = model_of(f"%x: {W}", W, body, "%y")
    assert names(fold(model)) == ["constant", "expand", "max"]


def test_the_operand_of_a_view_that_stays_is_folded() -> None:
    body = weight("w") + (
        f"%n = graph.neg %w : ({W}) -> {W}\n"
        f"%e = graph.expand %n {{shape = #graph.shape<[4, 16, 8]>}} : ({W}) -> {t(4, 16, 8)}\n"
        f"%f = graph.exp %e : ({t(4, 16, 8)}) -> {t(4, 16, 8)}\n"
    )
    outputs = f"{t(4, 16, 8)}, {t(4, 16, 8)}"
    model = model_of("", outputs, body, "%e, %f", {"w": WEIGHT})
    after = fold(model)
    # %e is returned as a view of the negated weight, and still known for %f
    assert names(after) == ["weight", "expand", "weight"]
    assert_same(model, after, wide_rtol=1e-6)


def transposed(second_use: str) -> Model:
    v = t(8, 16)
    body = weight("w") + (
        f"%v = graph.transpose %w {{perm = array<i64: 1, 0>}} : ({W}) -> {v}\n"
        f"%y = graph.matmul %x, %v : ({t(2, 8)}, {v}) -> {t(2, 16)}\n"
    )
    return model_of(f"%x: {t(2, 8)}", f"{t(2, 16)}, {W}", f"{body}%z = {second_use}", "%y, %z", {"w": WEIGHT})


def test_a_transposed_weight_is_stored_that_way() -> None:
    # the other use of the weight is folded, too: nothing needs it any more
    model = transposed(f"graph.neg %w : ({W}) -> {W}")
    after = fold(model)
    assert names(after) == ["weight", "matmul", "weight"]
    assert all(after.weights[n].flags.c_contiguous for n in weight_names(after))
    assert "w" not in after.weights
    assert_same(model, after, wide_rtol=1e-6)


def test_a_view_of_a_weight_that_is_needed_anyway_stays() -> None:
    use = f"graph.matmul %x, %v : ({t(2, 8)}, {t(8, 16)}) -> {t(2, 16)}\n%k = graph.matmul %z, %w : "
    use += f"({t(2, 16)}, {W}) -> {t(2, 8)}"
    body = weight("w") + (
        f"%v = graph.transpose %w {{perm = array<i64: 1, 0>}} : ({W}) -> {t(8, 16)}\n%z = {use}"
    )
    model = model_of(f"%x: {t(2, 8)}", t(2, 8), body, "%k", {"w": WEIGHT})
    after = fold(model)
    assert names(after) == ["weight", "transpose", "matmul", "matmul"] and weight_names(after) == ["w"]


def test_a_weight_stays_in_the_store_while_it_is_named() -> None:
    body = (
        weight("w")
        + weight("w", value="again")
        + (
            f"%n = graph.neg %w : ({W}) -> {W}\n%a = graph.add %x, %n : ({W}, {W}) -> {W}\n"
            f"%y = graph.add %a, %again : ({W}, {W}) -> {W}"
        )
    )
    after = fold(model_of(f"%x: {W}", W, body, "%y", {"w": WEIGHT}))
    assert names(after) == ["weight", "weight", "add", "add"] and weight_names(after) == ["n", "w"]


def test_tensors_made_by_a_formula_stay_unless_small() -> None:
    for n, expected in ((4, ["constant", "add"]), (100, ["full", "add"])):
        body = (
            f"%f = graph.full {{shape = #graph.shape<[{n}]>, value = #graph.array<f32 [] : 1.5>}}"
            f" : () -> {t(n)}\n" + (f"%y = graph.add %x, %f : ({t(n)}, {t(n)}) -> {t(n)}")
        )
        model = model_of(f"%x: {t(n)}", t(n), body, "%y")
        assert names(fold(model)) == expected


def test_weights_that_are_not_at_hand_are_left_alone() -> None:
    body = weight("w") + f"%y = graph.neg %w : ({W}) -> {W}"
    model = model_of("", W, body, "%y", {"w": WEIGHT})
    model.weights.discard("w")
    assert names(fold(model)) == ["weight", "neg"]


def test_what_a_reference_refuses_stays_with_folded_operands() -> None:
    # index 9 of 4: an error of the model, reported when it runs
    i, row = t(dtype="i64"), t(2)
    table = f32([f"{v}.0" for v in range(8)], 4, 2)
    body = f"%t = graph.constant {table}\n%i = graph.constant {array(9, 'i64', ())}\n" + (
        f"%n = graph.neg %t : ({t(4, 2)}) -> {t(4, 2)}\n"
        f"%g = graph.gather %n, %i {{axis = 0 : i64, wrap = false}} : ({t(4, 2)}, {i}) -> {row}\n"
        f"%e = graph.exp %g : ({row}) -> {row}\n%y = graph.add %x, %e : ({row}, {row}) -> {row}"
    )
    model = model_of(f"%x: {row}", row, body, "%y")
    assert names(fold(model)) == ["constant", "constant", "gather", "exp", "add"]


def test_a_reference_that_breaks_its_type_is_a_bug() -> None:
    body = f"%c = graph.constant {f32('1.0')}\n%y = graph.exp %c : ({t()}) -> {t()}"
    model = model_of("", t(), body, "%y")
    wrong_shape = mock.patch.object(GraphOp, "reference_with_symbols", lambda *_, **__: [np.zeros(3)])
    with wrong_shape, pytest.raises(InternalError, match="reference of graph.exp doesn't give"):
        fold(model)
    fails = mock.patch.object(GraphOp, "reference_with_symbols", side_effect=ValueError("oh"))
    with fails, pytest.raises(InternalError, match="reference of graph.exp failed: oh"):
        fold(model)


def test_new_weights_are_named_after_their_ops_and_unique() -> None:
    v = "".join(f"%v{i} = graph.{op} %w : ({W}) -> {W}\n" for i, op in enumerate(["neg", "exp", "abs"]))
    model = model_of("", f"{W}, {W}, {W}", weight("w") + v, "%v0, %v1, %v2", {"w": WEIGHT, "v0": WEIGHT})
    after = fold(model)
    assert sorted(set(after.weights) - {"v0"}) == ["v0_1", "v1", "v2"]
    np.testing.assert_array_equal(after.weights["v0_1"], -WEIGHT)


def test_locations_and_names_survive() -> None:
    body = weight("w") + f"%n = graph.neg %w : ({W}) -> {W}\n%y = graph.add %x, %n : ({W}, {W}) -> {W}"
    model = model_of(f"%x: {W}", W, body, "%y", {"w": WEIGHT})
    from xdsl.dialects.builtin import NameLoc, StringAttr, UnknownLoc

    neg = next(op for op in model.block.ops if op.name == "graph.neg")
    neg.location = NameLoc(StringAttr("encoder/Neg_3"), UnknownLoc())
    after = fold(model)
    op = next(op for op in after.block.ops if isinstance(op, WeightOp))
    assert op.weight.data == "encoder/Neg_3" and op.location == neg.location
    assert op.results[0].name_hint == "n"
