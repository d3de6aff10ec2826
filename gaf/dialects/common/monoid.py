# SPDX-License-Identifier: Apache-2.0
"""Reduction monoids: identity, fold and merge, one table for graph bodies, tiles and interpreters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Monoid:
    """An associative and commutative operation with an identity.

    `fold(array, axes)` reduces the given axes of a numpy array (NaN propagates, as IEEE and ONNX say);
    `merge(a, b)` joins two partial results; `combine` is the scalar function of the same meaning.
    """

    name: str
    identity: float
    fold: Callable[[Any, tuple[int, ...]], Any]
    combine: str

    def merge(self, a: Any, b: Any) -> Any:
        return {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}[self.combine](a, b)


SUM = Monoid("sum", 0.0, lambda a, axes: np.sum(a, axis=axes, dtype=a.dtype), "add")
PROD = Monoid("prod", 1.0, lambda a, axes: np.prod(a, axis=axes, dtype=a.dtype), "mul")
MAX = Monoid("max", float("-inf"), lambda a, axes: np.max(a, axis=axes, initial=_lowest(a)), "max")
MIN = Monoid("min", float("inf"), lambda a, axes: np.min(a, axis=axes, initial=_highest(a)), "min")


def _lowest(a: np.ndarray) -> Any:
    return False if a.dtype == bool else (np.iinfo(a.dtype).min if a.dtype.kind in "iu" else -np.inf)


def _highest(a: np.ndarray) -> Any:
    return True if a.dtype == bool else (np.iinfo(a.dtype).max if a.dtype.kind in "iu" else np.inf)


ALL = {m.name: m for m in (SUM, PROD, MAX, MIN)}


def by_name(name: str) -> Monoid:
    """The monoid called `name`; raises KeyError."""
    return ALL[name]
