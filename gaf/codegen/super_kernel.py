# SPDX-License-Identifier: Apache-2.0
"""Super-kernels: several kernels of a stream as one launch, with barriers only where one needs another's results.

Every member stays the function that it is as a kernel of its own, and keeps its launch width: cores beyond it
skip the call. Which barrier stands before a member follows from what it reads and which cores wrote it
(`plan_barriers`); members without a dependence start at once, so that work of the cube cores and of the vector
cores runs side by side.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property

from gaf.codegen.host import SCHEDULER_WORKSPACE, HostTiling, Launch
from gaf.codegen.printer import (
    CORES,
    INDENT,
    KernelPrinter,
    core_index,
    headers,
    member_function,
    tiling_struct_text,
    wrap,
)
from gaf.dialects.ascendc.api import ApiOp
from gaf.dialects.ascendc.attributes import KernelKind
from gaf.dialects.ascendc.kernel import KernelOp, cpp_comment, tiling_struct
from gaf.dialects.ascendc.sync import SyncAllOp
from gaf.errors import UnsupportedError
from gaf.target import DEFAULT, Chip

WORKSPACE_ALIGNMENT = 512
"""Bytes: every member's workspace starts at a cache line of L2."""

CUBE_FLAG = 0
"""Cross-core flag of the barriers between cube cores; free, as these stand in no super-kernel with mix members."""

PREFETCH = 2
"""Units of 2 KiB of instructions that are fetched ahead of a member (asc-devkit, ICachePreLoad)."""


class Scope(Enum):
    """Whom a barrier joins."""

    VECTOR = "vector cores"
    CUBE = "cube cores"
    ALL = "all cores"


Cores = frozenset[str]
_CORES: dict[KernelKind, Cores] = {
    KernelKind.AIV: frozenset({"aiv"}),
    KernelKind.AIC: frozenset({"aic"}),
    KernelKind.MIX: frozenset({"aiv", "aic"}),
}
_SCOPES: dict[Cores, Scope] = {
    frozenset({"aiv"}): Scope.VECTOR,
    frozenset({"aic"}): Scope.CUBE,
    frozenset({"aiv", "aic"}): Scope.ALL,
}


@dataclass(frozen=True)
class Member:
    """One kernel of a super-kernel, and the number of the launch's argument that each of its own stands for."""

    kernel: KernelOp
    args: tuple[int, ...]
    host: HostTiling | None = field(default=None, compare=False)
    """The kernel's host side, if the caller has it already."""

    @property
    def cores(self) -> Cores:
        return _CORES[self.kernel.kind.data]

    def arguments(self, role: str) -> set[int]:
        """The launch's arguments that it reads ("in") or writes ("out")."""
        return {a for a, r in zip(self.args, self.kernel.roles.data, strict=True) if r == role}


def outputs_last(members: Sequence[Member]) -> tuple[list[Member], list[int]]:
    """The members with the launch's arguments renumbered so that what is written comes last; old numbers in the new order."""
    written = set().union(*(m.arguments("out") for m in members))
    every = sorted({a for m in members for a in m.args}, key=lambda a: (a in written, a))
    new = {old: number for number, old in enumerate(every)}
    return [replace(m, args=tuple(new[a] for a in m.args)) for m in members], every


def refusal(kernel: KernelOp) -> str | None:
    """Why a kernel can't be a member of any super-kernel, or None."""
    if any(isinstance(op, SyncAllOp) for op in kernel.walk()):
        return "it has barriers between all cores of its own launch width"
    return None


def scalar_reads(kernel: KernelOp) -> set[int]:
    """Arguments that a kernel reads element by element through the data cache, which is not coherent.

    They must not be written earlier in the same launch.
    """
    places = {value: i for i, value in enumerate(kernel.body.block.args)}
    return {
        places[value]
        for op in kernel.walk()
        if isinstance(op, ApiOp)
        for name in op.SCALAR_READS
        if (value := getattr(op, name)) in places
    }


