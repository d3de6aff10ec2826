# SPDX-License-Identifier: Apache-2.0
"""An FX graph of ATen calls as a graph-level `Model`; the op registry says how each call is written."""

from __future__ import annotations

import logging
import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import fx
from xdsl.ir import SSAValue

from gaf.dialects.common.index import Expr
from gaf.dialects.graph import registry
from gaf.dialects.graph.contract import maybe_equal, tensor_type
from gaf.dialects.graph.model import Model, new_model
from gaf.dialects.graph.ops.foreign import ForeignOp
from gaf.dialects.graph.ops.torch_call import call_text, encode, run_call, to_numpy
from gaf.dialects.graph.types import TensorType
from gaf.errors import GafError, InternalError, UnsupportedError
from gaf.frontend import custom
from gaf.frontend.builder import GraphBuilder
from gaf.frontend.torch.context import CallContext
from gaf.frontend.torch.locations import Locations, source_line
from gaf.frontend.torch.numbers import size_number
from gaf.frontend.torch.support import Unsupported
from gaf.frontend.torch.types import size_of, type_of

log = logging.getLogger("gaf.frontend")

# They state facts about tensors and sizes and compute nothing
_CHECKS = (
    "aten._assert",
    "aten.sym_constrain_range",
    "aten._functional_assert",
    "aten._functional_sym_constrain_range",
)


FOLD_LIMIT = 1 << 20  # elements of tables (windows, triangles of indices) that are computed at import


