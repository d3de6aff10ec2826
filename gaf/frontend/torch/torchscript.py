# SPDX-License-Identifier: Apache-2.0
"""TorchScript (jit.trace, jit.script, `.pt` files) as an nn.Module of plain calls, which torch.export takes.

Each script module becomes an `_Interpreter` that walks its graph; submodule calls stay calls, so module
paths survive. Control flow on Python values is followed; control flow on tensor values is left to
torch.export, which says that it can't be captured.
"""

from __future__ import annotations

import operator
import warnings
import zipfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from gaf.errors import InvalidInputError, UnsupportedError

_SCALAR_OPS: Mapping[str, Callable[..., Any]] = {
    "aten::add": operator.add, "aten::sub": operator.sub, "aten::mul": operator.mul,
    "aten::floordiv": operator.floordiv, "aten::remainder": operator.mod, "aten::div": operator.truediv,
    "aten::neg": operator.neg, "aten::eq": operator.eq, "aten::ne": operator.ne, "aten::lt": operator.lt,
    "aten::le": operator.le, "aten::gt": operator.gt, "aten::ge": operator.ge, "aten::__not__": operator.not_,
    "aten::__and__": operator.and_, "aten::__or__": operator.or_, "aten::pow": operator.pow,
    "aten::__is__": operator.is_, "aten::__isnot__": operator.is_not, "prim::min": min, "prim::max": max,
    "aten::__contains__": operator.contains,
}  # fmt: skip


def script_module(script: Any, where: str) -> nn.Module:
    """A ScriptModule or ScriptFunction as a module whose `forward(*inputs)` runs the graph in Python.

    Raises UnsupportedError for graphs that call back into Python (autograd.Function in a trace).
    """
    refuse_python(script, where)
    if isinstance(script, torch.jit.ScriptFunction):
        return _Function(script.graph, where)
    return _Interpreter(script, where)


def input_names(script: Any) -> list[str]:
    """The names of the tensor inputs, as in the traced function's signature."""
    return [name.partition(".")[0] for name, _ in _inputs(script)]


def traced_inputs(script: Any) -> tuple[Any, ...] | None:
    """Inputs like those of the trace: stored ones, or made from the graph's types; None if unknown."""
    stored = getattr(getattr(script, "_c", None), "_retrieve_traced_inputs", dict)()
    if "forward" in stored:
        return tuple(stored["forward"])
    made = []
    for _, type_ in _inputs(script):
        sizes = type_.sizes() if isinstance(type_, torch._C.TensorType) else None
        if sizes is None or type_.scalarType() is None:
            return None
        dtype = getattr(torch, _TYPE_NAMES.get(type_.scalarType(), type_.scalarType().lower()))
        made.append(torch.zeros(sizes, dtype=dtype))
    return tuple(made)


_TYPE_NAMES = {"Long": "int64", "Int": "int32", "Short": "int16", "Char": "int8", "Byte": "uint8"}


def _inputs(script: Any) -> list[tuple[str, Any]]:
    values = list(script.graph.inputs())
    if not isinstance(script, torch.jit.ScriptFunction):
        values = values[1:]  # the module itself
    return [(v.debugName(), v.type()) for v in values]


def refuse_python(script: Any, where: str) -> None:
    """Raises UnsupportedError if the graph holds calls into Python."""
    graph = script.graph if isinstance(script, torch.jit.ScriptFunction) else script.inlined_graph
    found: dict[str, list[str]] = {}
    for node in _nodes(graph):
        if node.kind() == "prim::PythonOp":
            place = node.sourceRange().strip().splitlines()
            found.setdefault(node.pyname(), []).append(place[0].split(":")[0] if place else "")
    if found:
        names = ", ".join(f"{name} x{len(places)}" for name, places in found.items())
        raise UnsupportedError(
            f"the trace calls back into Python ({names}): a torch.autograd.Function leaves no ops in a trace",
            where=where,
            expected="a graph of PyTorch ops",
            got="prim::PythonOp",
            hint="use torch.export.export(module, inputs), which records what the function computes, or make "
            "it an op with torch.library.custom_op",
        )


def _nodes(block: Any) -> Any:
    for node in block.nodes():
        yield node
        for inner in node.blocks():
            yield from _nodes(inner)


