# SPDX-License-Identifier: Apache-2.0
"""Random tensors, elementwise from the place of each element: dropout and noise fuse with what is around them.

An element is a function of its row-major place, of a *salt* (a number drawn for each run, or made of the seed that
the node has) and of a *key* (the number of the node in its model), by Philox2x32-10. Tiles, cores and fusion
don't matter; numbers differ from those of other frameworks for the same seed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.irdl import operand_def, result_def, traits_def
from xdsl.traits import Pure

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import Expr, const
from gaf.dialects.common.random import RANDOM_BITS, random24
from gaf.dialects.common.scalar import Arg, Const, Coord, Extent, Scalar, call, cast
from gaf.dialects.graph.contract import (
    AtenContext,
    ExportContext,
    GraphOp,
    ImportContext,
    dims_prop,
    dtype_prop,
    float_prop,
    graph_op,
    int_prop,
    str_prop,
    tensor_type,
)
from gaf.dialects.graph.meaning import Meaning, Opaque, Read, Stage, result_dims
from gaf.dialects.graph.ops.cast import CastOp
from gaf.dialects.graph.ops.common import concrete, finish
from gaf.dialects.graph.seeds import draw
from gaf.dialects.graph.types import TensorType
from gaf.errors import InvalidInputError

SCALE = 2.0**-RANDOM_BITS
MOST_KEYS = 1 << 22
"""Keys of nodes are smaller: two streams of each fit the 24 bits that a scalar constant has."""

MANTISSA = {dt.F32: RANDOM_BITS, dt.F16: 11, dt.BF16: 8}
"""Random bits of a number below 1: what the dtype holds exactly, so that nothing is rounded up to 1."""


@graph_op
class RunSaltOp(GraphOp):
    """A number of 24 bits that is drawn for every run of the model; see `gaf.manual_seed`.

    `framework` torch: from PyTorch's generator, so that torch.manual_seed decides.
    """

    name = "graph.run_salt"
    framework = str_prop()
    result = result_def(TensorType)

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        if attrs["framework"] not in ("gaf", "torch"):
            raise InvalidInputError(f"{cls.name}: unknown framework", expected="gaf or torch", got=attrs["framework"])
        return [TensorType.of([], dt.I32)]

    def reference(self, *args: np.ndarray, wide: bool = False) -> Sequence[np.ndarray]:
        return [np.asarray(draw(self.attrs()["framework"]), np.int32)]

    def meaning(self) -> Opaque:
        return Opaque("the host draws a number for each run")

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        return ctx.node("Identity", [ctx.constant(np.asarray(0, np.int32))])  # ONNX draws in the random nodes


class RandomOp(GraphOp):
    """Base: a tensor of `shape` and `dtype` from random bits of `salt`, `key` and the places of its elements."""

    salt = operand_def(TensorType)
    shape = dims_prop()
    key = int_prop()
    dtype = dtype_prop()
    result = result_def(TensorType)
    traits = traits_def(Pure())

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        if operands[0].rank or operands[0].dtype != dt.I32:
            raise InvalidInputError(f"{cls.name}: the salt is an i32 scalar", got=operands[0])
        if not 0 <= attrs["key"] < MOST_KEYS:
            raise InvalidInputError(f"{cls.name}: key out of range", expected=f"0..{MOST_KEYS - 1}", got=attrs["key"])
        if attrs["dtype"] not in MANTISSA:
            raise InvalidInputError(f"{cls.name}: wrong element type", expected="f32, f16 or bf16", got=attrs["dtype"])
        return [TensorType.of(attrs["shape"], attrs["dtype"])]

    def place(self) -> Scalar:
        """The row-major number of an element."""
        at: Scalar = Const(0.0)
        for i, size in enumerate(self.attrs()["shape"]):
            at = at * Extent(size) + Coord(f"d{i}") if i else Coord("d0")
        return at

    def words(self, stream: int) -> Scalar:
        """24 random bits for each element, as an integer; two streams are independent."""
        return call("random24", self.place(), Arg(0), float(2 * self.attrs()["key"] + stream))

    def formula(self) -> Scalar:
        """The value of an element, in float32, from `words`."""
        raise NotImplementedError(self.name)

    def sample(self, words: Sequence[np.ndarray]) -> np.ndarray:
        """The values from the integers of both streams, in float64."""
        raise NotImplementedError(self.name)

    def reference(self, *args: np.ndarray, wide: bool = False) -> Sequence[np.ndarray]:
        return self.reference_with_symbols(*args, env={}, wide=wide)

    def reference_with_symbols(
        self, *args: np.ndarray, env: Mapping[str, int], wide: bool = False
    ) -> Sequence[np.ndarray]:
        attrs = self.attrs()
        shape = concrete(attrs["shape"], env, self.name)
        places = np.arange(math.prod(shape), dtype=np.int64).reshape(shape)
        words = [random24(places, args[0], 2 * attrs["key"] + s).astype(np.float64) for s in range(2)]
        return [finish(self.sample(words), attrs["dtype"], wide)]

    def meaning(self) -> Meaning:
        (r,) = self.result_tensor_types()
        return Meaning((Stage(result_dims(r.shape), (Read((), operand=0),), self.formula(), r.dtype),))

    def exported(self, ctx: ExportContext, op_type: str, **attributes: float) -> list[str]:
        """An ONNX node of the same distribution; its numbers are the runtime's own."""
        attrs = self.attrs()
        narrow = attrs["dtype"] == dt.BF16  # which ONNX casts to, but doesn't draw
        outputs, kind = (1, dt.F32) if narrow else (None, attrs["dtype"])
        known = [d.as_int() for d in attrs["shape"]]
        if None not in known:
            made = ctx.node(op_type, [], outputs, shape=known, dtype=kind.onnx, **attributes)
        else:
            like = ctx.node("ConstantOfShape", [ctx.dims(attrs["shape"])], 1)[0]
            made = ctx.node(f"{op_type}Like", [like], outputs, dtype=kind.onnx, **attributes)
        return ctx.node("Cast", made, to=dt.BF16.onnx) if narrow else made


