# SPDX-License-Identifier: Apache-2.0
"""What has no lowering is refused with op, reason and a hint, before any C++ exists."""

from __future__ import annotations

import pytest

from gaf.errors import UnsupportedError
from gaf.passes.tile.lower_tile import lower_kernel
from gaf.passes.tile.recipes import MISSING
from gaf.target import DEFAULT
from tests.dialects.tile import kernels

HEADER = (
    "tile.kernel @f(%x: !tile.gm<[M, K], f32>, %h: !tile.gm<[M, K], f16>, %ids: !tile.gm<[M], i32>, "
    "%w: !tile.gm<[K, N], f32>, %y: !tile.gm<[M, K], f32, out>, %s: !tile.gm<[M], f32, out>, "
    "%z: !tile.gm<[M, N], f32, out>) symbols [M, K, N] axes [m = M, k = K, n = N, q = 4]"
)
LOAD = "%t = tile.load %x[m, k] : !tile.t<[m, k], f32>\n"

BODIES = [
    ("strided lanes", "%t = tile.load %x[k, m] where [k in 0 to 3] else 0 : !tile.t<[m, k], f32>\n"
     "tile.store %t, %y[m, k]", "the load of 'x': the lane axis 'k' has a stride of K elements"),
    ("strided column", "%t = tile.load %x[m, 0] : !tile.t<[m], f32>\ntile.store %t, %s[m]", "'m' has a stride of K"),
    ("not linear", "%t = tile.load %x[m, k * k] : !tile.t<[m, k], f32>\ntile.store %t, %y[m, k]",
     "isn't linear in 'k'"),
    ("guarded lanes", f"{LOAD}tile.store %t, %y[m, k] where [k in 0 to 3]", "a store guarded along 'k'"),
    ("scatter", f"{LOAD}tile.store %t, %y[read ids[m], k]", "a scatter has no lowering yet"),
    ("scatter-add", f"{LOAD}tile.store %t, %y[m, k] add", "scatter-add has no lowering yet"),
    ("element gather", "%t = tile.load %x[0, read ids[m]] : !tile.t<[m], f32>\ntile.store %t, %s[m]",
     "the indices vary along the lanes"),
    ("transpose", f"{LOAD}%u = tile.view %t[] : !tile.t<[k, m], f32>\ntile.store %u, %y[m, k]", "no recipe yet"),
    ("three axes", "%t = tile.load %x[m, k] : !tile.t<[q, m, k], f32>\n"
     "%u = tile.reduce sum(%t) over [q] : !tile.t<[m, k], f32>\ntile.store %u, %y[m, k]", "a tile has 3 axes wider"),
    ("half arithmetic", "%t = tile.load %h[m, k] : !tile.t<[m, k], f16>\n"
     "%u = tile.map neg(%t) : !tile.t<[m, k], f16>\n%v = tile.map cast(%u) : !tile.t<[m, k], f32>\n"
     "tile.store %v, %y[m, k]", "'neg' on a tile of f16 has no lowering"),
    ("function", f"{LOAD}%u = tile.map bitnot(%t) : !tile.t<[m, k], f32>\ntile.store %u, %y[m, k]",
     "the function 'bitnot' has no lowering"),
    ("slices of lanes", f"{LOAD}tile.for k step 8 {{\n%u = tile.map neg(%t) : !tile.t<[m, k], f32>\n"
     "tile.store %u, %y[m, k]\n}", "takes slices of a tile that is complete outside"),
    ("unaligned slices", "%c = tile.fill 1 : !tile.t<[m], f32>\n%d = tile.reduce sum(%c) over [] : !tile.t<[m], f32>\n"
     f"tile.for m step 3 {{\n{LOAD}%u = tile.map mul(%t, %d) : !tile.t<[m, k], f32>\ntile.store %u, %y[m, k]\n}}",
     "start unaligned"),
    ("fractals", "tile.grid [m step 64, n step 64] {\n%a = tile.load %x[m, k] : !tile.t<[m, k], f32, l1>\n"
     "%b = tile.load %w[k, n] : !tile.t<[k, n], f32, l1>\n%c = tile.contract(%a, %b) : !tile.t<[m, n], f32, l0c>\n"
     "tile.store %c, %z[m, n]\n}", "the cube stores whole fractals"),
    ("block too big", "tile.grid [m step 256, n step 64] sub m {\n%a = tile.load %x[m, k] : !tile.t<[m, k], f32, l1>\n"
     "%b = tile.load %w[k, n] : !tile.t<[k, n], f32, l1>\n%c = tile.contract(%a, %b) : !tile.t<[m, n], f32, l0c>\n"
     "%u = tile.move %c : !tile.t<[m, n], f32>\ntile.store %u, %z[m, n]\n}", "a matmul block has too many rows"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "message"), [b[1:] for b in BODIES], ids=[b[0] for b in BODIES])
def test_refused(body: str, message: str) -> None:
    kernel = kernels.parse_kernel(f"{HEADER} {{\n{body}\n}}")
    with pytest.raises(UnsupportedError) as error:
        lower_kernel(kernel, DEFAULT)
    assert message in str(error.value)
    assert str(error.value).startswith("tile."), "the message names the op"


def test_functions_without_a_recipe_are_known() -> None:
    assert not MISSING