class Poison:
    """Stands for a value that can't be had, with the reason; who reads it is not reported again."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


@dataclass(frozen=True)
class Held:
    """A placeholder or attribute that holds a tensor known now: it becomes a weight."""

    name: str
    tensor: torch.Tensor


RAISE_BUGS = False
"""Whether anything but a declared refusal (a GafError) ends the import; users' models run such calls on the host, with
a warning. Tests and benchmarks set it.
"""


class GraphImporter:
    """Imports one FX graph. `inputs`: placeholder -> name of the model's input; `held`: known tensors."""

    def __init__(
        self,
        graph: fx.Graph,
        inputs: Mapping[fx.Node, str],
        held: Mapping[fx.Node, Held],
        *,
        name: str,
        source: str,
        num_source_ops: int,
    ) -> None:
        self.graph = graph
        self.source = source
        self.values: dict[fx.Node, Any] = {}
        self.effects = False
        self.unsupported = Unsupported()
        self.locations = Locations()
        types = []
        for node, input_name in inputs.items():
            try:
                types.append((input_name, type_of(node.meta["val"])))
            except UnsupportedError as error:
                error.where = f"{source}: input '{input_name}'"
                raise
        model = new_model(types, name=name, source=source, num_source_ops=num_source_ops)
        self.builder = GraphBuilder(model)
        self.values.update(zip(inputs, model.block.args))
        self.held = held

    def run(self, outputs: Sequence[tuple[str, fx.Node]]) -> Model:
        """Import every node and return `outputs`. Raises one UnsupportedError for all ops without a way."""
        for node in self.graph.nodes:
            match node.op:
                case "placeholder" if node not in self.values:
                    self._hold(node)
                case "get_attr":
                    self._hold(node)
                case "call_function":
                    self.values[node] = self._call(node)
        if self.unsupported.found:
            raise self.unsupported.error(self.source)
        returned = []
        for name, node in outputs:
            value = self.values[node]
            if not isinstance(value, SSAValue):
                raise UnsupportedError("an output that is no tensor", where=f"{self.source}: output '{name}'")
            returned.append((name, value))
        return self.builder.finish(returned)

    # -- values -------------------------------------------------------------------------------------

    def _hold(self, node: fx.Node) -> None:
        """A weight, a size, or something that only calls without a way may read."""
        held = self.held.get(node)
        value = node.meta.get("val")
        if held is not None:
            self.values[node] = self.constant(held)
        elif isinstance(value, torch.SymInt | int):
            self.values[node] = self._size(value)
        else:
            self.values[node] = Poison(f"'{node.name}' is no tensor")

    def constant(self, held: Held) -> SSAValue | Poison:
        """A weight. Its array shares the tensor's memory where the tensor is dense and on the CPU."""
        tensor = held.tensor
        if tensor.layout is not torch.strided or tensor.is_meta:
            return Poison(f"'{held.name}' is no dense tensor with data")
        try:
            array = to_numpy(tensor.cpu())
        except UnsupportedError as error:
            return Poison(f"'{held.name}': {error.what}")
        return self.builder.constant(
            array if array.flags.c_contiguous else np.array(array, order="C"), held.name
        )

    def _size(self, value: Any) -> Expr | Poison:
        try:
            return size_of(value)
        except UnsupportedError as error:
            return Poison(error.what)

    def _number(self, value: torch.SymFloat) -> SSAValue | Poison:
        try:
            return size_number(self.builder, value.node.expr)
        except UnsupportedError as error:
            return Poison(error.what)

    # -- calls --------------------------------------------------------------------------------------

    def _call(self, node: fx.Node) -> Any:
        target, value = node.target, node.meta.get("val")
        name = str(target)
        if name.startswith(_CHECKS):
            return None
        if target is operator.getitem and isinstance(node.args[0], fx.Node):
            container = self.values[node.args[0]]
            if isinstance(container, Poison):
                return container
            if isinstance(container, list):
                return container[node.args[1]]
        if name.startswith(("aten._local_scalar_dense", "aten.item")):
            # nothing is wrong until somebody uses the number
            return Poison("a number read from a tensor decides what is computed")
        if isinstance(value, torch.SymInt | int) and not isinstance(value, bool):
            return self._size(value)
        if isinstance(value, torch.SymFloat):
            return self._number(value)
        if isinstance(value, torch.SymBool | bool | float):
            return value if isinstance(value, bool | float) else Poison(f"{value} is a fact about sizes")
        if not isinstance(target, torch._ops.OpOverload | torch._ops.HigherOrderOperator):
            return self._refuse(node, name, "a Python function in the graph")
        if isinstance(target, torch._ops.HigherOrderOperator):
            name = f"higher_order.{target.name()}"
            if any(isinstance(self.values.get(a), Poison) and _is_graph(a) for a in node.all_input_nodes):
                return self._refuse(node, name, "it calls graphs: control flow that the data decides")
        read = self._poisoned(node)
        if read is not None:
            return self._refuse(node, name, read.reason) if node.users else None
        try:
            results = _result_types(value)
        except UnsupportedError as error:
            return self._refuse(node, name, error.what)
        if name.startswith("aten.as_strided") and not _within_own_memory(node):
            return self._refuse(node, name, "it reads the memory of a tensor that is not in row-major order")
        made = self._write(node, name, value, results)
        if made is None:
            return Poison(name)
        return made if isinstance(value, list | tuple) else made[0] if made else None

    def _refuse(self, node: fx.Node, name: str, reason: str) -> Poison:
        if reason:
            self.unsupported.add(name, node, reason)
        return Poison("")  # what depends on it is not reported again

    def _poisoned(self, node: fx.Node) -> Poison | None:
        for arg in node.all_input_nodes:
            value = self.values.get(arg)
            if isinstance(value, Poison):
                return value
        return None

    def _write(
        self, node: fx.Node, name: str, value: Any, results: list[TensorType | None]
    ) -> list[SSAValue | None] | None:
        """The results of a call: as graph ops if the registry knows it, else as `graph.foreign`."""
        location = self.locations.of(node)
        mine = self._custom(node, name, results, location)
        if mine is not None:
            return mine
        entry = registry.by_aten(name) if isinstance(node.target, torch._ops.OpOverload) else None
        reason = None
        if entry is not None:
            arguments = self._arguments(node)
            known = [r for r in results if r is not None]
            context = CallContext(self.builder, name, arguments, known, _used(node), location)
            try:
                made = _checked(entry.from_aten(context), results, isinstance(value, list | tuple))
                self.effects |= context.draws
                return made
            except GafError as error:
                reason = error.what
            except Exception as error:  # a bug, but the host can still run the call
                if RAISE_BUGS:
                    raise InternalError(
                        f"importing {name} failed: {type(error).__name__}: {error}",
                        where=f"{self.source}: '{location}'",
                        hint="this is a bug in gaf: please report it with the model",
                    ) from error
                reason = f"{type(error).__name__}: {error}"
                log.warning("%s: importing '%s' (%s) failed: %s", self.source, location, name, reason)
        try:
            made = self._foreign(node, name, results, location)
        except UnsupportedError as error:
            self._refuse(node, name, error.what)
            return None
        if reason is not None:
            note = f"'{location}' ({name}) runs on the host: {reason}"
            log.info("%s: %s", self.source, note)
            self.builder.model.notes.append(note)
        return made

    def _custom(
        self, node: fx.Node, name: str, results: list[TensorType | None], location: str
    ) -> list[SSAValue | None] | None:
        """The call as a custom op of the user's that is bound to it; None if there is none.

        Raises GafError that names the node if the op doesn't take the call.
        """
        target = node.args[0] if name.startswith("higher_order.auto_functionalized") else node.target
        op = custom.by_torch(str(target)) if isinstance(target, torch._ops.OpOverload) else None
        if op is None:
            return None
        where = f"{self.source}: '{location}' ({target})"
        schema = target._schema  # type: ignore[union-attr]
        try:
            if target is node.target:
                given = self._arguments(node)
            else:
                given = {a.name: self._functionalised(node, a.name) for a in schema.arguments}
            values = list(given.values())
            while values and values[-1] is None:
                values.pop()
            made: list[SSAValue | None] = list(op.emit(self.builder, values, location=location))
            if target is not node.target:  # results, then every base with its new value
                count = len(made) - len(op.mutates)
                names = [p.name for p in op.signature.params]
                new = {
                    self._base(node, schema.arguments[names.index(m)].name): made[count + i]
                    for i, m in enumerate(op.mutates)
                }
                bases = node.kwargs["_all_bases"]
                made = [*(made[:count] or [None]), *(new.get(i, self._value(b)) for i, b in enumerate(bases))]  # type: ignore[arg-type]
            return _checked(made if len(results) != 1 else made[0], results, len(results) != 1)
        except GafError as error:
            error.where = where
            raise

    def _base(self, node: fx.Node, name: str) -> Any:
        """The number of the base that a mutated argument of a functionalised call is; views of one are refused."""
        index = node.kwargs.get(f"_{name}_base_index")
        views = [k for k in node.kwargs if k.startswith(f"_{name}_") and k != f"_{name}_base_index"]
        if views:
            raise UnsupportedError(f"'{name}' is a view of what is written to", hint="pass the tensor itself")
        return index

    def _functionalised(self, node: fx.Node, name: str) -> Any:
        if name in node.kwargs:
            return self._value(node.kwargs[name])
        index = self._base(node, name)
        return None if index is None else self._value(node.kwargs["_all_bases"])[index]

    def _arguments(self, node: fx.Node) -> dict[str, Any]:
        """All arguments of a call by name, with defaults."""
        schema = node.target._schema  # type: ignore[union-attr]
        result: dict[str, Any] = {}
        for i, argument in enumerate(schema.arguments):
            if argument.name in node.kwargs:
                given = node.kwargs[argument.name]
            elif i < len(node.args) and not argument.kwarg_only:
                given = node.args[i]
            else:
                given = argument.default_value if argument.has_default_value() else None
            result[argument.name] = self._value(given)
        return result

    def _value(self, arg: Any) -> Any:
        match arg:
            case fx.Node():
                return self.values[arg]
            case list() | tuple():
                return [self._value(a) for a in arg]
            case torch.SymInt():
                return size_of(arg)
            case torch.SymFloat():
                return size_number(self.builder, arg.node.expr)
        return arg

    def _foreign(
        self, node: fx.Node, name: str, results: list[TensorType | None], location: str
    ) -> list[SSAValue | None]:
        """The call as one `graph.foreign`, or its value if it has no operands. Raises UnsupportedError if it has no text form."""
        operands: list[SSAValue] = []

        def number(value: Any) -> int | None:
            if not isinstance(value, SSAValue):
                return None
            if value not in operands:
                operands.append(value)
            return operands.index(value)

        target = node.target
        if isinstance(target, torch._ops.OpOverload) and _writes(target):
            raise UnsupportedError("it changes its operand in place, and the graph was not functionalised")
        if any(isinstance(a.meta.get("val"), torch.SymFloat) for a in node.all_input_nodes):
            raise UnsupportedError("a fraction made of sizes is an argument of a call on the host")
        args = [encode(self._value(a), number) for a in node.args]
        kwargs = {k: encode(self._value(v), number) for k, v in node.kwargs.items() if k != "pin_memory"}
        types = [r for r in results if r is not None]
        # random numbers, or a call for its effect only (a check, a log): neither merged nor dropped
        effect = not types or torch.Tag.nondeterministic_seeded in getattr(target, "tags", ())
        text = call_text(args, kwargs)
        fixed = not operands and not effect and '{"s":' not in text  # no tensor, no size of an input
        if fixed and sum(_count(t) for t in types) <= FOLD_LIMIT:
            made = iter(run_call(name, text, [], [], {}, wide=False))
            return [None if r is None else self.builder.constant(next(made), location) for r in results]
        self.effects |= effect
        namespace, _, op_type = name.partition(".")
        op = ForeignOp.of(
            "torch",
            namespace,
            op_type,
            0,
            text,
            operands,
            types,
            pure=not effect,
            location=location,
        )
        made = iter(self.builder.insert(op))
        fallbacks = self.builder.model.fallbacks.setdefault(name, [])
        line = source_line(node)
        fallbacks.append(f"{location} ({line})" if line else location)
        return [None if r is None else next(made) for r in results]