@graph_op
class RandomUniformOp(RandomOp):
    """Evenly distributed in [low, high): low plus a multiple of (high - low) / 2**24, coarser for 16-bit floats."""

    name = "graph.random_uniform"
    low = float_prop()
    high = float_prop()
    ONNX = ("RandomUniform", "RandomUniformLike")
    ATEN = ("aten.rand.default", "aten.rand_like.default", "aten.uniform.default")

    def formula(self) -> Scalar:
        attrs = self.attrs()
        unit, bits = cast(self.words(0), dt.F32), MANTISSA[attrs["dtype"]]
        if bits < RANDOM_BITS:
            unit = call("floor", unit * 2.0 ** (bits - RANDOM_BITS)) * 2.0**-bits
        else:
            unit = unit * SCALE
        low, span = attrs["low"], attrs["high"] - attrs["low"]
        unit = unit if span == 1.0 else unit * span
        return unit if low == 0.0 else unit + low

    def sample(self, words: Sequence[np.ndarray]) -> np.ndarray:
        attrs, bits = self.attrs(), MANTISSA[self.attrs()["dtype"]]
        unit = np.floor(words[0] * 2.0 ** (bits - RANDOM_BITS)) * 2.0**-bits
        return unit * (attrs["high"] - attrs["low"]) + attrs["low"]

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        bounds = {"low": float(ctx.attr("low", 0.0)), "high": float(ctx.attr("high", 1.0))}
        shape, dtype = imported_type(ctx)
        return drawn(ctx, cls, shape, dtype, **bounds)

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        low, high = float(ctx.attr("from", 0.0)), float(ctx.attr("to", 1.0))
        return drawn(ctx, cls, ctx.result.shape, ctx.result.dtype, low=low, high=high)

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        return self.exported(ctx, "RandomUniform", low=self.attrs()["low"], high=self.attrs()["high"])


