# SPDX-License-Identifier: Apache-2.0
"""`load_onnx`: an ONNX model as a graph-level `Model`."""

from __future__ import annotations

import gc
import json
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, FunctionProto, NodeProto
from xdsl.ir import SSAValue

from gaf.dialects.common import dtype as dt
from gaf.dialects.graph import registry
from gaf.dialects.graph.contract import UnprovenEqualError, tensor_type
from gaf.dialects.graph.model import Model, new_model
from gaf.errors import GafError, InternalError, InvalidInputError, UnsupportedError
from gaf.frontend import custom
from gaf.frontend.builder import GraphBuilder
from gaf.frontend.onnx import reader, recurrent, support
from gaf.frontend.onnx.context import NodeContext, attribute_value
from gaf.frontend.onnx.control import ControlFlow
from gaf.frontend.onnx.expand import expansion
from gaf.frontend.onnx.foreign import emit_foreign
from gaf.frontend.onnx.frames import Frame, function_opsets, resolved_attributes, resolved_node, result_list
from gaf.frontend.onnx.nodes import NodeRules, node_label, order_nodes
from gaf.frontend.onnx.shapes import InputShapes, input_types, tensor_info
from gaf.frontend.onnx.support import Way, qualified, standard_domain

log = logging.getLogger("gaf.frontend")

FUSED_DOMAIN = "gaf.fused"
"""Domain of the local functions that stand for fused ops in exported files."""

KIND_KEY, MEMBERS_KEY = "gaf.kind", "gaf.members"
"""Metadata of such functions (kind of kernel) and of their calls (JSON: the model node of each body node)."""


def load_onnx(
    source: str | os.PathLike[str] | onnx.ModelProto,
    input_shapes: InputShapes | None = None,
    keep_fused: bool = False,
) -> Model:
    """Import an ONNX file or protobuf.

    `input_shapes` gives dims of inputs: numbers, names, or None for the model's own. With `keep_fused`
    the local functions that gaf wrote for fused ops become `graph.fused` again instead of being inlined.

    Raises InvalidInputError for anything that is not a consistent ONNX model, UnsupportedError (which
    lists every op type once) for valid models that gaf can't take.
    """
    if isinstance(source, onnx.ModelProto):
        proto, where, folder = source, source.graph.name or "model", None
        reader.check_model(proto, where)
    else:
        proto, where, folder = reader.read_model(source), os.fspath(source), Path(source).parent
    collecting = gc.isenabled()
    gc.disable()  # nothing made here is garbage: looking for it costs a tenth of the time
    try:
        return Importer(proto, where, folder, input_shapes, keep_fused).run()
    except (InvalidInputError, UnsupportedError):
        raise
    except Exception:
        field = reader.invalid_text(proto)
        if field is None:
            raise
        raise InvalidInputError(
            f"the field '{field}' is not text in UTF-8",
            where=where,
            hint="the file is damaged: fetch it again",
        ) from None
    finally:
        if collecting:
            gc.enable()