def _plain_inputs(node: Any, env: Mapping[str, Any]) -> list[Any]:
    return [env[v.debugName()] for v in node.inputs()]


class _Runner:
    """Runs the nodes of one graph; `attribute` and `call` reach the module that owns it."""

    def __init__(self, where: str, attribute: Callable[..., Any], call: Callable[..., Any]) -> None:
        self.where, self.attribute, self.call = where, attribute, call

    def run(self, graph: Any, inputs: Sequence[Any]) -> Any:
        names = [v.debugName() for v in graph.inputs()]
        if len(names) != len(inputs):
            raise InvalidInputError(
                "wrong number of inputs", where=self.where, expected=len(names), got=len(inputs)
            )
        results = self.block(graph, dict(zip(names, inputs)))
        return results[0] if len(results) == 1 else tuple(results)

    def block(self, block: Any, env: dict[str, Any]) -> list[Any]:
        for node in block.nodes():
            outputs = list(node.outputs())
            results = self.node(node, env)
            if len(outputs) == 1:
                env[outputs[0].debugName()] = results
            else:
                env.update(zip((o.debugName() for o in outputs), results or ()))
        return [env[v.debugName()] for v in block.outputs()]

    def node(self, node: Any, env: dict[str, Any]) -> Any:
        kind = node.kind()
        match kind:
            case "prim::Constant":
                return node.output().toIValue() if node.hasAttributes() else None
            case "prim::GetAttr":
                return self.attribute(env[node.input().debugName()], node.s("name"))
            case "prim::CallMethod":
                owner, *args = _plain_inputs(node, env)
                return self.call(owner, node.s("name"), args)
            case "prim::If":
                taken = bool(env[next(node.inputs()).debugName()])
                branch = list(node.blocks())[0 if taken else 1]
                results = self.block(branch, env)
                return results[0] if node.outputsSize() == 1 else results
            case "prim::Loop":
                return self.loop(node, env)
        args = _plain_inputs(node, env)
        match kind:
            case "prim::ListConstruct":
                return list(args)
            case "prim::TupleConstruct":
                return tuple(args)
            case "prim::DictConstruct":
                return dict(zip(args[::2], args[1::2]))
            case "prim::ListUnpack" | "prim::TupleUnpack":
                return args[0][0] if node.outputsSize() == 1 else list(args[0])
            case "prim::TupleIndex" | "aten::__getitem__":
                return args[0][args[1]]
            case (
                "prim::NumToTensor"
                | "aten::Int"
                | "aten::Float"
                | "aten::Bool"
                | "aten::ScalarImplicit"
                | "aten::IntImplicit"
            ):
                # sizes travel through tensors in a trace; here they stay numbers
                return _number(kind, args[0])
            case (
                "prim::unchecked_cast"
                | "prim::unchecked_unwrap_optional"
                | "aten::_unwrap_optional"
                | "prim::data"
            ):
                return args[0]
            case "prim::dtype":
                return args[0].dtype
            case "prim::device":
                return args[0].device
            case "prim::shape":
                return list(args[0].shape)
            case "prim::RaiseException":
                raise InvalidInputError(f"the script raises: {args[0]}", where=self.where)
            case "aten::size" if len(args) == 1:
                return list(args[0].shape)
            case "aten::size":
                return args[0].shape[args[1]]
            case "aten::len":
                return len(args[0])
            case "aten::dim":
                return args[0].dim()
            case "aten::append":
                args[0].append(args[1])
                return args[0]
            case "aten::warn" | "prim::Print" | "aten::manual_seed":
                return None
            case "prim::CallFunction":
                raise UnsupportedError("a call of a scripted function that was not inlined", where=self.where)
        if kind in _SCALAR_OPS and not any(isinstance(a, torch.Tensor) for a in args):
            return _SCALAR_OPS[kind](*(args[:2] if kind in ("aten::add", "aten::sub") else args))
        return self.op(node, kind, args)

    def loop(self, node: Any, env: dict[str, Any]) -> Any:
        limit, condition, *state = _plain_inputs(node, env)
        body = next(node.blocks())
        names = [v.debugName() for v in body.inputs()]
        count = 0
        while count < limit and bool(condition):
            env.update(zip(names, [count, *state]))
            condition, *state = self.block(body, env)
            count += 1
        return state[0] if node.outputsSize() == 1 else state

    def op(self, node: Any, kind: str, args: list[Any]) -> Any:
        namespace, _, name = kind.partition("::")
        schema = node.schema()
        if schema == "(no schema)" or namespace == "prim":
            raise UnsupportedError(f"the TorchScript node {kind} is not supported", where=self.where)
        overload = schema.partition("(")[0].partition("::")[2].partition(".")[2] or "default"
        try:
            op = getattr(getattr(getattr(torch.ops, namespace), name), overload)
        except AttributeError:
            raise UnsupportedError(
                f"the op {kind} is not registered in this process",
                where=self.where,
                hint="import the module that registers it (torch.library) first",
            ) from None
        positional, keywords = [], {}
        for argument, value in zip(op._schema.arguments, args):
            if argument.kwarg_only:
                keywords[argument.name] = value
            else:
                positional.append(value)
        # traces hold numbers as tensors of rank 0 without dimensions; ops that want a number get one
        return op(*positional, **keywords)


