# SPDX-License-Identifier: Apache-2.0
"""Fused groups as linalg text: xDSL's own dialects parse and verify it, and element by element it computes the model."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.arith import Arith
from xdsl.dialects.builtin import Builtin, DenseIntOrFPElementsAttr, ModuleOp
from xdsl.dialects.func import Func, FuncOp
from xdsl.dialects.linalg import Linalg
from xdsl.dialects.math import Math
from xdsl.dialects.tensor import Tensor
from xdsl.ir import Block, SSAValue
from xdsl.parser import Parser

import gaf
from gaf.codegen.linalg import export_linalg
from gaf.dialects.common import dtype as dt
from gaf.dialects.graph.interpreter import run_model
from gaf.errors import EXIT_INVALID, EXIT_OK, EXIT_UNSUPPORTED, UnsupportedError
from gaf.frontend.language import program_from_text
from gaf.tools import gaf as cli

SCALAR = {
    "addf": lambda a, b: a + b, "subf": lambda a, b: a - b, "mulf": lambda a, b: a * b, "divf": lambda a, b: a / b,
    "negf": lambda a: -a, "maximumf": np.maximum, "minimumf": np.minimum, "exp": np.exp, "sqrt": np.sqrt,
    "rsqrt": lambda a: 1 / np.sqrt(a), "tanh": np.tanh, "absf": np.abs, "erf": math.erf, "powf": np.power,
    "addi": lambda a, b: a + b, "muli": lambda a, b: a * b, "select": lambda c, a, b: a if c else b,
    "floordivsi": lambda a, b: a // b, "remsi": lambda a, b: a % b, "log": np.log,
}  # fmt: skip
COMPARE = {"oeq": "eq", "une": "ne", "olt": "lt", "ole": "le", "ogt": "gt", "oge": "ge"}
ORDER = ("false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule", "une", "uno")


def parse(text: str) -> ModuleOp:
    context = Context()
    for dialect in (Builtin, Func, Arith, Math, Linalg, Tensor):
        context.load_dialect(dialect)
    module = Parser(context, text).parse_module()
    module.verify()
    return module


def run(block: Block, values: dict[SSAValue, Any], at: tuple[int, ...] = ()) -> list[Any]:
    """The operands of the block's terminator; floats are computed in float64."""
    for op in block.ops:
        args = [values[o] for o in op.operands]
        name = op.name.partition(".")[2]
        if op.name in ("func.return", "linalg.yield"):
            return args
        if op.name == "arith.constant":
            attr = op.properties["value"]
            if isinstance(attr, DenseIntOrFPElementsAttr):
                found: Any = np.array(list(attr.get_values()), float).reshape(attr.get_shape())
            else:
                found = attr.value.data
        elif op.name == "tensor.dim":
            found = args[0].shape[args[1]]
        elif op.name == "tensor.empty":
            sizes = iter(args)
            found = np.full([next(sizes) if n < 0 else n for n in op.results[0].type.get_shape()], np.nan)
        elif op.name == "linalg.fill":
            found = np.full_like(args[1], args[0])
        elif op.name == "linalg.index":
            found = at[op.properties["dim"].value.data]
        elif op.name == "linalg.generic":
            found = generic(op, args, values)
        elif name in ("extf", "truncf", "sitofp", "index_cast", "extsi", "uitofp"):
            found = args[0]
        elif name == "cmpf":
            predicate = ORDER[op.properties["predicate"].value.data]
            found = getattr(np, {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal",
                                 "gt": "greater", "ge": "greater_equal"}[COMPARE[predicate]])(*args)  # fmt: skip
        else:
            found = SCALAR[name](*args)
        values[op.results[0]] = found
    raise AssertionError("no terminator")


def generic(op: Any, args: list[np.ndarray], values: dict[SSAValue, Any]) -> np.ndarray:
    maps = [m.data for m in op.indexing_maps]
    extents: dict[int, int] = {}
    for map_, array in zip(maps, args):
        for result, size in zip(map_.results, array.shape):
            if str(result).startswith("d") and str(result)[1:].isdigit():
                assert extents.setdefault(int(str(result)[1:]), size) == size
    out = args[-1].copy()
    assert sorted(extents) == list(range(len(op.iterator_types)))
    for point in itertools.product(*(range(extents[i]) for i in sorted(extents))):
        places = [tuple(m.eval(list(point), [])) for m in maps]
        inner = dict(values)
        inner.update(zip(op.body.block.args, [a[p] for a, p in zip(args[:-1], places)] + [out[places[-1]]]))
        (out[places[-1]],) = run(op.body.block, inner, point)
    return out


