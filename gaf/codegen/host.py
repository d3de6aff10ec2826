# SPDX-License-Identifier: Apache-2.0
"""Host tiling: what a launch of a kernel needs besides its tensors, evaluated in Python or printed as C++.

Both forms evaluate the same expressions of the kernel in the same order: tiling fields, launch width,
workspace bytes, and guards. Guards are the kernel's own, every symbol >= 1, and the on-chip memory that the
buffers take.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from gaf.codegen.expr import ExprStyle, field_signs
from gaf.codegen.printer import INDENT, tiling_struct_text
from gaf.dialects.ascendc.attributes import KernelKind
from gaf.dialects.ascendc.kernel import KernelOp, tiling_struct
from gaf.dialects.ascendc.limits import buffers, capacities, totals
from gaf.dialects.ascendc.sync import SyncAllOp
from gaf.dialects.common.index import Expr, const
from gaf.errors import UnsupportedError
from gaf.target import DEFAULT, Chip

SCHEDULER_WORKSPACE = 32
"""Least bytes of workspace of a kernel with a core scheduler: the toolkit wants more than 0 (asc-devkit,
kernel types).
"""


@dataclass(frozen=True)
class Guard:
    """A condition of a launch: `value >= 0`, and what it means."""

    value: Expr
    meaning: str
    space: str | None = None
    limit: int | None = None


@dataclass(frozen=True)
class _Failure:
    """A guard that doesn't hold for given sizes."""

    meaning: str
    expected: str
    got: str


@dataclass(frozen=True)
class Launch:
    """The values of one launch: tiling fields, their bytes as the C struct, launch width, workspace bytes."""

    fields: dict[str, int]
    packed: bytes
    blocks: int
    workspace: int


class HostTiling:
    """The host side of one kernel. It keeps no reference to the IR and can be pickled."""

    def __init__(self, kernel: KernelOp, target: Chip = DEFAULT) -> None:
        self.name = kernel.sym_name.data
        self.symbols = kernel.symbols.data
        self.fields = kernel.tiling.data
        self.blocks = kernel.param("blocks")
        self.workspace = kernel.param("workspace")
        self.least_workspace = SCHEDULER_WORKSPACE if has_scheduler(kernel) else 0
        self.guards = _guards(kernel, target)
        self.buffers = buffers(kernel)

    @cached_property
    def struct_bytes(self) -> int:
        """Size of the tiling struct: 8 bytes per field, at least one."""
        return 8 * max(1, len(self.fields))

    def evaluate(
        self,
        symbols: Mapping[str, int],
        limits: Mapping[str, int] | None = None,
        blocks: Mapping[str, int] | None = None,
    ) -> Launch:
        """All values for given symbols; further names in `symbols` are ignored.

        `limits` bound tiling fields from above, to try smaller tiles. `blocks` are rows of cube blocks for a machine
        without the cube's memories, which then don't limit them.

        Raises UnsupportedError, naming kernel and condition, when a guard fails; KeyError for a missing
        symbol.
        """
        env, failed = self._values(symbols, limits, blocks)
        if failed is not None:
            sizes = ", ".join(f"{s} = {env[s]}" for s in self.symbols)
            raise UnsupportedError(
                f"kernel '{self.name}' can't run for {sizes}: {failed.meaning}",
                expected=failed.expected,
                got=failed.got,
            )
        fields = {n: env[n] for n, _ in self.fields}
        packed = struct.pack(f"<{len(fields)}q", *fields.values()) or bytes(8)
        return Launch(
            fields,
            packed,
            max(1, self.blocks.evaluate(env)),
            max(self.least_workspace, self.workspace.evaluate(env)),
        )

    def failed_guard(self, symbols: Mapping[str, int]) -> str | None:
        """Why the kernel can't run for these symbols, or None if it can."""
        _, failed = self._values(symbols)
        return None if failed is None else f"{failed.meaning}: expected {failed.expected}, got {failed.got}"

    def _values(
        self,
        symbols: Mapping[str, int],
        limits: Mapping[str, int] | None = None,
        blocks: Mapping[str, int] | None = None,
    ) -> tuple[dict[str, int], _Failure | None]:
        """Symbols and tiling fields, and the first condition that doesn't hold."""
        env = {s: int(symbols[s]) for s in self.symbols}
        for symbol, value in env.items():
            if value < 1:
                return env, _Failure(f"{symbol} is less than 1", ">= 1", str(value))
        for name, field in self.fields:
            env[name] = field.evaluate(env)
            if limits and name in limits:
                env[name] = min(env[name], limits[name])
            if blocks and name in blocks:
                env[name] = blocks[name]
        for guard in self.guards:
            if blocks and (guard.value.names() <= blocks.keys() or guard.space not in (None, "UB")):
                continue
            value = guard.value.evaluate(env)
            if value < 0 and guard.limit is not None:
                sizes = ", ".join(
                    f"{b.name} {b.bytes.evaluate(env)}" for b in self.buffers if b.space == guard.space
                )
                return env, _Failure(
                    guard.meaning, f"at most {guard.limit} bytes", f"{guard.limit - value} ({sizes})"
                )
            if value < 0:
                return env, _Failure(guard.meaning, f"{guard.value} >= 0", str(value))
        return env, None

    # -- C++ ------------------------------------------------------------------------------------

    @property
    def function(self) -> str:
        """Name of the C++ tiling function."""
        return f"{self.name}_tiling"

    def cpp(self, kernel: KernelOp) -> str:
        """A C++ header that defines the tiling struct and the tiling function of `kernel`."""
        signs = field_signs(self.symbols, self.fields)
        style = ExprStyle(lambda n: f"t.{n}" if n in dict(self.fields) else n, signs, "gaf_host::")
        type_name = tiling_struct(self.name)
        params = ", ".join(f"int64_t {s}" for s in self.symbols)
        guard = f"{self.name.upper()}_TILING_H"
        lines = [
            f"// Host tiling of kernel {self.name}: generated by gaf.", f"#ifndef {guard}",
            f"#define {guard}", "",
            '#include "gaf_host.h"', "", *tiling_struct_text(kernel), "",
            "// Everything a launch needs for these shapes; `error` is null when the kernel can run.",
            f"inline gaf_host::Launch<{type_name}> {self.function}({params})", "{",
            f"{INDENT}gaf_host::Launch<{type_name}> launch{{}};",
        ]  # fmt: skip
        for s in self.symbols:
            lines += [
                f"{INDENT}if ({s} < 1) {{",
                f'{INDENT * 2}launch.error = "{s} is less than 1";',
                f"{INDENT * 2}return launch;",
                f"{INDENT}}}",
            ]
        lines.append(f"{INDENT}{type_name} &t = launch.tiling;")
        done: set[str] = set()
        for name, value in self.fields:
            earlier = ExprStyle(
                lambda n, done=frozenset(done): f"t.{n}" if n in done else n, signs, "gaf_host::"
            )
            lines.append(f"{INDENT}t.{name} = {earlier.format(value)};")
            done.add(name)
        for condition in self.guards:
            if (condition.value.as_int() or 0) > 0:  # holds for all shapes
                continue
            lines += [
                f"{INDENT}if ({style.format(condition.value)} < 0) {{  // {condition.meaning}",
                f'{INDENT * 2}launch.error = "{condition.meaning}";',
                f"{INDENT * 2}return launch;",
                f"{INDENT}}}",
            ]
        lines += [
            f"{INDENT}launch.blocks = static_cast<uint32_t>(gaf_host::Max(1, {style.format(self.blocks)}));",
            f"{INDENT}launch.workspace ="
            f" static_cast<uint64_t>(gaf_host::Max({self.least_workspace}, {style.format(self.workspace)}));",
            f"{INDENT}return launch;", "}", "", f"#endif  // {guard}",
        ]  # fmt: skip
        return "\n".join(lines) + "\n"


