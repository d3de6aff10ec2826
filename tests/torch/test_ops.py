# SPDX-License-Identifier: Apache-2.0
"""What each ATen call means: one module a family, every result compared with PyTorch in float64."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import gaf
from gaf.dialects.graph import registry

torch = pytest.importorskip("torch")
import torch.nn.functional as F
from torch import nn

Calls = Mapping[str, Callable[..., Any]]


class All(nn.Module):
    """Every call on the same inputs; one export for a whole table."""

    def __init__(self, calls: Calls) -> None:
        super().__init__()
        self.calls = calls

    def forward(self, *inputs: torch.Tensor) -> dict[str, Any]:
        return {name: call(*inputs) for name, call in self.calls.items()}


def wide(value: Any) -> Any:
    return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def check(
    calls: Calls, *inputs: torch.Tensor, on_host: set[str] = frozenset(), tolerance: float = 1e-5
) -> None:
    """Run the table through the graph; `on_host` are the ATen names that have no graph op."""
    model = gaf.torch_to_graph(All(calls), inputs)
    arrays = {name: t.numpy() for name, t in zip(model.input_names, inputs)}
    got = model.run(arrays)
    for name, call in calls.items():
        exact, expected = call(*inputs), call(*map(wide, inputs))
        results = expected if isinstance(expected, list | tuple) else [expected]
        natives = exact if isinstance(exact, list | tuple) else [exact]
        for i, (result, native) in enumerate(zip(results, natives)):
            key = f"{name}_{i}" if isinstance(expected, list | tuple) else name
            array = got[key]
            assert array.dtype == native.numpy().dtype, name
            np.testing.assert_allclose(
                array.astype(np.float64),
                result.double().numpy(),
                rtol=tolerance,
                atol=tolerance,
                err_msg=name,
            )
    assert set(model.fallbacks) == set(on_host)


X = torch.tensor([[-2.5, -1.0, -0.3, 0.0, 0.2, 1.5], [3.0, 0.5, -0.5, 2.5, 7.0, -9.0]])
Y = torch.tensor([[0.5, 2.0, -1.5, 3.0, 1.0, -2.0]])
I = torch.tensor([[3, -7, 0, 5, 2, -1], [4, 4, 1, -3, 8, 6]])


def test_unary() -> None:
    calls: dict[str, Any] = {
        name: getattr(torch, name)
        for name in (
            *("abs", "neg", "sign", "sgn", "ceil", "floor", "round", "trunc", "frac", "relu", "exp", "expm1"),
            *(
                "sin",
                "cos",
                "tan",
                "atan",
                "sinh",
                "cosh",
                "tanh",
                "asinh",
                "sigmoid",
                "erf",
                "square",
                "exp2",
            ),
            *("isnan", "isinf", "logical_not"),
        )
    }
    small = torch.tensor([[1e-7, -3e-6, 0.5, -0.9]])
    calls |= {
        "log": lambda x: torch.log(x.abs() + 0.1),
        "logs": lambda x: [torch.log2(x.abs() + 1), torch.log10(x.abs() + 1), torch.log1p(x.abs())],
        "roots": lambda x: [torch.sqrt(x.abs()), torch.rsqrt(x.abs() + 1), torch.reciprocal(x + 20)],
        "inverse": lambda x: [
            torch.asin(x / 10),
            torch.acos(x / 10),
            torch.acosh(x.abs() + 1),
            torch.atanh(x / 10),
        ],
        "near_zero": lambda x: [torch.log1p(small), torch.expm1(small)],
        "of_integers": lambda x: [
            torch.exp(I % 3),
            torch.sqrt(I.abs()),
            ~I,
            -I,
            I.abs(),
            torch.logical_not(I),
        ],
        "activations": lambda x: [
            *(F.gelu(x), F.gelu(x, approximate="tanh"), F.silu(x), F.elu(x, 0.7), F.leaky_relu(x, 0.2)),
            *(
                F.selu(x),
                F.celu(x, 1.3),
                F.hardswish(x),
                F.hardsigmoid(x),
                F.hardtanh(x, -0.5, 2.0),
                F.relu6(x),
            ),
            *(F.softplus(x), F.mish(x), F.logsigmoid(x), F.glu(x), F.softsign(x), F.tanhshrink(x)),
            *(F.prelu(x, x.new_tensor([0.25])), F.threshold(x, 0.1, 20.0), F.softshrink(x), F.hardshrink(x)),
        ],
    }
    check(calls, X)


def test_binary_with_promotion() -> None:
    check(
        {
            "add": lambda x, y, i: [x + y, x + 2, 2 + x, x + i, torch.add(x, y, alpha=3), i + 2, i + 2.5],
            "sub": lambda x, y, i: [x - y, 1 - x, torch.rsub(x, y), torch.sub(x, y, alpha=0.5), 7 - i],
            "mul": lambda x, y, i: [x * y, x * 0.5, i * 3, i * x, (i > 0) * x],
            "div": lambda x, y, i: [x / y, x / 4, 1 / y, i / 2, torch.div(i, 3, rounding_mode="trunc"), i // 3],
            "remainder": lambda x, y, i: [x % y, torch.fmod(x, y), i % 4, torch.fmod(i, 4), x % 2.5],
            "pow": lambda x, y, i: [x.abs() ** y, x**2, x**3, 2.0**y, i**2],
            "extrema": lambda x, y, i: [torch.maximum(x, y), torch.minimum(x, y), torch.clamp(x, -1, 2), x.clamp(max=0.5)],
            "compare": lambda x, y, i: [x > y, x >= 0.2, i < 2, i <= x, x == y, x != 1.5, i == 4, i > 1.5],
            "logic": lambda x, y, i: [(x > 0) & (y > 0), (x > 0) | (i > 0), (x > 0) ^ (i > 0), torch.logical_and(x, i)],
            "bits": lambda x, y, i: [i & 3, i | 8, i ^ 5],
            "where": lambda x, y, i: [torch.where(x > 0, x, y), torch.where(i > 0, x, 0.0), torch.where(x > 0, 1, i)],
            "fill": lambda x, y, i: [x.masked_fill(i > 2, -1.0), torch.addcmul(x, x, y, value=0.5), torch.lerp(x, y, 0.3)],
        },
        X,
        Y,
        I,
    )  # fmt: skip


def test_reductions() -> None:
    check(
        {
            "sum": lambda x, i: [x.sum(), x.sum(1), x.sum((0, 1), keepdim=True), i.sum(), (i > 0).sum(1)],
            "mean": lambda x, i: [
                x.mean(),
                x.mean(-1, keepdim=True),
                i.float().mean(0),
                i.sum(dtype=torch.float32),
            ],
            "extrema": lambda x, i: [
                x.max(),
                x.amin(1),
                x.amax((0, 1)),
                *x.max(1),
                *x.min(0, keepdim=True),
                i.max(),
            ],
            "positions": lambda x, i: [x.argmax(), x.argmin(1), x.argmax(0, keepdim=True)],
            "spread": lambda x, i: [
                *(x.var(), x.std(1), x.var(1, correction=0), *torch.var_mean(x, 1), x.norm(), x.norm(1, 1))
            ],
            "logic": lambda x, i: [(x > 0).any(), (x > -3).all(1), (i > 0).any(1, keepdim=True)],
            "others": lambda x, i: [x.prod(1), x.logsumexp(1), x.cumsum(1), i.prod()],
            "softmax": lambda x, i: [x.softmax(1), F.log_softmax(x, 0), F.softmin(x, 1), F.normalize(x)],
        },
        X,
        I,
        tolerance=2e-5,
    )


def test_views_and_joins() -> None:
    x = torch.arange(2 * 3 * 4.0).reshape(2, 3, 4)
    check(
        {
            "shapes": lambda x: [x.view(6, 4), x.reshape(-1), x.flatten(1), x[None], x[:, :1].squeeze(1), x.squeeze()],
            "order": lambda x: [x.permute(2, 0, 1), x.transpose(1, 2), x[0].t(), x.mT, x.flip((0, 2)), x.roll(1, 2), x.roll(5)],
            "repeat": lambda x: [x[:, :1].expand(2, 5, 4), x.repeat(2, 1, 1, 3), x.tile(2), x.repeat_interleave(2, 1)],
            "cut": lambda x: [x[1], x[:, -1], x[..., 1:3], x[:, ::2], x.narrow(2, 1, 2), x[-2:, -1:, :-1]],
            "parts": lambda x: [*x.split(2, 1), *x.chunk(2, 2), *x.unbind(1), *x.split([1, 3], 2)],
            "join": lambda x: [torch.cat([x, x[:, :1]], 1), torch.stack([x, x + 1], 1), torch.hstack([x, x]), torch.cat([x, x.long()], -1)],
            "pad": lambda x: [F.pad(x, (1, 2)), F.pad(x, (0, 1, 2, 0), value=3.0), F.pad(x, (-1, 1)), F.pad(x, (2, 1), "reflect"), F.pad(x, (1, 1), "replicate")],
            "made": lambda x: [torch.zeros(2, 3), torch.full((4,), 2.5), torch.ones_like(x), torch.arange(1, 9, 3), torch.arange(5.0), torch.eye(3, 4)],
            "triangles": lambda x: [x.tril(), x.triu(1), torch.ones(4, 4).tril(-1)],
            "scatter": lambda x: [x.slice_scatter(x[:, :1] * 2, 1, 1, 2), x.select_scatter(x[:, 0] + 1, 1, 2)],
            "types": lambda x: [x.long(), x.to(torch.float64), x.bool(), x.half().float(), x.type_as(x.int())],
        },
        x,
    )  # fmt: skip


def test_strides_of_memory() -> None:
    """as_strided reads memory, which gaf's tensors lay out anew: what would see the difference is refused."""
    x = torch.arange(12.0).reshape(3, 4)
    check({"rows": lambda x: [(x + 1).as_strided((4, 3), (3, 1)), (x * 2).as_strided((12,), (1,))]}, x)
    check({"part": lambda x: [(x + 1).as_strided((2, 2), (1, 4), 1)]}, x, on_host={"aten.as_strided.default"})
    for turned in (
        lambda x: (x + 1).t().as_strided((2, 2), (4, 1)),
        lambda x: (x + 1)[1:].as_strided((2, 2), (4, 1)),
    ):
        with pytest.raises(gaf.UnsupportedError, match="row-major"):
            gaf.torch_to_graph(turned, x)