class Importer:
    """One import: frames of nodes on an explicit stack, so that depth costs no Python recursion."""

    def __init__(
        self,
        proto: onnx.ModelProto,
        where: str,
        folder: Path | None,
        input_shapes: InputShapes | None,
        keep_fused: bool,
    ) -> None:
        self.proto = proto
        self.where = where
        self.folder = folder
        self.input_shapes = input_shapes
        self.keep_fused = keep_fused
        self.opsets = reader.opset_versions(proto, where)
        self.functions: dict[tuple[str, str, str], FunctionProto] = {
            (standard_domain(f.domain), f.name, getattr(f, "overload", "")): f for f in proto.functions
        }
        self.rules = NodeRules()
        self.control = ControlFlow(self)

    def run(self) -> Model:
        graph = self.proto.graph
        initializers = self.initializers(graph)
        inputs = [v for v in graph.input if v.name not in initializers]
        _check_unique([v.name for v in inputs], "input", self.where)
        _check_unique([v.name for v in graph.output], "output", self.where)
        types = input_types(inputs, self.where, self.input_shapes)
        nodes = order_nodes(graph.node, {v.name for v in inputs} | initializers.keys(), self.where)
        self.check_supported(nodes)
        model = new_model(
            types.inputs,
            name=_model_name(graph.name, self.where),
            source=self.where,
            opset=self.opsets.get("", 1),
            num_source_ops=sum(n.op_type not in ("Constant", "Identity") for n in graph.node),
        )
        for note in types.notes:
            log.info("%s: %s", self.where, note)
        model.notes.extend(types.notes)
        self.builder = GraphBuilder(model)
        values: dict[str, SSAValue] = dict(zip((name for name, _ in types.inputs), model.block.args))
        frame = Frame(iter(nodes), self.opsets, values, initializers)
        self.drain(frame)
        outputs = [(v.name, self._output(frame, v)) for v in graph.output]
        return self.builder.finish(outputs)

    # -- before the import ------------------------------------------------------------------------

    def initializers(self, graph: onnx.GraphProto) -> dict[str, onnx.TensorProto]:
        if graph.sparse_initializer:
            name = graph.sparse_initializer[0].values.name
            raise UnsupportedError(
                "sparse initializers are not supported",
                where=self.where,
                got=f"'{name}'",
                hint="make it dense",
            )
        result: dict[str, onnx.TensorProto] = {}
        for tensor in graph.initializer:
            if tensor.name in result:
                raise InvalidInputError(f"two initializers are called '{tensor.name}'", where=self.where)
            result[tensor.name] = tensor
        return result

    def check_supported(
        self, nodes: Iterable[tuple[int, NodeProto]], opsets: Mapping[str, int] | None = None
    ) -> None:
        """One error for all op types that can't be imported, those in called functions included."""
        wanted: list[tuple[NodeProto, str, int]] = []
        work = [(list(nodes), opsets or self.opsets, "")]
        seen: set[tuple[str, str, str]] = set()
        while work:
            batch, versions, prefix = work.pop()
            for index, node in batch:
                label = prefix + node_label(node, index)
                domain = standard_domain(node.domain)
                key = (domain, node.op_type, getattr(node, "overload", ""))
                wanted.append((node, label, self._opset(versions, domain, key in self.functions, label)))
                if key in self.functions and key not in seen:
                    seen.add(key)
                    body = self.functions[key]
                    work.append((list(enumerate(body.node)), function_opsets(body), f"{label}/"))
        support.check_nodes(wanted, self.functions, self.where)

    def _opset(self, versions: Mapping[str, int], domain: str, is_function: bool, label: str) -> int:
        version = versions.get(domain)
        if version is None:
            if domain or is_function:
                return 1  # a custom domain: gaf knows the op or it doesn't
            raise InvalidInputError(
                "the model uses the standard ops but names no version of them",
                where=f"{self.where}: node '{label}'",
                expected="an opset_import with domain ''",
            )
        return version

    # -- the loop -----------------------------------------------------------------------------------

    def drain(self, first: Frame) -> None:
        """Import all nodes of a frame, and of the frames that its nodes open."""
        stack = [first]
        while stack:
            frame = stack[-1]
            entry = next(frame.nodes, None)
            if entry is None:
                stack.pop()
                frame.done()
                continue
            opened = self._node(frame, *entry)
            if opened is not None:
                stack.append(opened)

    def _node(self, frame: Frame, index: int, node: NodeProto) -> Frame | None:
        """Import one node; returns a frame to import first if the node stands for other nodes."""
        location = frame.prefix + node_label(node, index)
        if index < len(frame.labels):
            location = frame.labels[index] or location
        where = f"{self.where}: node '{location}' ({qualified(node.domain, node.op_type)})"
        domain = standard_domain(node.domain)
        overload = getattr(node, "overload", "")
        key = (domain, node.op_type, overload)
        opset = self._opset(frame.opsets, domain, key in self.functions, location)
        how = support.way(domain, node.op_type, opset, self.functions, overload)
        try:
            operands = [self.value(frame, name, where) for name in node.input]
            attributes = resolved_attributes(node, frame)
            if how in (Way.OP, Way.DIRECT, Way.DECOMPOSE, Way.EXPAND, Way.HOST):
                self.rules.check(node, operands, attributes, domain, opset, where)
            match how:
                case Way.FUNCTION:
                    return self._call(
                        frame, node, self.functions[key], key, operands, attributes, location, where
                    )
                case Way.DIRECT if node.op_type == "If":
                    taken = self.control.branch(frame, node, operands[0], attributes, location, where)
                    if isinstance(taken, Frame):
                        return taken
                    results = list(taken)
                case Way.DIRECT if node.op_type == "Loop":
                    results = list(self.control.loop(frame, operands, attributes, location, where))
                case Way.DIRECT if node.op_type == "Scan":
                    results = list(self.control.scan(frame, operands, attributes, opset, location, where))
                case Way.DIRECT:
                    results = [self._direct(node, operands, attributes, where)]
                case Way.DECOMPOSE | Way.EXPAND:
                    schema = support.schema_of(domain, node.op_type, opset)
                    assert schema is not None
                    if how is Way.EXPAND:
                        body = self._recurrent(node, operands, attributes)
                    else:
                        body = support.function_body(schema, opset)
                    defaults = {
                        n: a.default_value for n, a in schema.attributes.items() if a.default_value.name
                    }
                    return self._call(
                        frame, node, body, key, operands, {**defaults, **attributes}, location, where
                    )
                case Way.OP:
                    context = NodeContext(
                        self.builder, node, operands, attributes, opset, location, where, self.folder
                    )
                    try:
                        results = self._op(registry.by_onnx(domain, node.op_type), context)
                    except UnsupportedError as error:
                        if not support.runs_on_host(domain, node.op_type, opset):
                            raise
                        results = self._host_instead(
                            error, node, operands, attributes, opset, location, where
                        )
                case Way.CUSTOM:
                    results = self._custom(frame, node, operands, attributes, location, where)
                case Way.HOST:
                    found = self._expansion(node, operands, attributes, domain, opset)
                    if found is not None:
                        return self._call(frame, node, found, key, operands, attributes, location, where)
                    results = self._foreign(node, operands, attributes, opset, location, where)
                case None:  # in a branch of an If whose nodes were not looked at before
                    raise support.Unsupported({(domain, node.op_type): [location]}).error(self.where)
        except GafError as error:
            if error.where is None or error.where == location:
                error.where = where
            raise
        except (RecursionError, MemoryError):
            raise
        except OverflowError as error:  # Python's integers have no limit, sizes and numpy's do
            raise InvalidInputError("a size or number beyond 64 bits", where=where, got=error) from error
        except Exception as error:
            if support.schema_of(domain, node.op_type, opset) is None:
                text = f"{type(error).__name__}: {error}"
                raise InvalidInputError(f"this node is not as expected: {text}", where=where) from error
            raise InternalError(
                f"importing the node failed: {type(error).__name__}: {error}",
                where=where,
                hint="run again with --debug for a traceback, and report it",
            ) from error
        self._bind(frame, node, results, where)
        return None

    def _bind(self, frame: Frame, node: NodeProto, results: Sequence[SSAValue | None], where: str) -> None:
        for i, name in enumerate(node.output):
            if not name:
                continue
            value = results[i] if i < len(results) else None
            if value is None:
                frame.lacking[name] = (
                    f"result {i} of {where.removeprefix(self.where + ': ')} is not supported"
                )
                continue
            frame.values[name] = value
            self.builder.name(value, name)

    # -- values ---------------------------------------------------------------------------------------

    def value(self, frame: Frame, name: str, where: str) -> SSAValue | None:
        """The value of a name, or None for an operand left out."""
        if not name:
            return None
        scope: Frame | None = frame
        while scope is not None:
            value = scope.values.get(name)
            if value is not None:
                return value
            tensor = scope.initializers.get(name)
            if tensor is not None:
                array = reader.tensor_array(tensor, self.where, self.folder)
                value = scope.values[name] = self.builder.constant(array, name)
                return value
            if name in scope.lacking:
                raise UnsupportedError(scope.lacking[name], where=where)
            if name in scope.absent:
                return None
            scope = scope.parent
        raise InvalidInputError(
            f"the value '{name}' is used but not defined", where=where, hint="the model may be damaged"
        )

    def _output(self, frame: Frame, info: onnx.ValueInfoProto) -> SSAValue:
        where = f"{self.where}: output '{info.name}'"
        value = self.value(frame, info.name, where)
        if value is None:
            raise InvalidInputError("an output has no name", where=self.where)
        if info.type.WhichOneof("value") is None:
            return value
        declared, type_ = tensor_info(info, self.where), tensor_type(value)
        if declared.elem_type and dt.of_onnx(declared.elem_type, where=where) != type_.dtype:
            raise InvalidInputError(
                "the model declares another element type than its nodes compute",
                where=where,
                expected=dt.of_onnx(declared.elem_type),
                got=type_.dtype,
            )
        if declared.HasField("shape"):
            self._compare_shapes(info.name, declared.shape, type_)
        return value

    def _compare_shapes(self, name: str, declared: onnx.TensorShapeProto, type_: Any) -> None:
        sizes = [d.dim_value if d.HasField("dim_value") else None for d in declared.dim]
        inferred = [d.as_int() for d in type_.shape]
        fits = len(sizes) == len(inferred) and all(
            a is None or b is None or a == b for a, b in zip(sizes, inferred)
        )
        if not fits and not self.input_shapes:
            shown = ", ".join("?" if s is None else str(s) for s in sizes)
            note = f"the model declares output '{name}' as [{shown}], its nodes compute {type_}"
            log.warning("%s: %s", self.where, note)
            self.builder.model.notes.append(note)

    # -- kinds of nodes ---------------------------------------------------------------------------------

    def _op(self, op: Any, context: NodeContext) -> list[SSAValue | None]:
        """The results of a node that is a graph op. Sizes that it needs equal and may be so are assumed to be."""
        while True:
            try:
                return result_list(op.from_onnx(context))
            except UnprovenEqualError as error:
                self.builder.assume_equal(error.a, error.b, context.location)
                assumed = [o if o is None else self.builder.assumed(o, context.location) for o in context.operands]
                if assumed == context.operands:
                    raise
            context.operands = assumed

    def _direct(
        self,
        node: NodeProto,
        operands: list[SSAValue | None],
        attributes: Mapping[str, AttributeProto],
        where: str,
    ) -> SSAValue:
        if node.op_type == "Identity":
            assert operands[0] is not None
            return operands[0]
        for name, proto in attributes.items():
            match name:
                case "value" | "value_float" | "value_floats" | "value_int" | "value_ints":
                    value = attribute_value(proto, where, self.folder)
                    dtype = None
                    if name != "value":
                        dtype = np.float32 if "float" in name else np.int64
                    return self.builder.constant(np.asarray(value, dtype), node.output[0])
                case "sparse_value" | "value_string" | "value_strings":
                    kind = "sparse" if name == "sparse_value" else "string"
                    raise UnsupportedError(f"{kind} constants are not supported", where=where)
        raise InvalidInputError("a Constant without a value", where=where)

    def _custom(
        self,
        frame: Frame,
        node: NodeProto,
        operands: list[SSAValue | None],
        attributes: Mapping[str, AttributeProto],
        location: str,
        where: str,
    ) -> list[SSAValue]:
        """A node that the user registered an op for. Later readers of what it mutates see the new value."""
        op = custom.by_onnx(standard_domain(node.domain), node.op_type)
        assert op is not None
        tensors = dict(zip((p.name for p in op.tensors), operands))
        if len(operands) > len(op.tensors) or len(node.output) > len(op.signature.results):
            raise InvalidInputError(
                f"the node doesn't fit the custom op '{op.name}'",
                where=where,
                expected=f"at most {len(op.tensors)} inputs and {len(op.signature.results)} outputs",
                got=f"{len(operands)} and {len(node.output)}",
            )
        values = {name: attribute_value(proto, where, self.folder) for name, proto in attributes.items()}
        for p in op.signature.params:
            if p.type.element == "bool" and isinstance(values.get(p.name), int):
                values[p.name] = bool(values[p.name])
        results = op.emit(self.builder, [], {**tensors, **values}, location)
        count = len(results) - len(op.mutates)
        for name, new in zip(op.mutated_numbers, results[count:]):
            frame.values[node.input[name]] = new
        return results[:count]

    def _recurrent(
        self, node: NodeProto, operands: Sequence[SSAValue | None], attributes: Mapping[str, AttributeProto]
    ) -> FunctionProto:
        """The function for an RNN, GRU or LSTM."""
        assert operands[0] is not None
        values = recurrent.plain_attributes(attributes)
        dtype = tensor_type(operands[0]).dtype.numpy
        return recurrent.function(node.op_type, [o is not None for o in operands], values, dtype)

    def _expansion(
        self,
        node: NodeProto,
        operands: Sequence[SSAValue | None],
        attributes: Mapping[str, AttributeProto],
        domain: str,
        opset: int,
    ) -> FunctionProto | None:
        """The function that ONNX defines for just this node, if gaf takes all of it."""
        schema = support.schema_of(domain, node.op_type, opset)
        if schema is None or domain:
            return None
        known = [None if v is None else (tensor_type(v), self.builder.known(v)) for v in operands]
        defaults = {n: a.default_value for n, a in schema.attributes.items() if a.default_value.name}
        return expansion(schema, node, {**defaults, **attributes}, known, opset, load_onnx)

    def _foreign(
        self,
        node: NodeProto,
        operands: list[SSAValue | None],
        attributes: Mapping[str, AttributeProto],
        opset: int,
        location: str,
        where: str,
    ) -> list[SSAValue]:
        resolved = resolved_node(node, attributes)
        results = emit_foreign(self.builder, resolved, operands, opset, location, where)
        name = qualified(node.domain, node.op_type)
        self.builder.model.fallbacks.setdefault(name, []).append(location)
        return results

    def _host_instead(
        self,
        reason: UnsupportedError,
        node: NodeProto,
        operands: list[SSAValue | None],
        attributes: Mapping[str, AttributeProto],
        opset: int,
        location: str,
        where: str,
    ) -> list[SSAValue]:
        """A variant that the graph op doesn't take (axes computed at run time, ...) as `graph.foreign`."""
        try:
            results = self._foreign(node, operands, attributes, opset, location, where)
        except UnsupportedError:
            raise reason from None
        note = f"node '{location}' ({node.op_type}) runs on the host: {reason.what}"
        log.info("%s: %s", self.where, note)
        self.builder.model.notes.append(note)
        return results

    def _call(
        self,
        frame: Frame,
        node: NodeProto,
        body: FunctionProto,
        key: tuple[str, str, str],
        operands: Sequence[SSAValue | None],
        attributes: Mapping[str, AttributeProto],
        location: str,
        where: str,
    ) -> Frame | None:
        """A call of a function: a frame with the function's nodes, or a fused op."""
        if key in frame.calls:
            raise InvalidInputError(f"the function {qualified(*key[:2])} calls itself", where=where)
        if len(operands) > len(body.input) or len(node.output) > len(body.output):
            raise InvalidInputError(
                "the call doesn't fit the function",
                where=where,
                expected=f"at most {len(body.input)} inputs and {len(body.output)} outputs",
                got=f"{len(operands)} and {len(node.output)}",
            )
        given = {a.name: a for a in body.attribute_proto} | dict(attributes)
        nodes = order_nodes(body.node, set(body.input), where)

        def enter(values: Sequence[SSAValue | None]) -> Frame:
            named = dict(zip(body.input, values))
            inner = Frame(
                iter(nodes),
                function_opsets(body),
                {n: v for n, v in named.items() if v is not None},
                attributes=given,
                prefix=f"{location}/",
                calls=(*frame.calls, key),
            )
            inner.absent = {n for n in body.input if named.get(n) is None}
            return inner

        if self.keep_fused and key[0] == FUSED_DOMAIN:
            self._fused(frame, node, body, operands, enter, where)
            return None
        inner = enter(operands)
        inner.done = lambda: self.hand_over(inner, body.output, frame, node, where)
        return inner

    def _fused(
        self,
        frame: Frame,
        node: NodeProto,
        body: FunctionProto,
        operands: Sequence[SSAValue | None],
        enter: Callable[[Sequence[SSAValue | None]], Frame],
        where: str,
    ) -> None:
        def fill(args: Sequence[SSAValue]) -> list[SSAValue]:
            inner = enter(args)
            inner.prefix, inner.labels = "", members
            self.drain(inner)
            values = [self.value(inner, name, where) for name in body.output]
            return [v for v in values if v is not None]

        kind = next((p.value for p in body.metadata_props if p.key == KIND_KEY), "fused")
        # the members' names in the model that was fused
        members = json.loads(next((p.value for p in node.metadata_props if p.key == MEMBERS_KEY), "[]"))
        given = [o for o in operands if o is not None]
        results = self.builder.fused(kind, node.name or body.name, given, fill)
        self._bind(frame, node, results, where)

    def hand_over(self, inner: Frame, names: Iterable[str], outer: Frame, node: NodeProto, where: str) -> None:
        """Give the results of a function or branch to the node that stands for it."""
        wanted = zip(names, node.output)
        values = [self.value(inner, name, where) if used else None for name, used in wanted]
        self._bind(outer, node, values, where)


def _model_name(graph_name: str, where: str) -> str:
    return Path(where).stem if Path(where).suffix == ".onnx" else graph_name or "model"


def _check_unique(names: Sequence[str], what: str, where: str) -> None:
    seen: set[str] = set()
    for name in names:
        if not name:
            raise InvalidInputError(f"an {what} has no name", where=where)
        if name in seen:
            raise InvalidInputError(f"two {what}s are called '{name}'", where=where)
        seen.add(name)
