# SPDX-License-Identifier: Apache-2.0
"""Synchronisation: pipe barriers, events between pipes of a core, flags and barriers between cores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from xdsl.irdl import irdl_op_definition, prop_def

from gaf.dialects.ascendc.api import ApiOp
from gaf.dialects.ascendc.attributes import HardEventAttr, KernelKind, Pipe, PipeAttr, invalid
from gaf.dialects.ascendc.cycles import Cost
from gaf.dialects.ascendc.kernel import KernelOp, core_of
from gaf.dialects.common.attributes import ExprAttr

if TYPE_CHECKING:
    from gaf.dialects.ascendc.interpreter import Core

FLAG_LIMIT = 11
"""Cross-core flag ids 0..10 are free for kernels; 11..14 belong to SyncAll."""

EVENT_LIMIT = 6
"""Event ids 0..5 are free for kernels; 6 and 7 belong to the toolkit."""


@irdl_op_definition
class PipeBarrierOp(ApiOp):
    """Later instructions of a pipe wait until its earlier ones are complete."""

    name = "ascendc.pipe_barrier"
    pipe = prop_def(PipeAttr)

    CPP: ClassVar[str] = "PipeBarrier<{pipe}>()"

    def verify_(self) -> None:
        if self.pipe.data is Pipe.S:
            raise invalid(
                "ascendc.pipe_barrier: the scalar pipe needs none", expected="V, M, MTE1..3, FIX or ALL"
            )

    def cost(self) -> tuple[Cost, ...]:
        return (Cost.of("PipeBarrier", 0),)

    def run(self, core: Core) -> None:
        pass


class _EventOp(ApiOp):
    """Base of set_flag and wait_flag."""

    event = prop_def(HardEventAttr)
    id = prop_def(ExprAttr)

    PIPE: ClassVar[Pipe] = Pipe.S

    def verify_(self) -> None:
        value = self.param("id").as_int()
        if value is not None and not 0 <= value < EVENT_LIMIT:
            raise invalid(f"{self.name}: event id", expected=f"0..{EVENT_LIMIT - 1}", got=value)


@irdl_op_definition
class SetFlagOp(_EventOp):
    """Raises an event when earlier instructions of its first pipe are complete."""

    name = "ascendc.set_flag"
    CPP: ClassVar[str] = "SetFlag<{event}>({id})"

    def run(self, core: Core) -> None:
        core.set_event(self, self.event.data.value, core.int(self.param("id")))


@irdl_op_definition
class WaitFlagOp(_EventOp):
    """The second pipe of an event waits for it and lowers it."""

    name = "ascendc.wait_flag"
    CPP: ClassVar[str] = "WaitFlag<{event}>({id})"

    def run(self, core: Core) -> None:
        core.wait_event(self, self.event.data.value, core.int(self.param("id")))


class _CrossOp(ApiOp):
    """Base of the flags between the cube core and the vector cores of a group (mode 2)."""

    flag = prop_def(ExprAttr)

    PIPE: ClassVar[Pipe] = Pipe.S

    def verify_(self) -> None:
        value = self.param("flag").as_int()
        if value is not None and not 0 <= value < FLAG_LIMIT:
            raise invalid(
                f"{self.name}: flag id",
                expected=f"0..{FLAG_LIMIT - 1}",
                got=value,
                hint="11..14 belong to SyncAll",
            )
        kernel = self.parent_op()
        while kernel is not None and not isinstance(kernel, KernelOp):
            kernel = kernel.parent_op()
        if kernel is not None and kernel.kind.data is not KernelKind.MIX:
            raise invalid(
                f"{self.name} in a kernel of kind {kernel.kind.data.value}",
                expected="kind mix",
                hint="other kernels have no partner core",
            )
        if kernel is not None and core_of(self) is None:
            raise invalid(
                f"{self.name} outside of a section", expected="ascendc.section aic or aiv around it"
            )


@irdl_op_definition
class CrossCoreSetFlagOp(_CrossOp):
    """Signals the partner cores when earlier work of `pipe` is complete: an AIC both AIVs, both AIVs together
    the AIC.
    """

    name = "ascendc.cross_core_set_flag"
    pipe = prop_def(PipeAttr)

    CPP: ClassVar[str] = "CrossCoreSetFlag<0x2, {pipe}>({flag})"

    def verify_(self) -> None:
        super().verify_()
        if self.pipe.data in (Pipe.S, Pipe.ALL):
            raise invalid(
                "ascendc.cross_core_set_flag: pipe", expected="FIX, MTE2, MTE3 or V", got=self.pipe.data.value
            )

    def run(self, core: Core) -> None:
        core.cross_set(self, core.int(self.param("flag")))


@irdl_op_definition
class CrossCoreWaitFlagOp(_CrossOp):
    """Waits for a signal of the partner cores and consumes it."""

    name = "ascendc.cross_core_wait_flag"
    CPP: ClassVar[str] = "CrossCoreWaitFlag({flag})"

    def run(self, core: Core) -> Iterator[str]:
        yield from core.cross_wait(self, core.int(self.param("flag")))


@irdl_op_definition
class SyncAllOp(ApiOp):
    """All cores wait for each other: the vector cores of an aiv kernel, all cores of a mix kernel."""

    name = "ascendc.sync_all"
    PIPE: ClassVar[Pipe] = Pipe.ALL
    CPP: ClassVar[str] = "SyncAll<{soft}>()"

    def cpp_fields(self, cpp):  # type: ignore[no-untyped-def]
        fields = super().cpp_fields(cpp)
        parent = self.parent_op()
        while parent is not None and not isinstance(parent, KernelOp):
            parent = parent.parent_op()
        mix = parent is not None and parent.kind.data is KernelKind.MIX
        return {**fields, "soft": "false" if mix else "true"}

    def run(self, core: Core) -> Iterator[str]:
        yield from core.sync_all()


OPS = (PipeBarrierOp, SetFlagOp, WaitFlagOp, CrossCoreSetFlagOp, CrossCoreWaitFlagOp, SyncAllOp)
