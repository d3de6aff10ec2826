# SPDX-License-Identifier: Apache-2.0
"""Max, average and norm over sliding windows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.irdl import operand_def, result_def, traits_def
from xdsl.traits import Pure

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import Expr, expr, is_nonneg, product, sym
from gaf.dialects.common.scalar import Arg, Const, Coord, Extent, Scalar, call, cast
from gaf.dialects.graph.contract import (
    AtenContext,
    ExportContext,
    GraphOp,
    ImportContext,
    bool_prop,
    graph_op,
    int_prop,
    ints_prop,
    tensor_type,
)
from gaf.dialects.graph.meaning import IDENTITY_BODY, Meaning, Opaque, Stage, identity_read, result_dims
from gaf.dialects.graph.ops.common import (
    accumulator,
    check_kind,
    computing,
    export_float,
    finish,
    format_dims,
    scalar_dim,
)
from gaf.dialects.graph.ops.search import EXACT_POSITIONS
from gaf.dialects.graph.ops.shape import SqueezeOp, UnsqueezeOp
from gaf.dialects.graph.ops.window import (
    aten_window,
    check_output,
    check_window,
    output_size,
    resolve_pads,
    whole_part,
    window_attributes,
    window_dims,
    window_read,
    windows,
)
from gaf.dialects.graph.types import TensorType
from gaf.errors import InvalidInputError, UnsupportedError

LISTS = ("kernel", "strides", "pads", "dilations")


class PoolOp(GraphOp):
    """Base: x is [batch, channels, spatial..]; `pads` lists all fronts, then all ends.

    With `ceil_mode` a last partial window counts if it starts inside the operand or its front padding.
    """

    x = operand_def(TensorType)
    kernel = ints_prop()
    strides = ints_prop()
    pads = ints_prop()
    dilations = ints_prop()
    ceil_mode = bool_prop()
    result = result_def(TensorType)
    GAF_DEFAULTS = {
        "pads": lambda x, *_: (0,) * (2 * (x.rank - 2)),
        "dilations": lambda x, *_: (1,) * (x.rank - 2),
        "ceil_mode": False,
    }
    traits = traits_def(Pure())

    KINDS: ClassVar[tuple[str, ...]] = ("float",)

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        (x,) = operands
        check_kind(x.dtype, cls.KINDS, cls.name)
        if x.rank < 3:
            raise InvalidInputError(
                f"{cls.name}: wrong rank", expected="[batch, channels, spatial..]", got=format_dims(x.shape)
            )
        n = x.rank - 2
        check_window(n, cls.name, **{k: attrs[k] for k in LISTS})
        kernel, strides, pads, dilations = (attrs[k] for k in LISTS)
        sizes = [
            output_size(
                x.shape[2 + i],
                kernel[i],
                strides[i],
                pads[i],
                pads[n + i],
                dilations[i],
                bool(attrs["ceil_mode"]),
            )
            for i in range(n)
        ]
        check_output(sizes, cls.name)
        return [TensorType.of((*x.shape[:2], *sizes), x.dtype)]

    def _windows(self, x: np.ndarray, fill: Any) -> np.ndarray:
        """[batch, channels, outputs.., kernel..]."""
        attrs, n = self.attrs(), x.ndim - 2
        kernel, strides, pads, dilations = (attrs[k] for k in LISTS)
        outputs = []
        for i in range(n):
            size = output_size(
                expr(x.shape[2 + i]),
                kernel[i],
                strides[i],
                pads[i],
                pads[n + i],
                dilations[i],
                bool(attrs["ceil_mode"]),
            ).as_int()
            assert size is not None
            outputs.append(size)
        return windows(x, fill, kernel, strides, pads, dilations, outputs)

    def _fold(self, fold: str, fill: float, body: Scalar = IDENTITY_BODY) -> Stage:
        """The stage that folds every window; a mean or a norm goes on in the accumulator's type."""
        (x,), (r,), attrs = self.operand_tensor_types(), self.result_tensor_types(), self.attrs()
        kernel, strides, pads, dilations = (attrs[k] for k in LISTS)
        read = window_read(0, x.shape, sym("d1"), strides, pads, dilations, fill)
        dtype = r.dtype if fold == "max" else accumulator(r.dtype)
        return Stage(result_dims(r.shape), (read,), body, dtype, window_dims(kernel), fold)

    @classmethod
    def imported(cls, ctx: ImportContext) -> dict[str, Any]:
        """Properties of an ONNX node that all pools share."""
        x = tensor_type(ctx.operands[0])
        kernel = ctx.attr("kernel_shape")
        if kernel is None:
            raise ctx.unsupported("attribute 'kernel_shape' is missing")
        strides, dilations = window_attributes(ctx, len(kernel))
        pads = resolve_pads(ctx, x.shape[2:], kernel, strides, dilations)
        window = {"kernel": tuple(kernel), "strides": strides, "pads": pads, "dilations": dilations}
        return {**window, "ceil_mode": bool(ctx.attr("ceil_mode", 0))}

    @classmethod
    def aten_pool(cls, ctx: AtenContext, spatial: int, **extra: Any) -> Any:
        """Emit the pool of an ATen call; an operand without batch dim gets one for the time being."""
        x = ctx.operands[0]
        batched = tensor_type(x).rank == spatial + 2
        kernel = aten_window(ctx, "kernel_size", spatial, 1)
        padding = aten_window(ctx, "padding", spatial, 0)
        attrs = {
            "kernel": kernel,
            "strides": aten_window(ctx, "stride", spatial, 0) if ctx.attr("stride") else kernel,
            "pads": padding + padding,
            "dilations": aten_window(ctx, "dilation", spatial, 1),
            "ceil_mode": bool(ctx.attr("ceil_mode", False)),
        }
        x = x if batched else ctx.emit(UnsqueezeOp, [x], axes=(0,))
        made = ctx.emit(cls, [x], **attrs, **extra)
        return made if batched else ctx.emit(SqueezeOp, [made], axes=(0,))

    def exported(self, ctx: ExportContext) -> dict[str, Any]:
        """ONNX attributes that all pools share.

        Before opset 22 the standard counts windows that start in the end padding, which runtimes leave out;
        where that makes a difference the padding at the end is given exactly, without `ceil_mode`.
        """
        attrs = self.attrs()
        kernel, strides, pads, dilations = (list(attrs[k]) for k in LISTS)
        ceil_mode = bool(attrs["ceil_mode"])
        if ceil_mode and ctx.opset < 22:
            (x,), (r,) = self.operand_tensor_types(), self.result_tensor_types()
            n = x.rank - 2
            sizes, counts = ([d.as_int() for d in t.shape[2:]] for t in (x, r))
            if None not in sizes and None not in counts:
                reach = [(counts[i] - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1 for i in range(n)]
                if not attrs.get("count_include_pad"):
                    ceil_mode = False
                    pads[n:] = [max(reach[i] - sizes[i] - pads[i], 0) for i in range(n)]
                elif any(
                    reach[i] + strides[i] < sizes[i] + pads[i] + pads[n + i] + strides[i] for i in range(n)
                ):
                    raise UnsupportedError(
                        f"{self.name} with windows that start in the padding",
                        where=self.location_name(),
                        expected="opset 22 or later",
                        got=ctx.opset,
                    )
        return {"kernel_shape": kernel, "strides": strides, "pads": pads, "ceil_mode": int(ceil_mode)}


@graph_op
class MaxPoolOp(PoolOp):
    """The largest element of each window; padding never wins."""

    name = "graph.max_pool"
    ONNX = ("MaxPool",)
    ATEN = tuple(f"aten.max_pool{n}d{kind}.default" for n in (1, 2, 3) for kind in ("", "_with_indices"))
    GAF = ("max_pool",)
    KINDS = ("float", "int", "uint")

    def meaning(self) -> Meaning:
        kind = self.operand_tensor_types()[0].dtype
        return Meaning((self._fold("max", -math.inf if kind.is_float else float(np.iinfo(kind.numpy).min)),))

    def reference(self, *args: np.ndarray, wide: bool = False) -> Sequence[np.ndarray]:
        x = computing(args[0])
        lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
        n = x.ndim - 2
        result = np.max(self._windows(x, lowest), axis=tuple(range(2 + n, 2 + 2 * n)))
        return [finish(result, self.result_tensor_types()[0].dtype, wide)]

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        window = cls.imported(ctx)
        made = ctx.emit(cls, ctx.operands[:1], **window)
        if ctx.num_outputs < 2:
            return made
        if not tensor_type(made).dtype.is_float:
            raise ctx.unsupported("the positions of the largest integers", expected="a pool of floats")
        columns_first = bool(ctx.attr("storage_order", 0))
        return [made, ctx.emit(MaxPoolPositionsOp, ctx.operands[:1], whole=True, columns_first=columns_first, **window)]

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        spatial = int(ctx.op_type[len("aten.max_pool")])
        made = cls.aten_pool(ctx, spatial)
        if "_with_indices" not in ctx.op_type:
            return made
        if not ctx.used(1):
            return [made, None]
        return [made, MaxPoolPositionsOp.aten_pool(ctx, spatial, whole=False, columns_first=False)]

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        window = {"dilations": list(self.attrs()["dilations"]), **self.exported(ctx)}
        return export_float(
            ctx,
            "MaxPool",
            inputs,
            self.operand_tensor_types()[0].dtype,
            lambda ctx, inputs: ctx.node("MaxPool", inputs, **window),
        )


@graph_op
class MaxPoolPositionsOp(PoolOp):
    """Where each window has its largest element, the first of equal ones: its flat position as int64.

    Counted in the spatial dims, or with `whole` in all of x; `columns_first` counts along the first spatial dim first.
    """

    name = "graph.max_pool_positions"
    whole = bool_prop()
    columns_first = bool_prop()

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        (made,) = super().infer(operands, attrs)
        return [TensorType.of(made.shape, dt.I64)]

    def _strides(self) -> list[Expr]:
        """How far apart neighbours along each spatial dim are in flat positions."""
        return _flat_strides(self.operand_tensor_types()[0].shape[2:], bool(self.attrs()["columns_first"]))

    def meaning(self) -> Meaning | Opaque:
        """The maximum of a window, the first place that holds it (or a NaN), and its position in x."""
        (x,), (r,), attrs = self.operand_tensor_types(), self.result_tensor_types(), self.attrs()
        plane = product(x.shape[2:])
        known = plane.as_int()
        if known is not None and known > EXACT_POSITIONS:
            return Opaque(f"positions in {known} elements aren't exact in float32 (at most {EXACT_POSITIONS})")
        kernel, strides, pads, dilations = (attrs[k] for k in LISTS)
        dims, over = result_dims(r.shape), window_dims(kernel)
        read = window_read(0, x.shape, sym("d1"), strides, pads, dilations, -math.inf)
        peak = Stage(dims, (read,), IDENTITY_BODY, accumulator(x.dtype), over, "max")
        hit: Scalar = call("or", call("eq", Arg(0), Arg(1)), call("ne", Arg(0), Arg(0)))
        position: Scalar | None = None
        for i, step in enumerate(self._strides()):
            at = Coord(f"d{2 + i}") * float(strides[i]) + Coord(f"r{1 + i}") * float(dilations[i]) - float(pads[i])
            if pads[i] or pads[len(kernel) + i] or attrs["ceil_mode"]:  # padding is no element, -inf may be one
                inside = call("and", call("ge", at, 0.0), call("lt", at, Extent(x.shape[2 + i])))
                hit = call("and", hit, inside)
            at = cast(at, dt.F32) * Extent(step)
            position = at if position is None else position + at
        assert position is not None
        reads = (read, identity_read(len(dims), stage=0))
        place = Stage(dims, reads, call("select", hit, position, float(EXACT_POSITIONS)), dt.F32, over, "min")
        flat: Scalar = cast(Arg(0), dt.I32)
        if attrs["whole"]:
            flat = flat + Coord("d0") * Extent(x.shape[1] * plane) + Coord("d1") * Extent(plane)
        own = identity_read(len(dims), stage=1)
        stages = (peak, place, Stage(dims, (own,), flat, dt.I32))
        stored = Stage(dims, (identity_read(len(dims), stage=2),), cast(Arg(0), dt.I64), dt.I64)
        return Meaning((*stages, stored), (3,))

    def reference(self, *args: np.ndarray, wide: bool = False) -> Sequence[np.ndarray]:
        x, attrs = computing(args[0]), self.attrs()
        n, shape = x.ndim - 2, x.shape
        inner = tuple(range(2 + n, 2 + 2 * n))
        real = self._windows(np.ones(shape, bool), False)
        found = np.where(real, self._windows(x, -np.inf), -np.inf)
        grid = np.indices(shape[2:]).reshape(n, *(1, 1), *shape[2:])
        strides = [s.evaluate({}) for s in _flat_strides(shape[2:], bool(attrs["columns_first"]))]
        flat = np.broadcast_to(sum(g * s for g, s in zip(grid, strides)), shape)
        places = self._windows(flat, 0)
        hit = real & ((found == np.max(found, axis=inner, keepdims=True)) | np.isnan(found))
        result = np.min(np.where(hit, places, math.prod(shape)), axis=inner)
        if attrs["whole"]:
            planes = np.arange(shape[0] * shape[1]).reshape(shape[0], shape[1], *[1] * n)
            result = result + planes * math.prod(shape[2:])
        return [result.astype(np.int64)]

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        attrs, (x,) = self.attrs(), self.operand_tensor_types()
        window = {"dilations": list(attrs["dilations"]), "storage_order": int(attrs["columns_first"])}
        if dt.BF16 == x.dtype:
            inputs = ctx.node("Cast", inputs, 1, to=dt.F32.onnx)
        _, flat = ctx.node("MaxPool", inputs, 2, **window, **self.exported(ctx))
        if attrs["whole"]:
            return ctx.node("Identity", [flat])
        plane = scalar_dim(ctx, product(x.shape[2:]))
        return ctx.node("Mod", [flat, plane])


def _flat_strides(sizes: Sequence[Expr | int], columns_first: bool) -> list[Expr]:
    return [product(map(expr, sizes[:i] if columns_first else sizes[i + 1 :])) for i in range(len(sizes))]


@graph_op
class AveragePoolOp(PoolOp):
    """The mean of each window, over real elements only, or with `count_include_pad` over the padding too."""

    name = "graph.average_pool"
    count_include_pad = bool_prop()
    ONNX = ("AveragePool",)
    ATEN = ("aten.avg_pool1d.default", "aten.avg_pool2d.default", "aten.avg_pool3d.default")
    GAF = ("average_pool",)
    GAF_DEFAULTS = {"count_include_pad": False}

    def meaning(self) -> Meaning:
        total, r = self._fold("sum", 0.0), self.result_tensor_types()[0]
        rank = len(total.dims)
        body = Arg(0) / self._count(total)
        return Meaning((total, Stage(total.dims, (identity_read(rank, stage=0),), body, r.dtype)), (1,))

    def _count(self, total: Stage) -> Scalar:
        """The elements of a window that count: a product over the spatial dims."""
        attrs = self.attrs()
        kernel, strides, pads, dilations = (attrs[k] for k in LISTS)
        ranges = {d.name: d.extent for d in (*total.dims, *total.reduced)}
        (read,), n = total.reads, len(kernel)
        result: Scalar = Const(1.0)
        for i, guard in enumerate(read.guards):
            beyond = pads[n + i] if attrs["count_include_pad"] else 0
            before = pads[i] if attrs["count_include_pad"] else 0
            full = is_nonneg(guard.index + before, ranges)
            full = full and is_nonneg(guard.high + beyond - 1 - guard.index, ranges)
            result = result * (
                Const(float(kernel[i]))
                if full
                else self._counted(2 + i, kernel[i], strides[i], dilations[i], pads[i], before, guard.high + beyond)
            )
        return result

    def _counted(
        self, dim: int, kernel: int, stride: int, dilation: int, pad: int, before: int, end: Expr
    ) -> Scalar:
        """The positions of a window along one dim that lie in [-before, end)."""
        first = cast(Coord(f"d{dim}"), dt.F32) * float(stride) - float(pad)

        def taps(distance: Scalar) -> Scalar:
            """How many of 0, dilation, 2 * dilation, ... are below a distance."""
            if dilation > 1:
                distance = whole_part(distance + float(dilation - 1), dilation)
            return call("min", call("max", distance, 0.0), float(kernel))

        inside = taps(Extent(end) - first)
        return inside if before >= pad else inside - taps(-first - float(before))

    def reference(self, *args: np.ndarray, wide: bool = False) -> Sequence[np.ndarray]:
        x, attrs = computing(args[0]), self.attrs()
        n = x.ndim - 2
        inner = tuple(range(2 + n, 2 + 2 * n))
        counted = np.ones((1, 1, *x.shape[2:]), x.dtype)
        total = np.sum(self._windows(x, 0), axis=inner)
        if not attrs["count_include_pad"]:
            count = np.sum(self._windows(counted, 0), axis=inner)
        else:
            # windows beyond operand and padding (ceil_mode) hold fewer elements
            pads = attrs["pads"]
            widths = [(0, 0), (0, 0), *((pads[i], pads[n + i]) for i in range(n))]
            padded = np.pad(counted, widths, constant_values=1)
            outputs = total.shape[2:]
            view = windows(
                padded, 0, attrs["kernel"], attrs["strides"], (0,) * (2 * n), attrs["dilations"], outputs
            )
            count = np.sum(view, axis=inner)
        with np.errstate(all="ignore"):
            return [finish(total / count, self.result_tensor_types()[0].dtype, wide)]

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        include = bool(ctx.attr("count_include_pad", 0))
        return ctx.emit(cls, ctx.operands[:1], count_include_pad=include, **cls.imported(ctx))

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        if ctx.has("divisor_override"):
            raise ctx.unsupported("an average pool with a divisor of its own")
        include = bool(ctx.attr("count_include_pad", True))
        return cls.aten_pool(ctx, int(ctx.op_type[len("aten.avg_pool")]), count_include_pad=include)

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        attrs = self.attrs()
        extra = {}
        if any(d != 1 for d in attrs["dilations"]):
            if ctx.opset < 19:
                raise UnsupportedError(
                    f"{self.name} with dilations",
                    where=self.location_name(),
                    expected="opset 19 or later",
                    got=ctx.opset,
                )
            extra = {"dilations": list(attrs["dilations"])}
        window = {"count_include_pad": int(attrs["count_include_pad"]), **extra, **self.exported(ctx)}
        return export_float(
            ctx,
            "AveragePool",
            inputs,
            self.operand_tensor_types()[0].dtype,
            lambda ctx, inputs: ctx.node("AveragePool", inputs, **window),
        )


@graph_op
class LpPoolOp(PoolOp):
    """The p-norm of each window: `(sum of |x| ** p) ** (1 / p)`; padding adds nothing."""

    name = "graph.lp_pool"
    p = int_prop()
    ONNX = ("LpPool",)
    ATEN = ()
    GAF = ("lp_pool",)
    GAF_DEFAULTS = {"p": 2}

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        if attrs["p"] < 1:
            raise InvalidInputError(f"{cls.name}: p too small", expected="1 or more", got=attrs["p"])
        return super().infer(operands, attrs)

    def meaning(self) -> Meaning:
        p, r = self.attrs()["p"], self.result_tensor_types()[0]
        power: Scalar = call("abs", Arg(0))
        if p > 1:
            power = Arg(0) * Arg(0) if p == 2 else call("pow", power, float(p))
        total = self._fold("sum", 0.0, power)
        root = Arg(0) if p == 1 else call("sqrt", Arg(0)) if p == 2 else call("pow", Arg(0), 1.0 / p)
        read = identity_read(len(total.dims), stage=0)
        return Meaning((total, Stage(total.dims, (read,), root, r.dtype)), (1,))

    def reference(self, *args: np.ndarray, wide: bool = False) -> Sequence[np.ndarray]:
        x, p = computing(args[0]), self.attrs()["p"]
        total = np.sum(self._windows(np.abs(x) ** p, 0), axis=tuple(range(x.ndim, 2 * x.ndim - 2)))
        return [finish(total ** (1 / p), self.result_tensor_types()[0].dtype, wide)]

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        return ctx.emit(cls, ctx.operands[:1], p=int(ctx.attr("p", 2)), **cls.imported(ctx))

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        window, attrs = self.exported(ctx), self.attrs()
        plain = not attrs["ceil_mode"] and all(d == 1 for d in attrs["dilations"])
        if not plain and ctx.opset < 18:
            raise UnsupportedError(
                f"{self.name} with dilations or ceil_mode",
                where=self.location_name(),
                expected="opset 18 or later",
                got=ctx.opset,
            )
        if plain:
            del window["ceil_mode"]
        else:
            window["dilations"] = list(attrs["dilations"])
        return export_float(
            ctx,
            "LpPool",
            inputs,
            self.operand_tensor_types()[0].dtype,
            lambda ctx, inputs: ctx.node("LpPool", inputs, p=attrs["p"], **window),
        )
