# SPDX-License-Identifier: Apache-2.0
"""The cube core: blocks of a matrix product by the device library's BlockMmad."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def

from gaf.dialects.ascendc.api import ApiOp, AscendOp, Cpp, local_dtype
from gaf.dialects.ascendc.attributes import KernelKind, Pipe, cpp_type, invalid
from gaf.dialects.ascendc.cycles import Cost
from gaf.dialects.ascendc.kernel import core_of
from gaf.dialects.ascendc.types import GmType, MmadType
from gaf.dialects.common import dtype as dt
from gaf.dialects.common.attributes import ExprAttr
from gaf.dialects.common.index import Expr, ExprLike, minimum, round_up

if TYPE_CHECKING:
    from gaf.dialects.ascendc.interpreter import Core

MAX_M, MAX_N = 128, 256
"""Largest block of BlockMmad: 128 x 256 floats fill the 128 KiB of L0C."""

PANEL_BYTES = 512
"""Bytes of k that an L1 panel holds per row (`gaf_cube.h`)."""


KEPT_CHUNKS = 4
"""Pieces that a left operand which stays in L1 is loaded in at most (`gaf_cube.h`)."""

STRIP = 128
"""Columns of one tile of L0C (`gaf_cube.h`)."""


@irdl_op_definition
class InitMmadOp(AscendOp):
    """`%mm = ascendc.init_mmad [m = 128, n = 256] : !ascendc.mmad<f16, nt, f32>`: for blocks up to m x n.

    With `k`, the left operand of a block, [m, k] in global memory, stays in L1 for the blocks after it that have the
    same; nothing writes it while the object is in use, and `ascendc.release_mmad` ends that.
    """

    name = "ascendc.init_mmad"
    m = prop_def(ExprAttr)
    n = prop_def(ExprAttr)
    k = opt_prop_def(ExprAttr)
    mmad = result_def(MmadType)

    @classmethod
    def l1_bytes(cls, m: ExprLike, n: ExprLike, kept_bytes: int = 0) -> Expr:
        """Bytes of L1: two panels of each operand, or all of the left one if its rows of `kept_bytes` stay."""
        panels = -(-kept_bytes // PANEL_BYTES)
        chunk = -(-panels // KEPT_CHUNKS)
        held = -(-panels // chunk) * chunk if kept_bytes else 2
        return round_up(m, 16) * (held * PANEL_BYTES) + round_up(n, 16) * (2 * PANEL_BYTES)

    @property
    def kept_bytes(self) -> int:
        """Bytes of a row of the left operand that stays in L1; 0: none does."""
        kind = self.mmad.type
        assert isinstance(kind, MmadType)
        return (self.param("k").as_int() or 0) * dt.of(kind.input).bytes if self.k is not None else 0

    @classmethod
    def l0c_bytes(cls, m: ExprLike, n: ExprLike) -> Expr:
        """Bytes of L0C: two strips of `STRIP` columns of floats."""
        return round_up(m, 16) * minimum(round_up(n, 16), STRIP) * 8

    def verify_(self) -> None:
        if core_of(self) is not KernelKind.AIC:
            raise invalid(
                "ascendc.init_mmad runs on the cube core",
                expected="ascendc.section aic, or a kernel of kind aic",
            )
        if self.parent_op() is not None and self.parent_op().name not in (
            "ascendc.kernel",
            "ascendc.section",
        ):
            raise invalid("ascendc.init_mmad in a loop", expected="at the top of a kernel or section")
        for param, limit in (("m", MAX_M), ("n", MAX_N)):
            value = self.param(param).as_int()
            if value is not None and not 1 <= value <= limit:
                raise invalid(f"ascendc.init_mmad: {param}", expected=f"1..{limit}", got=value)
        if self.k is not None and (self.param("k").as_int() or 0) < 1:
            raise invalid("ascendc.init_mmad: k", expected="a number >= 1", got=self.param("k"))
        if self.k is not None and self.mmad.type.trans[0]:
            raise invalid("ascendc.init_mmad: a left operand that stays in L1 is stored by rows", got=self.mmad.type)

    def cpp(self, cpp: Cpp) -> Sequence[str]:
        kind = self.mmad.type
        flags = ", ".join("true" if t else "false" for t in kind.trans)
        name = cpp.declare(self.mmad)
        return [
            f"gaf::BlockMmad<{cpp_type(kind.input)}, {flags}, {cpp_type(kind.output)}> {name};",
            f"{name}.Init(&pipe, {', '.join(cpp.expr(self.param(p)) for p in ('m', 'n', 'k') if p in self.properties)});",
        ]

    def run(self, core: Core) -> None:
        core.values[self.mmad] = (core.int(self.param("m")), core.int(self.param("n")))


@irdl_op_definition
class ReleaseMmadOp(ApiOp):
    """`ascendc.release_mmad %mm`: the left operand that stayed in L1 is no longer needed."""

    name = "ascendc.release_mmad"
    mmad = operand_def(MmadType)

    PIPE: ClassVar[Pipe] = Pipe.S
    HEADER: ClassVar[str] = "gaf_cube.h"
    CPP: ClassVar[str] = "{mmad}.Release()"

    def run(self, core: Core) -> None:
        pass


@irdl_op_definition
class ShareMmadOp(AscendOp):
    """`%pv = ascendc.share_mmad %mm : !ascendc.mmad<f16, nn, f32>`: products with another operand layout or type
    in the buffers of `%mm`, for blocks up to the same size. L0 has room for the buffers of one object only.
    """

    name = "ascendc.share_mmad"
    first = operand_def(MmadType)
    mmad = result_def(MmadType)

    def verify_(self) -> None:
        if not isinstance(self.first.owner, InitMmadOp):
            raise invalid("ascendc.share_mmad: the object has no buffers", expected="ascendc.init_mmad")

    def cpp(self, cpp: Cpp) -> Sequence[str]:
        kind, first = self.mmad.type, cpp.value(self.first)
        flags = ", ".join("true" if t else "false" for t in kind.trans)
        name = cpp.declare(self.mmad)
        return [
            f"gaf::BlockMmad<{cpp_type(kind.input)}, {flags}, {cpp_type(kind.output)}> {name};",
            f"{name}.Share({first});",
        ]

    def run(self, core: Core) -> None:
        core.values[self.mmad] = core.values[self.first]


@irdl_op_definition
class SetHf32Op(ApiOp):
    """`ascendc.set_hf32 [on = 1]`: products of f32 blocks round their operands to HF32 from here on, or no longer.

    HF32 keeps 11 of 23 bits of mantissa and doubles the speed (asc-devkit, HF32).
    """

    name = "ascendc.set_hf32"
    on = prop_def(ExprAttr)

    PIPE: ClassVar[Pipe] = Pipe.S
    HEADER: ClassVar[str] = "gaf_cube.h"

    def verify_(self) -> None:
        super().verify_()
        if core_of(self) is not KernelKind.AIC:
            raise invalid("ascendc.set_hf32 runs on the cube core", expected="ascendc.section aic around it")
        if self.param("on").as_int() not in (0, 1):
            raise invalid("ascendc.set_hf32: on", expected="0 or 1", got=self.param("on"))

    def cpp(self, cpp: Cpp) -> Sequence[str]:
        return [f"SetHF32Mode({'true' if self.param('on') == 1 else 'false'});"]

    def run(self, core: Core) -> None:
        core.hf32 = self.param("on") == 1


def round_hf32(x: np.ndarray) -> np.ndarray:
    """f32 rounded to 11 bits of mantissa, to nearest, ties to zero (the mode that the cube starts with)."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    special = (bits & np.uint32(0x7F800000)) == np.uint32(0x7F800000)
    rounded = (bits + np.uint32(0x7FF)) & np.uint32(0xFFFFF000)
    return np.where(special, bits, rounded).view(np.float32)