def _result_types(value: Any) -> list[TensorType | None]:
    """The types of a call's results, in order; None for a result that is no tensor."""
    if isinstance(value, torch.Tensor):
        return [type_of(value)]
    if isinstance(value, list | tuple):
        flat = []
        for v in value:
            if isinstance(v, list | tuple):
                raise UnsupportedError("nested lists of results")
            flat.append(type_of(v) if isinstance(v, torch.Tensor) else None)
        return flat
    return []


def _is_graph(node: fx.Node) -> bool:
    """An attribute that holds a graph, which a higher-order op calls."""
    owner: Any = node.graph.owning_module
    for part in str(node.target).split(".") if node.op == "get_attr" else ():
        owner = getattr(owner, part, None)
    return node.op == "get_attr" and isinstance(owner, fx.GraphModule)


def _count(type_: TensorType) -> float:
    """The number of elements; infinite if it depends on sizes."""
    number = type_.num_elements().as_int()
    return math.inf if number is None else number


def _used(node: fx.Node) -> set[int]:
    """The numbers of the results that somebody reads."""
    used = set()
    for user in node.users:
        if user.target is operator.getitem and isinstance(user.args[1], int):
            if user.users:
                used.add(user.args[1])
        else:
            return set(range(len(node.meta["val"]))) if isinstance(node.meta["val"], list | tuple) else {0}
    return used


