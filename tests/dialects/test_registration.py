# SPDX-License-Identifier: Apache-2.0
"""Every op class of the lower dialects is registered: one that isn't prints but can't be read back."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

import pytest
from xdsl.irdl import IRDLOperation

from gaf.dialects import ascendc, tile


@pytest.mark.parametrize(
    ("package", "dialect"), [(ascendc, ascendc.AscendC), (tile, tile.Tile)], ids=["ascendc", "tile"]
)
def test_every_op_class_is_registered(package: ModuleType, dialect: object) -> None:
    modules = [importlib.import_module(f"{package.__name__}.{m.name}") for m in pkgutil.iter_modules(package.__path__)]
    classes = {
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, IRDLOperation) and "name" in vars(value)
    }
    assert classes and classes == set(dialect.operations)  # type: ignore[attr-defined]
