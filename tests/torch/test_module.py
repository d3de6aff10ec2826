# SPDX-License-Identifier: Apache-2.0
"""`graph_to_torch`: kernels behind an nn.Module; structure, gradients, aliasing as in PyTorch."""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

import numpy as np
import pytest

import gaf

torch = pytest.importorskip("torch")
from torch import nn

from tests.torch.models import Gate, GatedBlock, Quantise, WritesCache, assert_close, in_float64


def fused(module: Any, *inputs: Any, engine: str = "interpreter", **options: Any) -> Any:
    """The module through gaf; what is tested here is not the kernels: no C++ compiler needed."""
    return gaf.graph_to_torch(gaf.fuse(gaf.torch_to_graph(module, inputs, **options)), engine=engine)


def randn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


@pytest.fixture(scope="module")
def block() -> GatedBlock:
    torch.manual_seed(1)
    return GatedBlock().eval()


@pytest.fixture(scope="module")
def fused_block(block: GatedBlock) -> Any:
    rows = torch.export.Dim("rows", max=64)
    return fused(block, randn(5, 24), engine="auto", dynamic_shapes={"x": {0: rows}})


# -- models ---------------------------------------------------------------------------------------------


def test_gated_block_of_any_batch_size(block: GatedBlock, fused_block: Any) -> None:
    with torch.no_grad():
        for rows in (5, 1, 17):
            x = randn(rows, 24)
            assert_close(fused_block(x), in_float64(block, x))
    assert not fused_block.fallbacks_taken and not fused_block.fused.fallbacks
    assert fused_block.fused.kernels and fused_block.fused.num_ops <= 2


@pytest.mark.slow
def test_traced_mlp() -> None:
    mlp = nn.Sequential(nn.Linear(12, 32), nn.GELU(), nn.Linear(32, 4)).eval()
    x = randn(6, 12)
    module = gaf.graph_to_torch(gaf.fuse(gaf.torch_to_graph(torch.jit.trace(mlp, x))))
    with torch.no_grad():
        assert_close(module(x), in_float64(mlp, x))
    assert not module.fallbacks_taken
    assert module.state_dict().keys() == mlp.state_dict().keys()


def test_transformer_encoder_layer() -> None:
    torch.manual_seed(2)
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()
    x = randn(2, 5, 16)
    module = fused(layer, x)
    with torch.no_grad():
        assert_close(module(x), in_float64(layer, x))
    assert not module.fallbacks_taken and not module.fused.fallbacks


def test_convolutions_run_as_kernels() -> None:
    torch.manual_seed(3)
    net = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(36, 5),
    ).eval()
    x = randn(2, 3, 6, 6)
    module = fused(net, x)
    with torch.no_grad():
        assert_close(module(x), in_float64(net, x))
    assert not module.fallbacks_taken
    assert module.fused.kernels and not module.fused.fallbacks


@pytest.mark.slow
def test_graph_without_fusing_first(block: GatedBlock) -> None:
    module = gaf.graph_to_torch(gaf.torch_to_graph(block, randn(5, 24)))
    with torch.no_grad():
        assert_close(module(randn(5, 24)), in_float64(block, randn(5, 24)))


# -- structure --------------------------------------------------------------------------------------------


class Pair(NamedTuple):
    first: torch.Tensor
    second: torch.Tensor


class Structured(nn.Module):
    def forward(
        self, x: torch.Tensor, options: dict, *, scale: float, last: torch.Tensor | None = None
    ) -> dict:
        y = x * scale + options["bias"]
        return {"pair": Pair(y, y.sum(1)), "same": y, "rows": x.shape[0], "none": None, "list": [y - 1]}


def test_inputs_and_outputs_keep_their_structure() -> None:
    x, bias = randn(3, 4), randn(4)
    args, kwargs = (x, {"bias": bias}), {"scale": 2.0, "last": None}
    program = torch.export.export(Structured(), args, kwargs)
    module = gaf.graph_to_torch(gaf.torch_to_graph(program))
    with torch.no_grad():
        got = module(*args, **kwargs)
        assert_close(got, Structured()(*args, **kwargs))
        assert isinstance(got["pair"], Pair) and got["pair"].first is got["same"]
        assert_close(module(x, options={"bias": bias}, last=None, scale=2.0), Structured()(*args, **kwargs))
        assert not module.fallbacks_taken
    assert module.fused.model.output_names[:2] == ["pair_first", "pair_second"]