@graph_op
class RandomNormalOp(RandomOp):
    """Normally distributed, by the Box-Muller transform of two uniform numbers, the first in (0, 1]."""

    name = "graph.random_normal"
    mean = float_prop()
    scale = float_prop()
    ONNX = ("RandomNormal", "RandomNormalLike")
    ATEN = ("aten.randn.default", "aten.randn_like.default", "aten.normal_functional.default")

    def formula(self) -> Scalar:
        attrs = self.attrs()
        first, second = (cast(self.words(s), dt.F32) for s in range(2))
        radius = call("sqrt", call("log", (first + 1.0) * SCALE) * -2.0)
        value = radius * call("cos", second * (2.0 * math.pi * SCALE))
        value = value if attrs["scale"] == 1.0 else value * attrs["scale"]
        return value if attrs["mean"] == 0.0 else value + attrs["mean"]

    def sample(self, words: Sequence[np.ndarray]) -> np.ndarray:
        radius = np.sqrt(-2.0 * np.log((words[0] + 1.0) * SCALE))
        return radius * np.cos(words[1] * (2.0 * math.pi * SCALE)) * self.attrs()["scale"] + self.attrs()["mean"]

    @classmethod
    def from_onnx(cls, ctx: ImportContext) -> Any:
        moments = {"mean": float(ctx.attr("mean", 0.0)), "scale": float(ctx.attr("scale", 1.0))}
        shape, dtype = imported_type(ctx)
        return drawn(ctx, cls, shape, dtype, **moments)

    @classmethod
    def from_aten(cls, ctx: AtenContext) -> Any:
        moments = {"mean": float(ctx.attr("mean", 0.0)), "scale": float(ctx.attr("std", 1.0))}
        return drawn(ctx, cls, ctx.result.shape, ctx.result.dtype, **moments)

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        return self.exported(ctx, "RandomNormal", mean=self.attrs()["mean"], scale=self.attrs()["scale"])


# -- import -----------------------------------------------------------------------------------------------


def imported_type(ctx: ImportContext) -> tuple[tuple[Expr, ...], dt.DType]:
    """Shape and element type of an ONNX node: its attributes, or those of its operand (`...Like`)."""
    code = ctx.attr("dtype")
    if ctx.operand(0) is not None:
        like = tensor_type(ctx.operands[0])
        return like.shape, like.dtype if code is None else dt.of_onnx(int(code))
    shape = ctx.attr("shape")
    if shape is None:
        raise ctx.unsupported(f"{ctx.op_type} without a shape", expected="the attribute 'shape'")
    return tuple(const(int(d)) for d in shape), dt.F32 if code is None else dt.of_onnx(int(code))


def salt_and_key(ctx: ImportContext) -> tuple[Any, int]:
    """What a node draws from. Nodes with equal `seed` give equal numbers, in every run."""
    if ctx.attr("generator") is not None:
        raise ctx.unsupported("numbers from a generator of the user's", expected="PyTorch's own generator")
    seed = ctx.attr("seed")
    if seed is None:
        return ctx.random_source()
    bits = int(np.float32(seed).view(np.uint32)) if isinstance(seed, float) else int(seed)
    return ctx.constant_value(np.asarray(random24(bits & 0xFFFFFFFF, bits >> 32, 0), np.int32)), 0


def drawn(
    ctx: ImportContext, op: type[RandomOp], shape: Sequence[Expr], dtype: dt.DType, **attributes: float
) -> Any:
    """The op for a node; f64 is drawn as f32."""
    if not dtype.is_float:
        raise ctx.unsupported(f"{ctx.op_type} of {dtype}", expected="a float type")
    salt, key = salt_and_key(ctx)
    inner = dtype if dtype in MANTISSA else dt.F32
    made = ctx.emit(op, [salt], shape=tuple(shape), key=key, dtype=inner, **attributes)
    return made if inner == dtype else ctx.emit(CastOp, [made], to=dtype)


def uniform_like(ctx: ImportContext, shape: Sequence[Expr]) -> Any:
    """float32 numbers in [0, 1)."""
    return drawn(ctx, RandomUniformOp, shape, dt.F32, low=0.0, high=1.0)
