# SPDX-License-Identifier: Apache-2.0
"""Four ways into the graph: module, trace, script and exported program; files; and what is refused."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import gaf
from gaf.dialects.graph.contract import location_name

torch = pytest.importorskip("torch")
from torch import nn

from tests.torch.models import GatedBlock, Quantised, in_float64


@pytest.fixture(scope="module")
def block() -> GatedBlock:
    torch.manual_seed(0)
    return GatedBlock().eval()


X = torch.linspace(-2, 2, 5 * 24).reshape(5, 24)


class Function(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.forward = function


def agrees(model: gaf.Model, module: nn.Module, *inputs: torch.Tensor) -> None:
    """The imported graph computes what the module computes in float64."""
    arrays = dict(zip(model.input_names, (t.numpy() for t in inputs)))
    (got,) = model.run(arrays).values()
    np.testing.assert_allclose(got, in_float64(module, *inputs).numpy(), rtol=1e-5, atol=1e-5)


def test_module_with_example_inputs(block: GatedBlock) -> None:
    model = gaf.load_model(block, example_inputs=(X,))
    assert model.num_ops == 3  # LayerNorm, Gate, Linear
    assert model.input_names == ["x"] and model.output_names == ["output"] and not model.fallbacks
    assert {"proj.weight"} <= set(model.weights)
    agrees(model, block, X)


def test_weights_share_the_memory_of_parameters(block: GatedBlock) -> None:
    model = gaf.torch_to_graph(block, X)
    assert np.shares_memory(model.weights["proj.weight"], block.proj.weight.detach().numpy())


def test_locations_are_module_path_and_op(block: GatedBlock) -> None:
    model = gaf.torch_to_graph(nn.Sequential(block, nn.ReLU()), X)
    names = {location_name(op) for op in model.block.ops} - {None}
    assert {"0.norm.layer_norm", "0.gate.mul", "0.gate.mul_1", "0.proj.linear", "1.relu"} <= names


@pytest.mark.slow
def test_a_second_call_of_a_module_counts_again() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(24, 24)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.fc(self.fc(x)) + x.view(5, 24)

    assert gaf.torch_to_graph(Twice(), X).num_ops == 4  # two calls, one view, one addition


def test_trace_remembers_its_inputs(block: GatedBlock) -> None:
    model = gaf.torch_to_graph(torch.jit.trace(block, (X,)))
    assert model.num_ops == 3 and model.input_names == ["x"]
    agrees(model, block, X)


def test_script_with_control_flow_on_numbers() -> None:
    class Scripted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(24, 24)
            self.rounds = 2

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for i in range(self.rounds):
                x = self.fc(x) if i % 2 == 0 else torch.relu(x) + float(i)
            return x.reshape(x.size(0), -1)

    module = Scripted().eval()
    script = torch.jit.script(module)
    agrees(gaf.torch_to_graph(script, X), module, X)
    with pytest.raises(gaf.InvalidInputError, match="doesn't remember"):
        gaf.torch_to_graph(script)


def test_traced_function() -> None:
    trace = torch.jit.trace(lambda a, b: torch.softmax(a @ b, -1), (X, X.t()))
    model = gaf.torch_to_graph(trace)
    got = model.run({"a": X.numpy(), "b": X.t().numpy()})["output"]
    np.testing.assert_allclose(got, torch.softmax(X @ X.t(), -1).numpy(), rtol=1e-5, atol=1e-6)


def test_exported_program_keeps_dynamic_dims(block: GatedBlock) -> None:
    batch = torch.export.Dim("batch", max=1000)
    model = gaf.torch_to_graph(torch.export.export(block, (X,), dynamic_shapes={"x": {0: batch}}))
    (name,) = {s for t in model.input_types for s in t.symbols()}
    assert model.output_types[0].shape[0].as_name() == name
    for rows in (1, 3):
        agrees(model, block, X[:rows])
    assert model.origin.ranges == {name: (0, 1000)}


@pytest.mark.slow
def test_sizes_that_depend_on_each_other() -> None:
    class Halves(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            n = x.shape[0]
            return torch.cat([x.reshape(n * 2, -1), x.reshape(n * 2, -1)[: n // 2]], 0).sum(1)

    model = gaf.torch_to_graph(Halves(), torch.ones(6, 4), dynamic_shapes={"x": {0: torch.export.Dim.AUTO}})
    for rows in (4, 7):
        x = torch.arange(rows * 4.0).reshape(rows, 4)
        agrees(model, Halves(), x)


def test_tables_of_sizes_are_made_when_the_model_runs() -> None:
    """A call without tensors is a constant only if no size of an input is in it."""

    def steps(x: torch.Tensor) -> torch.Tensor:
        return x + torch.linspace(0, x.shape[0], 4) + torch.tril_indices(3, 3, 0)[0, :4]

    model = gaf.torch_to_graph(steps, torch.ones(6, 4), dynamic_shapes=({0: torch.export.Dim.AUTO},))
    assert not any("tril_indices" in name for name in model.fallbacks)
    for rows in (2, 9):
        agrees(model, Function(steps), torch.ones(rows, 4))


def test_pt2_file(tmp_path: Path, block: GatedBlock) -> None:
    path = tmp_path / "block.pt2"
    torch.export.save(torch.export.export(block, (X,)), path)
    agrees(gaf.load_model(path), block, X)


def test_torchscript_file(tmp_path: Path, block: GatedBlock) -> None:
    path = str(tmp_path / "block.pt")
    torch.jit.save(torch.jit.trace(block, (X,)), path)
    model = gaf.load_model(path, example_inputs=X)
    assert model.num_ops == 3
    agrees(model, block, X)
    with pytest.raises(gaf.InvalidInputError, match="doesn't remember"):
        gaf.load_model(path)


class Bomb:
    """Unpickling runs code."""

    def __reduce__(self) -> tuple:
        return (pytest.fail, ("a pickle was loaded",))


@pytest.mark.parametrize("ending", [".pt", ".pth", ".pt2"])
@pytest.mark.parametrize("how", ["torch.save", "pickle"])
def test_pickles_are_refused_and_not_loaded(tmp_path: Path, ending: str, how: str) -> None:
    path = tmp_path / f"model{ending}"
    with path.open("wb") as stream:
        torch.save(Bomb(), stream) if how == "torch.save" else pickle.dump(Bomb(), stream)
    with pytest.raises(gaf.InvalidInputError):
        gaf.load_model(path)


def test_pickled_weights_in_an_archive_are_not_loaded(tmp_path: Path, block: GatedBlock) -> None:
    """A `.pt2` file may claim that a part of it is a pickle: only tensors are taken from it."""
    import io
    import zipfile

    good, bad = tmp_path / "good.pt2", tmp_path / "bad.pt2"
    torch.export.save(torch.export.export(block, (X,)), good)
    bomb = io.BytesIO()
    torch.save(Bomb(), bomb)
    replaced = 0
    with zipfile.ZipFile(good) as source, zipfile.ZipFile(bad, "w") as target:
        for name in source.namelist():
            data = source.read(name)
            if "sample_inputs" in name and name.endswith(".pt"):
                data, replaced = bomb.getvalue(), replaced + 1
            target.writestr(name, data)
    assert replaced
    with pytest.raises(gaf.InvalidInputError):
        gaf.load_model(bad)


def test_autograd_function_in_a_trace_is_named() -> None:
    with pytest.raises(gaf.UnsupportedError, match="Quantise x1") as caught:
        gaf.torch_to_graph(torch.jit.trace(Quantised(), (X,)))
    assert "torch.export" in str(caught.value) and "torch.library" in str(caught.value)


def test_autograd_function_in_an_export_is_inlined() -> None:
    model = gaf.torch_to_graph(Quantised(), X)
    assert [op.name for op in model.block.ops if op.name == "graph.round"]
    assert list(model.fallbacks) == ["gaftest.gate.default"]  # the user's own op stays whole
    agrees(model, Quantised(), X)


def test_unregistered_custom_op_in_a_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "custom.pt2"
    torch.export.save(torch.export.export(Quantised(), (X,)), path)
    renamed = tmp_path / "renamed.pt2"
    import zipfile

    with zipfile.ZipFile(path) as source, zipfile.ZipFile(renamed, "w") as target:
        for name in source.namelist():
            target.writestr(name, source.read(name).replace(b"gaftest.gate", b"gaftest.gone"))
    with pytest.raises(gaf.UnsupportedError, match=r"gaftest\.gone\.default.*not registered"):
        gaf.load_model(renamed)


def test_unsupported_ops_are_listed_once_each() -> None:
    class Fourier(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            a = torch.fft.rfft(x).abs() + torch.fft.rfft(x * 2).abs()
            return torch.cond(x.sum() > 0, lambda t: t + 1, lambda t: t - 1, (a,))

    with pytest.raises(gaf.UnsupportedError) as caught:
        gaf.torch_to_graph(Fourier(), X)
    text = str(caught.value)
    assert text.count("aten._fft_r2c.default x2 at test_capture.py:") == 1
    assert text.count("higher_order.cond x1") == 1 and "control flow that the data decides" in text
    assert "ways out" in text and "complex64" in text
    assert "aten.abs" not in text  # what only depends on them is not blamed


def test_data_dependent_control_flow_gives_pytorchs_reason() -> None:
    class Branches(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1 if x.sum() > 0 else x - 1

    with pytest.raises(gaf.UnsupportedError, match="can't export") as caught:
        gaf.torch_to_graph(Branches(), X)
    assert "gaf" in caught.value.hint


def test_numbers_read_from_tensors_are_refused() -> None:
    with pytest.raises(gaf.UnsupportedError, match="a number read from a tensor"):
        gaf.torch_to_graph(lambda x: (x + 1, x.sum().item()), X)


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        (nn.Linear(2, 2), {}, "says nothing about its inputs"),
        (nn.Linear(2, 2), {"input_shapes": {"x": (1, 2)}}, "example_inputs"),
        ("missing.pt2", {}, "no such file"),
        ("model.onnx", {"example_inputs": (1,)}, "for PyTorch programs"),
    ],
)
def test_what_is_missing_is_said(source: object, options: dict, message: str) -> None:
    with pytest.raises(gaf.InvalidInputError, match=message):
        gaf.load_model(source, **options)


def test_example_inputs_are_left_alone() -> None:
    class InPlace(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.add_(1).sum(0)

    x = torch.zeros(3, 4)
    model = gaf.torch_to_graph(InPlace(), x)
    assert torch.equal(x, torch.zeros(3, 4))
    assert model.output_names == ["output", "x_mutated"]


def test_torch_op_bound_to_a_custom_op_fuses() -> None:
    with gaf.custom_ops():

        @gaf.custom_op("acme::gate", "(x: T[..., d], alpha: float = 1.0) -> T[..., d]", torch="gaftest.gate")
        def gate(x: gaf.Tracer, alpha: float) -> gaf.Tracer:
            return x * gaf.ops.sigmoid(x * alpha)

        model = gaf.torch_to_graph(Quantised(), X)
        assert not model.fallbacks
        agrees(model, Quantised(), X)
        assert len(gaf.fuse(model).kernels) == 1


def test_mutating_torch_op_bound_to_a_custom_op() -> None:
    def push(cache: np.ndarray, v: np.ndarray, position: int) -> np.ndarray:
        cache[position] = v
        return cache.sum(0)

    class Pushes(nn.Module):
        def forward(self, cache: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return torch.ops.gaftest.push(cache, v * 2, 1), cache + 1

    with gaf.custom_ops():
        shapes = "(cache: T[n, d], v: T[d], position: int) -> T[d]"
        gaf.opaque_op("acme::push", shapes, reference=push, mutates=["cache"], torch="gaftest.push.default")
        cache, v = torch.ones(4, 3), torch.arange(3.0)
        model = gaf.torch_to_graph(Pushes(), (cache, v))
        got = list(model.run({"cache": cache.numpy(), "v": v.numpy()}).values())
        assert list(model.fallbacks) == ["acme::push"]
    assert torch.equal(cache, torch.ones(4, 3))
    expected = [*Pushes()(cache, v), cache]
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b.numpy(), rtol=1e-6)


def test_custom_op_that_does_not_fit_is_named() -> None:
    with gaf.custom_ops():
        gaf.custom_op("acme::gate", "(x: T[n]) -> T[n]", torch="gaftest.gate")(lambda x: x)
        with pytest.raises(gaf.GafError, match=r"'gate' \(gaftest.gate.default\)"):
            gaf.torch_to_graph(Quantised(), X)


def test_numbers_made_of_sizes() -> None:
    """Quotients, roots and fills of dynamic sizes are tensors of rank 0; kernels get sizes no operand has."""

    def scaled(x: torch.Tensor) -> torch.Tensor:
        n = x.shape[0]
        near = torch.full((4,), 1 / n) + x.sum(0) / n + 2.5 * n
        return near / n**0.5 + torch.logspace(0, n / 8, 4).float()

    model = gaf.torch_to_graph(scaled, torch.ones(6, 4), dynamic_shapes=({0: torch.export.Dim.AUTO},))
    assert not model.fallbacks
    fused = gaf.fuse(model)
    for rows in (2, 9):
        x = torch.linspace(-1, 1, rows * 4).reshape(rows, 4)
        agrees(model, Function(scaled), x)
        (got,) = fused.run({model.input_names[0]: x.numpy()}, engine="interpreter").values()
        np.testing.assert_allclose(got, scaled(x).numpy(), rtol=1e-5)


def test_a_call_that_pytorch_refuses_is_named() -> None:
    class Mixed(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(4, 3).half()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.linear(x * torch.ones(4))  # torch.export lets float32 through here, the call itself doesn't

    model = gaf.load_model(torch.export.export(Mixed(), (torch.ones(2, 4, dtype=torch.float16),)))
    with pytest.raises(gaf.UnsupportedError, match="torch refuses linear.default"):
        gaf.fuse(model).run({model.input_names[0]: np.ones((2, 4), np.float16)}, "interpreter")


def test_a_bug_of_the_importer_leaves_the_call_to_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's model runs all the same; where bugs are to show it is an internal error that names the call."""
    from gaf.dialects.graph import registry
    from gaf.errors import InternalError
    from gaf.frontend.torch import importer

    def broken(ctx: object) -> object:
        raise TypeError("nobody thought of this")

    monkeypatch.setattr(registry.by_aten("aten.tanh.default"), "from_aten", broken)
    module, x = torch.nn.Tanh(), torch.randn(3, 4)
    with pytest.raises(InternalError, match="importing aten.tanh.default failed: TypeError: nobody thought of this"):
        gaf.torch_to_graph(torch.export.export(module, (x,)))
    monkeypatch.setattr(importer, "RAISE_BUGS", False)
    model = gaf.torch_to_graph(torch.export.export(module, (x,)))
    assert any("runs on the host: TypeError: nobody thought of this" in note for note in model.notes)
    (got,) = model.run({model.input_names[0]: x.numpy()}).values()
    np.testing.assert_allclose(got, np.tanh(x.numpy()), rtol=1e-6)