def plan_barriers(members: Sequence[Member]) -> list[Scope | None]:
    """The barrier before each member: the smallest that makes everything it depends on complete and visible.

    Dependences are reads after writes, writes after reads and writes after writes of the launch's arguments;
    every member has its own part of the workspace.
    """
    known: list[Cores] = []  # per earlier member: the kinds of cores that know it to be complete
    barriers: list[Scope | None] = []
    for j, member in enumerate(members):
        reads, writes = member.arguments("in"), member.arguments("out")
        joined: Cores = frozenset()
        for i, earlier in enumerate(members[:j]):
            depends = earlier.arguments("out") & (reads | writes) or earlier.arguments("in") & writes
            if depends and not member.cores <= known[i]:
                joined |= earlier.cores | member.cores
        if joined:
            known = [k | joined if m.cores <= joined else k for k, m in zip(known, members)]
        barriers.append(_SCOPES[joined] if joined else None)
        known.append(frozenset())
    return _without_shared_flags(members, barriers)


def _without_shared_flags(members: Sequence[Member], barriers: list[Scope | None]) -> list[Scope | None]:
    """Mix members use cross-core flags themselves: barriers of the cube cores become full ones, on their own flags."""
    if all(m.kernel.kind.data is not KernelKind.MIX for m in members):
        return barriers
    return [Scope.ALL if b is Scope.CUBE else b for b in barriers]


