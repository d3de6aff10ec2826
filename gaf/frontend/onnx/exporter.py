# SPDX-License-Identifier: Apache-2.0
"""`export_model`: a graph-level `Model` as an ONNX file; every fused op becomes a local function."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import FunctionProto, TensorProto, checker, helper
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, Operation, SSAValue

from gaf.dialects.common import dtype as dt
from gaf.dialects.graph.contract import GraphOp, tensor_type
from gaf.dialects.graph.model import Model
from gaf.dialects.graph.ops.control import IfOp, LoopOp
from gaf.dialects.graph.ops.foreign import ForeignOp
from gaf.dialects.graph.ops.overlap import OverlapOp
from gaf.dialects.graph.ops.structure import ConstantOp, FusedOp, WeightOp, YieldOp
from gaf.dialects.graph.types import TensorType
from gaf.errors import InternalError, InvalidInputError, UnsupportedError
from gaf.frontend.onnx.importer import FUSED_DOMAIN, KIND_KEY, MEMBERS_KEY
from gaf.frontend.onnx.parts import write_overlap
from gaf.frontend.onnx.scope import OpContext, Scope, identifier, tensor_proto, value_info
from gaf.frontend.onnx.support import schema_of

MIN_OPSET, MAX_OPSET = 17, 21
"""Opsets that graph ops can write themselves in."""

EXTERNAL_LIMIT = 1_500_000_000
"""Bytes of weights above which they go to a file of their own; protobuf ends at 2 GiB."""

EXTERNAL_MIN_BYTES = 1024  # smaller tensors stay in the model file
_ALIGNMENT = 4096  # bytes; of each tensor in the data file, so that it can be memory-mapped


def export_model(
    model: Model,
    path: str | os.PathLike[str] | None = None,
    functions: bool = True,
    external_data: bool | None = None,
    operators: Callable[[FusedOp], Operator | None] | None = None,
) -> onnx.ModelProto:
    """The model as ONNX; with `path` also written to a file, whole or not at all.

    Inputs, outputs and symbolic dims keep their names. Each `graph.fused` is a call of a function of the
    domain `gaf.fused`, equal ones of the same function; with `functions=False` its ops stand in the graph.
    `operators` names those that are single nodes instead, of operators that only the reader's toolkit knows.
    `external_data` puts weights of 1 KiB and more into `<file name>.data`; None: if they exceed 1.5 GB.

    Raises UnsupportedError for an op without an ONNX form, InvalidInputError if the file can't be written.
    """
    return _Exporter(model, functions, operators).run(Path(path) if path is not None else None, external_data)


@dataclass(frozen=True)
class Operator:
    """A node that stands for a fused op: `inputs` are numbers of the op's operands."""

    domain: str
    type: str
    inputs: Sequence[int]


class GraphScope(Scope):
    """The main graph: constants and weights are initializers."""

    def __init__(self, opset: int, model: Model) -> None:
        super().__init__(opset)
        self.initializers: dict[str, np.ndarray] = {}
        self._model = model
        self._weights: dict[str, str] = {}

    def make_constant(self, array: np.ndarray, stem: str) -> str:
        name = self.unique(stem)
        self.initializers[name] = array
        return name

    def missing_symbol(self, symbol: str) -> str:
        raise UnsupportedError(
            f"the size {symbol} is a dim of no tensor before its first use, so ONNX can't compute it"
        )

    def weight(self, name: str, type_: TensorType) -> str:
        if name not in self._weights:
            self._weights[name] = self.make_constant(self._model.weights[name], name)
        return self._weights[name]


class BodyScope(Scope):
    """A subgraph of control flow: names, constants and weights are those of the scope around it."""

    def __init__(self, outer: Scope) -> None:
        super().__init__(outer.opset)
        self.outer = outer
        self.domains = outer.domains

    def unique(self, stem: str) -> str:
        return self.outer.unique(stem)

    def make_constant(self, array: np.ndarray, stem: str) -> str:
        return self.outer.constant(array, stem)

    def missing_symbol(self, symbol: str) -> str:
        return self.outer.symbol(symbol)

    def weight(self, name: str, type_: TensorType) -> str:
        return self.outer.weight(name, type_)


