# SPDX-License-Identifier: Apache-2.0
"""What the importer does with each ONNX op type, and one message for all op types that it can't take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import Enum
from functools import lru_cache
from importlib.util import find_spec

import onnx
from onnx import defs

from gaf.dialects.graph import registry
from gaf.errors import UnsupportedError
from gaf.frontend import custom
from gaf.frontend.onnx.recurrent import GATES

CONTROL_FLOW = frozenset({"If", "Loop", "Scan"})
DIRECT = frozenset({"Constant", "Identity"}) | CONTROL_FLOW  # the importer itself handles these
RANDOM = frozenset(
    {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"}
)


class Way(Enum):
    """How a node is imported."""

    DIRECT = "by the importer"
    OP = "as a graph op"
    FUNCTION = "by inlining the model's function"
    CUSTOM = "as a custom op that was registered for it"
    DECOMPOSE = "by inlining the function that ONNX defines for the op"
    EXPAND = "by inlining a function of gaf for a recurrent layer"
    HOST = "as graph.foreign, on the host"


Functions = Mapping[tuple[str, str, str], onnx.FunctionProto]


def standard_domain(domain: str) -> str:
    """ "" for both spellings of the standard domain."""
    return "" if domain == "ai.onnx" else domain


def qualified(domain: str, op_type: str) -> str:
    """`Gelu`, or `com.microsoft.Gelu` outside the standard domain."""
    return f"{domain}.{op_type}" if standard_domain(domain) else op_type


@lru_cache(maxsize=4096)
def schema_of(domain: str, op_type: str, opset: int) -> defs.OpSchema | None:
    """The ONNX schema that holds at an opset, or None."""
    try:
        return defs.get_schema(op_type, opset, domain)
    except defs.SchemaError:
        return None


def way(domain: str, op_type: str, opset: int, functions: Functions, overload: str = "") -> Way | None:
    """How a node is imported; None if it can't be."""
    domain = standard_domain(domain)
    if (domain, op_type, overload) in functions:
        return Way.FUNCTION
    if custom.by_onnx(domain, op_type) is not None:
        return Way.CUSTOM
    return _way(domain, op_type, opset)


@lru_cache(maxsize=4096)
def _way(domain: str, op_type: str, opset: int) -> Way | None:
    if not domain and op_type in DIRECT:
        return Way.DIRECT
    if registry.by_onnx(domain, op_type) is not None:
        return Way.OP
    schema = schema_of(domain, op_type, opset)
    if schema is not None and not domain and op_type in GATES:
        return Way.EXPAND
    if (
        schema is not None
        and schema.has_function
        and _tensors_only(schema)
        and _has_every_op(function_body(schema, opset), opset)
    ):
        return Way.DECOMPOSE
    return Way.HOST if runs_on_host(domain, op_type, opset) else None


@lru_cache(maxsize=4096)
def runs_on_host(domain: str, op_type: str, opset: int) -> bool:
    """True if `graph.foreign` can run the op: it works on tensors, and onnx has a reference for it."""
    schema = schema_of(domain, op_type, opset)
    known = schema is not None and op_type not in CONTROL_FLOW and _tensors_only(schema)
    return known and _has_reference(domain, op_type, opset)


def _tensors_only(schema: defs.OpSchema) -> bool:
    """False for ops on sequences, optionals, maps and strings only."""
    return all(
        any(t.startswith("tensor(") and t != "tensor(string)" for t in formal.types)
        for formal in [*schema.inputs, *schema.outputs]
    )


def function_body(schema: defs.OpSchema, opset: int) -> onnx.FunctionProto:
    """The function that ONNX defines for an op, in the form for `opset`."""
    data = schema.get_function_with_opset_version(_function_version(schema.function_opset_versions, opset))
    return data if isinstance(data, onnx.FunctionProto) else onnx.FunctionProto.FromString(data)


