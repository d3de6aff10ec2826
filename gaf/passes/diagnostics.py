# SPDX-License-Identifier: Apache-2.0
"""Names operations and places in messages: `file:line:col: op: what is wrong`, never a module dump."""

from __future__ import annotations

from xdsl.dialects.builtin import (
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    LocationAttr,
    NameLoc,
    StringAttr,
    UnknownLoc,
    UnregisteredOp,
)
from xdsl.ir import Attribute, Operation

MAX_OP_TEXT = 200
"""Characters of an operation that a message shows at most."""


def location_text(location: LocationAttr | Attribute) -> str | None:
    """A location as users read it (`model.onnx: block/Add_3`, `a.mlir:3:5`), or None when unknown."""
    match location:
        case FileLineColLoc():
            return f"{location.filename.data}:{location.line.data}:{location.column.data}"
        case NameLoc():
            outer = location_text(location.location)
            return f"{outer}: {location.desc.data}" if outer else location.desc.data
        case FusedLoc():
            parts = [text for part in location.locations if (text := location_text(part))]
            return " + ".join(dict.fromkeys(parts)) or None
        case CallSiteLoc():
            return location_text(location.callee) or location_text(location.caller)
        case _:
            return None


def op_name(op: Operation) -> str:
    """The name of an operation, also of one whose dialect is not registered."""
    return op.op_name.data if isinstance(op, UnregisteredOp) else op.name


def where(op: Operation) -> str:
    """Where an operation comes from and what it is: `a.mlir:3:5: graph.add`.

    An operation without a location borrows that of the nearest one around it.
    """
    holder: Operation | None = op
    while holder is not None and isinstance(holder.location, UnknownLoc):
        holder = holder.parent_op()
    place = location_text(holder.location) if holder is not None else None
    return f"{place}: {op_name(op)}" if place else op_name(op)


def op_text(op: Operation) -> str:
    """One line that shows an operation without its regions, cut to `MAX_OP_TEXT` characters."""
    if op.regions:
        symbol = op.properties.get("sym_name") or op.attributes.get("sym_name")
        text = f"{op_name(op)} @{symbol.data}" if isinstance(symbol, StringAttr) else op_name(op)
    else:
        text = str(op).partition("\n")[0]
    return text if len(text) <= MAX_OP_TEXT else text[: MAX_OP_TEXT - 3] + "..."
