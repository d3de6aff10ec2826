# SPDX-License-Identifier: Apache-2.0
"""Random bits on the vector core: `gaf_random.h` of the device library."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from xdsl.irdl import irdl_op_definition, operand_def, prop_def

from gaf.dialects.ascendc.api import Access, ApiOp
from gaf.dialects.ascendc.cycles import Cost
from gaf.dialects.ascendc.types import LocalType
from gaf.dialects.common import dtype as dt
from gaf.dialects.common.attributes import ExprAttr
from gaf.dialects.common.index import Expr, ExprLike, maximum, minimum, round_up
from gaf.dialects.common.random import ROUNDS, random24

if TYPE_CHECKING:
    from gaf.dialects.ascendc.interpreter import Core

CHUNK = 1024
"""Elements that `gaf::Random24` works on at a time: its scratch is seven tiles of them."""

TEMPORARIES = 7


@irdl_op_definition
class Random24Op(ApiOp):
    """`dst[i]` = the upper 24 bits of Philox2x32-10 of the counter (index[i], salt[i]) under `key`.

    dst may be index. All numbers are int32 whose bits count as unsigned.
    """

    name = "ascendc.random24"
    dst = operand_def(LocalType)
    index = operand_def(LocalType)
    salt = operand_def(LocalType)
    tmp = operand_def(LocalType)
    key = prop_def(ExprAttr)
    count = prop_def(ExprAttr)

    HEADER: ClassVar[str] = "gaf_random.h"
    CPP: ClassVar[str] = "gaf::Random24({dst}, {index}, {salt}, {tmp}, {key}, {count})"
    DTYPES: ClassVar[dict[str, tuple[dt.DType, ...]]] = {
        "dst": (dt.I32,), "index": (dt.I32,), "salt": (dt.I32,), "tmp": (dt.I32,),
    }  # fmt: skip
    INPLACE: ClassVar[tuple[str, ...]] = ("index",)

    @staticmethod
    def tmp_elements(count: ExprLike) -> Expr:
        """`gaf::Random24Tmp`: int32 elements of tmp."""
        return round_up(minimum(maximum(count, 1), CHUNK), 64) * TEMPORARIES

    def accesses(self) -> tuple[Access, ...]:
        n = self.param("count")
        return (
            self.read("index", n),
            self.read("salt", n),
            self.written("tmp", self.tmp_elements(n)),
            self.written("dst", n),
        )

    def cost(self) -> tuple[Cost, ...]:
        """What the device function issues in every round: products, shifts, sums, and logic on 16-bit words."""
        n = self.param("count")
        calls = round_up(n, CHUNK) // CHUNK * ROUNDS
        each = {"Muls": 4, "ShiftRight": 4, "ShiftLeft": 2, "Add": 5, "And": 5, "Or": 4, "Sub": 2, "Duplicate": 1}
        return tuple(Cost.of(name, n * (ROUNDS * times), calls * times) for name, times in each.items())

    def run(self, core: Core) -> None:
        n = core.int(self.param("count"))
        result = random24(core.span(self.index, n).copy(), core.span(self.salt, n), core.int(self.param("key")))
        core.clobber(self.tmp, core.int(self.tmp_elements(n)))
        core.span(self.dst, n)[:] = result


OPS = (Random24Op,)
