# SPDX-License-Identifier: Apache-2.0
"""Ops of users: `graph.generic`, whose meaning is written down, and `graph.custom`, which nobody can look into."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from xdsl.dialects.builtin import ArrayAttr as BuiltinArrayAttr
from xdsl.dialects.builtin import (
    BoolAttr,
    DenseArrayBase,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    NameLoc,
    NoneAttr,
    StringAttr,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import opt_prop_def, prop_def, traits_def, var_operand_def, var_result_def
from xdsl.traits import EffectInstance, MemoryEffect, Pure
from xdsl.utils.exceptions import VerifyException

from gaf.dialects.common.scalar import Arg
from gaf.dialects.graph.contract import (
    ExportContext,
    GraphOp,
    bool_prop,
    from_attribute,
    graph_op,
    ints_prop,
    str_prop,
    tensor_type,
    to_attribute,
)
from gaf.dialects.graph.meaning import Meaning, Opaque, OpMeaning, Piece, View
from gaf.dialects.graph.meaning_attr import MeaningAttr
from gaf.dialects.graph.meaning_eval import check_meaning, run_meaning
from gaf.dialects.graph.meaning_onnx import export_meaning
from gaf.dialects.graph.types import TensorType
from gaf.errors import GafError, InternalError, InvalidInputError, UnsupportedError


@graph_op
class GenericOp(GraphOp):
    """An op given by its iteration spaces, e.g. a tensor comprehension of the `.gaf` language.

    `meaning` holds the stages, over operand numbers; `label` is the user's name for the op. Fusion and
    lowering see the same record as for built-in ops. Reads have to stay in bounds for all sizes.
    """

    name = "graph.generic"
    label = str_prop()
    spaces = prop_def(MeaningAttr, prop_name="meaning")
    args = var_operand_def(TensorType)
    outs = var_result_def(TensorType)
    traits = traits_def(Pure())

    @classmethod
    def of(
        cls,
        label: str,
        meaning: Meaning,
        operands: Sequence[SSAValue | Operation],
        location: str | None = None,
    ) -> Self:
        """The op on `operands`. Raises InvalidInputError if the meaning doesn't fit them."""
        return cls.make(operands, {"label": label, "meaning": MeaningAttr.of(meaning)}, location)

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        try:
            return check_meaning(attrs["meaning"].data, operands)
        except GafError as error:
            error.what = f"{cls.name} '{attrs['label']}': {error.what}"
            raise

    def reference_with_symbols(
        self, *args: np.ndarray, env: Mapping[str, int], wide: bool = False
    ) -> Sequence[np.ndarray]:
        try:
            return run_meaning(self.spaces.data, args, env, wide)
        except KeyError as error:
            raise InvalidInputError(
                f"'{self.label.data}': the value of symbol {error} is not known",
                where=self.location_name(),
                hint="run with symbol values",
            ) from None
        except InvalidInputError as error:
            error.what, error.where = (
                f"'{self.label.data}': {error.what}",
                error.where or self.location_name(),
            )
            raise

    def reference(self, *args: np.ndarray, wide: bool = False) -> Sequence[np.ndarray]:
        return self.reference_with_symbols(*args, env={}, wide=wide)

    def meaning(self) -> OpMeaning:
        """The stages; a view if every element is one of an operand (a transpose, a window, a gather)."""
        meaning = self.spaces.data
        stage = meaning.stages[-1]
        if (
            len(meaning.stages) == 1
            and stage.monoid is None
            and stage.body == Arg(0)
            and len(self.results) == 1
        ):
            (read,) = stage.reads
            if read.operand is not None and tensor_type(self.operands[read.operand]).dtype == stage.dtype:
                return View((Piece(read.operand, read.index),))
        return meaning

    @property
    def user_name(self) -> str:
        """The user's name for the op, in kernels and reports."""
        return self.label.data

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        try:
            return export_meaning(
                ctx, self.spaces.data, inputs, self.operand_tensor_types(), self.result_tensor_types()
            )
        except UnsupportedError as error:
            error.what, error.where = (
                f"'{self.label.data}': {error.what}",
                error.where or self.location_name(),
            )
            raise


# -- opaque ops ---------------------------------------------------------------------------------------

HostFunction = Callable[..., Any]
"""Takes the operands as numpy arrays and the arguments as keywords; returns an array or a sequence of them.

It gets copies of the operands that it mutates, writes into them, and returns only its results.
"""

