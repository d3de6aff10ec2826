# SPDX-License-Identifier: Apache-2.0
"""`GraphBuilder`: what all frontends use to make graph ops, name values and follow shape arithmetic."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr as BuiltinArrayAttr
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.parser import Parser
from xdsl.traits import Pure, is_side_effect_free
from xdsl.utils.exceptions import ParseError

from gaf.dialects.common.attributes import parse_expr
from gaf.dialects.common.index import Expr, expr, sym
from gaf.dialects.graph.contract import GraphOp, UnprovenEqualError
from gaf.dialects.graph.model import CONDITIONS, Model, finish, hint
from gaf.dialects.graph.ops.assume import AssumeShapeOp
from gaf.dialects.graph.ops.foreign import ForeignOp
from gaf.dialects.graph.ops.random import RunSaltOp
from gaf.dialects.common.names import legal_name
from gaf.dialects.graph.ops.structure import INLINE_LIMIT, FusedOp, WeightOp, YieldOp
from gaf.dialects.graph.types import TensorType
from gaf.frontend import shape_values
from gaf.frontend.shape_values import LIMIT, dims_array, is_symbolic

# d0, r1, ... name the dims of iteration spaces; the others are keywords of the text format
_RESERVED = re.compile(r"^([dr]\d+|true|false|loc|dense)$")


class GraphBuilder:
    """Adds ops to the block of a model, in order.

    Results that depend only on constants and dims are evaluated at once: a result of at most 64 numbers
    becomes a constant, a result with symbolic dims is remembered so that `dims` can give it. The ops
    that such values leave unused are dropped by `finish`.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.block: Block = model.block
        self._known: dict[SSAValue, np.ndarray] = {}
        self._constants: dict[tuple[Any, ...], SSAValue] = {}
        self._equal: dict[Expr, Expr] = {}  # size -> the size that it is assumed to be
        self.symbols: set[str] = {s for t in model.input_types for s in t.symbols()}
        self._salt: SSAValue | None = None
        self._random_nodes = 0

    # -- symbols --------------------------------------------------------------------------------

    def new_symbol(self, stem: str) -> Expr:
        """A fresh symbolic dim whose name starts with `stem`."""
        name = unique_name(symbol_name(stem), self.symbols)
        self.symbols.add(name)
        return sym(name)

    def assume(self, condition: Expr, what: str) -> None:
        """The model holds only where `condition >= 0`: noted, and checked whenever it runs."""
        note = f"{what} holds where {condition} >= 0"
        if note not in self.model.notes:
            self.model.notes.append(note)
        self.assume_condition(f"{condition} >= 0")

    def assume_condition(self, condition: str) -> None:
        """Add a condition on sizes (`S mod 16 == 0`) that is checked whenever the model runs."""
        known = self.model.func.attributes.get(CONDITIONS)
        texts = list(known.data) if isinstance(known, BuiltinArrayAttr) else []
        if StringAttr(condition) not in texts:
            self.model.func.attributes[CONDITIONS] = BuiltinArrayAttr([*texts, StringAttr(condition)])

    # -- random numbers ---------------------------------------------------------------------------

    def random_source(self, framework: str) -> tuple[SSAValue, int]:
        """The salt that is drawn for every run of the block, and a number that no other random node of it has."""
        if self._salt is None:
            self._salt = self.emit(RunSaltOp, [], {"framework": framework})
        self._random_nodes += 1
        return self._salt, self._random_nodes

    # -- ops ------------------------------------------------------------------------------------

    def emit(
        self,
        op_class: type[GraphOp],
        operands: Sequence[SSAValue],
        attrs: Mapping[str, Any] | None = None,
        location: str | None = None,
    ) -> Any:
        """Make an op. Returns its result, or the list of results when the op has several.

        Raises GafError that names `location` if the operands don't fit.
        """
        results = self.insert(self._make(op_class, list(operands), dict(attrs or {}), location))
        return results[0] if len(results) == 1 else results

    def _make(
        self, op_class: type[GraphOp], operands: list[SSAValue], attrs: dict[str, Any], location: str | None
    ) -> GraphOp:
        """The op. Where it needs two sizes to be equal that may be, the model holds only if they are."""
        while True:
            try:
                return op_class.make(operands, attrs, location)
            except UnprovenEqualError as error:
                self.assume_equal(error.a, error.b, location or op_class.name)
                changed = [self.assumed(v, location) for v in operands]
                new_attrs = {n: self._assumed_dims(a) if _are_dims(a) else a for n, a in attrs.items()}
                if changed == operands and new_attrs == attrs:  # the sizes stand somewhere else
                    raise
            operands, attrs = changed, new_attrs

    # -- assumptions about sizes ------------------------------------------------------------------

    def assume_equal(self, a: Expr, b: Expr, what: str) -> None:
        """The model holds only where sizes `a` and `b` are equal: noted, and checked whenever it runs.

        From then on `assumed` writes one of them for the other.
        """
        given = {s for t in self.model.input_types for s in t.symbols()}
        pair = self._assumed_dims((a, b))
        kept, other = sorted(pair, key=lambda e: (not e.names() <= given, e.as_int() is None, len(str(e))))
        if other == kept:
            return
        self._equal[other] = kept
        self.model.notes.append(f"{what} needs {other} to be {kept}: checked at run time")
        self.assume_condition(f"{other} == {kept}")

    def assumed(self, value: SSAValue, location: str | None = None) -> SSAValue:
        """`value` with the sizes that are assumed to be equal to those in its type."""
        type_ = value.type
        if not self._equal or not isinstance(type_, TensorType):
            return value
        shape = self._assumed_dims(type_.shape)
        return value if shape == type_.shape else self.insert(AssumeShapeOp.make([value], {"shape": shape}, location))[0]

    def _assumed_dims(self, dims: Sequence[Expr]) -> tuple[Expr, ...]:
        result = list(dims)
        for i, dim in enumerate(result):
            while dim in self._equal:
                dim = result[i] = self._equal[dim]
        return tuple(result)

    def insert(self, op: Operation) -> list[SSAValue]:
        """Add a finished op; returns the values that stand for its results."""
        values = self._evaluate(op) if isinstance(op, GraphOp) else None
        if values is not None and all(not is_symbolic(v) and v.size <= INLINE_LIMIT for v in values):
            op.erase()
            return [self.constant(v) for v in values]
        self.block.add_op(op)
        if values is not None:
            self._known.update(zip(op.results, values))
        return list(op.results)

    def _evaluate(self, op: GraphOp) -> list[np.ndarray] | None:
        if op.name in ("graph.shape", "graph.size"):
            return shape_values.shape_value(op)
        if isinstance(op, ForeignOp) and (op.framework.data != "onnx" or not op.pure.value.data):
            return None  # runs code that gaf doesn't know
        operands = []
        for operand in op.operands:
            value = self._known.get(operand)
            if value is None:
                return None
            operands.append(value)
        if not op.results or (not operands and op.name in ("graph.weight", "graph.foreign")):
            return None
        if not op.has_trait(Pure) and not is_side_effect_free(op):
            return None
        for type_ in op.result_tensor_types():
            size = type_.num_elements().as_int()
            if size is None or size > LIMIT:
                return None
        return shape_values.evaluate(op, operands)

    def constant(self, array: np.ndarray, name: str | None = None) -> SSAValue:
        """A constant: inline up to 64 elements (equal ones are shared), otherwise a weight called `name`."""
        array = np.asarray(array)
        if array.size > INLINE_LIMIT:
            op = self.model.constant(array, name or "const")
            value = self._add(op, name)
        else:
            key = (array.dtype.str, array.dtype.name, array.shape, array.tobytes())
            value = self._constants.get(key)  # type: ignore[assignment]
            if value is not None:
                return value
            value = self._constants[key] = self._add(self.model.constant(array), name)
        if array.size <= LIMIT:
            self._known[value] = array
        return value

    def _add(self, op: Operation, name: str | None) -> SSAValue:
        self.block.add_op(op)
        value = op.results[0]
        if name is not None:
            self.name(value, name)
        return value

    def name(self, value: SSAValue, name: str) -> None:
        """Print `value` under the model's name for it, unless it has a name already."""
        if value.name_hint is None:
            value.name_hint = hint(name)

    # -- values ---------------------------------------------------------------------------------

    def known(self, value: SSAValue) -> np.ndarray | None:
        """The value as numbers, if known: constants, weights, and arithmetic on them."""
        array = self._known.get(value)
        if array is not None:
            return None if is_symbolic(array) else array
        if isinstance(value.owner, WeightOp):
            return self.model.weights[value.owner.weight.data]
        return None

    def dims(self, value: SSAValue) -> tuple[Expr, ...] | None:
        """The elements of an integer scalar or vector as expressions over symbols, if known."""
        array = self._known.get(value)
        if array is None:
            array = self.known(value)
        if array is None or array.ndim > 1 or array.size > LIMIT:
            return None
        if not is_symbolic(array) and array.dtype.kind not in "iu":
            return None
        return self._assumed_dims([expr(e if isinstance(e, Expr) else int(e)) for e in array.reshape(-1)])

    def set_dims(self, value: SSAValue, dims: Sequence[Expr]) -> None:
        """Declare the elements of an integer vector."""
        self._known[value] = dims_array(dims)

    # -- regions and the end ----------------------------------------------------------------------

    @contextmanager
    def region(self, block: Block, operands: Sequence[SSAValue | None]) -> Iterator[None]:
        """Build into `block`, isolated from the outside; its arguments stand for `operands` (None: for no one value)."""
        outer, constants = self.block, self._constants
        self.block, self._constants = block, {}
        for arg, operand in zip(block.args, operands, strict=True):
            if operand is not None and operand in self._known:
                self._known[arg] = self._known[operand]
        try:
            yield
        finally:
            self.block, self._constants = outer, constants

    def mark(self) -> tuple[Any, ...]:
        """What `reset` needs to forget the notes, conditions and fallbacks that come after."""
        model = self.model
        fallbacks = {op: list(nodes) for op, nodes in model.fallbacks.items()}
        return list(model.notes), fallbacks, dict(self._equal), model.func.attributes.get(CONDITIONS)

    def reset(self, mark: tuple[Any, ...]) -> None:
        """Go back to a `mark`; the ops that were built since belong to the caller."""
        self.model.notes, self.model.fallbacks, self._equal, conditions = mark
        if conditions is None:
            self.model.func.attributes.pop(CONDITIONS, None)
        else:
            self.model.func.attributes[CONDITIONS] = conditions

    def fused(
        self,
        kind: str,
        label: str,
        operands: Sequence[SSAValue],
        fill: Callable[[Sequence[SSAValue]], Sequence[SSAValue]],
    ) -> list[SSAValue]:
        """A `graph.fused` whose region `fill` makes from the region's arguments; returns its results.

        Arguments that the region doesn't use (shapes that became part of types) are left out.
        """
        block = Block(arg_types=[o.type for o in operands])
        for arg, operand in zip(block.args, operands):
            arg.name_hint = operand.name_hint
        with self.region(block, operands):
            results = list(fill(block.args))
            block.add_op(YieldOp.create(operands=results))
        remove_dead_ops(block)
        kept = list(operands)
        for index in reversed(range(len(kept))):
            if block.args[index].first_use is None:
                block.erase_arg(block.args[index])
                del kept[index]
        op = FusedOp.build_from(kind, label, kept, Region(block))
        self.block.add_op(op)
        for inner, outer in zip(results, op.results):
            outer.name_hint = inner.name_hint
        return list(op.results)

    def finish(self, outputs: Sequence[tuple[str, SSAValue]]) -> Model:
        """Return `outputs` from the model's function, drop unused ops and the weights they held."""
        finish(self.model, outputs)
        remove_dead_ops(self.model.block)
        used = {op.weight.data for op in self.model.module.walk() if isinstance(op, WeightOp)}
        for name in [n for n in self.model.weights if n not in used]:
            self.model.weights.discard(name)
        return self.model


