# SPDX-License-Identifier: Apache-2.0
"""Convolution and its transpose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product as positions
from typing import Any

import numpy as np
from xdsl.irdl import operand_def, opt_operand_def, result_def, traits_def
from xdsl.traits import Pure

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import Expr, const, exact_div, expr, floordiv, mod, sym
from gaf.dialects.common.scalar import Arg, Coord, Scalar, call, cast
from gaf.dialects.graph.contract import (
    AtenContext,
    ExportContext,
    GraphOp,
    ImportContext,
    graph_op,
    int_prop,
    ints_prop,
    tensor_type,
)
from gaf.dialects.graph.meaning import Dim, Guard, Meaning, Opaque, Read, Stage, identity_read, result_dims
from gaf.dialects.graph.ops.common import (
    accumulator,
    check_kind,
    computing,
    export_float,
    finish,
    format_dims,
    same_dtype,
)
from gaf.dialects.graph.ops.window import (
    aten_window,
    check_output,
    check_window,
    counts_exactly,
    output_size,
    resolve_pads,
    whole_part,
    window_attributes,
    window_dims,
    window_read,
    windows,
)
from gaf.dialects.graph.types import TensorType
from gaf.errors import InvalidInputError


class ConvBase(GraphOp):
    """Base: x [batch, channels, spatial..], weights, optional bias [channels out].

    `pads` lists all fronts, then all ends. 16-bit floats are summed in float32.
    """

    x = operand_def(TensorType)
    weights = operand_def(TensorType)
    bias = opt_operand_def(TensorType)
    strides = ints_prop()
    pads = ints_prop()
    dilations = ints_prop()
    groups = int_prop()
    result = result_def(TensorType)
    GAF_DEFAULTS = {
        "strides": lambda x, *_: (1,) * (x.rank - 2),
        "pads": lambda x, *_: (0,) * (2 * (x.rank - 2)),
        "dilations": lambda x, *_: (1,) * (x.rank - 2),
        "groups": 1,
    }
    traits = traits_def(Pure())

    @classmethod
    def check(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> None:
        """Raises InvalidInputError for wrong types, ranks, or window lists."""
        x, w, *_ = operands
        check_kind(same_dtype(operands, cls.name), ("float",), cls.name)
        if x.rank < 3 or w.rank != x.rank:
            raise InvalidInputError(
                f"{cls.name}: wrong ranks",
                expected="[batch, channels, spatial..] and weights of the same rank",
                got=f"{format_dims(x.shape)} and {format_dims(w.shape)}",
            )
        check_window(
            x.rank - 2, cls.name, strides=attrs["strides"], pads=attrs["pads"], dilations=attrs["dilations"]
        )
        if attrs["groups"] < 1:
            raise InvalidInputError(
                f"{cls.name}: groups too small", expected="1 or more", got=attrs["groups"]
            )

    @classmethod
    def check_channels(cls, got: Expr, expected: Expr, what: str) -> None:
        """Raises InvalidInputError if two channel counts differ."""
        if got != expected:
            raise InvalidInputError(f"{cls.name}: {what}", expected=expected, got=got)



@graph_op
class ConvOp(ConvBase):
    """Cross-correlation, as ONNX Conv: weights are [channels out, channels in / groups, kernel..]."""

    name = "graph.conv"
    ONNX = ("Conv",)
    ATEN = ("aten.convolution.default",)
    GAF = ("conv",)

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        cls.check(operands, attrs)
        x, w, *bias = operands
        cls.check_channels(x.shape[1], w.shape[1] * attrs["groups"], "channels of x don't fit the weights")
        if exact_div(w.shape[0], expr(attrs["groups"])) is None:
            raise InvalidInputError(
                f"{cls.name}: channels out don't divide into groups",
                expected=f"a multiple of {attrs['groups']}",
                got=w.shape[0],
            )
        for b in bias:
            cls.check_channels(
                b.shape[0] if b.rank == 1 else const(-1),
                w.shape[0],
                "the bias is no vector of the channels out",
            )
        n, pads = x.rank - 2, attrs["pads"]
        sizes = [
            output_size(
                x.shape[2 + i],
                w.shape[2 + i],
                attrs["strides"][i],
                pads[i],
                pads[n + i],
                attrs["dilations"][i],
            )
            for i in range(n)
        ]
        check_output(sizes, cls.name)
        return [TensorType.of((x.shape[0], w.shape[0], *sizes), x.dtype)]

    def meaning(self) -> Meaning:
        """A matmul over channels and window: weights [channels out, ..] times the windows of x [.., positions]."""
        (x, w, *bias), (r,), attrs = self.operand_tensor_types(), self.result_tensor_types(), self.attrs()
        dims, window = result_dims(r.shape), window_dims(w.shape[2:])
        channel = sym("r0")
        if attrs["groups"] > 1:
            channel = floordiv(sym("d1"), w.shape[0] // attrs["groups"]) * w.shape[1] + channel
        pads = attrs["pads"][: len(window)]
        reads = (
            Read((sym("d1"), sym("r0"), *(sym(d.name) for d in window)), 1),
            window_read(0, x.shape, channel, attrs["strides"], pads, attrs["dilations"], 0.0),
        )
        dtype = accumulator(r.dtype) if bias else r.dtype
        products = Stage(dims, reads, Arg(0) * Arg(1), dtype, (Dim("r0", w.shape[1]), *window), "sum")
        if not bias:
            return Meaning((products,))
        added = (identity_read(len(dims), stage=0), Read((sym("d1"),), 2))
        return Meaning((products, Stage(dims, added, Arg(0) + Arg(1), r.dtype)), (1,))

    def reference(self, *args: np.ndarray, wide: bool = False) -> Sequence[np.ndarray]:
        x, w, *bias = (computing(a) for a in args)
        attrs, n = self.attrs(), args[0].ndim - 2
        strides, pads, dilations, groups = (attrs[k] for k in ("strides", "pads", "dilations", "groups"))
        kernel = w.shape[2:]
        outputs = [
            (x.shape[2 + i] + pads[i] + pads[n + i] - (kernel[i] - 1) * dilations[i] - 1) // strides[i] + 1
            for i in range(n)
        ]
        view = windows(x, 0, kernel, strides, pads, dilations, outputs)
        # [batch, groups, channels, out.., kernel..] x [groups, channels out, channels, kernel..]
        view = view.reshape(x.shape[0], groups, -1, *outputs, *kernel)
        w = w.reshape(groups, -1, *w.shape[1:])
        parts = [
            np.tensordot(view[:, g], w[g], axes=([1, *range(2 + n, 2 + 2 * n)], [1, *range(2, 2 + n)]))
            for g in range(groups)
        ]
        result = np.moveaxis(np.concatenate(parts, axis=-1), -1, 1)
        if bias:
            result = result + bias[0].reshape(-1, *[1] * n)
        return [finish(result, self.result_tensor_types()[0].dtype, wide)]

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        x, w = (tensor_type(o) for o in ctx.operands[:2])
        spatial = max(x.rank - 2, 0)
        strides, dilations = window_attributes(ctx, spatial)
        kernel = [d.as_int() for d in w.shape[2:]]
        if any(k is None for k in kernel):
            raise ctx.unsupported("a kernel of symbolic size", expected="weights of known size")
        pads = resolve_pads(ctx, x.shape[2:], kernel, strides, dilations)  # type: ignore[arg-type]
        operands = [o for o in ctx.operands if o is not None]
        groups = int(ctx.attr("group", 1))
        return ctx.emit(cls, operands, strides=strides, pads=pads, dilations=dilations, groups=groups)

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        spatial = ctx.result.rank - 2
        padding = aten_window(ctx, "padding", spatial, 0)
        attrs = {
            "strides": aten_window(ctx, "stride", spatial, 1),
            "pads": padding + padding,
            "dilations": aten_window(ctx, "dilation", spatial, 1),
            "groups": int(ctx.attr("groups", 1)),
        }
        if ctx.attr("transposed", False):
            extra = aten_window(ctx, "output_padding", spatial, 0)
            return ctx.emit(ConvTransposeOp, ctx.operands, output_padding=extra, **attrs)
        return ctx.emit(cls, ctx.operands, **attrs)

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        attrs = self.attrs()
        lists = {k: list(attrs[k]) for k in ("strides", "pads", "dilations")}
        dtype = self.operand_tensor_types()[0].dtype
        return export_float(
            ctx,
            "Conv",
            inputs,
            dtype,
            lambda ctx, inputs: ctx.node("Conv", inputs, group=attrs["groups"], **lists),
        )


@graph_op
class ConvTransposeOp(ConvBase):
    """The transpose of a convolution: weights are [channels in, channels out / groups, kernel..].

    `output_padding` lengthens the end of each spatial dim.
    """

    name = "graph.conv_transpose"
    output_padding = ints_prop()

    def meaning(self) -> Meaning | Opaque:
        """A convolution over x with `stride - 1` zeros between its elements, the weights transposed and mirrored.

        Stage 0 is x at every position of the result for every element of the window; then comes the matmul.
        """
        (x, w, *bias), (r,), attrs = self.operand_tensor_types(), self.result_tensor_types(), self.attrs()
        n, groups = x.rank - 2, attrs["groups"]
        if not all(s == 1 or counts_exactly(d) for s, d in zip(attrs["strides"], r.shape[2:])):
            return Opaque("positions along a dim that float32 doesn't count exactly")
        spread = (x.shape[0], x.shape[1], *w.shape[2:], *r.shape[2:])
        index: list[Expr] = [sym("d0"), sym("d1")]
        guards, apart = [], []
        for i, (stride, pad, dilation) in enumerate(zip(attrs["strides"], attrs["pads"], attrs["dilations"])):
            at = sym(f"d{2 + n + i}") + pad - sym(f"d{2 + i}") * dilation
            index.append(floordiv(at, stride))
            guards.append(Guard(at, const(0), x.shape[2 + i] * stride))
            if stride > 1:
                place = cast(Coord(f"d{2 + n + i}"), dt.F32) + float(pad) - cast(Coord(f"d{2 + i}"), dt.F32) * float(dilation)
                apart.append(call("eq", place - whole_part(place, stride) * float(stride), 0.0))
        body: Scalar = Arg(0)
        for hit in apart:
            body = call("select", hit, body, 0.0)
        read = Read(tuple(index), 0, guards=tuple(guards))
        inserted = Stage(result_dims(spread), (read,), body, x.dtype)

        dims, window = result_dims(r.shape), window_dims(w.shape[2:])
        inside, outside = x.shape[1] // groups, w.shape[1]
        channel, own = sym("r0"), sym("d1")
        if groups > 1:
            channel = floordiv(sym("d1"), outside) * inside + channel
            own = mod(sym("d1"), outside)
        taps = tuple(sym(d.name) for d in window)
        reads = (
            Read((channel, own, *taps), 1),
            Read((sym("d0"), channel, *taps, *(sym(d.name) for d in dims[2:])), stage=0),
        )
        dtype = accumulator(r.dtype) if bias else r.dtype
        products = Stage(dims, reads, Arg(0) * Arg(1), dtype, (Dim("r0", inside), *window), "sum")
        if not bias:
            return Meaning((inserted, products), (1,))
        added = (identity_read(len(dims), stage=1), Read((sym("d1"),), 2))
        return Meaning((inserted, products, Stage(dims, added, Arg(0) + Arg(1), r.dtype)), (2,))

    ONNX = ("ConvTranspose",)
    GAF = ("conv_transpose",)
    GAF_DEFAULTS = {"output_padding": lambda x, *_: (0,) * (x.rank - 2)}

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        cls.check(operands, attrs)
        x, w, *bias = operands
        n, pads = x.rank - 2, attrs["pads"]
        check_window(n, cls.name, output_padding=attrs["output_padding"])
        cls.check_channels(x.shape[1], w.shape[0], "channels of x don't fit the weights")
        channels = w.shape[1] * attrs["groups"]
        for b in bias:
            cls.check_channels(
                b.shape[0] if b.rank == 1 else const(-1),
                channels,
                "the bias is no vector of the channels out",
            )
        sizes = [
            (x.shape[2 + i] - 1) * attrs["strides"][i]
            + attrs["output_padding"][i]
            + (w.shape[2 + i] - 1) * attrs["dilations"][i]
            + 1
            - pads[i]
            - pads[n + i]
            for i in range(n)
        ]
        check_output(sizes, cls.name)
        return [TensorType.of((x.shape[0], channels, *sizes), x.dtype)]

    def reference(self, *args: np.ndarray, wide: bool = False) -> Sequence[np.ndarray]:
        x, w, *bias = (computing(a) for a in args)
        attrs, n = self.attrs(), args[0].ndim - 2
        strides, pads, dilations, groups = (attrs[k] for k in ("strides", "pads", "dilations", "groups"))
        kernel = w.shape[2:]
        full = [
            (x.shape[2 + i] - 1) * strides[i]
            + (kernel[i] - 1) * dilations[i]
            + 1
            + attrs["output_padding"][i]
            for i in range(n)
        ]
        result = np.zeros((x.shape[0], groups, w.shape[1], *full), x.dtype)
        x = x.reshape(x.shape[0], groups, -1, *x.shape[2:])
        w = w.reshape(groups, -1, *w.shape[1:])
        for offset in positions(*map(range, kernel)):
            part = np.einsum("bgi...,gio->bgo...", x, w[(slice(None), slice(None), slice(None), *offset)])
            place = tuple(
                slice(o * d, o * d + (size - 1) * s + 1, s)
                for o, d, s, size in zip(offset, dilations, strides, x.shape[3:])
            )
            result[(slice(None), slice(None), slice(None), *place)] += part
        inner = tuple(slice(pads[i], full[i] - pads[n + i]) for i in range(n))
        result = result.reshape(result.shape[0], -1, *full)[(slice(None), slice(None), *inner)]
        if bias:
            result = result + bias[0].reshape(-1, *[1] * n)
        return [finish(result, self.result_tensor_types()[0].dtype, wide)]

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        x, w = (tensor_type(o) for o in ctx.operands[:2])
        n = max(x.rank - 2, 0)
        strides, dilations = window_attributes(ctx, n)
        extra = tuple(ctx.attr("output_padding", (0,) * n))
        auto, wanted = ctx.attr("auto_pad", "NOTSET"), ctx.attr("output_shape")
        pads = tuple(ctx.attr("pads", (0,) * (2 * n)))
        if wanted is None and auto in ("SAME_UPPER", "SAME_LOWER"):
            wanted = [x.shape[2 + i] * strides[i] for i in range(n)]
        elif auto == "VALID":
            pads = (0,) * (2 * n)
        if wanted is not None:
            fronts, ends, longer = [], [], []
            for i, size in enumerate(list(wanted)[-n:]):
                full = (x.shape[2 + i] - 1) * strides[i] + extra[i] + (w.shape[2 + i] - 1) * dilations[i] + 1
                total = (full - expr(size)).as_int()
                if total is None:
                    raise ctx.unsupported(
                        "an output shape on a symbolic size", hint="fix the sizes with --input-shape"
                    )
                longer.append(extra[i] + max(-total, 0))
                total = max(total, 0)
                # the ONNX standard puts the odd pad at the end for SAME_UPPER, else in front
                large, small = total - total // 2, total // 2
                fronts.append(small if auto == "SAME_UPPER" else large)
                ends.append(large if auto == "SAME_UPPER" else small)
            pads, extra = (*fronts, *ends), tuple(longer)
        operands = [o for o in ctx.operands if o is not None]
        window = {"strides": strides, "pads": pads, "dilations": dilations, "output_padding": extra}
        return ctx.emit(cls, operands, groups=int(ctx.attr("group", 1)), **window)

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        attrs = self.attrs()
        lists = {k: list(attrs[k]) for k in ("strides", "pads", "dilations", "output_padding")}
        dtype = self.operand_tensor_types()[0].dtype
        return export_float(
            ctx,
            "ConvTranspose",
            inputs,
            dtype,
            lambda ctx, inputs: ctx.node("ConvTranspose", inputs, group=attrs["groups"], **lists),
        )