def test_indexing() -> None:
    x = torch.arange(3 * 4 * 5.0).reshape(3, 4, 5)
    i, j = torch.tensor([2, 0, -1]), torch.tensor([[1, 3, 0], [0, 2, 2]])
    check(
        {
            "index": lambda x, i, j: [x[i], x[:, j], x[i, j], x[:, :, i], x[i, :, i], x[0][j], x[:, i, j]],
            "gather": lambda x, i, j: [x.gather(1, j[:, :, None].expand(2, 3, 5)), x.index_select(2, i % 3), F.embedding(j, x[0])],
            "scatter": lambda x, i, j: [
                x[0].scatter(0, j, 9.0), x[0].scatter(1, j, x[1]), x[0].scatter_add(0, j, x[2]),
                x[0].scatter_reduce(1, j, x[1], "amax"), x.index_put((i,), x[:, :1] * 0), x.index_put((i, i), x[0, 0], True),
                x.masked_fill(x > 7, 0.0), x.index_add(0, i % 3, x),
            ],
            "top": lambda x, i, j: [*x.topk(2, 1), *x.topk(3, largest=False)],
        },
        x,
        i,
        j,
    )  # fmt: skip


def test_norms_of_all_orders_distances_and_diagonals() -> None:
    norm = torch.linalg.vector_norm
    check(
        {
            "norms": lambda x, y: [norm(x, p, dim=1) for p in (0, 0.5, 1, 2, 3, -1, math.inf, -math.inf)],
            "all": lambda x, y: [norm(x, 3), norm(x, math.inf, dim=(0, 1), keepdim=True), x.norm(1.5, 0)],
            "distances": lambda x, y: [torch.cdist(x, y, p) for p in (1.0, 3.0, math.inf)],
            "diagonals": lambda x, y: [
                x.diagonal(), x.diagonal(2), x.diagonal(-1), x[None].expand(3, 2, 6).diagonal(1, 2, 0), x[None].diagonal(0, 0, 2),
            ],
            "made": lambda x, y: [torch.tril_indices(4, 3, -1), x[:, torch.triu_indices(3, 3)[0]], torch.hann_window(6) * x],
        },
        X,
        X[:, [3, 1, 2, 0, 5, 4]] + 1,
        tolerance=1e-4,
    )  # fmt: skip