def _are_dims(value: Any) -> bool:
    return isinstance(value, tuple | list) and bool(value) and all(isinstance(v, Expr) for v in value)


def remove_dead_ops(block: Block) -> None:
    """Erase the ops without side effects whose results nobody uses; in one sweep from the end."""
    removable: dict[type, bool] = {}
    op = block.last_op
    while op is not None:
        previous = op.prev_op
        if op.results and all(r.first_use is None for r in op.results):
            pure = removable.get(type(op))
            if pure is None:
                pure = op.has_trait(Pure)
                removable[type(op)] = pure
            if pure or is_side_effect_free(op):
                op.detach()
                op.erase()
        op = previous


def symbol_name(text: str) -> str:
    """A legal symbol made from a dim name of a model, e.g. `batch_size` from `batch size`."""
    name = re.sub(r"\W", "_", text, flags=re.ASCII).strip("_") or "dim"
    if name[0].isdigit():
        name = f"n{name}"
    return f"{name}_" if _RESERVED.match(name) else legal_name(name, "dim")


def unique_name(stem: str, taken: set[str]) -> str:
    """`stem`, or `stem_1`, `stem_2`, ...: the first that is not taken."""
    name, n = stem, 1
    while name in taken:
        name, n = f"{stem}_{n}", n + 1
    return name


def dim_from_text(text: str) -> Expr | None:
    """A dim written as an expression, e.g. `past_length + 1`; None if it isn't one."""
    parser = Parser(Context(), text.strip())
    try:
        result = parse_expr(parser)
    except (ParseError, ZeroDivisionError):
        return None
    complete = parser.pos == len(text.strip())
    return result if complete and all(n == symbol_name(n) for n in result.names()) else None
