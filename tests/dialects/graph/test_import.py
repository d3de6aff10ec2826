# SPDX-License-Identifier: Apache-2.0
"""Importing single ONNX nodes: old opsets, optional operands, symbolic sizes, and what is refused."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from xdsl.ir import SSAValue

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import expr, minimum, sym
from gaf.dialects.graph import registry
from gaf.dialects.graph.contract import tensor_type
from gaf.dialects.graph.types import TensorType
from gaf.errors import GafError, InvalidInputError, UnsupportedError
from tests.dialects.graph.harness import MiniImport, import_node, run_ops, type_of, value

F32 = np.float32


def run(
    op_type: str,
    arrays: list[np.ndarray | None],
    opset: int = 17,
    constants: tuple[int, ...] = (),
    outputs: int = 1,
    **attrs: Any,
) -> list[np.ndarray]:
    """Import one node on concrete operands; operands numbered in `constants` are known at import."""
    node = helper.make_node(
        op_type, [str(i) for i in range(len(arrays))], [f"y{i}" for i in range(outputs)], **attrs
    )
    values = [None if a is None else value(type_of(a)) for a in arrays]
    known = {values[i]: arrays[i] for i in constants}
    ctx, results = import_node(node, values, opset, known)
    numbers = {v: a for v, a in zip(values, arrays) if v is not None}
    run_ops(ctx.ops, numbers)
    return [numbers[r] for r in results]


def emit(
    op_type: str,
    shapes: list[tuple],
    opset: int = 17,
    dims: dict[int, tuple] | None = None,
    known: dict[int, Any] | None = None,
    outputs: int = 1,
    dtype: dt.DType = dt.F32,
    **attrs: Any,
) -> tuple[MiniImport, list[SSAValue]]:
    """Import one node on symbolic operands. `dims`: operands that hold sizes; `known`: constant operands."""
    node = helper.make_node(
        op_type, [str(i) for i in range(len(shapes))], [f"y{i}" for i in range(outputs)], **attrs
    )
    values, numbers, symbolic = [], {}, {}
    for i, shape in enumerate(shapes):
        if known and i in known:
            array = np.asarray(known[i])
            values.append(value(type_of(array)))
            numbers[values[-1]] = array
        elif dims and i in dims:
            values.append(value(TensorType.of([len(dims[i])], dt.I64)))
            symbolic[values[-1]] = tuple(expr(d) for d in dims[i])
        else:
            values.append(value(TensorType.of(shape, dtype)))
    ctx = MiniImport(node, list(values), opset, numbers)
    ctx.symbolic = symbolic
    results = registry.by_onnx("", op_type).from_onnx(ctx)
    return ctx, results if isinstance(results, list) else [results]


def names(ctx: MiniImport) -> list[str]:
    return [op.name.removeprefix("graph.") for op in ctx.ops]


def i64(*values: int) -> np.ndarray:
    return np.asarray(values, np.int64)


X = np.arange(24, dtype=F32).reshape(2, 3, 4) - 11


# -- attributes that became operands ---------------------------------------------------------------


def test_reduce_axes_as_attribute_and_operand() -> None:
    for opset in (11, 13, 17):
        np.testing.assert_array_equal(run("ReduceMax", [X], opset, axes=[-1], keepdims=0)[0], X.max(-1))
    np.testing.assert_array_equal(run("ReduceMax", [X, i64(-1)], 18, (1,), keepdims=0)[0], X.max(-1))
    np.testing.assert_array_equal(run("ReduceSum", [X, i64(0, 2)], 13, (1,))[0], X.sum((0, 2), keepdims=True))


def test_reduce_without_axes() -> None:
    np.testing.assert_array_equal(run("ReduceSum", [X], 17, keepdims=0)[0], X.sum())
    np.testing.assert_array_equal(run("ReduceSum", [X, i64()], 17, (1,), keepdims=0)[0], X.sum())
    assert emit("ReduceSum", [(2, 3)], noop_with_empty_axes=1)[0].ops == []
    np.testing.assert_array_equal(run("ReduceL1", [X], 18, noop_with_empty_axes=1)[0], np.abs(X))
    np.testing.assert_array_equal(run("ReduceSumSquare", [X], 18, noop_with_empty_axes=1)[0], X * X)


def test_reduce_axes_at_run_time_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="axes computed at run time"):
        emit("ReduceSum", [(2, 3), (1,)])


def test_squeeze_unsqueeze_axes() -> None:
    x = X[:, None]
    assert run("Squeeze", [x], 11, axes=[1])[0].shape == X.shape
    assert run("Squeeze", [x, i64(1)], 13, (1,))[0].shape == X.shape
    assert run("Squeeze", [x[:1]], 13)[0].shape == (3, 4)
    assert run("Unsqueeze", [X], 11, axes=[0, -1])[0].shape == (1, 2, 3, 4, 1)
    assert run("Unsqueeze", [X, i64(0, -1)], 13, (1,))[0].shape == (1, 2, 3, 4, 1)
    with pytest.raises(InvalidInputError, match="dim 0 is not 1"):
        run("Squeeze", [X, i64(0)], 13, (1,))


def test_clip_bounds() -> None:
    """Case 45: either bound may be left out."""
    low, high = np.asarray(-2, F32), np.asarray(3, F32)
    np.testing.assert_array_equal(run("Clip", [X, low], 13)[0], X.clip(-2))
    np.testing.assert_array_equal(run("Clip", [X, None, high], 13)[0], X.clip(None, 3))
    np.testing.assert_array_equal(run("Clip", [X, low, high], 13)[0], X.clip(-2, 3))
    assert emit("Clip", [(2, 3)])[0].ops == []
    np.testing.assert_array_equal(run("Clip", [X], 6, min=-2.0, max=3.0)[0], X.clip(-2, 3))
    np.testing.assert_array_equal(run("Clip", [X, high, low], 13)[0], np.full_like(X, -2))  # min > max: max
    nan = np.asarray([np.nan, 5], F32)
    np.testing.assert_array_equal(run("Clip", [nan, low, high], 13)[0], np.asarray([np.nan, 3], F32))


def test_slice_as_attributes() -> None:
    np.testing.assert_array_equal(
        run("Slice", [X], 9, starts=[1, -3], ends=[9, -1], axes=[2, 1])[0], X[:, -3:-1, 1:9]
    )


def test_split_forms() -> None:
    parts = [X[..., :1], X[..., 1:]]
    for got in (
        run("Split", [X], 11, outputs=2, axis=-1, split=[1, 3]),
        run("Split", [X, i64(1, 3)], 13, (1,), 2, axis=-1),
    ):
        for a, b in zip(got, parts, strict=True):
            np.testing.assert_array_equal(a, b)
    assert [a.shape for a in run("Split", [X], 18, outputs=2, axis=1, num_outputs=2)] == [
        (2, 2, 4),
        (2, 1, 4),
    ]
    assert [a.shape for a in run("Split", [X], 13, outputs=2, axis=2)] == [(2, 3, 2), (2, 3, 2)]
    with pytest.raises(UnsupportedError, match="sizes of a split that don't fit"):
        run("Split", [X, i64(1, 1)], 13, (1,), 2, axis=-1)


def test_dropout() -> None:
    for opset in (7, 10, 12, 17):
        assert emit("Dropout", [(2, 3)], opset)[0].ops == []
    got, mask = run("Dropout", [X], 13, outputs=2)
    assert got is X and mask.dtype == bool and mask.all()
    got, mask = run("Dropout", [X, np.asarray(0.75, F32), np.asarray(True)], 13, (1, 2), outputs=2)
    assert mask.any() and not mask.all()
    np.testing.assert_array_equal(got, np.where(mask, X * F32(4), F32(0)))
    with pytest.raises(UnsupportedError, match="ratio out of range"):
        run("Dropout", [X, np.asarray(1.5, F32), np.asarray(True)], 13, (1, 2))


def test_softmax_before_opset_13_flattens() -> None:
    wanted = np.exp(X.reshape(2, 12) - X.reshape(2, 12).max(1, keepdims=True))
    wanted = (wanted / wanted.sum(1, keepdims=True)).reshape(X.shape)
    np.testing.assert_allclose(run("Softmax", [X], 11)[0], wanted, rtol=1e-6)
    np.testing.assert_allclose(run("Softmax", [X], 13)[0].sum(-1), np.ones((2, 3)), rtol=1e-6)


# -- matrix products -------------------------------------------------------------------------------


def test_matmul_of_vectors() -> None:
    a, m = X[0, 0], X[0].T
    np.testing.assert_allclose(run("MatMul", [a, m])[0], a @ m)
    np.testing.assert_allclose(run("MatMul", [X, a])[0], X @ a)
    np.testing.assert_allclose(run("MatMul", [a, a])[0], a @ a)
    with pytest.raises(UnsupportedError, match="of a scalar"):
        run("MatMul", [np.asarray(1, F32), a])


def test_gemm() -> None:
    a, b, c = X[0], X[1], np.arange(3, dtype=F32)
    np.testing.assert_allclose(run("Gemm", [a, b, c], transB=1)[0], a @ b.T + c)
    np.testing.assert_allclose(run("Gemm", [a, b], transA=1)[0], a.T @ b)
    scaled = run("Gemm", [a, b, c], transB=1, alpha=0.5, beta=2.0)[0]
    np.testing.assert_allclose(scaled, 0.5 * (a @ b.T) + 2 * c)
    ctx, _ = emit("Gemm", [("B", 4), (4, 3), (3,)])
    assert names(ctx) == ["matmul", "add"]  # factors of 1 vanish
    assert names(emit("Gemm", [("B", 4), (4, 3), (3,)], beta=0.0)[0]) == ["matmul"]


# -- shapes ----------------------------------------------------------------------------------------


def test_reshape_targets() -> None:
    assert run("Reshape", [X, i64(0, -1)], 13, (1,))[0].shape == (2, 12)
    assert run("Reshape", [X, i64(4, 0, -1)], 13, (1,))[0].shape == (4, 3, 2)
    assert run("Reshape", [X[:0], i64(0, 4)], 14, (1,), allowzero=1)[0].shape == (0, 4)
    assert run("Reshape", [X], 4, shape=[-1])[0].shape == (24,)
    assert run("Flatten", [X], axis=2)[0].shape == (6, 4)
    assert run("Flatten", [X], axis=-3)[0].shape == (1, 24)
    for target, message in (
        ((-1, -1), "more than one dim"),
        ((5, -1), "doesn't fit"),
        ((0, 0, 0, 0), "copies a dim"),
        ((5, 5), "number of elements"),
    ):
        with pytest.raises(GafError, match=message):
            run("Reshape", [X, i64(*target)], 13, (1,))


@pytest.mark.parametrize(
    "shape, target, expected",
    [
        (("B", "S", 768), ("B", "S", 12, 64), "B, S, 12, 64"),
        (("B", "S", 768), (0, 0, 12, -1), "B, S, 12, 64"),
        (("B", "S", 12, 64), ("B", "S", -1), "B, S, 768"),
        (("B", "S", 768), (-1, 768), "B * S, 768"),
        (("B", 12, "S", 64), (-1, "S", 64), "B * 12, S, 64"),
    ],
)
def test_reshape_of_symbolic_shapes(shape: tuple, target: tuple, expected: str) -> None:
    _, (result,) = emit("Reshape", [shape, ()], dims={1: target})
    assert str(tensor_type(result)) == f"f32[{expected}]"


def test_identical_views_vanish() -> None:
    assert emit("Reshape", [("B", 4), ()], dims={1: ("B", 4)})[0].ops == []
    assert emit("Expand", [("B", 4), ()], dims={1: (1, 4)})[0].ops == []
    assert emit("Transpose", [("B", 4)], perm=[0, 1])[0].ops == []
    assert emit("Slice", [("B", 4), (), ()], known={1: [0], 2: [2**63 - 1]})[0].ops == []
    assert emit("Tile", [("B", 4), ()], known={1: [1, 1]})[0].ops == []
    assert emit("Cast", [("B", 4)], to=TensorProto.FLOAT)[0].ops == []
    assert emit("Concat", [("B", 4)], axis=0)[0].ops == []
    assert emit("Pad", [("B", 4), ()], known={1: [0, 0, 0, 0]})[0].ops == []


def slice_op(shape: tuple, **bounds: Any):
    shapes = [shape, (), (), (), ()]
    dims = {i: v for i, v in ((1, bounds["starts"]), (2, bounds["ends"]))}
    known = {
        3: list(bounds.get("axes", range(len(bounds["starts"])))),
        4: bounds.get("steps", [1] * len(bounds["starts"])),
    }
    ctx, (result,) = emit("Slice", shapes, dims=dims, known=known)
    return ctx, tensor_type(result)


def test_slice_of_symbolic_dims() -> None:
    s = sym("S")
    ctx, type_ = slice_op(("S", 8), starts=(0,), ends=(1,))
    assert type_.shape == (1, 8) and not ctx.assumed
    _, type_ = slice_op(("S", 8), starts=(-1,), ends=(2**31 - 1,))
    assert type_.shape == (1, 8)
    _, type_ = slice_op(("S", 8), starts=(1,), ends=(2**63 - 1,))
    assert type_.shape == (s - 1, expr(8))
    _, type_ = slice_op(("S", 8), starts=(-1,), ends=(-(2**63),), steps=[-1])
    assert type_.shape == (s, expr(8))
    # exact where the bound is a number: a short sequence has fewer elements
    ctx, type_ = slice_op(("S", 8), starts=(0,), ends=(128,))
    assert type_.shape == (minimum(s, 128), expr(8)) and not ctx.assumed


def test_slice_of_a_table_at_a_symbolic_size() -> None:
    """Position embeddings: the size is assumed to fit, the assumption is recorded and checked at run time."""
    ctx, type_ = slice_op((1, 512), starts=(0,), ends=("S",), axes=(1,))
    assert type_.shape == (1, sym("S"))
    ((condition, what),) = ctx.assumed
    assert condition == 512 - sym("S") and "512 rows" in what
    (op,) = ctx.ops
    table = np.zeros((1, 512), F32)
    assert op.reference_with_symbols(table, env={"S": 512})[0].shape == (1, 512)
    with pytest.raises(InvalidInputError, match="dim 1 is read out of bounds.*got 512"):
        op.reference_with_symbols(table, env={"S": 513})


def test_slice_bound_of_unknown_sign_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="may be negative"):
        slice_op(("S", 8), starts=(sym("A") - sym("B"),), ends=(4,))


def test_pad_axes_and_modes() -> None:
    """Case 38: wrap mode, and the axes operand of opset 18."""
    x = np.arange(12, dtype=F32).reshape(3, 4)
    got = run("Pad", [x, i64(1, 2), None, i64(1)], 19, (1, 3), mode="wrap")[0]
    np.testing.assert_array_equal(got, np.pad(x, ((0, 0), (1, 2)), mode="wrap"))
    got = run("Pad", [x, i64(1, 2), np.asarray(7, F32), i64(-1)], 18, (1, 2, 3))[0]
    np.testing.assert_array_equal(got, np.pad(x, ((0, 0), (1, 2)), constant_values=7))
    got = run("Pad", [x], 10, pads=[0, 1, 1, 0], mode="edge")[0]
    np.testing.assert_array_equal(got, np.pad(x, ((0, 1), (1, 0)), mode="edge"))
    with pytest.raises(UnsupportedError, match="pad value computed at run time"):
        emit("Pad", [("B", 4), (), ()], known={1: [0, 0, 0, 1]})


def test_gather_of_a_fixed_position_is_a_slice() -> None:
    ctx, (result,) = emit("Gather", [("B", "S", 8), ()], known={1: 0}, axis=1)
    assert names(ctx) == ["slice", "squeeze"] and tensor_type(result).shape == (sym("B"), expr(8))
    np.testing.assert_array_equal(run("Gather", [X, np.asarray(-1)], 17, (1,), axis=1)[0], X[:, -1])
    np.testing.assert_array_equal(run("Gather", [X, i64(1)], 17, (1,), axis=2)[0], X[:, :, 1:2])


def test_gather_wraps_unless_known() -> None:
    for known, wrap in (({}, True), ({1: [0, 2]}, False), ({1: [0, -1]}, True)):
        ctx, _ = emit("Gather", [(9, 8), (2,)], known=known, dtype=dt.I64)
        assert bool(ctx.ops[-1].attrs()["wrap"]) is wrap
    with pytest.raises(InvalidInputError, match="index out of range.*got 3"):
        run("Gather", [X, i64(0, 3)], axis=1)


def test_expand_range_and_fill_under_symbols() -> None:
    _, (result,) = emit("Expand", [(1, "S"), ()], dims={1: ("B", 1)})
    assert tensor_type(result).shape == (sym("B"), sym("S"))
    _, (result,) = emit("Range", [(), (), ()], dims={1: ("S",)}, known={0: np.int64(0), 2: np.int64(1)})
    assert tensor_type(result).shape == (sym("S"),)
    one = numpy_helper.from_array(np.ones(1, np.int64))
    _, (result,) = emit("ConstantOfShape", [()], dims={0: ("B", "S")}, value=one)
    assert str(tensor_type(result)) == "i64[B, S]"
    with pytest.raises(UnsupportedError, match="run-time data decides the shape"):
        emit("ConstantOfShape", [(2,)], dtype=dt.I64)


# -- norms, pools and the rest ---------------------------------------------------------------------


def test_layer_norm_statistics_only_if_asked_for() -> None:
    (op,) = emit("LayerNormalization", [("B", 8), (8,)])[0].ops
    assert len(op.results) == 1
    _, results = emit("LayerNormalization", [("B", 8), (8,)], outputs=3, dtype=dt.F16)
    assert [str(tensor_type(r)) for r in results] == ["f16[B, 8]", "f32[B, 1]", "f32[B, 1]"]


def test_norm_scale_must_not_widen() -> None:
    """Cases 01 and 02: a scale that broadcasts the data is no scale of a normalisation."""
    with pytest.raises(InvalidInputError, match="scale doesn't broadcast to x"):
        emit("LayerNormalization", [(1, 1), (2,)])
    with pytest.raises(InvalidInputError, match="scale doesn't broadcast to x"):
        emit("RMSNormalization", [(1, 1), (2,)], opset=23)
    assert run("Mul", [np.ones((1, 1), F32), np.ones(2, F32)])[0].shape == (1, 2)


def test_batch_norm_in_training() -> None:
    """Normalised with the batch's statistics; the running ones move towards those (opset 14)."""
    rng = np.random.default_rng(0)
    x, scale, bias, mean, variance = (rng.random(s).astype(F32) for s in ((5, 3, 4), *[(3,)] * 4))
    operands = [x, scale, bias, mean, variance]
    y, new_mean, new_variance = run("BatchNormalization", operands, training_mode=1, momentum=0.8, outputs=3)
    own_mean, own_variance = x.mean((0, 2)), x.var((0, 2))
    np.testing.assert_allclose(new_mean, 0.8 * mean + 0.2 * own_mean, rtol=1e-5)
    np.testing.assert_allclose(new_variance, 0.8 * variance + 0.2 * own_variance, rtol=1e-5)
    normal = (x - own_mean[:, None]) / np.sqrt(own_variance[:, None] + 1e-5)
    np.testing.assert_allclose(y, normal * scale[:, None] + bias[:, None], rtol=1e-4, atol=1e-5)