def test_bags_of_equal_size_and_batch_statistics() -> None:
    table, i, p = torch.randn(10, 5), torch.tensor([[1, 9, 0, 3], [2, 2, 7, 7], [4, 5, 6, 8]]), torch.rand(3, 4)

    def statistics(x: torch.Tensor) -> list[torch.Tensor]:
        state = [x.new_ones(5), x.new_full((5,), 2.0)]
        made = F.batch_norm(x, *state, x[0], x[1], training=True, momentum=0.3)
        return [made, *state]

    check(
        {
            "bags": lambda t, i, p: [
                *(F.embedding_bag(i, t, mode=m) for m in ("sum", "mean", "max")), F.embedding_bag(i, t, mode="sum", per_sample_weights=p.to(t)),
                F.embedding_bag(i.reshape(-1), t, torch.arange(0, 12, 3)),
            ],
            "batch": lambda t, i, p: statistics(t),
        },
        table,
        i,
        p,
    )  # fmt: skip
    check(
        {"bags": lambda t, i, p: [F.embedding_bag(i.reshape(-1), t, torch.tensor([0, 5]))]},
        table, i, p, on_host={"aten._embedding_bag_forward_only.default"},
    )  # fmt: skip


def test_windows_of_an_axis() -> None:
    x = torch.randn(3, 4, 12)
    check({"unfold": lambda x: [x.unfold(-1, 4, 4), x.unfold(1, 2, 1), x.unfold(0, 1, 1), x.unfold(-1, 5, 2), x.unfold(2, 6, 3)]}, x)