def _function_version(versions: Iterable[int], opset: int) -> int:
    """The newest version of a function that ops of `opset` may use, else the oldest there is."""
    ordered = sorted(versions)
    return max((v for v in ordered if v <= opset), default=ordered[0])


def _has_every_op(body: onnx.FunctionProto, opset: int) -> bool:
    """True if gaf has every op of the function."""
    versions = {standard_domain(o.domain): o.version for o in body.opset_import}
    for node in body.node:
        found = _way(
            standard_domain(node.domain), node.op_type, versions.get(standard_domain(node.domain), opset)
        )
        if found not in (Way.OP, Way.DIRECT, Way.DECOMPOSE, Way.EXPAND) or node.op_type == "If":
            return False
    return True


def _has_reference(domain: str, op_type: str, opset: int) -> bool:
    from onnx.reference import ReferenceEvaluator
    from onnx.reference.op_run import RuntimeContextError

    if op_type == "ImageDecoder" and find_spec("PIL") is None:
        return False
    try:
        if domain == "ai.onnx.ml":
            from onnx.reference.ops.aionnxml import load_op as load_ml_op

            load_ml_op(domain, op_type, opset)
            return True
        from onnx.reference.ops import load_op

        load_op(domain, op_type, opset, evaluator_cls=ReferenceEvaluator)
    except RuntimeContextError:
        return True  # a function that depends on the node: the evaluator expands it
    except Exception:
        return False
    return True


@dataclass
class Unsupported:
    """Op types that can't be imported, with the names of their nodes."""

    nodes: dict[tuple[str, str], list[str]] = field(default_factory=dict)

    def add(self, domain: str, op_type: str, name: str) -> None:
        self.nodes.setdefault((standard_domain(domain), op_type), []).append(name)

    def error(self, where: str) -> UnsupportedError:
        """One message that lists each op type once."""
        lines = [_line(domain, op_type, names) for (domain, op_type), names in self.nodes.items()]
        count = sum(map(len, self.nodes.values()))
        kinds = "op type is" if len(lines) == 1 else "op types are"
        return UnsupportedError(
            f"{len(lines)} {kinds} not supported ({count} node{'s' if count > 1 else ''}):\n"
            + "\n".join(lines),
            where=where,
            hint='ways out: declare it as a custom op, @gaf.custom_op("acme::gate", shapes, onnx="com.acme.Gate") '
            'in Python or `op gate(..) -> .. as onnx "com.acme.Gate" { .. }` in a .gaf file (opaque=True with a '
            "numpy function keeps it on the host); write it in the model as an ONNX function of supported ops; or "
            "cut the model and keep that part outside",
        )


def _line(domain: str, op_type: str, names: list[str]) -> str:
    shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
    line = f"  {qualified(domain, op_type)} x{len(names)}: {shown}"
    if not domain and any(t in op_type for t in ("Sequence", "Optional", "String")):
        return line + " (only tensors of numbers are supported)"
    close = get_close_matches(op_type, supported_names(domain), n=1, cutoff=0.6)
    if close:
        return line + f" (nearest supported name: {qualified(domain, close[0])})"
    if domain and not supported_names(domain):
        return line + f" (nothing is known about the domain '{domain}')"
    return line


def supported_names(domain: str) -> list[str]:
    """The op types of one domain that are imported as graph ops; a name says nothing in another domain."""
    return sorted({*registry.onnx_names(domain), *(() if domain else DIRECT)})


def check_nodes(nodes: Iterable[tuple[onnx.NodeProto, str, int]], functions: Functions, where: str) -> None:
    """Raises one UnsupportedError for all of (node, name, opset of its domain) that can't be imported."""
    found = Unsupported()
    for node, name, opset in nodes:
        if way(node.domain, node.op_type, opset, functions, getattr(node, "overload", "")) is None:
            found.add(node.domain, node.op_type, name)
    if found.nodes:
        raise found.error(where)
