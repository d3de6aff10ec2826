# SPDX-License-Identifier: Apache-2.0
"""LoadTileBox of the device library: both bodies, every element type, boxes at every edge of a tile."""

from __future__ import annotations

import struct

import ml_dtypes
import numpy as np
import pytest

from gaf.runtime.compiler import find_compiler

from .twin_kernels import MODES, kernel

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")

DTYPES = [np.float32, np.float16, ml_dtypes.bfloat16, np.uint8, np.int32, np.int64, np.int8]
FILLS = [-0.0, 7.0, 1.5, 1.0, -3.0, 0.0, -5.0]

# rows, lanes, row0, col0, nrows, ncols, columns of the array that the box is cut from
BOXES = [
    (1, 1, 0, 0, 1, 1, 1),
    (1, 40, 0, 3, 1, 37, 37),
    (5, 33, 1, 0, 3, 33, 50),
    (5, 33, 2, 7, 3, 26, 26),
    (7, 64, 0, 16, 7, 17, 90),
    (7, 64, 0, 63, 4, 1, 3),
    (9, 20, 0, 0, 0, 0, 5),
    (9, 20, 9, 0, 0, 20, 20),
    (9, 20, 0, 20, 9, 0, 20),
    (3, 130, 0, 0, 3, 130, 140),
    (3, 130, 1, 5, 2, 125, 0),  # stride 0: one row again and again
]
MANY_ROWS = (4200, 2, 40, 1, 4150, 1, 3)  # more bursts than one DataCopyPad takes


def expected(x: np.ndarray, fill: float, box: tuple[int, ...]) -> np.ndarray:
    rows, lanes, row0, col0, nrows, ncols, stride = box
    result = np.full((2, rows, lanes), fill).astype(x.dtype)
    for r in range(nrows):
        result[0, row0 + r, col0 : col0 + ncols] = x[r * stride : r * stride + ncols]
    return result


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("which", range(len(DTYPES)), ids=[np.dtype(d).name for d in DTYPES])
def test_box_and_fill(which: int, mode: str) -> None:
    dtype, fill = np.dtype(DTYPES[which]), FILLS[which]
    for box in [*BOXES, MANY_ROWS] if which == 0 else BOXES:
        rows, lanes, *_, nrows, ncols, stride = box
        size = max(1, (nrows - 1) * stride + ncols)  # the last row ends with the array
        x = np.random.default_rng(which).integers(0, 100, size).astype(dtype)
        out = np.full((2, rows, lanes), 99).astype(dtype)
        tiling = struct.pack("<8If", which, *box[:-1], stride, fill)
        found = kernel("boxes", mode).launch([x, out], 0, tiling, 1, outputs=1)
        assert found.violations == [] and not found.deadlock, (box, found.message)
        want = expected(x, fill, box)
        np.testing.assert_array_equal(out, want, err_msg=str(box))
        if dtype.kind != "i" and dtype.kind != "u":
            np.testing.assert_array_equal(np.signbit(out), np.signbit(want), err_msg=str(box))
