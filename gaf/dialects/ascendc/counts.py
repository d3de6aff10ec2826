# SPDX-License-Identifier: Apache-2.0
"""Vector functions of the device library on contiguous floats: comparisons, selection, rounding and mathematics.

Scratch sizes are functions and class methods, so that a plan can ask before the op exists; they equal the `...Bytes`
functions of `gaf_vector.h`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from xdsl.irdl import irdl_op_definition, operand_def, prop_def

from gaf.dialects.ascendc.api import Access, ApiOp
from gaf.dialects.ascendc.attributes import (
    CmpModeAttr,
    RoundModeAttr,
    ScalarAttr,
    invalid,
)
from gaf.dialects.ascendc.cycles import Cost
from gaf.dialects.ascendc.types import LocalType
from gaf.dialects.common import dtype as dt
from gaf.dialects.common.attributes import ExprAttr
from gaf.dialects.common.index import Expr, ExprLike, expr, maximum, minimum, round_up
from gaf.dialects.common.scalar import FUNCTIONS

if TYPE_CHECKING:
    from gaf.dialects.ascendc.interpreter import Core

F32 = (dt.F32,)


class CountOp(ApiOp):
    """Base of device-library functions on `count` contiguous floats."""

    count = prop_def(ExprAttr)

    HEADER: ClassVar[str] = "gaf_vector.h"


def compare_bytes(count: ExprLike) -> Expr:
    """Bytes of tmp of compare01, compare01s and select01: a bit per element and two staged tails."""
    return round_up(round_up(count, 256) // 8, 32) + 2048


class _CompareOp(CountOp):
    """Base of the comparisons to 1.0 and 0.0."""

    tmp_bytes = staticmethod(compare_bytes)

    def cost(self) -> tuple[Cost, ...]:
        n = self.param("count")
        return Cost.of("Compare", n), Cost.of("Duplicate", n), Cost.of("Select", n)


@irdl_op_definition
class Compare01Op(_CompareOp):
    """`dst[i] = a[i] cmp b[i] ? 1 : 0`; dst may be a or b. Comparisons with NaN are false, ne is true."""

    name = "ascendc.compare01"
    dst = operand_def(LocalType)
    a = operand_def(LocalType)
    b = operand_def(LocalType)
    tmp = operand_def(LocalType)
    mode = prop_def(CmpModeAttr)

    CPP: ClassVar[str] = "gaf::Compare01<{mode}>({dst}, {a}, {b}, {tmp}, {count})"
    DTYPES: ClassVar[dict[str, tuple[dt.DType, ...]]] = {"dst": F32, "a": F32, "b": F32, "tmp": (dt.U8,)}
    INPLACE: ClassVar[tuple[str, ...]] = ("a", "b")

    def accesses(self) -> tuple[Access, ...]:
        n = self.param("count")
        return (
            self.read("a", n),
            self.read("b", n),
            self.written("tmp", compare_bytes(n)),
            self.written("dst", n),
        )

    def run(self, core: Core) -> None:
        n = core.int(self.param("count"))
        result = self.mode.data.numpy(core.span(self.a, n), core.span(self.b, n))
        core.clobber(self.tmp, core.int(compare_bytes(n)))
        core.span(self.dst, n)[:] = result


@irdl_op_definition
class Compare01SOp(_CompareOp):
    """`dst[i] = a[i] cmp scalar ? 1 : 0`; dst may be a."""

    name = "ascendc.compare01s"
    dst = operand_def(LocalType)
    a = operand_def(LocalType)
    tmp = operand_def(LocalType)
    mode = prop_def(CmpModeAttr)
    scalar = prop_def(ScalarAttr)

    CPP: ClassVar[str] = "gaf::Compare01S<{mode}>({dst}, {a}, {scalar}, {tmp}, {count})"
    DTYPES: ClassVar[dict[str, tuple[dt.DType, ...]]] = {"dst": F32, "a": F32, "tmp": (dt.U8,)}
    INPLACE: ClassVar[tuple[str, ...]] = ("a",)

    def accesses(self) -> tuple[Access, ...]:
        n = self.param("count")
        return self.read("a", n), self.written("tmp", compare_bytes(n)), self.written("dst", n)

    def run(self, core: Core) -> None:
        n = core.int(self.param("count"))
        a = core.span(self.a, n)
        result = self.mode.data.numpy(a, core.scalar(self.scalar.data, a.dtype))
        core.clobber(self.tmp, core.int(compare_bytes(n)))
        core.span(self.dst, n)[:] = result


@irdl_op_definition
class Select01Op(_CompareOp):
    """`dst[i] = cond[i] != 0 ? a[i] : b[i]`; dst may be a or b. The side not chosen has no influence."""

    name = "ascendc.select01"
    dst = operand_def(LocalType)
    cond = operand_def(LocalType)
    a = operand_def(LocalType)
    b = operand_def(LocalType)
    tmp = operand_def(LocalType)

    CPP: ClassVar[str] = "gaf::Select01({dst}, {cond}, {a}, {b}, {tmp}, {count})"
    DTYPES: ClassVar[dict[str, tuple[dt.DType, ...]]] = {
        "dst": F32,
        "cond": F32,
        "a": F32,
        "b": F32,
        "tmp": (dt.U8,),
    }
    INPLACE: ClassVar[tuple[str, ...]] = ("a", "b")

    def accesses(self) -> tuple[Access, ...]:
        n = self.param("count")
        return (
            self.read("cond", n),
            self.read("a", n),
            self.read("b", n),
            self.written("tmp", compare_bytes(n)),
            self.written("dst", n),
        )

    def cost(self) -> tuple[Cost, ...]:
        n = self.param("count")
        return Cost.of("CompareScalar", n), Cost.of("Select", n)

    def run(self, core: Core) -> None:
        n = core.int(self.param("count"))
        result = np.where(core.span(self.cond, n) != 0, core.span(self.a, n), core.span(self.b, n))
        core.clobber(self.tmp, core.int(compare_bytes(n)))
        core.span(self.dst, n)[:] = result


@irdl_op_definition
class RoundToOp(CountOp):
    """`dst[i] = src[i]` rounded to an integral float; dst may be src."""

    name = "ascendc.round_to"
    dst = operand_def(LocalType)
    src = operand_def(LocalType)
    mode = prop_def(RoundModeAttr)

    CPP: ClassVar[str] = "gaf::RoundTo<{mode}>({dst}, {src}, {count})"
    DTYPES: ClassVar[dict[str, tuple[dt.DType, ...]]] = {"dst": F32, "src": F32}
    INPLACE: ClassVar[tuple[str, ...]] = ("src",)

    def verify_(self) -> None:
        super().verify_()
        if self.mode.data.value == "none":
            raise invalid("ascendc.round_to: mode", expected="rint, floor, ceil, round or trunc", got="none")

    def accesses(self) -> tuple[Access, ...]:
        return self.read("src", self.param("count")), self.written("dst", self.param("count"))

    def cost(self) -> tuple[Cost, ...]:
        return (Cost.of("Cast", self.param("count")),)

    def run(self, core: Core) -> None:
        n = core.int(self.param("count"))
        core.span(self.dst, n)[:] = self.mode.data.numpy(core.span(self.src, n))


class MathOp(CountOp):
    """Base of one-operand mathematics with scratch; TEMPORARIES is what the toolkit's function needs."""

    dst = operand_def(LocalType)
    src = operand_def(LocalType)
    tmp = operand_def(LocalType)

    NUMPY: ClassVar[Callable[[Any], Any]]
    TEMPORARIES: ClassVar[int]
    INSTRUCTION: ClassVar[str]
    DTYPES: ClassVar[dict[str, tuple[dt.DType, ...]]] = {"dst": F32, "src": F32, "tmp": (dt.U8,)}

    @classmethod
    def tmp_bytes(cls, count: ExprLike) -> Expr:
        """Bytes of tmp: whole repeats of up to 2048 elements, one set per temporary."""
        return math_bytes(count, cls.TEMPORARIES)

    def accesses(self) -> tuple[Access, ...]:
        n = self.param("count")
        return self.read("src", n), self.written("tmp", self.tmp_bytes(n)), self.written("dst", n)

    def cost(self) -> tuple[Cost, ...]:
        return (Cost.of(self.INSTRUCTION, self.param("count")),)

    def run(self, core: Core) -> None:
        n = core.int(self.param("count"))
        result = type(self).NUMPY(core.span(self.src, n).copy())
        core.clobber(self.tmp, core.int(self.tmp_bytes(n)))
        core.span(self.dst, n)[:] = result