CASES = {
    "elementwise": "model t(x: f32[n, 4], g: f32[4]) { sigmoid(x * g) + tanh(x) - 1.5 }",
    "softmax": "model t(x: f32[n, 6]) { softmax(x) * 2.0 }",
    "matmul": "model t(x: f32[n, 4], w: f32[4, 3], b: f32[3]) { relu(x @ w + b) }",
    "half": "model t(x: f16[n, 4], w: f16[4, 3]) { exp(x @ w) }",
    "views": "model t(x: f32[2, 6], y: f32[6, 2]) { exp(x) * transpose(y, perm=[1, 0]) + 1.0 }",
    "column": "op f(x: T[m, k]) -> T[k] { [j] = max(i: abs(x[i, j])) } model t(x: f32[m, 5]) { f(x) + 1.0 }",
    "mean": "op f(x: T[n, m]) -> T[n, 1] { [i, j < 1] = mean(k: x[i, k]) } model t(x: f32[n, 4]) { x - f(x) }",
    "repeated": "model t(x: f32[n, 4], y: f32[n, 8]) { tanh(reshape(expand(unsqueeze(x, axes=[2]), shape=[n, 4, 2]),"
    " shape=[n, 8])) * y }",
    "select": "op f(x: T[n, m]) -> T[n, m] { [i, j] = select(x[i, j] >= 0.5, x[i, j] * f32(i + 2 * j), 0.25) }"
    " model t(x: f32[n, 4]) { exp(f(x)) + sign(x) }",
}


@pytest.mark.parametrize("name", CASES)
def test_text_computes_the_group(name: str) -> None:
    model = program_from_text(CASES[name], name, Path()).model(None)
    fused = gaf.fuse(model).model
    (function,) = (op for op in parse(export_linalg(fused)).body.block.ops if isinstance(op, FuncOp))
    assert len(list(fused.block.ops)) == 2, "one group and the return"
    rng = np.random.default_rng(1)
    shapes = [[d.as_int() or 3 for d in t.shape] for t in model.input_types]
    arrays = [rng.normal(size=s).astype(t.dtype.numpy) for s, t in zip(shapes, model.input_types)]
    (want,) = run_model(model, dict(zip(model.input_names, arrays)), wide=True).values()
    group = next(iter(fused.block.ops))
    given = dict(zip(fused.block.args, arrays))
    inputs = [given[v].astype(np.float64) for v in group.operands]
    (got,) = run(function.body.block, dict(zip(function.body.block.args, inputs)))
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-9)
    assert model.input_types[0].dtype != dt.F16 or "arith.truncf" in export_linalg(fused)


def test_no_group_is_an_error() -> None:
    model = program_from_text("model t(x: f32[n, 4]) { exp(x) }", "t", Path()).model(None)
    with pytest.raises(UnsupportedError, match="no fused group"):
        export_linalg(model)


def test_unsigned_integers_are_refused_with_their_place() -> None:
    model = program_from_text("model t(x: ui8[n, 4], s: f32[4]) { f32(x) * s + 1.0 }", "t", Path()).model(None)
    with pytest.raises(UnsupportedError, match="element type u") as info:
        export_linalg(gaf.fuse(model).model)
    assert info.value.where


def test_export_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tmp_path / "m.gaf"
    model.write_text(CASES["softmax"])
    for kind, name in (("linalg", "a.mlir"), ("mlir", "b.mlir"), ("onnx", "c.onnx")):
        assert cli.main(["export", str(model), "--to", kind, "-o", str(tmp_path / name)]) == EXIT_OK
    parse((tmp_path / "a.mlir").read_text())
    assert gaf.load_model(tmp_path / "b.mlir").output_types == gaf.load_model(model).output_types
    assert (tmp_path / "c.onnx").stat().st_size
    assert cli.main(["export", str(model), "--to", "onnx", "-o", str(tmp_path / "d.mlir")]) == EXIT_INVALID
    model.write_text("model t(x: f32[n, 4], i: i64[m]) { exp(gather(x, i, axis=0)) }")
    out = tmp_path / "e.mlir"
    assert cli.main(["export", str(model), "--to", "linalg", "-o", str(out)]) == EXIT_UNSUPPORTED
    assert "has no linalg form" in capsys.readouterr().err and not out.exists()
