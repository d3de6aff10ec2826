# SPDX-License-Identifier: Apache-2.0
"""Shared by the twin's tests: building the kernels of tests/runtime/kernels once a session, ulp distances."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from gaf.runtime.twin import TwinKernel, build_kernels

KERNELS = Path(__file__).parent / "kernels"
MODES = ("fast", "check")


@cache
def kernel(name: str, mode: str) -> TwinKernel:
    """The kernel in kernels/<name>.cpp, built for a mode."""
    return build_kernels([(name, (KERNELS / f"{name}.cpp").read_text())], mode=mode)[name]


def ulps(got: np.ndarray, exact: np.ndarray) -> float:
    """Largest distance of `got` from float64 `exact`, in units of the last place at the exact value.

    Infinities and NaN must agree in place and sign; subnormals count in units of the smallest subnormal.
    """
    with np.errstate(over="ignore"):
        rounded = exact.astype(got.dtype)
    special = ~np.isfinite(rounded)
    np.testing.assert_array_equal(got[special], rounded[special])
    if special.all():
        return 0.0
    unit = np.spacing(np.abs(rounded[~special])).astype(np.float64)
    return float(np.max(np.abs(got[~special].astype(np.float64) - exact[~special]) / unit))
