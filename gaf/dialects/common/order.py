# SPDX-License-Identifier: Apache-2.0
"""The order of sorted rows: equal elements by place, NaN as the largest number."""

from __future__ import annotations

import numpy as np

LARGEST, SMALLEST = "largest", "smallest"
ORDERS = (LARGEST, SMALLEST)
"""Which elements come first."""

VALUES, PLACES = "values", "places"
RANKED = (VALUES, PLACES)
"""What is kept of the ordered elements: themselves, or where they stood."""


def stable_order(x: np.ndarray, axis: int, order: str) -> np.ndarray:
    """The places of the elements along `axis` in order, like argsort; of equal elements the first one comes first."""
    if order == SMALLEST:
        return np.argsort(x, axis=axis, kind="stable")
    backwards = np.argsort(np.flip(x, axis), axis=axis, kind="stable")
    return x.shape[axis] - 1 - np.flip(backwards, axis)


def sort_keys(x: np.ndarray, order: str) -> np.ndarray:
    """float32 keys without NaN whose descending order is that of `x`: NaN becomes infinity, and positive numbers the
    next smaller ones to make room for it (the smallest subnormal becomes 0). `from_keys` takes them back.
    """
    bits = x.astype(np.float32).view(np.int32)
    infinity = np.int32(0x7F800000)
    keys = np.where(np.isnan(x), infinity, bits - (bits > 0)).astype(np.int32).view(np.float32)
    return keys if order == LARGEST else -keys


def from_keys(keys: np.ndarray, order: str) -> np.ndarray:
    """The numbers that `sort_keys` made keys of."""
    bits = np.asarray(keys if order == LARGEST else -keys, np.float32).view(np.int32)
    return (bits + (bits > 0)).astype(np.int32).view(np.float32)