def test_batch_norm_in_training_before_opset_14_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="training mode"):
        emit("BatchNormalization", [("N", 3, 4), (3,), (3,), (3,), (3,)], 9, outputs=5)


def test_group_norm_with_scale_per_group() -> None:
    """Before opset 21 scale and bias have one entry a group."""
    rng = np.random.default_rng(0)
    x, scale, bias = (rng.standard_normal(s).astype(F32) for s in ((2, 6, 3), (2,), (2,)))
    old = run("GroupNormalization", [x, scale, bias], 18, num_groups=2)[0]
    new = run("GroupNormalization", [x, scale.repeat(3), bias.repeat(3)], 21, num_groups=2)[0]
    np.testing.assert_array_equal(old, new)


def test_average_pool_ceil_mode() -> None:
    """Case 41: partial windows average real elements only."""
    x = np.ones((1, 3, 17, 17), F32)
    window = {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [0, 0, 1, 1], "ceil_mode": 1}
    np.testing.assert_array_equal(run("AveragePool", [x], **window)[0], np.ones((1, 3, 9, 9), F32))


def test_conv_transpose_same_upper() -> None:
    """Case 39: the odd pad goes to the end."""
    x, w = np.ones((1, 1, 4, 4), F32), np.ones((1, 1, 3, 3), F32)
    got = run("ConvTranspose", [x, w], strides=[2, 2], auto_pad="SAME_UPPER")[0]
    assert got.shape == (1, 1, 8, 8)
    full = run("ConvTranspose", [x, w], strides=[2, 2])[0]
    np.testing.assert_array_equal(got, full[:, :, :8, :8])