@pytest.mark.slow
def test_another_flag_than_captured_runs_the_original() -> None:
    x = randn(3, 4)
    module = fused(lambda x, double: x * 2 if double else x, x, True)
    with torch.no_grad():
        assert_close(module(x, True), x * 2)
        assert_close(module(x, False), x)
    assert list(module.fallbacks_taken) == ["an argument is False and was True in the capture"]


def test_parameters_are_the_originals(block: GatedBlock, fused_block: Any) -> None:
    own = dict(fused_block.named_parameters())
    assert all(own[name] is p for name, p in block.named_parameters()) and len(own) == 5


# -- parameters that change ---------------------------------------------------------------------------------


def test_changed_parameters_count_at_the_next_call() -> None:
    block = GatedBlock().eval()
    x = randn(4, 24)
    module = fused(block, x)
    with torch.no_grad():
        module(x)
        block.proj.bias.add_(1.0)  # small: a constant in the kernel
        block.proj.weight.mul_(2.0)  # large: a weight
        assert_close(module(x), in_float64(block, x))
        module.load_state_dict(GatedBlock().state_dict())
        assert_close(module(x), in_float64(block, x))
        block.gate.g = nn.Parameter(torch.zeros(24))
        module.norm.weight.data = torch.full((24,), 3.0)
        assert_close(module(x), in_float64(block, x))
    assert not module.fallbacks_taken


def test_training_mode_runs_the_original(caplog: pytest.LogCaptureFixture) -> None:
    net = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5)).eval()
    x = randn(4, 8)
    module = fused(net, x)
    module.train()
    assert net[1].training
    with caplog.at_level(logging.WARNING, "gaf.torch"), torch.no_grad():
        results = {tuple(module(x).flatten().tolist()) for _ in range(5)}
    assert len(results) > 1  # dropout drops
    assert len([r for r in caplog.records if "training mode" in r.message]) == 1  # said once


@pytest.mark.slow
def test_moved_to_another_type_runs_the_original() -> None:
    net = nn.Sequential(nn.Linear(8, 8), nn.ReLU()).eval()
    module = fused(net, randn(4, 8))
    module.double()
    with torch.no_grad():
        y = module(randn(4, 8).double())
    assert y.dtype == torch.float64 and module.fallbacks_taken


@pytest.mark.slow
def test_other_sizes_run_the_original(block: GatedBlock) -> None:
    module = fused(block, randn(4, 24))
    with torch.no_grad():
        assert_close(module(randn(9, 24)), in_float64(block, randn(9, 24)))
    assert list(module.fallbacks_taken) == ["input 'x' has the wrong size on axis 0"]


# -- gradients ------------------------------------------------------------------------------------------------


def gradients(module: Any, *inputs: torch.Tensor) -> list[torch.Tensor | None]:
    module.zero_grad()
    leaves = [t.detach().clone().requires_grad_() for t in inputs]
    result = module(*leaves)
    loss = sum((r * torch.arange(1.0, r.numel() + 1).reshape(r.shape)).sum() for r in result)
    loss.backward()
    return [t.grad for t in leaves] + [p.grad.clone() for p in module.parameters()]


