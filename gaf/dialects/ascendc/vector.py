# SPDX-License-Identifier: Apache-2.0
"""Vector instructions in their count form: `count` consecutive elements of contiguous tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from xdsl.irdl import irdl_op_definition, operand_def, prop_def

from gaf.dialects.ascendc.api import Access, ApiOp, local_dtype
from gaf.dialects.ascendc.attributes import RoundMode, RoundModeAttr, ScalarAttr, invalid
from gaf.dialects.ascendc.cycles import Cost
from gaf.dialects.ascendc.types import LocalType
from gaf.dialects.common import dtype as dt
from gaf.dialects.common.attributes import ExprAttr

if TYPE_CHECKING:
    from gaf.dialects.ascendc.interpreter import Core

FLOAT = (dt.F32, dt.F16)
NUMBER = (dt.F32, dt.F16, dt.I32, dt.I16)
MOVABLE = (dt.F32, dt.F16, dt.BF16, dt.I32, dt.I16, dt.U32, dt.U16)


class UnaryOp(ApiOp):
    """Base of `dst[i] = f(src[i])`; dst may be src."""

    dst = operand_def(LocalType)
    src = operand_def(LocalType)
    count = prop_def(ExprAttr)

    NUMPY: ClassVar[Callable[[Any], Any]]
    DTYPES: ClassVar[dict[str, tuple[dt.DType, ...]]] = {"src": FLOAT}
    SAME: ClassVar[tuple[tuple[str, ...], ...]] = (("dst", "src"),)
    INPLACE: ClassVar[tuple[str, ...]] = ("src",)

    def accesses(self) -> tuple[Access, ...]:
        return (self.read("src", self.param("count")), self.written("dst", self.param("count")))

    def cost(self) -> tuple[Cost, ...]:
        return (Cost.of(self.CPP.partition("(")[0], self.param("count")),)

    def run(self, core: Core) -> None:
        n = core.int(self.param("count"))
        core.span(self.dst, n)[:] = type(self).NUMPY(core.span(self.src, n))


@irdl_op_definition
class ExpOp(UnaryOp):
    """e to the power of src."""

    name = "ascendc.exp"
    CPP: ClassVar[str] = "Exp({dst}, {src}, {count})"
    NUMPY: ClassVar[Callable[[Any], Any]] = np.exp


@irdl_op_definition
class LnOp(UnaryOp):
    """Natural logarithm."""

    name = "ascendc.ln"
    CPP: ClassVar[str] = "Ln({dst}, {src}, {count})"
    NUMPY: ClassVar[Callable[[Any], Any]] = np.log


@irdl_op_definition
class AbsOp(UnaryOp):
    """Absolute value."""

    name = "ascendc.abs"
    CPP: ClassVar[str] = "Abs({dst}, {src}, {count})"
    NUMPY: ClassVar[Callable[[Any], Any]] = np.abs


@irdl_op_definition
class SqrtOp(UnaryOp):
    """Square root."""

    name = "ascendc.sqrt"
    CPP: ClassVar[str] = "Sqrt({dst}, {src}, {count})"
    NUMPY: ClassVar[Callable[[Any], Any]] = np.sqrt


@irdl_op_definition
class ReluOp(UnaryOp):
    """max(src, 0)."""

    name = "ascendc.relu"
    CPP: ClassVar[str] = "Relu({dst}, {src}, {count})"
    NUMPY: ClassVar[Callable[[Any], Any]] = staticmethod(lambda x: np.maximum(x, x.dtype.type(0)))
    DTYPES: ClassVar[dict[str, tuple[dt.DType, ...]]] = {"src": (*FLOAT, dt.I32)}


@irdl_op_definition
class ReciprocalOp(UnaryOp):
    """Approximate 1 / src (relative error up to 2e-4 in f32, 2e-3 in f16): `recip1` is the exact form."""

    name = "ascendc.reciprocal"
    CPP: ClassVar[str] = "Reciprocal({dst}, {src}, {count})"
    NUMPY: ClassVar[Callable[[Any], Any]] = np.reciprocal


@irdl_op_definition
class RsqrtOp(UnaryOp):
    """Approximate 1 / sqrt(src) (relative error as Reciprocal's): `rsqrt1` is the exact form."""

    name = "ascendc.rsqrt"
    CPP: ClassVar[str] = "Rsqrt({dst}, {src}, {count})"
    NUMPY: ClassVar[Callable[[Any], Any]] = staticmethod(lambda x: x.dtype.type(1) / np.sqrt(x))


class BinaryOp(ApiOp):
    """Base of `dst[i] = a[i] op b[i]`; dst may be a or b."""

    dst = operand_def(LocalType)
    a = operand_def(LocalType)
    b = operand_def(LocalType)
    count = prop_def(ExprAttr)

    NUMPY: ClassVar[Callable[[Any, Any], Any]]
    DTYPES: ClassVar[dict[str, tuple[dt.DType, ...]]] = {"a": NUMBER}
    SAME: ClassVar[tuple[tuple[str, ...], ...]] = (("dst", "a", "b"),)
    INPLACE: ClassVar[tuple[str, ...]] = ("a", "b")

    def accesses(self) -> tuple[Access, ...]:
        n = self.param("count")
        return (self.read("a", n), self.read("b", n), self.written("dst", n))

    def cost(self) -> tuple[Cost, ...]:
        return (Cost.of(self.CPP.partition("(")[0].removeprefix("AscendC::"), self.param("count")),)

    def run(self, core: Core) -> None:
        n = core.int(self.param("count"))
        core.span(self.dst, n)[:] = type(self).NUMPY(core.span(self.a, n), core.span(self.b, n))


@irdl_op_definition
class AddOp(BinaryOp):
    """a + b."""

    name = "ascendc.add"
    CPP: ClassVar[str] = "Add({dst}, {a}, {b}, {count})"
    NUMPY: ClassVar[Callable[[Any, Any], Any]] = np.add


@irdl_op_definition
class SubOp(BinaryOp):
    """a - b."""

    name = "ascendc.sub"
    CPP: ClassVar[str] = "Sub({dst}, {a}, {b}, {count})"
    NUMPY: ClassVar[Callable[[Any, Any], Any]] = np.subtract


@irdl_op_definition
class MulOp(BinaryOp):
    """a * b."""

    name = "ascendc.mul"
    CPP: ClassVar[str] = "Mul({dst}, {a}, {b}, {count})"
    NUMPY: ClassVar[Callable[[Any, Any], Any]] = np.multiply


@irdl_op_definition
class DivOp(BinaryOp):
    """a / b."""

    name = "ascendc.div"
    CPP: ClassVar[str] = "Div({dst}, {a}, {b}, {count})"
    NUMPY: ClassVar[Callable[[Any, Any], Any]] = np.divide
    DTYPES: ClassVar[dict[str, tuple[dt.DType, ...]]] = {"a": FLOAT}


@irdl_op_definition
class MaxOp(BinaryOp):
    """The larger of a and b; what the machine does with NaN is not documented, here NaN wins."""

    name = "ascendc.max"
    CPP: ClassVar[str] = "Max({dst}, {a}, {b}, {count})"
    NUMPY: ClassVar[Callable[[Any, Any], Any]] = np.maximum


@irdl_op_definition
class MinOp(BinaryOp):
    """The smaller of a and b; what the machine does with NaN is not documented, here NaN wins."""

    name = "ascendc.min"
    CPP: ClassVar[str] = "Min({dst}, {a}, {b}, {count})"
    NUMPY: ClassVar[Callable[[Any, Any], Any]] = np.minimum


WORDS = (dt.I16, dt.U16)


class _BitsOp(BinaryOp):
    """Base of bitwise operations: 16-bit words only, so wider integers are reinterpreted."""

    DTYPES: ClassVar[dict[str, tuple[dt.DType, ...]]] = {"a": WORDS}

    def cost(self) -> tuple[Cost, ...]:
        return (Cost.of(self.CPP.partition("(")[0], self.param("count") // 2),)


@irdl_op_definition
class AndOp(_BitsOp):
    """a & b."""

    name = "ascendc.and"
    CPP: ClassVar[str] = "And({dst}, {a}, {b}, {count})"
    NUMPY: ClassVar[Callable[[Any, Any], Any]] = np.bitwise_and


@irdl_op_definition
class OrOp(_BitsOp):
    """a | b."""

    name = "ascendc.or"
    CPP: ClassVar[str] = "Or({dst}, {a}, {b}, {count})"
    NUMPY: ClassVar[Callable[[Any, Any], Any]] = np.bitwise_or


@irdl_op_definition
class NotOp(UnaryOp):
    """~src, on 16-bit words."""

    name = "ascendc.not"
    CPP: ClassVar[str] = "Not({dst}, {src}, {count})"
    NUMPY: ClassVar[Callable[[Any], Any]] = np.invert
    DTYPES: ClassVar[dict[str, tuple[dt.DType, ...]]] = {"src": WORDS}

    def cost(self) -> tuple[Cost, ...]:
        return (Cost.of("Not", self.param("count") // 2),)


class ScalarOp(ApiOp):
    """Base of `dst[i] = src[i] op scalar`; dst may be src."""

    dst = operand_def(LocalType)
    src = operand_def(LocalType)
    scalar = prop_def(ScalarAttr)
    count = prop_def(ExprAttr)

    NUMPY: ClassVar[Callable[[Any, Any], Any]]
    DTYPES: ClassVar[dict[str, tuple[dt.DType, ...]]] = {"src": NUMBER}
    SAME: ClassVar[tuple[tuple[str, ...], ...]] = (("dst", "src"),)
    INPLACE: ClassVar[tuple[str, ...]] = ("src",)

    def accesses(self) -> tuple[Access, ...]:
        return (self.read("src", self.param("count")), self.written("dst", self.param("count")))

    def cost(self) -> tuple[Cost, ...]:
        return (Cost.of(self.CPP.partition("(")[0], self.param("count")),)

    def run(self, core: Core) -> None:
        n = core.int(self.param("count"))
        src = core.span(self.src, n)
        core.span(self.dst, n)[:] = type(self).NUMPY(src, core.scalar(self.scalar.data, src.dtype))


@irdl_op_definition
class AddsOp(ScalarOp):
    """src + scalar."""

    name = "ascendc.adds"
    CPP: ClassVar[str] = "Adds({dst}, {src}, {scalar}, {count})"
    NUMPY: ClassVar[Callable[[Any, Any], Any]] = np.add


@irdl_op_definition
class MulsOp(ScalarOp):
    """src * scalar."""

    name = "ascendc.muls"
    CPP: ClassVar[str] = "Muls({dst}, {src}, {scalar}, {count})"
    NUMPY: ClassVar[Callable[[Any, Any], Any]] = np.multiply


@irdl_op_definition
class MaxsOp(ScalarOp):
    """The larger of src and scalar."""

    name = "ascendc.maxs"
    CPP: ClassVar[str] = "Maxs({dst}, {src}, {scalar}, {count})"
    NUMPY: ClassVar[Callable[[Any, Any], Any]] = np.maximum


@irdl_op_definition
class MinsOp(ScalarOp):
    """The smaller of src and scalar."""

    name = "ascendc.mins"
    CPP: ClassVar[str] = "Mins({dst}, {src}, {scalar}, {count})"
    NUMPY: ClassVar[Callable[[Any, Any], Any]] = np.minimum


@irdl_op_definition
class LeakyReluOp(ScalarOp):
    """src where src >= 0, else src * scalar."""

    name = "ascendc.leaky_relu"
    CPP: ClassVar[str] = "LeakyRelu({dst}, {src}, {scalar}, {count})"
    NUMPY: ClassVar[Callable[[Any, Any], Any]] = staticmethod(lambda x, s: np.where(x >= 0, x, x * s))
    DTYPES: ClassVar[dict[str, tuple[dt.DType, ...]]] = {"src": FLOAT}


@irdl_op_definition
class DuplicateOp(ApiOp):
    """`dst[i] = scalar`."""

    name = "ascendc.duplicate"
    dst = operand_def(LocalType)
    scalar = prop_def(ScalarAttr)
    count = prop_def(ExprAttr)

    CPP: ClassVar[str] = "Duplicate({dst}, {scalar}, {count})"
    DTYPES: ClassVar[dict[str, tuple[dt.DType, ...]]] = {"dst": MOVABLE}

    def accesses(self) -> tuple[Access, ...]:
        return (self.written("dst", self.param("count")),)

    def cost(self) -> tuple[Cost, ...]:
        return (Cost.of("Duplicate", self.param("count")),)

    def run(self, core: Core) -> None:
        dst = core.span(self.dst, core.int(self.param("count")))
        dst[:] = core.scalar(self.scalar.data, dst.dtype)


@irdl_op_definition
class CreateVecIndexOp(ApiOp):
    """`dst[i] = first + i`."""

    name = "ascendc.create_vec_index"
    dst = operand_def(LocalType)
    first = prop_def(ScalarAttr)
    count = prop_def(ExprAttr)

    CPP: ClassVar[str] = "CreateVecIndex({dst}, {first}, {count})"
    DTYPES: ClassVar[dict[str, tuple[dt.DType, ...]]] = {"dst": NUMBER}

    def accesses(self) -> tuple[Access, ...]:
        return (self.written("dst", self.param("count")),)

    def cost(self) -> tuple[Cost, ...]:
        return (Cost.of("CreateVecIndex", self.param("count")),)

    def run(self, core: Core) -> None:
        dst = core.span(self.dst, core.int(self.param("count")))
        dst[:] = core.scalar(self.first.data, dst.dtype) + np.arange(dst.size).astype(dst.dtype)


R, F, C, A, Z, N = (
    RoundMode.RINT,
    RoundMode.FLOOR,
    RoundMode.CEIL,
    RoundMode.ROUND,
    RoundMode.TRUNC,
    RoundMode.NONE,
)
CAST_PAIRS: dict[tuple[dt.DType, dt.DType], tuple[RoundMode, ...]] = {
    (dt.I8, dt.F16): (N,), (dt.U8, dt.F16): (N,), (dt.I16, dt.F16): (R, F, C, A, Z, N), (dt.I16,
    dt.F32): (N,),
    (dt.F16, dt.I8): (R, F, C, A, Z, N), (dt.F16, dt.U8): (R, F, C, A, Z, N), (dt.F16, dt.I16): (R, F, C, A,
    Z),
    (dt.F16, dt.I32): (R, F, C, A, Z), (dt.F16, dt.F32): (N,), (dt.BF16, dt.F32): (N,), (dt.BF16, dt.I32): (R,
    F, C, A, Z),
    (dt.I64, dt.I32): (N,), (dt.I32, dt.I16): (N,), (dt.I32, dt.F32): (R, F, C, A, Z, N), (dt.I32,
    dt.I64): (N,),
    (dt.F32, dt.I16): (R, F, C, A, Z), (dt.F32, dt.I32): (R, F, C, A, Z), (dt.F32, dt.I64): (R, F, C, A, Z),
    (dt.F32, dt.F16): (R, F, C, A, Z, N), (dt.F32, dt.BF16): (R, F, C, A, Z), (dt.F32, dt.F32): (R, F, C, A,
    Z),
    (dt.I64, dt.F32): (R, F, C, A, Z),
}  # fmt: skip
"""Conversions that one Cast instruction of A2 does, (source, target) -> rounding modes (asc-devkit, Cast)."""


def convert(values: np.ndarray, target: dt.DType, mode: RoundMode) -> np.ndarray:
    """Convert as Cast does: `mode` rounds to integers and to narrower floats; integers saturate, NaN becomes
    0.

    NONE means to nearest even wherever rounding is needed.
    """
    if target.is_int:
        return _to_int(values, np.iinfo(target.numpy), mode).astype(target.numpy)
    if values.dtype == target.numpy:
        return mode.numpy(values)
    nearest = values.astype(target.numpy)
    if mode in (RoundMode.NONE, RoundMode.RINT):
        return nearest
    # directed: the neighbours of the exact value, which float64 holds for all sources but int64 beyond 2^53
    exact, wide = values.astype(np.float64), nearest.astype(np.float64)
    below = np.where(wide > exact, np.nextafter(nearest, target.numpy.type(-np.inf)), nearest)
    above = np.where(wide < exact, np.nextafter(nearest, target.numpy.type(np.inf)), nearest)
    match mode:
        case RoundMode.FLOOR:
            return below
        case RoundMode.CEIL:
            return above
        case RoundMode.TRUNC:
            return np.where(exact < 0, above, below)
        case _:  # half away from zero
            tie = exact - below.astype(np.float64) == above.astype(np.float64) - exact
            return np.where(tie, np.where(exact < 0, below, above), nearest)


def _to_int(values: np.ndarray, info: np.iinfo, mode: RoundMode) -> np.ndarray:
    if values.dtype.kind in "iu":
        return np.clip(values.astype(np.int64), info.min, info.max)
    whole = mode.numpy(values.astype(np.float64))
    whole = np.where(np.isnan(whole), 0.0, whole)
    inside = np.where(np.abs(whole) < 2.0**63, whole, 0.0).astype(np.int64)
    return np.where(
        whole >= 2.0**63,
        info.max,
        np.where(whole <= -(2.0**63), info.min, np.clip(inside, info.min, info.max)),
    )


@irdl_op_definition
class CastOp(ApiOp):
    """`dst[i] = src[i]` converted, in one instruction."""

    name = "ascendc.cast"
    dst = operand_def(LocalType)
    src = operand_def(LocalType)
    mode = prop_def(RoundModeAttr)
    count = prop_def(ExprAttr)

    CPP: ClassVar[str] = "Cast({dst}, {src}, {mode}, {count})"
    INPLACE: ClassVar[tuple[str, ...]] = ("src",)

    def verify_(self) -> None:
        super().verify_()
        pair = (local_dtype(self.src), local_dtype(self.dst))
        modes = CAST_PAIRS.get(pair)
        if modes is None:
            targets = ", ".join(d.name for s, d in CAST_PAIRS if s is pair[0]) or "nothing"
            raise invalid(
                f"ascendc.cast: no instruction converts {pair[0].name} to {pair[1].name}",
                expected=f"{pair[0].name} to {targets}",
                got=pair[1].name,
                hint="ascendc.cast_tile takes two steps where needed",
            )
        if self.mode.data not in modes:
            raise invalid(
                f"ascendc.cast: rounding from {pair[0].name} to {pair[1].name}",
                expected=" or ".join(m.value for m in modes),
                got=self.mode.data.value,
            )

    def accesses(self) -> tuple[Access, ...]:
        return (self.read("src", self.param("count")), self.written("dst", self.param("count")))

    def cost(self) -> tuple[Cost, ...]:
        return (Cost.of("Cast", self.param("count")),)

    def run(self, core: Core) -> None:
        n = core.int(self.param("count"))
        core.span(self.dst, n)[:] = convert(core.span(self.src, n), local_dtype(self.dst), self.mode.data)


OPS = (
    ExpOp, LnOp, AbsOp, SqrtOp, ReluOp, ReciprocalOp, RsqrtOp, AddOp, SubOp, MulOp, DivOp, MaxOp, MinOp,
    AddsOp, MulsOp,
    MaxsOp, MinsOp, AndOp, OrOp, NotOp, LeakyReluOp, DuplicateOp, CreateVecIndexOp, CastOp,
)  # fmt: skip
