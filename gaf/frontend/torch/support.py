# SPDX-License-Identifier: Apache-2.0
"""One message for all PyTorch ops that can't be imported and can't run on the host either."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import fx

from gaf.dialects.graph import registry
from gaf.errors import UnsupportedError
from gaf.frontend.torch.locations import source_line

_NO_TRACE = "no source line"


@dataclass
class Unsupported:
    """Ops without a way into the graph: name -> (reason, source lines)."""

    found: dict[str, tuple[str, list[str]]] = field(default_factory=dict)

    def add(self, name: str, node: fx.Node, reason: str) -> None:
        """Note one node of an op; the first reason is the one shown."""
        self.found.setdefault(name, (reason, []))[1].append(source_line(node) or _NO_TRACE)

    def error(self, where: str) -> UnsupportedError:
        """One message that lists each op once, with count, source lines and the nearest known name."""
        lines = []
        for name, (reason, places) in sorted(self.found.items()):
            known = [p for p in dict.fromkeys(places) if p != _NO_TRACE]
            shown = ", ".join(known[:3]) + (", ..." if len(known) > 3 else "") or _NO_TRACE
            near = registry.nearest_aten(name)
            hint = f" (nearest supported name: {near})" if near and near != name else ""
            lines.append(f"  {name} x{len(places)} at {shown}: {reason}{hint}")
        kinds = "op is" if len(lines) == 1 else "ops are"
        return UnsupportedError(
            f"{len(lines)} PyTorch {kinds} not supported:\n" + "\n".join(lines),
            where=where,
            hint='ways out: say what it means, @gaf.custom_op("acme::gate", shapes, torch="acme.gate"), and it fuses; '
            "give it a CPU implementation (torch.library.custom_op), and it runs on the host; write it with "
            "supported ops; or leave that part outside: torch.compile(module, backend='gaf') keeps it in PyTorch",
        )
