# SPDX-License-Identifier: Apache-2.0
"""The public API of gaf; every name loads its module when it is first used."""

import importlib
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "CompileError": "gaf.errors",
    "FusedModel": "gaf.compiler",
    "FusionConfig": "gaf.config",
    "GafError": "gaf.errors",
    "InvalidInputError": "gaf.errors",
    "Model": "gaf.dialects.graph.model",
    "UnsupportedError": "gaf.errors",
    "VerificationError": "gaf.errors",
    "fuse": "gaf.compiler",
    "load_graph": "gaf.frontend.load",
    "load_model": "gaf.frontend.load",
    "register_pass": "gaf.passes.registry",
    "save": "gaf.frontend.save",
}
"""Public names and the modules that define them: nothing heavy is imported by `import gaf`."""


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'gaf' has no attribute '{name}'")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
