# SPDX-License-Identifier: Apache-2.0
"""The `.gaf` language: operators as compositions and tensor comprehensions, models, fusion rules and targets."""

from __future__ import annotations

from typing import Any

_HOME = {
    "format_source": "format",
    "load_gaf": "program",
    "load_program": "program",
    "new_op": "template",
    "parse": "parser",
    "program_from_text": "program",
}


def __getattr__(name: str) -> Any:
    # lark takes 70 ms to import: nothing is loaded before it is used
    if name not in _HOME:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
