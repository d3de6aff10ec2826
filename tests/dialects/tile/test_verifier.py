# SPDX-License-Identifier: Apache-2.0
"""Every rule of the tile dialect: a kernel that breaks it, and what the message says."""

from __future__ import annotations

import re

import pytest
from xdsl.utils.exceptions import VerifyException

from . import kernels

HEADER = (
    "tile.kernel @f(%x: !tile.gm<[M, K], f32>, %w: !tile.gm<[K, N], f32>, %ids: !tile.gm<[M], i32>, "
    "%y: !tile.gm<[M, K], f32, out>, %s: !tile.gm<[M], f32, out>) symbols [M, K, N] "
    "axes [m = M, k = K, n = N, ih hull m * 2 + k] params [tm = min(64, M)]"
)
LOAD = "%t = tile.load %x[m, k] : !tile.t<[m, k], f32>\n"

# (name, body of the kernel, part of the message)
BODIES = [
    ("unknown axis in a tile", "%t = tile.fill 0 : !tile.t<[q], f32>", "'q', which isn't an axis"),
    ("axis twice", "%t = tile.fill 0 : !tile.t<[m, m], f32>", "an axis occurs twice"),
    ("grid over no axis", "tile.grid [q step 8] {}", "'q', which isn't an axis of the kernel"),
    ("grid over a hull axis", "tile.grid [ih step 8] {}", "over the hull axis 'ih'"),
    ("axis twice in grid", "tile.grid [m step 8, m step 4] {}", "an axis occurs twice in a grid"),
    ("grid in grid", "tile.grid [m step 8] { tile.grid [k step 8] {} }", "tile.grid stands in a loop"),
    ("sub axis elsewhere", "tile.grid [m step 8] sub k {}", "the sub axis 'k' isn't one of the grid"),
    ("step zero", "tile.grid [m step 0] {}", "step of 'm' isn't positive"),
    ("unknown step", "tile.grid [m step tq] {}", "the step of 'm' uses 'tq'"),
    (
        "reduction over the sub axis",
        f"tile.grid [m step 8] sub m {{ {LOAD} %r = tile.reduce sum(%t) over [m] : !tile.t<[k], f32> }}",
        "folds the sub axis 'm'",
    ),
    (
        "partial result escapes",
        f"tile.grid [m step 8] {{ tile.for k step 8 {{ {LOAD} "
        "%r = tile.reduce sum(%t) over [k] : !tile.t<[m], f32>\n tile.store %r, %s[m] where [k.lo in 0 to 1] } }",
        "folded over a part of 'k' only",
    ),
    (
        "partial state escapes",
        f"tile.grid [m step 8] {{ %z = tile.fill 0 : !tile.t<[m], f32>\n %c = tile.for k step 8 iter(%a = %z) {{ "
        f"{LOAD} %r = tile.reduce sum(%t) over [k] : !tile.t<[m], f32>\n %b = tile.merge sum(%a | %r)\n"
        "tile.store %b, %s[m] where [k.lo in 0 to 1]\n tile.yield %b } }",
        "folded over a part of 'k' only",
    ),
    (
        "collected partial result",
        f"%h = tile.for k step 8 {{ {LOAD} %r = tile.reduce sum(%t) over [k] : !tile.t<[m], f32>\n"
        "%u = tile.map sub(%t, %r) : !tile.t<[m, k], f32>\n tile.yield collect %u }",
        "collected along 'k' depends on an incomplete fold over 'k'",
    ),
    (
        "carried state has the axis",
        f"{LOAD} %c = tile.for k step 8 iter(%a = %t) {{ tile.yield %a }}",
        "a carried tile has the axis 'k'",
    ),
    (
        "collected tile lacks the axis",
        "%z = tile.fill 0 : !tile.t<[m], f32>\n %c = tile.for k step 8 { tile.yield collect %z }",
        "a collected tile lacks the axis 'k'",
    ),
    (
        "not the identity",
        "%z = tile.fill 1 : !tile.t<[m], f32>\n %c = tile.for k step 8 iter(%a = %z) { "
        f"{LOAD} %r = tile.reduce sum(%t) over [k] : !tile.t<[m], f32>\n %b = tile.merge sum(%a | %r)\n"
        "tile.yield %b }",
        "doesn't start at the identity of 'sum'; expected 0.0, got 1",
    ),
    ("sync in a loop", "tile.grid [m step 8] { tile.sync }", "tile.sync stands in a loop"),
    (
        "workspace in a loop",
        "tile.grid [m step 8] { %v = tile.workspace : !tile.gm<[M], f32, ws> }",
        "tile.workspace stands in a loop",
    ),
    ("workspace role", "%v = tile.workspace : !tile.gm<[M], f32>", "a workspace has another role"),
    ("load rank", "%t = tile.load %x[m] : !tile.t<[m], f32>", "another rank than the array"),
    ("load converts", "%t = tile.load %x[m, k] : !tile.t<[m, k], f16>", "tile.load doesn't convert"),
    ("load to l0c", "%t = tile.load %x[m, k] : !tile.t<[m, k], f32, l0c>", "can't fill l0c"),
    (
        "guard without else",
        "%t = tile.load %x[m, k] where [m in 0 to 3] : !tile.t<[m, k], f32>",
        "guarded load",
    ),
    ("else without guard", "%t = tile.load %x[m, k] else 0 : !tile.t<[m, k], f32>", "guarded load"),
    ("axis of the index", "%t = tile.load %x[m, n] : !tile.t<[m, k], f32>", "index of tile.load uses 'n'"),
    ("window outside a loop", "%t = tile.load %x[m.lo, k] : !tile.t<[k], f32>", "uses 'm.lo'"),
    ("read of an unknown array", "%t = tile.load %x[read q[m], k] : !tile.t<[m, k], f32>", "from 'q'"),
    (
        "read of floats",
        "%t = tile.load %x[read x[m, k], k] : !tile.t<[m, k], f32>",
        "expected an integer array",
    ),
    ("read rank", "%t = tile.load %x[read ids[m, k], k] : !tile.t<[m, k], f32>", "another rank"),
    ("store to an input", f"{LOAD} tile.store %t, %x[m, k]", "writes an input"),
    (
        "store converts",
        f"{LOAD} %h = tile.map cast(%t) : !tile.t<[m, k], f16>\n tile.store %h, %y[m, k]",
        "tile.store doesn't convert",
    ),
    ("store twice", f"{LOAD} tile.store %t, %s[m]", "index lacks the axis 'k'"),
    (
        "store in every iteration",
        f"tile.grid [n step 8] {{ {LOAD} tile.store %t, %y[m, k] }}",
        "loop over 'n' writes the same elements in every iteration",
    ),
    ("no path", f"{LOAD} %u = tile.move %t : !tile.t<[m, k], f32, l0c>", "no such path on the chip"),
    ("move transposes", f"{LOAD} %u = tile.move %t : !tile.t<[k, m], f32, l1>", "tile.move keeps the axes"),
    ("move converts", f"{LOAD} %u = tile.move %t : !tile.t<[m, k], f16, l1>", "tile.move keeps the dtype"),
    ("fill of an integer", "%t = tile.fill 0.5 : !tile.t<[m], i32>", "can't hold 0.5"),
    (
        "unknown function",
        f"{LOAD} %u = tile.map foo(%t) : !tile.t<[m, k], f32>",
        "unknown scalar function 'foo'",
    ),
    ("arity", f"{LOAD} %u = tile.map add(%t) : !tile.t<[m, k], f32>", "wrong number of operands for 'add'"),
    ("axis order", f"{LOAD} %u = tile.map neg(%t) : !tile.t<[k, m], f32>", "no in-order part"),
    ("new axis", f"{LOAD} %u = tile.map neg(%t) : !tile.t<[m, k, n], f32>", "has the axis 'n' of the result"),
    ("result dtype", f"{LOAD} %u = tile.map lt(%t, %t) : !tile.t<[m, k], f32>", "expected i1, got f32"),
    (
        "operand dtypes",
        f"{LOAD} %h = tile.map cast(%t) : !tile.t<[m, k], f16>\n"
        "%u = tile.map add(%t, %h) : !tile.t<[m, k], f32>",
        "differ in dtype; expected one dtype, got f32, f16",
    ),
    ("condition", f"{LOAD} %u = tile.map select(%t, %t, %t) : !tile.t<[m, k], f32>", "no predicate"),
    ("logic", f"{LOAD} %u = tile.map and(%t, %t) : !tile.t<[m, k], i1>", "'and' works on predicates"),
    (
        "map in l1",
        "%t = tile.load %x[m, k] : !tile.t<[m, k], f32, l1>\n%u = tile.map neg(%t) : !tile.t<[m, k], f32>",
        "works on the vector unit",
    ),
    ("view loses an axis", f"{LOAD} %u = tile.view %t[] : !tile.t<[m], f32>", "loses the axis 'k'"),
    ("view binds nothing", f"{LOAD} %u = tile.view %t[n = 0] : !tile.t<[m, k], f32>", "binds 'n'"),
    ("view converts", f"{LOAD} %u = tile.view %t[] : !tile.t<[m, k], f16>", "keeps dtype and space"),
    ("monoid", f"{LOAD} %u = tile.reduce avg(%t) over [k] : !tile.t<[m], f32>", "unknown monoid 'avg'"),
    ("fold of no axis", f"{LOAD} %u = tile.reduce sum(%t) over [n] : !tile.t<[m, k], f32>", "folds 'n'"),
    (
        "fold result",
        f"{LOAD} %u = tile.reduce sum(%t) over [k] : !tile.t<[k], f32>",
        "without the folded axes",
    ),
    (
        "merge",
        f"{LOAD} %u = tile.reduce sum(%t) over [k] : !tile.t<[m], f32>\n %v = tile.merge sum(%t | %u)",
        "the second state of tile.merge differ",
    ),
    (
        "scan carry",
        f"{LOAD} %p, %c = tile.scan sum(%t, %t) over [k]",
        "wrong carry of tile.scan",
    ),
    (
        "contract in ub",
        f"{LOAD} %b = tile.load %w[k, n] : !tile.t<[k, n], f32, l1>\n"
        "%c = tile.contract(%t, %b) : !tile.t<[m, n], f32, l0c>",
        "multiplies tiles in l1",
    ),
    (
        "vanishing axis",
        "%a = tile.load %x[m, k] : !tile.t<[m, k], f32, l1>\n %b = tile.load %w[k, n] : !tile.t<[k, n], f32, l1>\n"
        "%c = tile.contract(%a, %b) : !tile.t<[m], f32, l0c>",
        "the axis 'n' vanishes",
    ),
    (
        "accumulator dtype",
        "%a = tile.load %x[m, k] : !tile.t<[m, k], f32, l1>\n %b = tile.load %w[k, n] : !tile.t<[k, n], f32, l1>\n"
        "%c = tile.contract(%a, %b) : !tile.t<[m, n], f16, l0c>",
        "accumulates in full width",
    ),
]