_references: dict[str, HostFunction] = {}


def set_reference(callee: str, function: HostFunction | None) -> HostFunction | None:
    """Let `function` compute `graph.custom` ops called `callee` (None: nobody does); returns the former one."""
    former = _references.pop(callee, None)
    if function is not None:
        _references[callee] = function
    return former


def reference_of(callee: str) -> HostFunction | None:
    """The host function of a custom op, or None."""
    return _references.get(callee)


class CustomEffects(MemoryEffect):
    """No effects for a `pure` op that mutates nothing, else unknown ones: it is neither merged nor removed."""

    @classmethod
    def get_effects(cls, op: Operation) -> set[EffectInstance] | None:
        assert isinstance(op, CustomOp)
        return set() if op.is_pure else None


@graph_op
class CustomOp(GraphOp):
    """A user's op without a body: a boundary between kernels that runs on the host through its reference.

    `callee` is its name (`acme::gate`), `arguments` what it gets besides tensors. An op that writes into
    its operands `mutates` (their numbers) has one more result for each: the operand's value afterwards,
    which is what every later reader has to use. `pure = false` says that calls may not be merged, moved
    across each other or dropped. `device` names an Ascend C function for tiles of its operands.
    """

    name = "graph.custom"
    callee = str_prop()
    arguments = prop_def(DictionaryAttr)
    mutates = ints_prop()
    pure = bool_prop()
    onnx = opt_prop_def(StringAttr)
    device = opt_prop_def(StringAttr)
    args = var_operand_def(TensorType)
    outs = var_result_def(TensorType)
    traits = traits_def(CustomEffects())

    @classmethod
    def of(
        cls,
        callee: str,
        operands: Sequence[SSAValue],
        types: Sequence[TensorType],
        *,
        arguments: Mapping[str, Any] | None = None,
        mutates: Sequence[int] = (),
        pure: bool = True,
        onnx: str | None = None,
        device: str | None = None,
        location: str | None = None,
    ) -> Self:
        """A call with results of `types`, followed by the new values of the mutated operands."""
        properties: dict[str, Attribute] = {
            "callee": StringAttr(callee),
            "arguments": DictionaryAttr({k: argument_attribute(v) for k, v in (arguments or {}).items()}),
            "mutates": DenseArrayBase.from_list(i64, list(mutates)),
            "pure": BoolAttr.from_bool(pure),
        }
        for key, text in (("onnx", onnx), ("device", device)):
            if text is not None:
                properties[key] = StringAttr(text)
        results = [*types, *(tensor_type(operands[i]) for i in mutates)]
        op = cls.create(operands=list(operands), result_types=results, properties=properties)
        if location:
            op.location = NameLoc(StringAttr(location), NoneAttr())
        return op

    @property
    def is_pure(self) -> bool:
        return bool(self.pure.value.data) and not self.mutated

    @property
    def mutated(self) -> tuple[int, ...]:
        """Numbers of the operands that the op writes into."""
        return tuple(self.mutates.get_values())

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        raise InternalError("the types of graph.custom come from its declaration; use CustomOp.of")

    def verify_(self) -> None:
        mutated = self.mutated
        if any(not 0 <= i < len(self.operands) for i in mutated) or len(set(mutated)) != len(mutated):
            raise VerifyException(
                f"'{self.callee.data}' mutates operands {list(mutated)}: expected distinct numbers below {len(self.operands)}"
            )
        if len(self.results) < len(mutated):
            raise VerifyException(
                f"'{self.callee.data}' mutates {len(mutated)} operands, so it has at least as many results; "
                f"got {len(self.results)}"
            )
        for number, result in zip(mutated, self.results[len(self.results) - len(mutated) :]):
            if result.type != self.operands[number].type:
                raise VerifyException(
                    f"'{self.callee.data}' mutates operand {number}: expected a result of type "
                    f"{self.operands[number].type}, got {result.type}"
                )

    def argument_values(self) -> dict[str, Any]:
        """The arguments besides tensors as Python values."""
        return {k: argument_value(v) for k, v in self.arguments.data.items()}

    def reference(self, *args: np.ndarray, wide: bool = False) -> Sequence[np.ndarray]:
        """What the registered host function returns; it always sees the op's own element types.

        Raises UnsupportedError if there is none, InvalidInputError if it breaks the declared types.
        """
        callee = self.callee.data
        function = reference_of(callee)
        if function is None:
            raise UnsupportedError(
                f"the custom op '{callee}' has no reference, so it can't run on this machine",
                where=self.location_name(),
                hint="give its declaration a numpy function: @gaf.custom_op(..., opaque=True)",
            )
        mutated = self.mutated
        arrays = [
            np.array(a, dtype=t.dtype.numpy, copy=True if i in mutated else None)
            for i, (a, t) in enumerate(zip(args, self.operand_tensor_types()))
        ]
        returned = function(*arrays, **self.argument_values())
        if returned is None:
            results: list[Any] = []
        else:
            results = list(returned) if isinstance(returned, tuple | list) else [returned]
        types = self.result_tensor_types()
        if len(results) != len(types) - len(mutated):
            raise InvalidInputError(
                f"the reference of '{callee}' returns the wrong number of results",
                where=self.location_name(),
                expected=len(types) - len(mutated),
                got=len(results),
            )
        outs = []
        for number, (result, type_) in enumerate(zip([*results, *(arrays[i] for i in mutated)], types)):
            array = np.asarray(result)
            fits = array.ndim == type_.rank and all(
                d.as_int() is None or d == n for d, n in zip(type_.shape, array.shape)
            )
            if not fits or array.dtype != type_.dtype.numpy:
                raise InvalidInputError(
                    f"the reference of '{callee}' returns another type for result {number}",
                    where=self.location_name(),
                    expected=type_,
                    got=f"{array.dtype}{list(array.shape)}",
                )
            outs.append(array.astype(np.float64) if wide and type_.dtype.is_float else array)
        return outs

    @property
    def user_name(self) -> str:
        """The user's name for the op, in kernels and reports."""
        return self.callee.data.rpartition("::")[2]

    def meaning(self) -> OpMeaning:
        if self.device is not None:
            return Opaque(
                f"'{self.callee.data}' has the Ascend C function '{self.device.data}'; gaf can't call such functions "
                "on tiles yet, so it runs on the host through its reference"
            )
        return Opaque(f"'{self.callee.data}' is an opaque custom op: it runs on the host")

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        mutated = self.mutated
        if self.onnx is None:
            raise UnsupportedError(
                f"the custom op '{self.callee.data}' has no ONNX name",
                where=self.location_name(),
                hint='declare one, e.g. onnx="com.acme.Gate"',
            )
        if any(r.first_use is not None for r in self.results[len(self.results) - len(mutated) :]):
            raise UnsupportedError(
                f"'{self.callee.data}' writes into its operands, which ONNX can't express",
                where=self.location_name(),
            )
        domain, _, op_type = self.onnx.data.rpartition(".")
        if not mutated:
            return ctx.node(op_type, inputs, domain=domain, **self.argument_values())
        # nobody reads the new values of the operands; each still needs a name
        names = ctx.node(op_type, inputs, len(self.results) - len(mutated), domain, **self.argument_values())
        return [*names, *(inputs[i] for i in mutated)]


def argument_attribute(value: Any) -> Attribute:
    """An argument of a custom op as attribute: numbers, bools, strings, and lists of these.

    Raises InvalidInputError for anything else.
    """
    match value:
        case bool() | int() | float() | str() | np.bool_() | np.integer() | np.floating():
            return to_attribute(value)
        case list() | tuple() if all(isinstance(v, bool | int | float | str | np.generic) for v in value):
            return BuiltinArrayAttr([argument_attribute(v) for v in value])
    raise InvalidInputError(
        "an argument of a custom op can't be held in the IR",
        expected="a number, bool, string or a list of these",
        got=type(value).__name__,
    )


def argument_value(attribute: Attribute) -> Any:
    """The Python value of `argument_attribute`."""
    if isinstance(attribute, BuiltinArrayAttr):
        return tuple(argument_value(a) for a in attribute.data)
    if isinstance(attribute, IntegerAttr | FloatAttr | StringAttr):
        return from_attribute(attribute)
    raise InvalidInputError("unexpected attribute in the arguments of a custom op", got=attribute)


__all__ = [
    "CustomOp",
    "GenericOp",
    "HostFunction",
    "argument_attribute",
    "argument_value",
    "reference_of",
    "set_reference",
]
