# SPDX-License-Identifier: Apache-2.0
"""Programs: compositions, imports, weights, conditions, rules, targets, examples, and the tools that open them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import gaf
from gaf.dialects.graph.contract import GraphOp, location_name
from gaf.dialects.graph.ops.structure import ConstantOp, WeightOp
from gaf.errors import InvalidInputError
from gaf.frontend.language.__main__ import main as language_main
from gaf.frontend.language.format import format_source
from gaf.frontend.language.parser import parse
from gaf.frontend.language.program import load_program, program_from_text
from gaf.frontend.language.reference import reference_page
from gaf.frontend.language.template import new_op
from gaf.fusion.declared import load_rules, program_rules
from gaf.fusion.search import plan_fusion
from gaf.tools.gaf_opt import main as gaf_opt

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted((ROOT / "examples" / "gaf").glob("*.gaf"))
GATE = "op gate(x: T[..., d], g: T[d]) -> T[..., d] { x * sigmoid(x * g) }\n"
BLOCK = (
    GATE + "model block(x: f16[B, S, 64], w: f16[64, 64], g: f16[64]) { linear(gate(layer_norm(x), g), w) }\n"
)


def ops(model: gaf.Model) -> list[str]:
    return [
        op.name.removeprefix("graph.")
        for op in model.block.ops
        if isinstance(op, GraphOp) and not isinstance(op, ConstantOp | WeightOp)
    ]


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def test_compositions_are_inlined_and_know_their_line() -> None:
    model = program_from_text(BLOCK, "block.gaf").model()
    assert ops(model) == ["layer_norm", "mul", "sigmoid", "mul", "matmul"]
    places = [location_name(op) for op in model.block.ops if op.name in ("graph.sigmoid", "graph.matmul")]
    assert places == ["block.gaf:1 gate/sigmoid", "block.gaf:2 linear"]
    assert model.num_ops == 3, "LayerNorm, gate and Linear, as the user wrote them"
    rng = np.random.default_rng(0)
    x, w, g = (rng.normal(size=s).astype(np.float16) for s in ((2, 3, 64), (64, 64), (64,)))
    (got,) = model.run({"x": x, "w": w, "g": g}, wide=True).values()
    x, w, g = (a.astype(np.float64) for a in (x, w, g))
    n = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(got, (n * sigmoid(n * g)) @ w, rtol=1e-9)


def test_norm_gate_and_linear_become_one_kernel() -> None:
    rule = "rule keep_gate: (LayerNorm | RMSNorm) >> (Mul | Sigmoid | Gelu | Gate) >> Linear { gain = 0.7 * memory + 0.3 }"
    model = program_from_text(BLOCK + rule, "block.gaf").model()
    plan = plan_fusion(model.block)
    assert len(plan.groups) == 1 and set(plan.host.values()) <= {"a constant"}
    fused = gaf.fuse(model)
    (op,) = fused.fused_ops
    members = [m.name.removeprefix("graph.") for m in op.members if not isinstance(m, ConstantOp)]
    assert members == ["layer_norm", "mul", "sigmoid", "mul", "matmul"] and not fused.fallbacks
    assert not [n for n in fused.notes if "keep_gate" in n], "the rule found its ops"
    assert fused.verify(engine="interpreter").ok


def test_a_comprehension_fuses_with_its_neighbours() -> None:
    text = (
        "op gate(x: f32[n, d], g: f32[d]) -> f32[n, d] { [i, j] = x[i, j] / (1 + exp(-x[i, j] * g[j])) }\n"
        "model m(x: f32[N, 64], g: f32[64]) { softmax(gate(layer_norm(x), g)) }"
    )
    fused = gaf.fuse(program_from_text(text, "t.gaf").model())
    (op,) = fused.fused_ops
    assert [m.name for m in op.members if m.name != "graph.full"] == [
        "graph.layer_norm",
        "graph.generic",
        "graph.softmax",
    ]
    assert "gate" in op.label.data
    assert fused.verify(engine="interpreter").ok


def test_numbers_take_the_type_of_their_tensor() -> None:
    model = program_from_text(
        "model m(x: f16[n], i: i64[n]) { a = 2 * x + 1.5, b = i * 2, c = x > 0, d = -x / n }", "t.gaf"
    ).model()
    assert [str(t.dtype) for t in model.output_types] == ["f16", "i64", "i1", "f16"]
    out = model.run({"x": np.array([1, 2], np.float16), "i": np.array([3, 4])})
    assert out["a"].tolist() == [3.5, 5.5] and out["b"].tolist() == [6, 8] and out["d"].tolist() == [-0.5, -1]


def test_calls_take_properties_by_name_position_and_default() -> None:
    text = """