def test_matrix_products() -> None:
    a, b, c = torch.randn(2, 3, 4), torch.randn(2, 4, 5), torch.randn(4)
    check(
        {
            "products": lambda a, b, c: [a @ b, torch.bmm(a, b), a[0] @ b[1], a @ c, c @ c, a @ b[0], torch.mv(a[0], c)],
            "linear": lambda a, b, c: [F.linear(a, a[0]), F.linear(a, a[0], a[1, :, 0]), F.linear(c, a[0])],
            "addmm": lambda a, b, c: [torch.addmm(a[0, :, :1], a[0], b[0], beta=0.5, alpha=2), torch.baddbmm(a[:, :, :1], a, b)],
            "einsum": lambda a, b, c: [torch.einsum("bij,bjk->ik", a, b), torch.einsum("bij,j->bi", a, c)],
            "attention": lambda a, b, c: [
                F.scaled_dot_product_attention(a, a, a), F.scaled_dot_product_attention(a, a, a, is_causal=True),
            ],
        },
        a,
        b,
        c,
    )  # fmt: skip


def test_fully_masked_attention_row_gives_zero() -> None:
    q = torch.randn(1, 3, 4)
    mask = torch.tensor([[True, False, True], [False, False, False], [True, True, True]])
    call = lambda q, mask: F.scaled_dot_product_attention(q, q, q, attn_mask=mask)
    model = gaf.torch_to_graph(All({"y": call}), (q, mask))
    got = model.run(dict(zip(model.input_names, (q.numpy(), mask.numpy()))))["y"]
    assert (got[0, 1] == 0).all()
    np.testing.assert_allclose(got, call(q, mask).numpy(), rtol=1e-5, atol=1e-6)