def has_scheduler(kernel: KernelOp) -> bool:
    """Whether the toolkit launches the kernel with its core scheduler: mix kernels, and barriers between all
    cores.
    """
    return kernel.kind.data is KernelKind.MIX or any(isinstance(op, SyncAllOp) for op in kernel.walk())


def _guards(kernel: KernelOp, target: Chip) -> tuple[Guard, ...]:
    memory = [
        Guard(const(limit) - total, f"the buffers don't fit {space}", space, limit)
        for space, total in totals(kernel).items()
        for limit in (capacities(target)[space],)
    ]
    said = {g.value for g in memory}
    own = [Guard(g, f"the schedule needs {g} >= 0") for g in kernel.guards.data if g not in said]
    return (*own, *memory)


HOST_HEADER = """\
// Helpers of the generated host tiling functions.
#ifndef GAF_HOST_H
#define GAF_HOST_H

#include <cstdint>

namespace gaf_host {

// What a launch needs besides its tensors. `error` says why the kernel can't run, or is null.
template <class Tiling>
struct Launch {
    const char *error = nullptr;
    Tiling tiling{};
    uint32_t blocks = 0;     // launch width
    uint64_t workspace = 0;  // bytes of global scratch memory
};

inline int64_t Min(int64_t a, int64_t b) { return a < b ? a : b; }
inline int64_t Max(int64_t a, int64_t b) { return a < b ? b : a; }

// Quotient rounded towards minus infinity and its remainder; b > 0.
inline int64_t FloorDiv(int64_t a, int64_t b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }
inline int64_t FloorMod(int64_t a, int64_t b) { return a - FloorDiv(a, b) * b; }

// The smallest multiple of b that is not less than a; b > 0.
inline int64_t RoundUp(int64_t a, int64_t b) { return FloorDiv(a + b - 1, b) * b; }

}  // namespace gaf_host

#endif  // GAF_HOST_H
"""