# (name, header, part of the message)
HEADERS = [
    ("undeclared dim", "(%x: !tile.gm<[M], f32>)", "the shape of argument 'x' uses 'M'"),
    ("undeclared extent", "() axes [m = M]", "the extent of axis 'm' uses 'M'"),
    ("later parameter", "() symbols [M] params [a = b, b = M]", "parameter 'a' uses 'b'"),
    ("guard", "() guards [M - 1]", "a kernel guard uses 'M'"),
    ("same name", "() symbols [M] axes [M = 4]", "'M' is declared twice"),
    ("bad name", "() symbols [M.lo]", "bad symbol name"),
    ("argument count", "(%x: !tile.gm<[4], f32>) named [x, y]", "a name per kernel argument"),
]


@pytest.mark.parametrize(("body", "message"), [b[1:] for b in BODIES], ids=[b[0] for b in BODIES])
def test_broken_bodies(body: str, message: str) -> None:
    with pytest.raises(VerifyException, match=re.escape(message)):
        kernels.parse(f"{HEADER} {{\n{body}\n}}").verify()


@pytest.mark.parametrize(("header", "message"), [h[1:] for h in HEADERS], ids=[h[0] for h in HEADERS])
def test_broken_headers(header: str, message: str) -> None:
    with pytest.raises(VerifyException, match=re.escape(message)):
        kernels.parse(f"tile.kernel @f{header} {{}}").verify()


def test_what_is_legal_stays_legal() -> None:
    """The smallest changes that make some of the kernels above legal."""
    body = f"""
    tile.grid [m step tm] sub m {{
      %z = tile.fill 0 : !tile.t<[m], f32>
      %c = tile.for k step 8 iter(%a = %z) {{
        {LOAD}
        %r = tile.reduce sum(%t) over [k] : !tile.t<[m], f32>
        %b = tile.merge sum(%a | %r)
        tile.yield %b
      }}
      tile.store %c, %s[m]
      %t2 = tile.load %x[read ids[m], k] where [m in 0 to m.hi] else -inf : !tile.t<[m, k], f32>
      tile.store %t2, %y[m, k]
    }}
    """
    kernels.parse(f"{HEADER} {{\n{body}\n}}").verify()
