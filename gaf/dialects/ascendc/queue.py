# SPDX-License-Identifier: Apache-2.0
"""Buffers of the vector core: queues and temporary buffers, tensors taken from them, and parts of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from xdsl.ir import Operation
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def

from gaf.dialects.ascendc.api import BLOCK_BYTES, AscendOp, Cpp, local_dtype
from gaf.dialects.ascendc.attributes import Position, cpp_type, invalid
from gaf.dialects.ascendc.types import BufType, GmType, LocalType, QueueType
from gaf.dialects.common.attributes import ExprAttr

if TYPE_CHECKING:
    from gaf.dialects.ascendc.interpreter import Core


class _InitOp(AscendOp):
    """Base of buffer allocations: once per kernel or section, never in a loop."""

    def verify_(self) -> None:
        parent: Operation | None = self.parent_op()
        while parent is not None and parent.name not in ("ascendc.kernel", "ascendc.section"):
            raise invalid(
                f"{self.name} in {parent.name}",
                expected="at the top of a kernel or section",
                hint="InitBuffer never gives memory back, so a loop would run out of it",
            )


@irdl_op_definition
class InitQueueOp(_InitOp):
    """`%q = ascendc.init_queue [bytes = e] : !ascendc.queue<vecin, 2>`: buffers of `bytes` bytes each."""

    name = "ascendc.init_queue"
    bytes = prop_def(ExprAttr)
    queue = result_def(QueueType)

    def cpp(self, cpp: Cpp) -> Sequence[str]:
        kind = self.queue.type
        n = kind.buffers.data
        name = cpp.declare(self.queue, "Queue")
        return [
            f"TQue<{kind.position.data.cpp}, {n}> {name};",
            f"pipe.InitBuffer({name}, {n}, {cpp.expr(self.param('bytes'))});",
        ]

    def run(self, core: Core) -> None:
        core.init_queue(self.queue, core.int(self.param("bytes")))


@irdl_op_definition
class InitBufOp(_InitOp):
    """`%b = ascendc.init_buf [bytes = e] : !ascendc.buf<veccalc>`: memory for temporaries."""

    name = "ascendc.init_buf"
    bytes = prop_def(ExprAttr)
    buf = result_def(BufType)

    def cpp(self, cpp: Cpp) -> Sequence[str]:
        name = cpp.declare(self.buf, "Buf")
        return [
            f"TBuf<{self.buf.type.position.data.cpp}> {name};",
            f"pipe.InitBuffer({name}, {cpp.expr(self.param('bytes'))});",
        ]

    def run(self, core: Core) -> None:
        core.init_buf(self.buf, core.int(self.param("bytes")))


@irdl_op_definition
class BufGetOp(AscendOp):
    """`%t = ascendc.buf_get %b [offset = bytes, count = elements] : !ascendc.local<f32>`: a slot of a buffer.

    `count` is the slot's capacity in elements: no call may reach further, and synchronisation takes the slot
    [offset, offset + count * size) as the memory of the tensor.
    """

    name = "ascendc.buf_get"
    buf = operand_def(BufType)
    offset = prop_def(ExprAttr)
    count = prop_def(ExprAttr)
    tensor = result_def(LocalType)

    def verify_(self) -> None:
        offset = self.param("offset").as_int()
        if offset is not None and offset % BLOCK_BYTES:
            raise invalid("ascendc.buf_get: offset in bytes", expected="a multiple of 32", got=offset)

    def cpp(self, cpp: Cpp) -> Sequence[str]:
        kind = cpp_type(self.tensor.type.element)
        buf = cpp.value(self.buf)
        name = cpp.declare(self.tensor)
        count, offset = cpp.expr(self.param("count")), cpp.expr(self.param("offset"))
        return [f"LocalTensor<{kind}> {name} = {buf}.GetWithOffset<{kind}>({count}, {offset});"]

    def run(self, core: Core) -> None:
        core.buf_get(self)


class _TakeOp(AscendOp):
    """Base of alloc and deque: a tensor out of a queue."""

    queue = operand_def(QueueType)
    tensor = result_def(LocalType)

    CALL: ClassVar[str]

    @property
    def position(self) -> Position:
        kind = self.queue.type
        assert isinstance(kind, QueueType)
        return kind.position.data

    def verify_(self) -> None:
        if not isinstance(self.queue.owner, InitQueueOp):
            raise invalid(f"{self.name} from something that isn't a queue", expected="ascendc.init_queue")

    def cpp(self, cpp: Cpp) -> Sequence[str]:
        kind = cpp_type(self.tensor.type.element)
        queue = cpp.value(self.queue)
        return [f"LocalTensor<{kind}> {cpp.declare(self.tensor)} = {queue}.{self.CALL}<{kind}>();"]


@irdl_op_definition
class AllocOp(_TakeOp):
    """`%t = ascendc.alloc %q : !ascendc.local<f16>`: a free buffer, once the last use of it is over."""

    name = "ascendc.alloc"
    CALL: ClassVar[str] = "AllocTensor"

    def run(self, core: Core) -> None:
        core.alloc(self)


@irdl_op_definition
class DequeOp(_TakeOp):
    """`%t = ascendc.deque %q : !ascendc.local<f16>`: the oldest enqueued buffer, once it is filled."""

    name = "ascendc.deque"
    CALL: ClassVar[str] = "DeQue"

    def run(self, core: Core) -> None:
        core.deque(self)


class _GiveOp(AscendOp):
    """Base of enque and free: hands a tensor back to its queue."""

    queue = operand_def(QueueType)
    tensor = operand_def(LocalType)

    CALL: ClassVar[str]

    def verify_(self) -> None:
        owner = self.tensor.owner
        if not isinstance(owner, _TakeOp) or owner.queue is not self.queue:
            raise invalid(
                f"{self.name}: the tensor isn't from this queue", expected="a result of alloc or deque of it"
            )

    def cpp(self, cpp: Cpp) -> Sequence[str]:
        return [f"{cpp.value(self.queue)}.{self.CALL}({cpp.value(self.tensor)});"]


@irdl_op_definition
class EnqueOp(_GiveOp):
    """`ascendc.enque %q, %t`: the tensor is filled; its reader may wait for it."""

    name = "ascendc.enque"
    CALL: ClassVar[str] = "EnQue"

    def run(self, core: Core) -> None:
        core.enque(self)


@irdl_op_definition
class FreeOp(_GiveOp):
    """`ascendc.free %q, %t`: the last use is issued; the buffer may be allocated again."""

    name = "ascendc.free"
    CALL: ClassVar[str] = "FreeTensor"

    def run(self, core: Core) -> None:
        core.free(self)


@irdl_op_definition
class SliceOp(AscendOp):
    """`%p = ascendc.slice %t [offset = e, count = n] : !ascendc.local<f32>`: n elements from element e on.

    The start stays 32-byte aligned. Printed in place as `t[e]`.
    """

    name = "ascendc.slice"
    IS_VIEW: ClassVar[bool] = True
    source = operand_def(LocalType)
    offset = prop_def(ExprAttr)
    count = prop_def(ExprAttr)
    tensor = result_def(LocalType)

    def verify_(self) -> None:
        if self.source.type != self.tensor.type:
            raise invalid(
                "ascendc.slice: the element type stays", expected=self.source.type, got=self.tensor.type
            )
        offset, size = self.param("offset").as_int(), local_dtype(self.source).bytes
        if offset is not None and offset * size % BLOCK_BYTES:
            raise invalid(
                "ascendc.slice: start", expected="a multiple of 32 bytes", got=f"{offset * size} bytes"
            )

    def inline(self, cpp: Cpp) -> str:
        offset = self.param("offset")
        return cpp.value(self.source) + ("" if offset == 0 else f"[{cpp.expr(offset)}]")

    def cpp(self, cpp: Cpp) -> Sequence[str]:
        return []

    def run(self, core: Core) -> None:
        core.slice(self)


@irdl_op_definition
class ReinterpretOp(AscendOp):
    """`%u = ascendc.reinterpret %t : !ascendc.local<ui8>`: the same bytes as another element type."""

    name = "ascendc.reinterpret"
    IS_VIEW: ClassVar[bool] = True
    source = operand_def(LocalType)
    tensor = result_def(LocalType)

    def inline(self, cpp: Cpp) -> str:
        return f"{cpp.value(self.source)}.ReinterpretCast<{cpp_type(self.tensor.type.element)}>()"

    def cpp(self, cpp: Cpp) -> Sequence[str]:
        return []

    def run(self, core: Core) -> None:
        core.reinterpret(self)


@irdl_op_definition
class WorkspaceOp(AscendOp):
    """`%w = ascendc.workspace [offset = bytes] : !ascendc.gm<f32>`: global scratch memory from a byte on."""

    name = "ascendc.workspace"
    offset = prop_def(ExprAttr)
    tensor = result_def(GmType)

    def verify_(self) -> None:
        offset = self.param("offset").as_int()
        if offset is not None and offset % BLOCK_BYTES:
            raise invalid("ascendc.workspace: offset in bytes", expected="a multiple of 32", got=offset)

    def cpp(self, cpp: Cpp) -> Sequence[str]:
        kind = cpp_type(self.tensor.type.element)
        name, offset = cpp.declare(self.tensor, "Gm"), self.param("offset")
        place = "workspace" if offset == 0 else f"(workspace + {cpp.expr(offset)})"
        return [f"GlobalTensor<{kind}> {name};", f"{name}.SetGlobalBuffer((__gm__ {kind} *){place});"]

    def run(self, core: Core) -> None:
        core.workspace(self)


OPS = (
    InitQueueOp,
    InitBufOp,
    BufGetOp,
    AllocOp,
    DequeOp,
    EnqueOp,
    FreeOp,
    SliceOp,
    ReinterpretOp,
    WorkspaceOp,
)