class MmadOp(ApiOp):
    """Base: `c[m, n] = A * B` in f32 accumulation: c at `c_at` with row pitch `ldc` >= roundUp(n, 16), and so on.

    A is [m, k] with row pitch lda ([k, m] when stored transposed). Columns n .. roundUp(n, 16) of c become 0.
    """

    mmad = operand_def(MmadType)
    c = operand_def(GmType)
    a = operand_def(GmType)
    b = operand_def(GmType)
    c_at = prop_def(ExprAttr)
    ldc = prop_def(ExprAttr)
    a_at = prop_def(ExprAttr)
    lda = prop_def(ExprAttr)
    b_at = prop_def(ExprAttr)
    ldb = prop_def(ExprAttr)
    m = prop_def(ExprAttr)
    n = prop_def(ExprAttr)
    k = prop_def(ExprAttr)

    PIPE: ClassVar[Pipe] = Pipe.M
    HEADER: ClassVar[str] = "gaf_cube.h"

    def verify_(self) -> None:
        super().verify_()
        kind = self.mmad.type
        assert isinstance(kind, MmadType)
        for name, want in (("c", kind.output), ("a", kind.input), ("b", kind.input)):
            got = local_dtype(self.operand_named(name))
            if got is not dt.of(want):
                raise invalid(
                    f"{self.name}: element type of {name}", expected=dt.of(want).name, got=got.name
                )
        ldc, n = self.param("ldc").as_int(), self.param("n").as_int()
        if ldc is not None and n is not None and ldc < -(-n // 16) * 16:
            raise invalid(
                f"{self.name}: row pitch of c",
                expected=f">= {-(-n // 16) * 16}",
                got=ldc,
                hint="Fixpipe writes whole 16-column fractals: use a workspace ring with a rounded pitch",
            )

    def cost(self) -> tuple[Cost, ...]:
        kind = self.mmad.type
        assert isinstance(kind, MmadType)
        block = round_up(self.param("m"), 16) * round_up(self.param("n"), 16) * round_up(self.param("k"), 16)
        return (Cost.of(f"Mmad.{dt.of(kind.input).name}", block),)

    def right(self, core: Core, k: int, n: int) -> np.ndarray:
        """B as the interpreter reads it, [k, n]."""
        raise NotImplementedError(self.name)

    def run(self, core: Core) -> None:
        m, n, k = (core.int(self.param(p)) for p in "mnk")
        max_m, max_n = core.values[self.mmad]
        if not (0 < m <= max_m and 0 < n <= max_n and k > 0):
            raise core.error(self, f"block {m} x {n} x {k} outside of 1..{max_m} x 1..{max_n} x 1..")
        ldc = core.int(self.param("ldc"))
        if ldc < -(-n // 16) * 16:
            raise core.error(self, f"row pitch {ldc} of c is below {-(-n // 16) * 16}")
        kind = self.mmad.type
        assert isinstance(kind, MmadType)
        ta, _ = kind.trans
        lda = core.int(self.param("lda"))
        a = core.gm(self.a).read(self, core, core.int(self.param("a_at")), *((k, m) if ta else (m, k)), lda)
        a32, b32 = a.astype(np.float32), self.right(core, k, n).astype(np.float32)
        if core.hf32 and dt.of(kind.input) is dt.F32:
            a32, b32 = round_hf32(a32), round_hf32(b32)
        block = np.zeros((m, -(-n // 16) * 16), np.float32)
        block[:, :n] = (a32.T if ta else a32) @ b32
        target = local_dtype(self.c)
        core.gm(self.c).write(self, core, core.int(self.param("c_at")), ldc, block.astype(target.numpy))


@irdl_op_definition
class MmadRunOp(MmadOp):
    """A product with B [k, n], row pitch ldb ([n, k] when stored transposed)."""

    name = "ascendc.mmad_run"

    CPP: ClassVar[str] = "{mmad}.Run({c}, {ldc}, {a}, {lda}, {b}, {ldb}, {m}, {n}, {k})"

    def right(self, core: Core, k: int, n: int) -> np.ndarray:
        kind = self.mmad.type
        assert isinstance(kind, MmadType)
        at, pitch = core.int(self.param("b_at")), core.int(self.param("ldb"))
        if kind.trans[1]:
            return core.gm(self.b).read(self, core, at, n, k, pitch).T
        return core.gm(self.b).read(self, core, at, k, n, pitch)


@irdl_op_definition
class MmadWindowsOp(MmadOp):
    """A product with the rows of B in windows of an image that lies in memory line by line.

    Row `(o * taps + t) * inner + i` of B, n elements, starts at `o * ldb + t * dilation // stride * line +
    t * dilation % stride * phase + i * step` behind `b_at`.
    """

    name = "ascendc.mmad_windows"
    taps = prop_def(ExprAttr)
    inner = prop_def(ExprAttr)
    line = prop_def(ExprAttr)
    phase = prop_def(ExprAttr)
    step = prop_def(ExprAttr)
    dilation = prop_def(ExprAttr)
    stride = prop_def(ExprAttr)

    CPP: ClassVar[str] = (
        "{mmad}.Run({c}, {ldc}, {a}, {lda}, {b}, "
        "gaf::WindowRows{{{taps}, {inner}, {ldb}, {line}, {phase}, {step}, {dilation}, {stride}}}, {m}, {n}, {k})"
    )

    def verify_(self) -> None:
        super().verify_()
        kind = self.mmad.type
        assert isinstance(kind, MmadType)
        if kind.trans[1]:
            raise invalid("ascendc.mmad_windows: B is stored by rows", expected="an mmad of kind nn or tn", got=kind)
        for name in ("taps", "inner", "dilation", "stride"):
            value = self.param(name).as_int()
            if value is not None and value < 1:
                raise invalid(f"ascendc.mmad_windows: {name}", expected=">= 1", got=value)

    def right(self, core: Core, k: int, n: int) -> np.ndarray:
        taps, inner, outer, line, phase, step, dilation, stride = (
            core.int(self.param(p))
            for p in ("taps", "inner", "ldb", "line", "phase", "step", "dilation", "stride")
        )
        row = np.arange(k)
        o, at = np.divmod(row, taps * inner)
        t, i = np.divmod(at, inner)
        lines, phases = np.divmod(t * dilation, stride)
        starts = core.int(self.param("b_at")) + o * outer + lines * line + phases * phase + i * step
        return np.concatenate([core.gm(self.b).read(self, core, int(s), 1, n, n) for s in starts])


OPS = (InitMmadOp, ReleaseMmadOp, ShareMmadOp, SetHf32Op, MmadRunOp, MmadWindowsOp)