def _within_own_memory(node: fx.Node) -> bool:
    """Whether as_strided finds what it found in the capture: here all tensors are row-major."""
    tensor, result = node.args[0].meta["val"], node.meta["val"]  # type: ignore[union-attr]
    try:
        reach = sum((n - 1) * s for n, s in zip(result.shape, result.stride()))
        inside = reach + result.storage_offset() < tensor.numel()
        return bool(
            tensor.is_contiguous() and tensor.storage_offset() == 0 and (inside or result.numel() == 0)
        )
    except RuntimeError:  # sizes that are not known
        return False


def _writes(target: torch._ops.OpOverload) -> bool:
    return any(a.alias_info is not None and a.alias_info.is_write for a in target._schema.arguments)


def _checked(made: Any, expected: list[TensorType | None], several: bool) -> list[SSAValue | None]:
    """What an op emitted, compared with the types that PyTorch infers. Raises UnsupportedError."""
    results = list(made) if several else [made]
    for value, type_ in zip(results, expected, strict=True):
        if value is None or type_ is None:
            continue
        got = tensor_type(value)
        fits = got.rank == type_.rank and all(maybe_equal(a, b) for a, b in zip(got.shape, type_.shape))
        if not fits or got.dtype != type_.dtype:
            raise UnsupportedError("gaf infers another type than PyTorch", expected=type_, got=got)
    return results