def math_bytes(count: ExprLike, temporaries: int) -> Expr:
    """`gaf::MathBytes`: scratch of the high-level mathematics API."""
    return round_up(minimum(maximum(count, 1), 2048), 64) * (4 * temporaries)


@irdl_op_definition
class Tanh1Op(MathOp):
    """Hyperbolic tangent."""

    name = "ascendc.tanh1"
    CPP: ClassVar[str] = "gaf::Tanh1({dst}, {src}, {tmp}, {count})"
    NUMPY: ClassVar[Callable[[Any], Any]] = np.tanh
    TEMPORARIES: ClassVar[int] = 1
    INSTRUCTION: ClassVar[str] = "Tanh"


@irdl_op_definition
class Erf1Op(MathOp):
    """Error function."""

    name = "ascendc.erf1"
    CPP: ClassVar[str] = "gaf::Erf1({dst}, {src}, {tmp}, {count})"
    NUMPY: ClassVar[Callable[[Any], Any]] = FUNCTIONS["erf"].numpy
    TEMPORARIES: ClassVar[int] = 3
    INSTRUCTION: ClassVar[str] = "Erf"


@irdl_op_definition
class Sin1Op(MathOp):
    """Sine."""

    name = "ascendc.sin1"
    CPP: ClassVar[str] = "gaf::Sin1({dst}, {src}, {tmp}, {count})"
    NUMPY: ClassVar[Callable[[Any], Any]] = np.sin
    TEMPORARIES: ClassVar[int] = 3
    INSTRUCTION: ClassVar[str] = "Sin"


