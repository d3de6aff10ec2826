# SPDX-License-Identifier: Apache-2.0
"""A builder that lowerings and tests write kernels with: scopes are `with` blocks, values have names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from gaf.dialects.ascendc.api import AscendOp
from gaf.dialects.ascendc.attributes import CmpMode, KernelKind, Position
from gaf.dialects.ascendc.copy import LoadTileOp, StoreTileOp
from gaf.dialects.ascendc.cube import MAX_M, MAX_N, InitMmadOp, ShareMmadOp
from gaf.dialects.ascendc.kernel import ForOp, IfOp, KernelOp, LetOp, NodeOp, SectionOp
from gaf.dialects.ascendc.queue import (
    AllocOp,
    BufGetOp,
    DequeOp,
    EnqueOp,
    FreeOp,
    InitBufOp,
    InitQueueOp,
    ReinterpretOp,
    SliceOp,
    WorkspaceOp,
)
from gaf.dialects.ascendc.types import BufType, GmType, LocalType, MmadType, QueueType
from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import Expr, ExprLike, expr, sym

Element = dt.DType | Attribute


class KernelBuilder:
    """Builds one `ascendc.kernel`.

    Statements go to the innermost open scope. Values get their `name` as a hint, which becomes the C++ name.
    Scalar names must be unique along a scope chain: `fresh` makes one that is not used yet in this kernel.
    """

    def __init__(
        self,
        name: str,
        kind: KernelKind | str,
        args: Iterable[tuple[str, Element, str, Iterable[ExprLike]]],
        symbols: Iterable[str] = (),
        tiling: Iterable[tuple[str, ExprLike]] = (),
        guards: Iterable[ExprLike] = (),
        blocks: ExprLike = 1,
        workspace: ExprLike = 0,
        members: Iterable[str] = (),
    ) -> None:
        """`args` are (name, element type, role "in" or "out", shape); the rest as in `KernelOp`."""
        self.name = name
        self.kind = KernelKind(kind)
        self.args = [(n, GmType.of(e), r, tuple(expr(d) for d in s)) for n, e, r, s in args]
        self.symbols = list(symbols)
        self.tiling: list[tuple[str, ExprLike]] = list(tiling)
        self.guards: list[ExprLike] = list(guards)
        self.blocks = blocks
        self.workspace_bytes = workspace
        self.members = list(members)
        self.location: LocationAttr | None = None
        """Stamped on every op that is added from now on."""
        self._body = Region(Block(arg_types=[a[1] for a in self.args]))
        self._blocks: list[Block] = [self._body.block]
        self._names: set[str] = {a[0] for a in self.args} | set(self.symbols) | {n for n, _ in self.tiling}

    # -- host side ------------------------------------------------------------------------------

    def field(self, name: str, value: ExprLike) -> Expr:
        """Add a tiling field, computed from symbols and earlier fields; returns its name as an expression."""
        self.tiling.append((name, value))
        self._names.add(name)
        return sym(name)

    def guard(self, value: ExprLike) -> None:
        """Require `value >= 0` for a launch."""
        self.guards.append(value)

    def arg(self, name: str) -> SSAValue:
        """The GlobalTensor of an argument."""
        return self._body.block.args[[a[0] for a in self.args].index(name)]

    # -- scopes ---------------------------------------------------------------------------------

    def fresh(self, name: str) -> str:
        """`name`, or `name` with a number when this kernel uses it already; reserves the result."""
        candidate, n = name, 1
        while candidate in self._names:
            candidate, n = f"{name}{n}", n + 1
        self._names.add(candidate)
        return candidate

    def emit(self, op: Operation) -> Operation:
        """Append any op to the open scope."""
        if self.location is not None:
            op.location = self.location
        self._blocks[-1].add_op(op)
        return op

    def let(self, name: str, value: ExprLike) -> Expr:
        """Name an integer for the rest of the scope; returns the name as an expression."""
        self._names.add(name)
        self.emit(LetOp(var=name, value=value))
        return sym(name)

    @contextmanager
    def _inside(self, op: ForOp | IfOp | SectionOp) -> Iterator[None]:
        self.emit(op)
        self._blocks.append(op.body.block)
        try:
            yield
        finally:
            self._blocks.pop()

    @contextmanager
    def for_(self, var: str, lo: ExprLike, hi: ExprLike, step: ExprLike = 1) -> Iterator[Expr]:
        """A scalar loop; yields its variable as an expression."""
        self._names.add(var)
        with self._inside(ForOp(var, lo, hi, step)):
            yield sym(var)

    @contextmanager
    def if_(self, lhs: ExprLike, mode: CmpMode | str, rhs: ExprLike) -> Iterator[None]:
        """A scalar condition."""
        with self._inside(IfOp(lhs, mode, rhs)):
            yield

    @contextmanager
    def section(self, core: KernelKind | str) -> Iterator[None]:
        """Statements for "aic" or "aiv" of a mix kernel."""
        with self._inside(SectionOp(core)):
            yield

    def node(self, name: str, note: str | None = None) -> None:
        """The statements below compute this model node."""
        self.emit(NodeOp(node=name, note=note))

    # -- buffers --------------------------------------------------------------------------------

    def _value(self, op: AscendOp, name: str | None) -> SSAValue:
        self.emit(op)
        if name is not None:
            op.results[0].name_hint = name
        return op.results[0]

    def init_queue(self, name: str, position: Position | str, buffers: int, bytes: ExprLike) -> SSAValue:
        """A queue of `buffers` buffers of `bytes` bytes each."""
        return self._value(InitQueueOp(bytes=bytes, result=QueueType.of(position, buffers)), name)

    def init_buf(self, name: str, bytes: ExprLike) -> SSAValue:
        """A buffer for temporaries."""
        return self._value(InitBufOp(bytes=bytes, result=BufType.of()), name)

    def buf_get(
        self, buf: SSAValue, offset: ExprLike, count: ExprLike, element: Element, name: str
    ) -> SSAValue:
        """`count` elements of a buffer from byte `offset` on."""
        return self._value(BufGetOp(buf, offset=offset, count=count, result=LocalType.of(element)), name)

    def alloc(self, queue: SSAValue, element: Element, name: str) -> SSAValue:
        return self._value(AllocOp(queue, result=LocalType.of(element)), name)

    def deque(self, queue: SSAValue, element: Element, name: str) -> SSAValue:
        return self._value(DequeOp(queue, result=LocalType.of(element)), name)

    def enque(self, queue: SSAValue, tensor: SSAValue) -> None:
        self.emit(EnqueOp(queue, tensor))

    def free(self, queue: SSAValue, tensor: SSAValue) -> None:
        self.emit(FreeOp(queue, tensor))

    def slice(self, tensor: SSAValue, offset: ExprLike, count: ExprLike) -> SSAValue:
        """`count` elements of a tensor from element `offset` on (32-byte aligned)."""
        return self._value(SliceOp(tensor, offset=offset, count=count, result=tensor.type), tensor.name_hint)

    def reinterpret(self, tensor: SSAValue, element: Element) -> SSAValue:
        """The same bytes as another element type."""
        return self._value(ReinterpretOp(tensor, result=LocalType.of(element)), tensor.name_hint)

    def workspace(self, name: str, offset: ExprLike, element: Element) -> SSAValue:
        """Global scratch memory from byte `offset` of the workspace on."""
        return self._value(WorkspaceOp(offset=offset, result=GmType.of(element)), name)

    def init_mmad(
        self,
        name: str,
        input: Element,
        trans_a: bool = False,
        trans_b: bool = False,
        output: Element = dt.F32,
        m: ExprLike = MAX_M,
        n: ExprLike = MAX_N,
        k: int | None = None,
    ) -> SSAValue:
        """A `gaf::BlockMmad` for blocks up to m x n; with `k`, left operands stay in L1."""
        return self._value(InitMmadOp(m=m, n=n, k=k, result=MmadType.of(input, trans_a, trans_b, output)), name)

    def share_mmad(
        self,
        name: str,
        first: SSAValue,
        input: Element,
        trans_a: bool = False,
        trans_b: bool = False,
        output: Element = dt.F32,
    ) -> SSAValue:
        """Another `gaf::BlockMmad` in the buffers of `first`."""
        return self._value(ShareMmadOp(first, result=MmadType.of(input, trans_a, trans_b, output)), name)

    # -- calls ----------------------------------------------------------------------------------

    def call(self, op_class: type[AscendOp], *operands: SSAValue, **params: Any) -> None:
        """Append an API call, e.g. `call(BinaryColOp, y, x, mean, tmp, op="sub", rows=r, lanes=n)`."""
        self.emit(op_class(*operands, **params))

    def load(
        self,
        queue: SSAValue,
        src: SSAValue,
        name: str,
        at: ExprLike,
        rows: ExprLike,
        lanes: ExprLike,
        stride: ExprLike,
    ) -> SSAValue:
        """alloc, load_tile, enque, deque: a tile of `src`, ready for vector calls; the caller frees it."""
        element = src.type.element if not src.type.dtype.is_bool else dt.U8.mlir  # type: ignore[attr-defined]
        room = self.alloc(queue, element, f"{name}In")
        self.call(LoadTileOp, room, src, src_at=at, rows=rows, lanes=lanes, stride=stride)
        self.enque(queue, room)
        return self.deque(queue, element, name)

    def store(
        self,
        queue: SSAValue,
        tensor: SSAValue,
        dst: SSAValue,
        at: ExprLike,
        rows: ExprLike,
        lanes: ExprLike,
        stride: ExprLike,
    ) -> None:
        """enque, deque, store_tile, free: writes a tile that was allocated from `queue` to `dst`."""
        self.enque(queue, tensor)
        ready = self.deque(queue, tensor.type.element, f"{tensor.name_hint or 'tile'}Out")  # type: ignore[attr-defined]
        self.call(StoreTileOp, dst, ready, dst_at=at, rows=rows, lanes=lanes, stride=stride)
        self.free(queue, ready)

    def finish(self) -> KernelOp:
        """The kernel, verified; raises VerifyException."""
        kernel = KernelOp(
            self.name, self.kind, self.args, self.symbols, self.tiling, self.guards, self.blocks,
            self.workspace_bytes,
            self.members, self._body,
        )  # fmt: skip
        kernel.verify()
        return kernel