class SuperKernel:
    """A super-kernel: C++ source, and the host's side of a launch.

    `arguments` are (name, role) of its GM arguments, those that a member writes ("out") last. It keeps the
    members' IR; `source` and `evaluate` are what the twin and the generated project use.
    """

    def __init__(self, name: str, members: Sequence[Member], target: Chip = DEFAULT) -> None:
        self.name = name
        self.target = target
        self.members = tuple(members)
        self.barriers = plan_barriers(self.members)
        self.hosts = [m.host or HostTiling(m.kernel, target) for m in self.members]

    @property
    def kind(self) -> KernelKind:
        kinds = {m.kernel.kind.data for m in self.members}
        return kinds.pop() if len(kinds) == 1 else KernelKind.MIX

    @cached_property
    def arguments(self) -> list[tuple[str, str]]:
        count = 1 + max(a for m in self.members for a in m.args)
        names: list[str] = [""] * count
        roles = ["in"] * count
        for member in self.members:
            for place, name, role in zip(member.args, member.kernel.arg_names.data, member.kernel.roles.data):
                names[place] = names[place] or name
                roles[place] = "out" if role == "out" else roles[place]
        taken: set[str] = {"workspace", "t", "group", "core"}
        for i, name in enumerate(names):
            unique, n = name, 2
            while unique in taken:
                unique, n = f"{name}_{n}", n + 1
            taken.add(unique)
            names[i] = unique
        return list(zip(names, roles))

    @property
    def num_outputs(self) -> int:
        return sum(role == "out" for _, role in self.arguments)

    @property
    def barrier_count(self) -> int:
        return sum(b is not None for b in self.barriers)

    # -- host -----------------------------------------------------------------------------------

    def evaluate(self, symbols: Mapping[str, int]) -> Launch:
        """The tiling bytes, launch width and workspace bytes for given sizes.

        Raises UnsupportedError when a member's guard fails, or when a barrier would join more cores than the
        chip has: those beyond would only start when the others, which wait for them, are done.
        """
        launches = [host.evaluate(symbols) for host in self.hosts]
        width, at, fields = 1, 0, {}
        packed = b"".join(launch.packed for launch in launches)
        for i, launch in enumerate(launches):
            fields |= {f"blocks{i}": launch.blocks, f"workspace{i}": at}
            at += -(-launch.workspace // WORKSPACE_ALIGNMENT) * WORKSPACE_ALIGNMENT
            width = max(width, self._groups(self.members[i], launch.blocks))
        cores = self.target.aiv_cores if self.kind is KernelKind.AIV else self.target.aic_cores
        if width > cores and self.barrier_count:
            raise UnsupportedError(
                f"super-kernel '{self.name}' would wait for cores that never run",
                expected=f"a launch width of at most {cores}",
                got=width,
            )
        packed += b"".join(v.to_bytes(8, "little", signed=True) for v in fields.values())
        return Launch(fields, packed, width, max(at, self._least_workspace))

    def _groups(self, member: Member, blocks: int) -> int:
        """Launch width that gives a member its blocks: two vector cores a group in a mix launch."""
        if self.kind is KernelKind.MIX and member.kernel.kind.data is KernelKind.AIV:
            return -(-blocks // 2)
        return blocks

    @property
    def _least_workspace(self) -> int:
        return SCHEDULER_WORKSPACE if self.kind is KernelKind.MIX or self.barrier_count else 0

    @property
    def symbols(self) -> tuple[str, ...]:
        """The sizes that the host knows, of all members."""
        return tuple(dict.fromkeys(s for m in self.members for s in m.kernel.symbols.data))

    def cpp(self) -> str:
        """A C++ header with the tiling function of the super-kernel: those of its members, one after another."""
        guard = f"{self.name.upper()}_TILING_H"
        params = ", ".join(f"int64_t {s}" for s in self.symbols)
        lines = [
            f"// Host tiling of super-kernel {self.name}: generated by gaf.", f"#ifndef {guard}", f"#define {guard}", "",
            *(f'#include "{k.sym_name.data}_tiling.h"' for k in self._distinct()), "", *self._struct(), "",
            "// Everything a launch needs for these shapes; `error` is null when all kernels can run.",
            f"inline gaf_host::Launch<{self.struct}> {self.name}_tiling({params})", "{",
            f"{INDENT}gaf_host::Launch<{self.struct}> launch{{}};", f"{INDENT}int64_t at = 0;", f"{INDENT}int64_t width = 1;",
        ]  # fmt: skip
        for i, (member, host) in enumerate(zip(self.members, self.hosts, strict=True)):
            halved = self._groups(member, 2) == 1
            groups = f"(step{i}.blocks + 1) / 2" if halved else f"step{i}.blocks"
            lines += [
                f"{INDENT}const auto step{i} = {host.function}({', '.join(member.kernel.symbols.data)});",
                f"{INDENT}if (step{i}.error != nullptr) {{",
                f"{INDENT * 2}launch.error = step{i}.error;",
                f"{INDENT * 2}return launch;",
                f"{INDENT}}}",
                f"{INDENT}launch.tiling.step{i} = step{i}.tiling;",
                f"{INDENT}launch.tiling.blocks{i} = step{i}.blocks;",
                f"{INDENT}launch.tiling.workspace{i} = at;",
                f"{INDENT}at += gaf_host::RoundUp(static_cast<int64_t>(step{i}.workspace), {WORKSPACE_ALIGNMENT});",
                f"{INDENT}width = gaf_host::Max(width, {groups});",
            ]
        lines += [
            f"{INDENT}launch.blocks = static_cast<uint32_t>(width);",
            f"{INDENT}launch.workspace = static_cast<uint64_t>(gaf_host::Max({self._least_workspace}, at));",
            f"{INDENT}return launch;", "}", "", f"#endif  // {guard}",
        ]  # fmt: skip
        return "\n".join(part for line in lines for part in wrap(line)) + "\n"

    # -- text -----------------------------------------------------------------------------------

    @property
    def struct(self) -> str:
        return tiling_struct(self.name)

    @cached_property
    def source(self) -> str:
        """The whole C++ file."""
        lines = [*self._comment(), "", *(f'#include "{h}"' for h in headers(self._distinct())), "using namespace AscendC;", ""]
        for kernel in self._distinct():
            lines += [*tiling_struct_text(kernel), ""]
        lines += [*self._struct(), ""]
        for kernel in self._distinct():
            lines += [*KernelPrinter(kernel, member_function(kernel)).lines(), ""]
        lines += self._entry()
        return "\n".join(part for line in lines for part in wrap(line.rstrip())) + "\n"

    def _distinct(self) -> list[KernelOp]:
        return list({m.kernel.sym_name.data: m.kernel for m in self.members}.values())

    def _comment(self) -> Iterator[str]:
        yield f"// {self.name}: generated by gaf; {len(self.members)} kernels in one launch"
        for i, member in enumerate(self.members):
            nodes = ", ".join(m.data for m in member.kernel.members)
            yield f"//   {i} {member.kernel.sym_name.data}: {cpp_comment(nodes)}"
        yield f"// Runs on {CORES[self.kind]}; {self.barrier_count} barriers."

    def _struct(self) -> list[str]:
        guard = f"GAF_{self.name.upper()}_TILING_DEFINED"
        steps = [f"{INDENT}{tiling_struct(m.kernel.sym_name.data)} step{i};" for i, m in enumerate(self.members)]
        fields = [
            f"{INDENT}int64_t {name}{i};"
            for i in range(len(self.members))
            for name in ("blocks", "workspace")
        ]
        return [
            f"#ifndef {guard}", f"#define {guard}",
            "// Per kernel: its own tiling, launch width, and where its workspace starts (bytes).",
            f"struct {self.struct} {{", *steps, *fields, "};", f"#endif  // {guard}",
        ]  # fmt: skip

    def _entry(self) -> Iterator[str]:
        params = "".join(f"GM_ADDR {name}, " for name, _ in self.arguments)
        yield (
            f'extern "C" __global__ GAF_CORE __aicore__ void {self.name}'
            f"({params}GM_ADDR workspace, {self.struct} t)"
        )
        yield "{"
        yield f"{INDENT}KERNEL_TASK_TYPE_DEFAULT({self._task_type});"
        for i, member in enumerate(self.members):
            yield ""
            yield from self._barrier(self.barriers[i])
            yield from self._call(i, member)
        yield "}"

    @property
    def _task_type(self) -> str:
        # barriers between cores need the scheduler of a mix kernel
        alone = {KernelKind.AIV: "KERNEL_TYPE_MIX_AIV_1_0", KernelKind.AIC: "KERNEL_TYPE_MIX_AIC_1_0"}
        return alone.get(self.kind, self.kind.cpp) if self.barrier_count else self.kind.cpp

    def _barrier(self, scope: Scope | None) -> Iterator[str]:
        """Joins cores; without one the core's own pipes are drained, as the next member reuses its buffers."""
        match scope:
            case Scope.ALL:
                yield f"{INDENT}SyncAll<false>();"
            case Scope.VECTOR if self.kind is KernelKind.AIV:
                yield f"{INDENT}SyncAll<true>();"
            case Scope.VECTOR:
                yield f"{INDENT}PipeBarrier<PIPE_ALL>();"
                yield from _section("AIV", ["SyncAll<true>();"])
            case Scope.CUBE:
                yield f"{INDENT}PipeBarrier<PIPE_ALL>();"
                wait = [f"CrossCoreSetFlag<0x0, PIPE_FIX>({CUBE_FLAG});", f"CrossCoreWaitFlag({CUBE_FLAG});"]
                yield from _section("AIC", wait) if self.kind is KernelKind.MIX else (INDENT + w for w in wait)
            case None:
                yield f"{INDENT}PipeBarrier<PIPE_ALL>();"
        yield f"{INDENT}ICachePreLoad({PREFETCH});"

    def _call(self, i: int, member: Member) -> Iterator[str]:
        kernel, names = member.kernel, [name for name, _ in self.arguments]
        args = "".join(f"{names[a]}, " for a in member.args)
        kind = kernel.kind.data
        body = [
            *core_index("core", kind),
            f"if (core < t.blocks{i}) {{",
            f"{INDENT}{member_function(kernel)}({args}workspace + t.workspace{i}, t.step{i}, core, t.blocks{i});",
            "}",
        ]
        if kind is self.kind:
            yield from (INDENT + line for line in ["{", *(INDENT + b for b in body), "}"])
        else:
            yield from _section("AIV" if kind is KernelKind.AIV else "AIC", body)


def _section(core: str, body: Sequence[str]) -> Iterator[str]:
    yield f"{INDENT}if ASCEND_IS_{core} {{"
    yield from (INDENT * 2 + line for line in body)
    yield f"{INDENT}}}"