@irdl_op_definition
class Cos1Op(MathOp):
    """Cosine."""

    name = "ascendc.cos1"
    CPP: ClassVar[str] = "gaf::Cos1({dst}, {src}, {tmp}, {count})"
    NUMPY: ClassVar[Callable[[Any], Any]] = np.cos
    TEMPORARIES: ClassVar[int] = 3
    INSTRUCTION: ClassVar[str] = "Cos"


@irdl_op_definition
class Tan1Op(MathOp):
    """Tangent."""

    name = "ascendc.tan1"
    CPP: ClassVar[str] = "gaf::Tan1({dst}, {src}, {tmp}, {count})"
    NUMPY: ClassVar[Callable[[Any], Any]] = np.tan
    TEMPORARIES: ClassVar[int] = 4
    INSTRUCTION: ClassVar[str] = "Tan"


@irdl_op_definition
class Atan1Op(MathOp):
    """Arc tangent."""

    name = "ascendc.atan1"
    CPP: ClassVar[str] = "gaf::Atan1({dst}, {src}, {tmp}, {count})"
    NUMPY: ClassVar[Callable[[Any], Any]] = np.arctan
    TEMPORARIES: ClassVar[int] = 5
    INSTRUCTION: ClassVar[str] = "Atan"


class _RootOp(MathOp):
    """Base of the exact roots: tmp is `count` floats; dst may be src."""

    DTYPES: ClassVar[dict[str, tuple[dt.DType, ...]]] = {"dst": F32, "src": F32, "tmp": F32}
    INPLACE: ClassVar[tuple[str, ...]] = ("src",)

    @classmethod
    def tmp_elements(cls, count: ExprLike) -> Expr:
        """Floats of tmp."""
        return expr(count)

    def accesses(self) -> tuple[Access, ...]:
        n = self.param("count")
        return self.read("src", n), self.written("tmp", n), self.written("dst", n)

    def run(self, core: Core) -> None:
        n = core.int(self.param("count"))
        result = type(self).NUMPY(core.span(self.src, n).copy())
        core.clobber(self.tmp, n)
        core.span(self.dst, n)[:] = result


@irdl_op_definition
class Rsqrt1Op(_RootOp):
    """`1 / sqrt(src)` by Sqrt and Div."""

    name = "ascendc.rsqrt1"
    CPP: ClassVar[str] = "gaf::Rsqrt1({dst}, {src}, {tmp}, {count})"
    NUMPY: ClassVar[Callable[[Any], Any]] = staticmethod(lambda x: np.float32(1) / np.sqrt(x))

    def cost(self) -> tuple[Cost, ...]:
        n = self.param("count")
        return Cost.of("Sqrt", n), Cost.of("Duplicate", n), Cost.of("Div", n)


@irdl_op_definition
class Recip1Op(_RootOp):
    """`1 / src` by Div."""

    name = "ascendc.recip1"
    CPP: ClassVar[str] = "gaf::Recip1({dst}, {src}, {tmp}, {count})"
    NUMPY: ClassVar[Callable[[Any], Any]] = staticmethod(lambda x: np.float32(1) / x)

    def cost(self) -> tuple[Cost, ...]:
        n = self.param("count")
        return Cost.of("Duplicate", n), Cost.of("Div", n)


@irdl_op_definition
class Pow1Op(CountOp):
    """`dst[i] = a[i] ** b[i]`."""

    name = "ascendc.pow1"
    dst = operand_def(LocalType)
    a = operand_def(LocalType)
    b = operand_def(LocalType)
    tmp = operand_def(LocalType)

    CPP: ClassVar[str] = "gaf::Pow1({dst}, {a}, {b}, {tmp}, {count})"
    DTYPES: ClassVar[dict[str, tuple[dt.DType, ...]]] = {"dst": F32, "a": F32, "b": F32, "tmp": (dt.U8,)}

    @classmethod
    def tmp_bytes(cls, count: ExprLike) -> Expr:
        """Bytes of tmp."""
        return math_bytes(count, 5)

    def accesses(self) -> tuple[Access, ...]:
        n = self.param("count")
        return (
            self.read("a", n),
            self.read("b", n),
            self.written("tmp", self.tmp_bytes(n)),
            self.written("dst", n),
        )

    def cost(self) -> tuple[Cost, ...]:
        return (Cost.of("Power", self.param("count")),)

    def run(self, core: Core) -> None:
        n = core.int(self.param("count"))
        result = np.power(core.span(self.a, n), core.span(self.b, n))
        core.clobber(self.tmp, core.int(self.tmp_bytes(n)))
        core.span(self.dst, n)[:] = result


OPS = (
    Compare01Op, Compare01SOp, Select01Op, RoundToOp, Tanh1Op, Erf1Op, Sin1Op, Cos1Op, Tan1Op, Atan1Op, Rsqrt1Op, Recip1Op, Pow1Op,
)  # fmt: skip