def test_gradients_of_inputs_and_parameters() -> None:
    torch.manual_seed(4)

    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc, self.gate = nn.Linear(6, 6), Gate(6)

        def forward(self, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            h = self.gate(self.fc(a)) * b
            return h, h.argmax(1), torch.tanh(h.sum(0))  # type: ignore[return-value]

    class Floats(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, *inputs: torch.Tensor) -> tuple:
            return tuple(r for r in self.inner(*inputs) if r.is_floating_point())

    module = fused(Two().eval(), randn(4, 6), randn(4, 6))
    expected = gradients(Floats(module._eager), randn(4, 6), randn(4, 6))
    got = gradients(Floats(module), randn(4, 6), randn(4, 6))
    assert len(got) == len(expected) == 5
    for a, b in zip(got, expected):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    assert not module.fallbacks_taken  # the kernels ran
    assert not module(randn(4, 6), randn(4, 6))[1].requires_grad


@pytest.mark.slow
def test_a_training_step_lowers_the_loss() -> None:
    torch.manual_seed(5)
    module = fused(GatedBlock().eval(), randn(8, 24))
    optimiser = torch.optim.SGD(module.parameters(), 0.05)
    x, target = randn(8, 24), randn(8, 8)
    losses = []
    for _ in range(3):
        optimiser.zero_grad()
        loss = ((module(x) - target) ** 2).mean()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[0] > losses[1] > losses[2]


def test_custom_autograd_function_keeps_its_gradient() -> None:
    call = lambda x: torch.tanh(Quantise.apply(x))
    module = fused(call, randn(3, 5))
    a, b = (randn(3, 5).requires_grad_() for _ in range(2))
    module(a).sum().backward()
    call(b).sum().backward()
    torch.testing.assert_close(a.grad, b.grad)
    assert (a.grad != 0).all()  # rounding alone has none


def test_in_place_change_between_forward_and_backward_is_an_error() -> None:
    module = fused(nn.Linear(4, 4), randn(2, 4))
    y = module(randn(2, 4))
    with torch.no_grad():
        module.weight.add_(1)
    with pytest.raises(RuntimeError, match="inplace"):
        y.sum().backward()


@pytest.mark.slow
def test_second_derivatives() -> None:
    call = nn.Sequential(nn.Linear(4, 4), nn.Tanh())

    def penalty(module: Any) -> list[torch.Tensor]:
        x = randn(2, 4).requires_grad_()
        (g,) = torch.autograd.grad(module(x).sum(), x, create_graph=True)
        return list(torch.autograd.grad(g.pow(2).sum(), [x, call[0].weight]))

    for a, b in zip(penalty(fused(call, randn(2, 4))), penalty(call)):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


# -- aliasing and mutation -----------------------------------------------------------------------------------


class FlipInPlace(nn.Module):
    """x is overwritten with its own reflection, and read again."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.copy_(x.flip(1))
        return x + (y.sum(dim=1) + y)


def test_in_place_change_of_an_input() -> None:
    module = fused(FlipInPlace(), randn(20, 20), randn(20, 20))
    x, y = randn(20, 20), randn(20, 20) * 2
    expected_x = x.clone()
    with torch.no_grad():
        expected = FlipInPlace()(expected_x, y)
        assert_close(module(x, y), expected)
    assert torch.equal(x, expected_x)
    assert not module.fallbacks_taken


def test_arguments_that_share_memory() -> None:
    def grows(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x * y

    module = fused(grows, randn(4, 6), randn(4, 6))
    for first, second in ((slice(0, 4), slice(0, 4)), (slice(0, 4), slice(1, 5)), (slice(0, 4), slice(4, 8))):
        mine, eager = (torch.arange(48.0).reshape(8, 6) for _ in range(2))
        with torch.no_grad():
            assert_close(module(mine[first], mine[second]), grows(eager[first], eager[second]))
        assert torch.equal(mine, eager)
    x = torch.arange(24.0).reshape(4, 6)
    with torch.no_grad():
        assert_close(module(x, x), grows(same := torch.arange(24.0).reshape(4, 6), same))
    # the slices that are apart run in kernels
    assert sum(module.fallbacks_taken.values()) == 3 and "shares memory" in next(iter(module.fallbacks_taken))


def test_empty_results_have_strides_too() -> None:
    module = fused(lambda x: x.relu().sum(1), torch.zeros(0, 5))
    with torch.no_grad():
        assert module(torch.zeros(0, 5)).stride() == (1,)


def test_returned_inputs_and_views_share_memory() -> None:
    def views(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x, x.t(), x[:, 1:3], x + 0, x.clone(), x.t().contiguous()

    x = randn(4, 5)
    module = fused(views, x)
    with torch.no_grad():
        same, turned, cut, added, copied, packed = module(x)
        assert same is x
        x.fill_(7.0)
    assert (turned == 7).all() and (cut == 7).all()
    assert not (added == 7).any() and not (copied == 7).any() and not (packed == 7).any()
    assert not module.fallbacks_taken


def test_results_that_are_views_of_one_another_share_memory() -> None:
    def related(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y, z = x + 1, x - 1
        return y, y.t(), z[0], z[:, 1], *(x * 2).split(2, 1)

    x = randn(4, 5)
    module = fused(related, x)
    with torch.no_grad():
        results = module(x)
        assert_close(results, related(x))
        assert [r.stride() for r in results] == [r.stride() for r in related(x)]
        for r in results:
            r.zero_()
            if r is results[0]:
                assert (results[1] == 0).all()
            if r is results[2]:
                assert results[3][0] == 0 and results[3][1] != 0
    assert not module.fallbacks_taken


def test_results_never_alias_weights() -> None:
    class Reads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Parameter(randn(10, 10))

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return self.table * 1.0, x.reshape(5, 4) * 1

    module = fused(Reads(), randn(4, 5))
    with torch.no_grad():
        before = module.table.clone()
        x = randn(4, 5)
        table, reshaped = module(x)
        table.zero_()
        reshaped.zero_()
        assert torch.equal(module.table, before) and torch.equal(x, randn(4, 5))
        assert torch.equal(module(x)[0], before)


def test_strides_are_those_of_the_original() -> None:
    call = lambda x: x.t() + 1
    module = fused(call, randn(3, 4))
    with torch.no_grad():
        assert module(randn(3, 4)).stride() == call(randn(3, 4)).stride() == (1, 4)


def test_buffers_that_the_module_changes() -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.total.add_(x.sum(0))
            return x * self.total

    original, counted = Counter(), Counter()
    module = fused(counted, randn(3, 4))
    with torch.no_grad():
        for i in range(3):
            assert_close(module(randn(3, 4) + i), original(randn(3, 4) + i))
    assert_close(module.total, original.total)
    assert not module.fallbacks_taken and module.fused.model.input_names == ["x", "total"]


def test_op_that_writes_to_its_operand_is_a_boundary() -> None:
    module = fused(WritesCache(), randn(4, 8), randn(8))
    cache, expected_cache = randn(4, 8), randn(4, 8)
    with torch.no_grad():
        expected = WritesCache()(expected_cache, randn(8))
        assert_close(module(cache, randn(8)), expected)
    assert_close(cache, expected_cache)
    assert not module.fallbacks_taken
    kinds = [op.name for op in module.fused.source_model.block.ops]
    assert kinds.count("graph.reduce_sum") == 2  # before and after: not the same sum
    assert kinds.index("graph.foreign") > kinds.index("graph.reduce_sum")


@pytest.mark.slow
def test_random_numbers_are_new_in_each_call() -> None:
    class Noisy(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2 + torch.rand_like(x)

    module = fused(Noisy(), randn(4, 5))
    with torch.no_grad():
        torch.manual_seed(6)
        a, b = module(randn(4, 5)), module(randn(4, 5))
        torch.manual_seed(6)
        assert_close(a, Noisy()(randn(4, 5)))
    assert not torch.equal(a, b)


def test_sizes_that_the_data_decides() -> None:
    module = fused(lambda x: (x[x > 0] * 2, x.shape[0]), randn(4, 5))
    with torch.no_grad():
        for x in (randn(4, 5), randn(4, 5) - 10, randn(4, 5).abs() + 1):
            assert_close(module(x), (x[x > 0] * 2, 4))
    assert not module.fallbacks_taken


# -- other models ------------------------------------------------------------------------------------------------


def test_model_from_another_format() -> None:
    from onnx import TensorProto, helper

    nodes = [helper.make_node("Add", ["a", "b"], ["c"]), helper.make_node("Relu", ["c"], ["d"])]
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 3]) for n in "abcd"]
    graph = helper.make_graph(nodes, "g", ports[:2], ports[2:])
    module = gaf.graph_to_torch(
        gaf.fuse(gaf.load_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])))
    )
    a, b = randn(2, 3), randn(2, 3) - 1
    c, d = module(a, b=b)
    torch.testing.assert_close(c, a + b)
    torch.testing.assert_close(d, torch.relu(a + b))
    with pytest.raises(gaf.UnsupportedError, match="no gradients"):
        module(a.requires_grad_(), b)


def test_saved_as_mlir_a_torch_model_runs_with_its_host_ops(tmp_path: Any) -> None:
    class Special(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.special.erfcx(x * 2) + 1

    model = gaf.torch_to_graph(Special(), randn(3, 4))
    path = gaf.save(model, tmp_path / "special.mlir")
    again = gaf.load_model(path).run({"x": randn(3, 4).numpy()})
    np.testing.assert_allclose(next(iter(again.values())), Special()(randn(3, 4)).numpy(), rtol=1e-6)
    with pytest.raises(gaf.UnsupportedError, match="no ONNX form"):
        gaf.save(model, tmp_path / "special.onnx")