def test_conv_auto_pad_on_symbolic_sizes() -> None:
    _, (result,) = emit("Conv", [("N", 3, "H"), (4, 3, 3)], auto_pad="SAME_UPPER")
    assert tensor_type(result).shape == (sym("N"), expr(4), sym("H"))
    with pytest.raises(UnsupportedError, match="auto_pad SAME_UPPER on a symbolic size"):
        emit("Conv", [("N", 3, "H"), (4, 3, 3)], auto_pad="SAME_UPPER", strides=[2])


def test_pow_takes_its_type_from_the_base() -> None:
    got = run("Pow", [np.asarray([2, 3], np.int64), np.asarray([0.5, 2], F32)])[0]
    np.testing.assert_array_equal(got, np.asarray([1, 9]))
    assert got.dtype == np.int64
    assert run("Pow", [X, i64(2)])[0].dtype == np.float32


def test_variadic_extrema_are_chains() -> None:
    ctx, _ = emit("Max", [("B", 4), (4,), (1,)])
    assert names(ctx) == ["max", "max"]
    assert emit("Sum", [("B", 4)])[0].ops == []
    np.testing.assert_allclose(run("Mean", [X, X + 3])[0], X + 1.5)


def test_unequal_symbolic_sizes_name_the_way_out() -> None:
    with pytest.raises(InvalidInputError, match="don't broadcast.*\n.*--input-shape"):
        emit("Add", [("B", "S"), ("B", "T")])
    with pytest.raises(InvalidInputError, match="the summed dims differ.*expected K rows.*\n.*--input-shape"):
        emit("MatMul", [("B", "K"), ("L", 3)])


