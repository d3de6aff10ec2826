# SPDX-License-Identifier: Apache-2.0
"""Makes `backend="gaf"` known to torch.compile without importing torch: when torch loads its registry.

Installed packages are found through the entry point `torch_dynamo_backends`; this also serves a checkout.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

REGISTRY = "torch._dynamo.backends.registry"


def gaf_backend(graph: Any, example_inputs: Sequence[Any], **options: Any) -> Any:
    """The backend function that torch.compile calls; see `gaf.torch.backend.compile_graph`."""
    from gaf.torch.backend import compile_graph

    return compile_graph(graph, example_inputs, **options)


def install() -> None:
    """Register the backend now if torch has loaded its registry, else as soon as it does."""
    if REGISTRY in sys.modules:
        _register(sys.modules[REGISTRY])
    elif not any(isinstance(f, _Finder) for f in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def _register(registry: ModuleType) -> None:
    # where the entry point is known, torch registers what it loads from there
    if "gaf" not in registry._BACKENDS:
        registry.register_backend(gaf_backend, name="gaf")


class _Finder(MetaPathFinder):
    """Waits for one module, and runs `_register` when it has been executed."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != REGISTRY:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            _register(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
