# SPDX-License-Identifier: Apache-2.0
"""The public API of gaf; every name loads its module when it is first used."""

import importlib
from typing import Any

from gaf.torch.registration import install as _install

__version__ = "0.1.0"

_HOME = {
    "Autofuse": "gaf.autofuse",
    "Candidate": "gaf.fusion.candidates",
    "CompileError": "gaf.errors",
    "CostModel": "gaf.fusion.cost",
    "FusedModel": "gaf.compiler",
    "FusedNode": "gaf.fusion.rules",
    "FusionConfig": "gaf.config",
    "FusionRule": "gaf.fusion.rules",
    "GafError": "gaf.errors",
    "GroupCost": "gaf.fusion.cost",
    "InvalidInputError": "gaf.errors",
    "Model": "gaf.dialects.graph.model",
    "Pattern": "gaf.fusion.patterns",
    "RuleWarning": "gaf.fusion.rules",
    "UnsupportedError": "gaf.errors",
    "VerificationError": "gaf.errors",
    "custom_op": "gaf.frontend.custom",
    "custom_ops": "gaf.frontend.custom",
    "format_source": "gaf.frontend.language.format",
    "fuse": "gaf.compiler",
    "fusion_rules": "gaf.fusion.rules",
    "graph_to_torch": "gaf.torch.module",
    "load_custom_ops": "gaf.frontend.custom",
    "load_graph": "gaf.frontend.load",
    "load_model": "gaf.frontend.load",
    "load_rules": "gaf.fusion.declared",
    "manual_seed": "gaf.dialects.graph.seeds",
    "opaque_op": "gaf.frontend.custom",
    "ops": "gaf.frontend.custom",
    "optimize": "gaf.torch.backend",
    "read_tuning": "gaf.tuning",
    "register_fusion": "gaf.fusion.rules",
    "register_fusion_rule": "gaf.fusion.rules",
    "register_pass": "gaf.passes.registry",
    "save": "gaf.frontend.save",
    "tensorflow_to_graph": "gaf.frontend.tensorflow",
    "torch_to_graph": "gaf.frontend.torch",
    "unregister_custom_op": "gaf.frontend.custom",
    "unregister_fusion": "gaf.fusion.rules",
    "unregister_fusion_rule": "gaf.fusion.rules",
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


_install()  # torch.compile(module, backend="gaf"), whenever torch is imported