# -- spellings of GELU (case 53) -------------------------------------------------------------------


def test_gelu_spellings_agree() -> None:
    """Case 53: the formula written with commuted operands means what Gelu means."""
    x = np.linspace(-5, 5, 33).astype(np.float64)
    (gelu,) = run("Gelu", [x], 20)
    root, one, half = np.asarray(np.sqrt(2.0)), np.asarray(1.0), np.asarray(0.5)
    erf = run("Erf", [run("Div", [x, root])[0]])[0]
    for total in (run("Add", [erf, one])[0], run("Add", [one, erf])[0]):
        for product in (run("Mul", [x, total])[0], run("Mul", [total, x])[0]):
            np.testing.assert_allclose(run("Mul", [half, product])[0], gelu, rtol=1e-12, atol=1e-15)


def test_equal_looking_constants_keep_their_values() -> None:
    """Case 07: two scalars of equal shape are two values."""
    x, y = X[0], X[1]
    left = run("Div", [x, np.asarray(2, F32)])[0]
    right = run("Mul", [y, np.asarray(4, F32)])[0]
    np.testing.assert_array_equal(run("Add", [left, right])[0], x / 2 + y * 4)


def test_each_op_rounds_once() -> None:
    """Case 17: x * y + z in bfloat16 is rounded twice, once an op, to nearest even."""
    rng = np.random.default_rng(0)
    x, y, z = (rng.standard_normal(64).astype(ml_dtypes.bfloat16) for _ in range(3))
    got = run("Add", [run("Mul", [x, y])[0], z])[0]
    product = (x.astype(F32) * y.astype(F32)).astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(got, (product.astype(F32) + z.astype(F32)).astype(ml_dtypes.bfloat16))
    once = (x.astype(F32) * y.astype(F32) + z.astype(F32)).astype(ml_dtypes.bfloat16)
    assert np.any(got != once)