class FunctionScope(Scope):
    """The body of a function. What it needs from outside besides its operands becomes further inputs."""

    def __init__(self, opset: int) -> None:
        super().__init__(opset)
        self.weights: dict[str, str] = {}  # weight of the model -> input
        self.symbols: dict[str, str] = {}  # symbol -> input

    def make_constant(self, array: np.ndarray, stem: str) -> str:
        return self.node("Constant", [], [self.unique(stem)], "", {"value": array}, "")[0]

    def missing_symbol(self, symbol: str) -> str:
        self.symbols[symbol] = self.unique(f"size_{symbol}")
        return self.symbols[symbol]

    def weight(self, name: str, type_: TensorType) -> str:
        if name not in self.weights:
            self.weights[name] = self.unique("weight")
            self.note_shape(self.weights[name], type_)
        return self.weights[name]


class _Exporter:
    def __init__(
        self, model: Model, with_functions: bool, operators: Callable[[FusedOp], Operator | None] | None
    ) -> None:
        self.model = model
        self.with_functions = with_functions
        self.operators = operators or (lambda op: None)
        self.opset = _choose_opset(model)
        self.scope = GraphScope(self.opset, model)
        self.functions: dict[bytes, FunctionProto] = {}  # body without names -> function
        self.function_names: set[str] = set()
        self.kernels: list[dict[str, object]] = []
        self.foreign_opsets: dict[str, int] = {}
        self.infos: list[onnx.ValueInfoProto] = []

    def run(self, path: Path | None, external_data: bool | None) -> onnx.ModelProto:
        model, scope = self.model, self.scope
        returned = list(zip(model.output_names, model.returned))
        for name in dict.fromkeys((*model.input_names, *model.output_names)):
            scope.unique(name)  # no other value may take these names
        for name, arg in zip(model.input_names, model.block.args):
            scope.define(arg, name)
        wanted: dict[SSAValue, str] = {}
        for name, value in returned:
            if _is_computed(value):
                wanted.setdefault(value, name)
        self._write_block(scope, model.block, wanted)
        for name, value in returned:
            if scope.names[value] != name:
                scope.node("Identity", [scope.names[value]], [name], "", {}, "")
        proto = self._model_proto()
        size = sum(a.nbytes for a in scope.initializers.values())
        if path is None:
            if external_data:
                raise InvalidInputError("external data needs a file name", expected="a path")
            proto.graph.initializer.extend(tensor_proto(a, n) for n, a in scope.initializers.items())
            _check(proto)
        else:
            self._save(proto, path, size > EXTERNAL_LIMIT if external_data is None else external_data)
        return proto

    # -- ops --------------------------------------------------------------------------------------

    def _write_block(self, scope: Scope, block: Block, wanted: dict[SSAValue, str]) -> None:
        """Write the ops of a block; results in `wanted` get the names given there."""
        for op in block.ops:
            match op:
                case ReturnOp() | YieldOp():
                    return
                case ConstantOp():
                    stem = op.result.name_hint if scope is self.scope else None
                    scope.define(op.result, scope.constant(op.value.array, stem or "const"))
                case WeightOp():
                    scope.define(op.result, scope.weight(op.weight.data, tensor_type(op.result)))
                case FusedOp() if (operator := self.operators(op)) is not None:
                    self._write_operator(scope, op, operator, wanted)
                case FusedOp() if self.with_functions:
                    self._write_call(scope, op, wanted)
                case LoopOp() | IfOp():
                    self._write_control(scope, op, wanted)
                case OverlapOp():
                    write_overlap(scope, op, wanted, self._write_block)
                case FusedOp():
                    self._write_inline(scope, op, wanted)
                case GraphOp():
                    self._write_op(scope, op, wanted)
                case _:
                    raise InternalError(f"{op.name} can't be written as ONNX")

    def _write_op(self, scope: Scope, op: GraphOp, wanted: dict[SSAValue, str]) -> None:
        stem = op.name.removeprefix("graph.")
        in_graph = scope is self.scope
        names = [
            wanted.get(r) or scope.unique((r.name_hint if in_graph else None) or stem) for r in op.results
        ]
        if isinstance(op, ForeignOp) and op.domain.data:
            self.foreign_opsets[op.domain.data] = op.opset.value.data
        written = op.to_onnx(OpContext(scope, op, names), [scope.names[o] for o in op.operands])
        for result, name in zip(op.results, written, strict=True):
            scope.define(result, name)
            if in_graph and result not in wanted:
                self.infos.append(value_info(name, tensor_type(result)))

    def _write_control(self, scope: Scope, op: LoopOp | IfOp, wanted: dict[SSAValue, str]) -> None:
        stem = op.name.removeprefix("graph.")
        names = [wanted.get(r) or scope.unique(r.name_hint or stem) for r in op.results]
        origin = op.location_name() or ""
        operands = [scope.names[o] for o in op.operands]
        if isinstance(op, IfOp):
            graphs = []
            for body in op.bodies:
                inner = BodyScope(scope)
                for arg, name in zip(body.args, operands[1:]):
                    inner.define(arg, name)
                graphs.append(self._body_graph(inner, body, []))
            attrs = {"then_branch": graphs[0], "else_branch": graphs[1]}
            scope.node("If", operands[:1], names, "", attrs, origin)
        else:
            self._write_loop(scope, op, operands, names, origin)
        for result, name in zip(op.results, names):
            scope.define(result, name)

    def _write_loop(
        self, scope: Scope, op: LoopOp, operands: Sequence[str], names: Sequence[str], origin: str
    ) -> None:
        """An ONNX Loop; what the op scans, the body gathers."""
        attrs, inner = op.attrs(), BodyScope(scope)
        carried, scanned = attrs["carried"], attrs["scanned"]
        columns = operands[2 + carried : 2 + carried + scanned]

        def helper(scope: Scope, op_type: str, *inputs: str, **attributes: object) -> str:
            return scope.node(op_type, inputs, [scope.unique("scan")], "", attributes, "")[0]

        limit = operands[0]
        for column in columns:
            length = helper(scope, "Squeeze", helper(scope, "Shape", column, start=0, end=1))
            limit = helper(scope, "Min", limit, length)
        (body,) = op.bodies
        going = inner.unique("going")
        number, *args = body.args
        inputs = [value_info(inner.define(number, inner.unique("iteration")), tensor_type(number))]
        inputs.append(value_info(going, TensorType.of((), dt.BOOL)))
        for arg in args[:carried]:
            name = inner.define(arg, inner.unique(arg.name_hint or "state"))
            inputs.append(value_info(name, tensor_type(arg)))
        one = scope.constant(np.asarray(1, np.int64))
        for i, (arg, column) in enumerate(zip(args[carried : carried + scanned], columns)):
            index = inner.names[number]
            if i in attrs["backward"]:
                length = helper(inner, "Squeeze", helper(inner, "Shape", column, start=0, end=1))
                index = helper(inner, "Sub", helper(inner, "Sub", length, one), index)
            inner.define(arg, helper(inner, "Gather", column, index, axis=0))
        for arg, name in zip(args[carried + scanned :], operands[2 + carried + scanned :]):
            inner.define(arg, name)
        graph = self._body_graph(inner, body, inputs)
        made = list(names)
        for i in attrs["backward_outputs"]:
            made[carried + i] = scope.unique("reversed")
        scope.node("Loop", [limit, *operands[1 : 2 + carried]], made, "", {"body": graph}, origin)
        for i in attrs["backward_outputs"]:
            start, end, step = (scope.constant(np.asarray([v], np.int64)) for v in (-1, np.iinfo(np.int64).min, -1))
            axis = scope.constant(np.asarray([0], np.int64))
            scope.node("Slice", [made[carried + i], start, end, axis, step], [names[carried + i]], "", {}, "")

    def _body_graph(
        self, scope: BodyScope, body: Block, inputs: Sequence[onnx.ValueInfoProto]
    ) -> onnx.GraphProto:
        self._write_block(scope, body, {})
        assert body.last_op is not None
        outputs = []
        for value in body.last_op.operands:  # a value of its own for each: arguments and constants aren't
            name = scope.node("Identity", [scope.names[value]], [scope.unique("result")], "", {}, "")[0]
            outputs.append(value_info(name, tensor_type(value)))
        return helper.make_graph(scope.nodes, "body", list(inputs), outputs)

    def _write_inline(self, scope: Scope, op: FusedOp, wanted: dict[SSAValue, str]) -> None:
        for arg, operand in zip(op.block.args, op.inputs):
            scope.define(arg, scope.names[operand])
        inner: dict[SSAValue, str] = {}
        for value, result in zip(op.yielded, op.outputs):
            if result in wanted and _is_computed(value):
                inner.setdefault(value, wanted[result])
        self._write_block(scope, op.block, inner)
        for value, result in zip(op.yielded, op.outputs):
            scope.define(result, scope.names[value])

    def _write_operator(
        self, scope: Scope, op: FusedOp, operator: Operator, wanted: dict[SSAValue, str]
    ) -> None:
        names = [wanted.get(r) or scope.unique(r.name_hint or op.label.data) for r in op.outputs]
        inputs = [scope.names[op.operands[i]] for i in operator.inputs]
        scope.node(operator.type, inputs, names, operator.domain, {}, op.label.data)
        for result, name in zip(op.outputs, names):
            scope.define(result, name)
            if scope is self.scope and result not in wanted:
                self.infos.append(value_info(name, tensor_type(result)))

    # -- functions ----------------------------------------------------------------------------------

    def _write_call(self, scope: Scope, op: FusedOp, wanted: dict[SSAValue, str]) -> None:
        inner = FunctionScope(self.opset)
        function = self._function(op, inner)
        members, label = inner.origins, op.label.data
        inputs = [scope.names[o] for o in op.inputs]
        inputs.extend(scope.weight(w, _weight_type(op, w)) for w in inner.weights)
        inputs.extend(scope.symbol(s) for s in inner.symbols)
        names = [wanted.get(r) or scope.unique(r.name_hint or label) for r in op.outputs]
        scope.node(function.name, inputs, names, FUSED_DOMAIN, {}, label)
        scope.nodes[-1].metadata_props.add(key=MEMBERS_KEY, value=json.dumps(members))
        for result, name in zip(op.outputs, names):
            scope.define(result, name)
            if scope is self.scope and result not in wanted:
                self.infos.append(value_info(name, tensor_type(result)))
        shown = list(dict.fromkeys(m for m in members if m))
        self.kernels.append(
            {"name": label, "kind": op.kind.data, "function": function.name, "members": shown}
        )

    def _function(self, op: FusedOp, scope: FunctionScope) -> FunctionProto:
        """The function for a fused op: an existing one if its body is the same."""
        inputs = [scope.define(arg, scope.unique(f"x{i}")) for i, arg in enumerate(op.block.args)]
        self._write_block(scope, op.block, {})
        outputs: list[str] = []
        for value in op.yielded:
            name = scope.names[value]
            if name in outputs or not _is_computed(value):
                name = scope.node("Identity", [name], [scope.unique("y")], "", {}, "")[0]
            outputs.append(name)
        function = FunctionProto(domain=FUSED_DOMAIN)
        function.input.extend([*inputs, *scope.weights.values(), *scope.symbols.values()])
        function.output.extend(outputs)
        function.node.extend(scope.nodes)
        function.opset_import.extend(self._opset_ids(scope.domains - {""} | {""}))
        function.metadata_props.add(key=KIND_KEY, value=op.kind.data)
        for node in function.node:
            node.ClearField("name")  # belongs to one call: see the call's metadata
        key = function.SerializeToString(deterministic=True)
        if key not in self.functions:
            base, n = identifier(op.label.data), 1
            name = base
            while name in self.function_names:
                name, n = f"{base}_{n}", n + 1
            self.function_names.add(name)
            function.name = name
            self.functions[key] = function
        return self.functions[key]

    # -- the file -------------------------------------------------------------------------------------

    def _opset_ids(self, domains: set[str]) -> Iterator[onnx.OperatorSetIdProto]:
        for domain in sorted(domains):
            version = self.opset if not domain else self.foreign_opsets.get(domain, 1)
            yield helper.make_opsetid(domain, version)

    def _model_proto(self) -> onnx.ModelProto:
        from gaf import __version__

        model, scope = self.model, self.scope
        graph = helper.make_graph(
            scope.nodes,
            model.name,
            [value_info(n, t) for n, t in zip(model.input_names, model.input_types)],
            [value_info(n, t) for n, t in zip(model.output_names, model.output_types)],
            value_info=self.infos,
        )
        domains = {"", *scope.domains, *self.foreign_opsets}
        opsets = list(self._opset_ids(domains))
        proto = helper.make_model(
            graph,
            functions=list(self.functions.values()),
            opset_imports=opsets,
            producer_name="gaf",
            producer_version=__version__,
        )
        # metadata of nodes and functions came with IR version 10
        proto.ir_version = max(
            helper.find_min_ir_version_for(opsets, ignore_unknown=True), 10 if self.functions else 8
        )
        properties = {"gaf.version": __version__, "gaf.source": Path(model.source).name}
        if self.kernels:
            properties["gaf.kernels"] = json.dumps(self.kernels)
        helper.set_model_props(proto, properties)
        return proto

    def _save(self, proto: onnx.ModelProto, path: Path, external: bool) -> None:
        """Write into a folder beside the target and move the finished files into place."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            folder = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
        except OSError as error:
            raise InvalidInputError(f"can't write: {error.strerror}", where=str(path)) from None
        try:
            data = folder / f"{path.name}.data"
            if external:
                self._write_data(proto, data)
            else:
                tensors = self.scope.initializers.items()
                proto.graph.initializer.extend(tensor_proto(a, n) for n, a in tensors)
                _check(proto)
            written = folder / path.name
            written.write_bytes(proto.SerializeToString(deterministic=True))
            if external:
                _check(written)
                os.replace(data, path.with_name(data.name))
            os.replace(written, path)
        except OSError as error:
            raise InvalidInputError(f"can't write: {error.strerror}", where=str(path)) from None
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _write_data(self, proto: onnx.ModelProto, data: Path) -> None:
        with data.open("wb") as stream:
            for name, array in self.scope.initializers.items():
                if array.nbytes < EXTERNAL_MIN_BYTES:
                    proto.graph.initializer.append(tensor_proto(array, name))
                    continue
                offset = -(-stream.tell() // _ALIGNMENT) * _ALIGNMENT
                stream.seek(offset)
                stream.write(memoryview(np.ascontiguousarray(array).reshape(-1).view(np.uint8)))
                tensor = TensorProto(name=name, dims=array.shape, data_location=TensorProto.EXTERNAL)
                tensor.data_type = helper.np_dtype_to_tensor_dtype(array.dtype)
                entries = {"location": data.name, "offset": offset, "length": array.nbytes}
                for key, value in entries.items():
                    tensor.external_data.add(key=key, value=str(value))
                proto.graph.initializer.append(tensor)


def _is_computed(value: SSAValue) -> bool:
    """True for results of ops that become nodes."""
    return isinstance(value.owner, Operation) and not isinstance(value.owner, ConstantOp | WeightOp)


def _weight_type(op: FusedOp, weight: str) -> TensorType:
    for inner in op.block.ops:
        if isinstance(inner, WeightOp) and inner.weight.data == weight:
            return tensor_type(inner.result)
    raise InternalError(f"weight '{weight}' is not in the fused op {op.label.data}")


def _choose_opset(model: Model) -> int:
    """The model's own opset as far as gaf can write it; foreign ops must mean the same there.

    Raises UnsupportedError if they don't.
    """
    foreign: Sequence[ForeignOp] = [
        op for op in model.module.walk() if isinstance(op, ForeignOp) and not op.domain.data
    ]
    wanted = [min(max(model.opset, MIN_OPSET), MAX_OPSET), *sorted({op.opset.value.data for op in foreign})]
    for opset in wanted:
        if opset >= MIN_OPSET and all(_same_op(op, opset) for op in foreign):
            return opset
    op = next(op for op in foreign if not _same_op(op, wanted[0]))
    raise UnsupportedError(
        f"{op.op_type.data} of opset {op.opset.value.data} can't be written in opset {wanted[0]}, "
        "where it differs",
        where=op.location_name(),
        hint="convert the model with onnx.version_converter before importing it",
    )


def _same_op(op: ForeignOp, opset: int) -> bool:
    versions = [schema_of("", op.op_type.data, v) for v in (op.opset.value.data, opset)]
    return None not in versions and len({v.since_version for v in versions if v is not None}) == 1


def _check(proto: onnx.ModelProto | Path) -> None:
    try:
        checker.check_model(str(proto) if isinstance(proto, Path) else proto)
    except checker.ValidationError as error:
        raise InternalError(f"gaf wrote an invalid ONNX model: {' '.join(str(error).split())}") from None
