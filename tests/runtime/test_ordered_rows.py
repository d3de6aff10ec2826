# SPDX-License-Identifier: Apache-2.0
"""Top-k and sort as kernels: chunks of rows sorted and merged on chip, on every engine, with ties, NaN and infinities."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import gaf
from gaf.dialects.common.order import LARGEST, ORDERS, from_keys, sort_keys, stable_order

ENGINES = ("tile", "interpreter", "host", "check")
TYPES = {np.float32: TensorProto.FLOAT, np.float16: TensorProto.FLOAT16, np.int8: TensorProto.INT8, np.uint8: TensorProto.UINT8}


def top(shape: Sequence[Any], k: int, largest: bool, axis: int = -1, dtype: Any = np.float32, scaled: bool = True) -> gaf.Model:
    """The first k of x (times y, so that something fuses in front of it)."""
    nodes = [helper.make_node("TopK", ["z" if scaled else "x", "k"], ["v", "i"], axis=axis, largest=int(largest))]
    if scaled:
        nodes.insert(0, helper.make_node("Mul", ["x", "y"], ["z"]))
    infos = [helper.make_tensor_value_info(n, TYPES[dtype], shape) for n in ("x", "y") if scaled or n == "x"]
    outputs = [helper.make_tensor_value_info("v", TYPES[dtype], None), helper.make_tensor_value_info("i", TensorProto.INT64, None)]
    graph = helper.make_graph(nodes, "top", infos, outputs, [onnx.numpy_helper.from_array(np.asarray([k]), "k")])
    return gaf.load_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))


def rows(shape: Sequence[int], seed: int) -> np.ndarray:
    """Few distinct numbers, NaN of both signs, infinities and zeros of both signs."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-30, 30, shape).astype(np.float32) / 4
    special = np.asarray([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0], np.float32)
    return np.where(rng.random(shape) < 0.2, rng.choice(special, shape), x)


def check(model: gaf.Model, x: np.ndarray, engines: Sequence[str] = ENGINES, kernels: int | None = 1) -> None:
    fused = gaf.fuse(model)
    assert kernels is None or len(fused.kernels) == kernels
    assert not fused.fallbacks
    feeds = {"x": x, "y": np.ones_like(x)}
    feeds = {n: feeds[n] for n in model.input_names}
    expected = model.run(feeds)
    for engine in engines:
        found = fused.run(feeds, engine=engine)
        np.testing.assert_array_equal(found["i"], expected["i"], err_msg=engine)
        np.testing.assert_array_equal(found["v"], expected["v"], err_msg=engine)
        assert fused.verify(feeds, engine=engine).ok


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("n, k", [(2, 2), (31, 3), (33, 33), (300, 7), (1024, 1000), (1025, 2), (2500, 40)])
def test_rows_of_many_lengths(n: int, k: int, largest: bool) -> None:
    check(top(["B", n], k, largest), rows((3, n), n))


def test_sort_of_a_row_in_chunks() -> None:
    check(top([2, 3300], 3300, False), rows((2, 3300), 5))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_many_random_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = [*rng.integers(1, 6, rng.integers(0, 3)).tolist(), int(rng.integers(2, 3000))]
    check(top(shape, int(rng.integers(2, shape[-1] + 1)), bool(rng.integers(2))), rows(shape, seed))


@pytest.mark.parametrize("largest", [True, False])
def test_single_element(largest: bool) -> None:
    x = rows((5, 40), 1)
    x[0] = np.nan
    x[1] = np.inf
    x[2, :20], x[2, 20:] = np.nan, np.inf
    check(top(["B", 40], 1, largest), x, kernels=None)


def test_other_axes_are_transposed() -> None:
    check(top([3, 50, 6], 4, True, axis=1), rows((3, 50, 6), 2), kernels=None)


@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.uint8])
def test_other_types(dtype: Any) -> None:
    x = np.random.default_rng(0).integers(0, 100, (4, 70)).astype(dtype)
    check(top(["B", 70], 9, False, dtype=dtype, scaled=dtype == np.float16), x)


def test_symbolic_rows() -> None:
    model = top(["B", "N"], 5, True)
    for shape in ((1, 5), (7, 100), (2, 3000)):
        check(model, rows(shape, 3))
    with pytest.raises(gaf.InvalidInputError, match="k is out of range"):
        model.run({"x": rows((2, 4), 0), "y": rows((2, 4), 0)})


@pytest.mark.parametrize("order", ORDERS)
def test_keys_keep_the_order_and_come_back(order: str) -> None:
    x = np.concatenate([rows((500,), 9), np.asarray([3.4028235e38, -3.4028235e38, 1e-38, np.inf], np.float32)])
    keys = sort_keys(x, order)
    assert not np.isnan(keys).any()
    np.testing.assert_array_equal(stable_order(keys, 0, LARGEST), stable_order(x, 0, order))
    np.testing.assert_array_equal(from_keys(keys, order), x)
