# SPDX-License-Identifier: Apache-2.0
"""ONNX models in and out; `load_onnx` and `export_model` load their modules when used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {"export_model": "exporter", "load_onnx": "importer"}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