def _number(kind: str, value: Any) -> Any:
    if kind == "prim::NumToTensor" or not isinstance(value, torch.Tensor):
        convert = {"aten::Int": _int, "aten::Float": float, "aten::Bool": bool}.get(kind)
        return value if convert is None or isinstance(value, torch.SymInt) else convert(value)
    return value.item()


def _int(value: Any) -> Any:
    return value if isinstance(value, torch.SymInt) else int(value)


class _Function(nn.Module):
    """A scripted or traced function."""

    def __init__(self, graph: Any, where: str) -> None:
        super().__init__()
        self._graph, self._where = graph, where

    def forward(self, *inputs: Any) -> Any:
        def no_attribute(owner: Any, name: str) -> Any:
            raise UnsupportedError(f"a function with an attribute '{name}'", where=self._where)

        return _Runner(self._where, no_attribute, no_attribute).run(self._graph, inputs)


class _Interpreter(nn.Module):
    """One script module: the same parameters, buffers and children under the same names."""

    def __init__(self, script: Any, where: str) -> None:
        super().__init__()
        object.__setattr__(self, "_script", script)
        object.__setattr__(self, "_where", where)
        for name, parameter in script.named_parameters(recurse=False):
            self.register_parameter(name, nn.Parameter(parameter, parameter.requires_grad))
        for name, buffer in script.named_buffers(recurse=False):
            self.register_buffer(name, buffer)
        for name, child in script.named_children():
            self.add_module(name, _Interpreter(child, where))
        self.train(script.training)

    def forward(self, *inputs: Any, method: str = "forward") -> Any:
        graph = self._graph_of(method)
        return _Runner(self._where, self._attribute, self._call).run(graph, [self, *inputs])

    def _graph_of(self, method: str) -> Any:
        graph = self._script._c._get_method(method).graph
        if any(n.kind() == "prim::CallFunction" for n in _nodes(graph)):
            graph = graph.copy()
            torch._C._jit_pass_inline(graph)
        return graph

    @staticmethod
    def _attribute(owner: Any, name: str) -> Any:
        if (
            isinstance(owner, _Interpreter)
            and name not in owner._parameters | owner._buffers | owner._modules
        ):
            return getattr(owner._script, name)
        return getattr(owner, name)

    @staticmethod
    def _call(owner: Any, method: str, args: Sequence[Any]) -> Any:
        return owner(*args) if method == "forward" else owner(*args, method=method)


def load_script(path: str) -> Any:
    """Open a TorchScript `.pt` file. Raises InvalidInputError; a plain pickle is refused unread."""
    hint = (
        "save the module with torch.jit.save(torch.jit.trace(module, inputs), path), or with "
        "torch.export.save (always when it holds a torch.autograd.Function, which no trace can save)"
    )
    if not zipfile.is_zipfile(path):
        raise InvalidInputError(
            "this is a pickle or no PyTorch file at all; gaf never loads pickles", where=path, hint=hint
        )
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    if not any(name.endswith("constants.pkl") for name in names) or not any(
        "/code/" in name for name in names
    ):
        raise InvalidInputError(
            "this file holds a pickled module or weights, no program; gaf never loads pickles",
            where=path,
            hint=hint,
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            return torch.jit.load(path, map_location="cpu")
    except Exception as error:
        what = " ".join(str(error).split())[:300]
        raise InvalidInputError(f"can't read the script: {what}", where=path) from None
