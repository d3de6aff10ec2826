# SPDX-License-Identifier: Apache-2.0
"""The same inputs through every level agree: graph, fused graph, tile, ascendc, compiled kernel in check mode."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from gaf.compiler import FusedModel, fuse
from gaf.config import FusionConfig
from gaf.dialects.common import dtype as dt
from gaf.dialects.graph.model import Model, new_model
from gaf.dialects.graph.ops.binary import AddOp
from gaf.dialects.graph.ops.matmul import MatMulOp
from gaf.dialects.graph.ops.unary import TanhOp
from gaf.dialects.graph.types import TensorType
from gaf.frontend.builder import GraphBuilder
from gaf.runtime.compiler import find_compiler
from tests.graphs import graphs, inputs_for, random_graph

DTYPES = (dt.F32, dt.F32, dt.F16, dt.BF16)


def check_level(model: Model, engine: str, config: FusionConfig | None = None) -> FusedModel:
    """Fuse, run on an engine and judge every kernel and output against float64."""
    fused = fuse(model, config)
    result = fused.verify(inputs_for(model), engine=engine)
    wrong = [c for c in [*result.launches, *result.outputs] if not c.ok]
    assert not wrong, "\n".join(f"{c.kernel or c.name}: error {c.error:.2e} > {c.tolerance:.2e} {c.note}" for c in wrong)
    assert not result.violations, result.violations[0]
    return fused


@given(graphs(dtypes=DTYPES))
def test_fused_graph_means_the_same(model: Model) -> None:
    inputs = inputs_for(model)
    fused = fuse(model)
    expected, got = model.run(inputs, wide=True), fused.model.run(inputs, wide=True)
    for name, value in expected.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-9, atol=1e-9)


@given(graphs(max_steps=6, dtypes=DTYPES), st.booleans())
@settings(max_examples=40)
def test_tile_level(model: Model, autofuse: bool) -> None:
    check_level(model, "tile", FusionConfig(enable_autofuse=autofuse))


@given(graphs(max_steps=6, dtypes=DTYPES))
@settings(max_examples=40)
def test_ascendc_level(model: Model) -> None:
    check_level(model, "interpreter")


@pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler on this machine")
@pytest.mark.parametrize("seed", range(8))
def test_compiled_kernels_in_check_mode(seed: int) -> None:
    check_level(random_graph(1000 + seed, steps=6, dtype=DTYPES[seed % len(DTYPES)]), "check")


@pytest.mark.parametrize("engine", ["tile", "interpreter", "check"])
@pytest.mark.parametrize(("rows", "depths", "columns"), [(3, (4, 8), 32), (40, (70, 33), 50), (19, (24, 24), 32)])
def test_matmuls_side_by_side_with_operands_of_their_own(
    rows: int, depths: tuple[int, int], columns: int, engine: str
) -> None:
    """x @ w + h @ r, the gates of a recurrent cell; equal depths share the weight and the summed axis."""
    if engine == "check" and find_compiler() is None:
        pytest.skip("no C++ compiler on this machine")
    model = new_model([(n, TensorType.of((rows, k), dt.F32)) for n, k in zip("xh", depths)])
    builder = GraphBuilder(model)
    random = np.random.default_rng(0)
    weights = [
        builder.constant(random.standard_normal((k, columns)).astype(np.float32), f"w{i}") for i, k in enumerate(depths)
    ]
    if depths[0] == depths[1]:
        weights[1] = weights[0]
    products = [builder.emit(MatMulOp, [a, w]) for a, w in zip(model.block.args, weights)]
    builder.finish([("y", builder.emit(TanhOp, [builder.emit(AddOp, products)]))])
    assert check_level(model, engine).num_ops == 1


@pytest.mark.slow
@pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler on this machine")
@pytest.mark.parametrize("seed", range(60))
def test_compiled_kernels_in_both_modes(seed: int) -> None:
    model = random_graph(2000 + seed, steps=8, dtype=DTYPES[seed % len(DTYPES)])
    check_level(model, "check")
    check_level(model, "host")