model m(x: f32[n, 6, 4]) {
    let a, b = split(x, axis=1, split=[2, 4]);
    let t = transpose(x);
    let s = sum(x, [0, -1], keepdims=true);
    s1 = shape(t), s2 = concat(a, b, axis=1), s3 = s,
    s4 = clip(x, -0.5, 0.5), s5 = reshape(x, [n * 24]), s6 = softmax(x, axis=-1), s7 = full(shape=[2], value=1.5),
    s8 = pad(a, [0, 1, 0], [0, 0, 2]), s9 = topk(x, k=2)
}
"""
    with pytest.raises(InvalidInputError, match="2 values where one is needed"):
        program_from_text(text, "t.gaf").model()
    model = program_from_text(text.replace(", s9 = topk(x, k=2)", ""), "t.gaf").model()
    x = np.random.default_rng(0).normal(size=(3, 6, 4)).astype(np.float32)
    out = model.run({"x": x})
    assert out["s1"].tolist() == [4, 6, 3]
    np.testing.assert_array_equal(out["s2"], x)
    np.testing.assert_allclose(out["s3"], x.sum((0, 2), keepdims=True), rtol=1e-5)
    np.testing.assert_array_equal(out["s4"], x.clip(-0.5, 0.5))
    assert out["s5"].shape == (72,) and out["s7"].tolist() == [1.5, 1.5] and out["s8"].shape == (3, 3, 6)


def test_scalar_parameters_are_known_when_the_graph_is_built() -> None:
    text = (
        'op f(x: T[..., d], k: int, slope: float = 0.5, how: string = "none") -> T[..., d] '
        '{ slope * gelu(x, approximate=how) * k }\nmodel m(x: f32[n, 3]) { a = f(x, 2), b = f(x, k=3, slope=1, how="tanh") }'
    )
    model = program_from_text(text, "t.gaf").model()
    x = np.ones((1, 3), np.float32)
    out = model.run({"x": x})
    assert out["a"][0, 0] == pytest.approx(0.8413447, rel=1e-5) and out["b"][0, 0] == pytest.approx(
        3 * 0.841192, rel=1e-5
    )


def test_dims_are_solved() -> None:
    text = "op halves(x: T[..., 2 * h]) -> T[..., h] { [..., i] = x[..., i] + x[..., i + h] }\nmodel m(x: f32[n, 8 * s]) { halves(x) }"
    model = program_from_text(text, "t.gaf").model()
    assert str(model.output_types[0]) == "f32[n, s * 4]"
    assert model.run({"x": np.ones((2, 16), np.float32)})["y"].shape == (2, 8)
    with pytest.raises(
        InvalidInputError, match="the size of axis 1 of input 'x' doesn't give the value of 's'"
    ):
        model.run({"x": np.ones((2, 12), np.float32)})


def test_conditions_are_checked_when_the_model_runs() -> None:
    text = "op f(x: f32[n]) -> f32[n] where n % 4 == 0 { x }\nmodel m(x: f32[N]) where N <= 16 { f(x) + 1 }"
    model = program_from_text(text, "t.gaf").model()
    fused = gaf.fuse(model)
    for run in (model.run, lambda x: fused.run(x, engine="interpreter")):
        assert run({"x": np.zeros(8, np.float32)})["y"].sum() == 8
        with pytest.raises(
            InvalidInputError, match=r"break a condition of the model; expected N mod 4 == 0, got N = 6"
        ):
            run({"x": np.zeros(6, np.float32)})
        with pytest.raises(InvalidInputError, match=r"expected N <= 16, got N = 20"):
            run({"x": np.zeros(20, np.float32)})


def test_input_shapes_fix_sizes(tmp_path: Path) -> None:
    (tmp_path / "b.gaf").write_text(BLOCK)
    model = gaf.load_model(tmp_path / "b.gaf", {"x": (2, None, 64)})
    assert str(model.input_types[0]) == "f16[2, S, 64]"
    for shapes, message in (
        ({"y": (1,)}, "no input 'y'"), ({"x": (1, 2)}, "another rank"), ({"x": (1, 2, 65)}, "can't have size 65 on axis 2"),
    ):  # fmt: skip
        with pytest.raises(InvalidInputError, match=message):
            gaf.load_model(tmp_path / "b.gaf", shapes)


def test_imports_and_weights(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    w, b = rng.normal(size=(64, 8)).astype(np.float32), rng.normal(size=8).astype(ml_dtypes.bfloat16)
    np.savez(tmp_path / "w.npz", w=w, **{"layer.0.bias": b})
    (tmp_path / "gates.gaf").write_text(GATE)
    (tmp_path / "both.gaf").write_text(
        'import "gates.gaf"\nop twice(x: T[..., d], g: T[d]) -> T[..., d] { gate(gate(x, g), g) }'
    )
    (tmp_path / "main.gaf").write_text(
        'import "gates.gaf"\nimport "both.gaf"\nweights "w.npz"\n'
        'model m(x: f32[n, 64], g: f32[64]) { twice(x, g) @ w + cast(weight("layer.0.bias"), to=f32) }\n'
        "model other(x: f32[n]) { x }\n"
    )
    model = gaf.load_model(tmp_path / "main.gaf:m")
    assert list(model.weights) == ["w"], "the small one stands in the IR"
    x, g = rng.normal(size=(3, 64)).astype(np.float32), rng.normal(size=64).astype(np.float32)
    y = x * sigmoid(x * g)
    y = y * sigmoid(y * g)
    np.testing.assert_allclose(
        model.run({"x": x, "g": g})["y"], y @ w + b.astype(np.float32), rtol=1e-4, atol=1e-4
    )
    with pytest.raises(InvalidInputError, match="holds 2 models; expected the name of one: m, other"):
        gaf.load_model(tmp_path / "main.gaf")
    with pytest.raises(InvalidInputError, match="did you mean layer.0.bias"):
        program_from_text(
            'weights "w.npz"\nmodel m(x: f32[n, 64]) { x @ weight("layer.0.bas") }', "t.gaf", tmp_path
        ).model()


def test_an_op_can_be_tried_alone() -> None:
    program = program_from_text(GATE, "t.gaf")
    model = program.model()
    assert [str(t) for t in model.input_types] == ["f32[batch, d]", "f32[d]"] and model.output_names == ["y"]


def test_rules_steer_the_fusion_of_their_models(tmp_path: Path) -> None:
    text = (
        "model m(x: f32[N, 64], y: f32[N, 64]) { tanh(x) * y }\n"
        "rule pair: Tanh >> (Mul | Add) { gain = min(1, 0.7 * memory + 0.3) / 1 }\n"
    )
    program = program_from_text(text, "t.gaf")
    (rule,) = program_rules(program)
    assert rule.title == "pair" and [s.names for s in rule.slots()] == [("Tanh",), ("Mul", "Add")]
    config = gaf.FusionConfig(enable_autofuse=False)
    assert len(gaf.fuse(program.model(), config).fused_ops) == 1
    alone = program_from_text(text.partition("rule")[0], "t.gaf")
    assert len(gaf.fuse(alone.model(), config).fused_ops) == 2, "without the rule nothing is joined"
    (tmp_path / "r.gaf").write_text(text)
    with gaf.fusion_rules(*load_rules(tmp_path / "r.gaf")):
        assert len(gaf.fuse(alone.model(), config).fused_ops) == 1
    with pytest.raises(InvalidInputError, match="t.gaf:1:6"):
        program_rules(program_from_text("rule bad: Tanhh >> Mul { gain = 1 }", "t.gaf"))


def test_targets_are_chips() -> None:
    program = program_from_text(
        "target a = ascend910b4 { aiv_cores = 10 }\ntarget b = a { clock_mhz = 1e3 }", "t.gaf"
    )
    assert program.targets["b"].aiv_cores == 10 and program.targets["b"].clock_mhz == 1000
    assert program.targets["b"].name == "b" and program.targets["a"].clock_mhz == 1500


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.name)
def test_examples_load_and_stand_in_standard_layout(path: Path) -> None:
    program = load_program(path)
    for name in [*program.models, *program.own_ops()]:
        model = program.model(name)
        model.module.verify()
        assert model.output_types
    text = path.read_text("utf-8")
    assert format_source(text) == text


@pytest.mark.parametrize(
    "name", ["block.gaf:block", "distances.gaf:main", "norms.gaf:main", "stencils.gaf:rope"]
)
def test_examples_run_in_kernels(name: str) -> None:
    fused = gaf.fuse(gaf.load_model(ROOT / "examples" / "gaf" / name))
    assert fused.kernels
    assert fused.verify(engine="interpreter").ok


def test_reference_page_is_up_to_date() -> None:
    path = ROOT / "docs" / "reference" / "gaf-language.md"
    hint = "python -m gaf.frontend.language.reference > docs/reference/gaf-language.md"
    assert path.read_text("utf-8") == reference_page(), hint


def test_the_program_of_the_reference_page_parses() -> None:
    program = reference_page().partition("```gaf\n")[2].partition("```")[0]
    assert len(parse(program).items) == 7


def test_templates(tmp_path: Path) -> None:
    files = new_op("my_gate", "team")
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert format_source(files["my_gate.gaf"]) == files["my_gate.gaf"]
    program = load_program(tmp_path / "my_gate.gaf")
    out = program.model("try_my_gate").run({"x": np.ones((2, 64), np.float32), "g": np.ones(64, np.float32)})
    assert out["y"].shape == (2, 64)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "my_gate.py")],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr
    with pytest.raises(InvalidInputError, match="can't be the name"):
        new_op("My-Gate")


def test_gaf_opt_opens_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "b.gaf"
    path.write_text(BLOCK)
    assert gaf_opt([str(path), "-p", "canonicalize,cse"]) == 0
    assert "graph.layer_norm" in capsys.readouterr().out
    path.write_text(BLOCK + "model second(x: f32[n]) { exp(x) }")
    assert gaf_opt([str(path)]) == 2
    assert "the name of one: block, second" in capsys.readouterr().err
    assert gaf_opt([str(path), "-f", 'gaf{model="second"}']) == 0
    assert "graph.exp" in capsys.readouterr().out
    path.write_text("model m(x: f32[n]) { x + }")
    assert gaf_opt([str(path)]) == 2
    assert "b.gaf:1:26: unexpected '}'; expected an expression" in capsys.readouterr().err


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "b.gaf"
    path.write_text(BLOCK)
    assert language_main([str(path)]) == 0
    assert "1 models, 1 ops, 0 rules" in capsys.readouterr().out
    assert language_main([str(path), "--format", "--check"]) == 1
    assert path.read_text() == BLOCK
    assert language_main([str(path), "--format"]) == 0 and path.read_text() == format_source(BLOCK)
    assert language_main([str(path), "--format", "--check"]) == 0
    path.write_text("model")
    assert language_main([str(path), str(tmp_path / "none.gaf")]) == 2
    assert [p.name for p in tmp_path.iterdir()] == ["b.gaf"]


def test_saved_as_mlir_and_onnx(tmp_path: Path) -> None:
    model = program_from_text(BLOCK, "block.gaf").model()
    rng = np.random.default_rng(0)
    inputs = {
        n: rng.normal(size=t.concrete({"B": 2, "S": 3})).astype(np.float16)
        for n, t in zip(model.input_names, model.input_types)
    }
    want = model.run(inputs)["y"]
    for name in ("b.mlir", "b.onnx"):
        gaf.save(gaf.fuse(model) if name == "b.onnx" else model, tmp_path / name)
        np.testing.assert_allclose(
            gaf.load_model(tmp_path / name).run(inputs)["y"], want, rtol=1e-2, atol=1e-2
        )


def test_outputs_without_a_name_keep_clear_of_inputs() -> None:
    model = program_from_text("model m(y: f32[n]) { exp(y) }").model()
    assert model.output_names == ["y_out"]