def test_norms() -> None:
    x, w, b = torch.randn(2, 6, 5), torch.rand(6) + 0.5, torch.randn(6)
    check(
        {
            "layer": lambda x, w, b: [F.layer_norm(x, (5,)), F.layer_norm(x, (6, 5)), F.layer_norm(x.mT, (6,), w, b), F.layer_norm(x.mT, (6,), w)],
            "rms": lambda x, w, b: [F.rms_norm(x, (5,)), F.rms_norm(x.mT, (6,), w, 1e-6)],
            "channels": lambda x, w, b: [F.group_norm(x, 3, w, b), F.group_norm(x, 2), F.instance_norm(x), F.batch_norm(x, w, w, w, b)],
        },
        x,
        w,
        b,
        tolerance=2e-5,
    )  # fmt: skip


def test_convolutions_and_pools() -> None:
    x, w = torch.randn(2, 4, 9, 8), torch.randn(6, 4, 3, 3)
    check(
        {
            "conv": lambda x, w: [
                F.conv2d(x, w), F.conv2d(x, w, w[:, 0, 0, 0], stride=2, padding=1), F.conv2d(x, w, padding=2, dilation=2),
                F.conv2d(x, w[:, :2], groups=2), F.conv1d(x[:, :, 0], w[:, :, 0]), F.conv2d(x[0], w), F.conv2d(x, w, padding="same"),
                F.conv_transpose2d(x, w.transpose(0, 1), stride=2, padding=1, output_padding=1),
            ],
            "pool": lambda x, w: [
                F.max_pool2d(x, 2), F.max_pool2d(x, 3, 2, 1, ceil_mode=True), F.avg_pool2d(x, 3, 2, 1), F.max_pool2d(x, 3, 1, 1, 2),
                F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), F.max_pool1d(x[:, :, 0], 2), F.avg_pool2d(x[0], 2), F.avg_pool2d(x, 2, ceil_mode=True),
                F.adaptive_avg_pool2d(x, 1), F.adaptive_avg_pool2d(x, (3, 4)),
            ],
            "shuffle": lambda x, w: [F.pixel_shuffle(x, 2), F.pixel_unshuffle(x[:, :, :8], 2), F.channel_shuffle(x, 2)],
        },
        x,
        w,
        tolerance=1e-4,
    )  # fmt: skip


def test_ops_without_a_graph_op_run_on_the_host_as_pytorch_does() -> None:
    check(
        {
            "sort": lambda x: [*x.sort(1)],
            "positions": lambda x: [*F.max_pool1d(x, 2, return_indices=True)],
            "special": lambda x: [torch.special.erfcx(x.abs()), torch.lgamma(x.abs() + 1)],
        },
        X,
        on_host={
            "aten.special_erfcx.default",
            "aten.lgamma.default",
        },
    )


@pytest.mark.slow
def test_sizes_that_the_data_decides() -> None:
    class Positive(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[x > 0] * 2

    model = gaf.torch_to_graph(Positive(), X)
    for x in (X, -X, X.abs() + 1):
        np.testing.assert_array_equal(model.run({"x": x.numpy()})["output"], Positive()(x).numpy())


@pytest.mark.parametrize("dtype", ["bfloat16", pytest.param("float16", marks=pytest.mark.slow)])
def test_narrow_floats(dtype: str) -> None:
    kind = getattr(torch, dtype)
    block = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 8), nn.GELU()).to(kind).eval()
    x = torch.randn(3, 16).to(kind)
    model = gaf.torch_to_graph(block, x)
    from gaf.dialects.graph.ops.torch_call import to_numpy

    got = model.run({model.input_names[0]: to_numpy(x)})["output"].astype(np.float64)
    expected = block.double()(x.double()).detach().numpy()
    np.testing.assert_allclose(got, expected, rtol=4 * torch.finfo(kind).eps, atol=4 * torch.finfo(kind).eps)


def test_every_name_in_the_registry_is_an_overload() -> None:
    """A name that PyTorch doesn't have would never be found: a typing error in an op class."""
    missing = []
    for name in registry.aten_names():
        try:
            op = torch.ops
            for part in name.split("."):
                op = getattr(op, part)
            assert str(op) == name
        except AttributeError:
            missing.append(name)
    assert not missing
