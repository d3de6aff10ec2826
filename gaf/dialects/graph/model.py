# SPDX-License-Identifier: Apache-2.0
"""A model in memory: a module at the graph level, its weights, and the names of inputs and outputs."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from xdsl.dialects.builtin import ArrayAttr as BuiltinArrayAttr
from xdsl.dialects.builtin import FunctionType, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.attributes import expr_from_text
from gaf.dialects.common.index import Expr
from gaf.dialects.graph.contract import GraphOp, tensor_type
from gaf.dialects.graph.ops.structure import INLINE_LIMIT, WeightOp, constant
from gaf.dialects.graph.types import TensorType
from gaf.errors import InvalidInputError

INPUTS, OUTPUTS = "gaf.inputs", "gaf.outputs"
CONDITIONS = "gaf.where"
"""Attribute of `@main`: conditions on its symbols, such as `S mod 16 == 0`, that hold whenever it runs."""


class WeightStore:
    """Named constant arrays (read-only, possibly memory-mapped); the IR refers to them by name."""

    def __init__(self, arrays: Mapping[str, np.ndarray] | None = None) -> None:
        self._arrays: dict[str, np.ndarray] = dict(arrays or {})

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._arrays:
            raise InvalidInputError(
                f"weight '{name}' is not in the weight store",
                hint="text IR holds only names of weights: open the model file, or give the weights as .npz",
            )
        return self._arrays[name]

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def add(self, name: str, array: np.ndarray) -> str:
        """Store `array` under `name`, made unique if another array has it; returns the name used."""
        unique, n = name, 1
        while unique in self._arrays and self._arrays[unique] is not array:
            unique, n = f"{name}_{n}", n + 1
        self._arrays[unique] = array
        return unique

    def discard(self, name: str) -> None:
        """Forget a weight that no op uses any more."""
        self._arrays.pop(name, None)


_stores: WeakKeyDictionary[ModuleOp, WeightStore] = WeakKeyDictionary()


def weights_of(module: ModuleOp) -> WeightStore:
    """The weight store of the model that `module` belongs to; passes get at it through the module.

    A module without a model (parsed from text) gets an empty store.
    """
    return _stores.setdefault(module, WeightStore())


@dataclass
class Model:
    """`module` holds one `func.func @main` over graph tensors; `source` says where the model came from.

    `num_source_ops` counts ops as the user wrote them (ONNX: nodes without Constant and Identity).
    `fallbacks` lists ops without a lowering: op type -> node names. `notes` are remarks of the import for
    the report, e.g. the name given to an unnamed dim. `origin` is what a frontend keeps to go back to its
    framework (PyTorch: the module and its calling convention).
    """

    module: ModuleOp
    weights: WeightStore = field(default_factory=WeightStore)
    name: str = "model"
    source: str = "model"
    opset: int = 17
    num_source_ops: int = 0
    fallbacks: dict[str, list[str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    origin: Any = None

    def __post_init__(self) -> None:
        _stores[self.module] = self.weights

    @property
    def func(self) -> FuncOp:
        for op in self.module.body.block.ops:
            if isinstance(op, FuncOp):
                return op
        raise InvalidInputError("the module has no function", where=self.source)

    @property
    def block(self) -> Block:
        return self.func.body.block

    @property
    def input_names(self) -> list[str]:
        return _names(self.func, INPUTS, len(self.block.args))

    @property
    def output_names(self) -> list[str]:
        return _names(self.func, OUTPUTS, len(self.returned))

    @property
    def returned(self) -> tuple[SSAValue, ...]:
        last = self.block.last_op
        return tuple(last.operands) if last is not None else ()

    @property
    def input_types(self) -> list[TensorType]:
        return [tensor_type(a) for a in self.block.args]

    @property
    def output_types(self) -> list[TensorType]:
        return [tensor_type(v) for v in self.returned]

    @property
    def num_ops(self) -> int:
        """Ops as the user wrote them."""
        return self.num_source_ops or sum(isinstance(op, GraphOp) for op in self.block.ops)

    def constant(self, array: np.ndarray, name: str = "const") -> GraphOp:
        """An op for a constant: inline up to 64 elements, else a weight that is added to the store."""
        array = np.asarray(array)
        if array.size <= INLINE_LIMIT:
            return constant(array)
        return WeightOp.of(self.weights.add(name, array), TensorType.of(array.shape, dt.of_numpy(array.dtype)))

    def clone(self) -> Model:
        """A copy with its own IR; weight arrays are shared, the store is not."""
        return Model(
            self.module.clone(), WeightStore(self.weights._arrays), self.name, self.source, self.opset,
            self.num_source_ops, {k: list(v) for k, v in self.fallbacks.items()}, list(self.notes),
            self.origin,
        )

    def run(self, inputs: Mapping[str, np.ndarray], wide: bool = False) -> dict[str, np.ndarray]:
        """Interpret the graph in numpy: in the model's dtypes, or with `wide` in float64.

        Raises InvalidInputError for missing, extra or misshapen inputs.
        """
        from gaf.dialects.graph.interpreter import run_model

        return run_model(self, inputs, wide=wide)


def _names(func: FuncOp, key: str, count: int) -> list[str]:
    attribute = func.attributes.get(key)
    if isinstance(attribute, BuiltinArrayAttr):
        return [a.data for a in attribute.data if isinstance(a, StringAttr)]
    return [f"{key.removeprefix('gaf.').removesuffix('s')}_{i}" for i in range(count)]


def new_model(inputs: Sequence[tuple[str, TensorType]], **fields: Any) -> Model:
    """An empty model with a `@main` that takes `inputs`; add ops to `model.block`, then `finish`."""
    block = Block(arg_types=[t for _, t in inputs])
    for arg, (name, _) in zip(block.args, inputs):
        arg.name_hint = hint(name)
    func = FuncOp("main", FunctionType.from_lists([t for _, t in inputs], []), Region(block))
    func.attributes[INPUTS] = BuiltinArrayAttr([StringAttr(n) for n, _ in inputs])
    return Model(ModuleOp([func]), **fields)


def finish(model: Model, outputs: Sequence[tuple[str, SSAValue]]) -> Model:
    """Return `outputs` from `@main` and complete its type."""
    model.block.add_op(ReturnOp(*[v for _, v in outputs]))
    model.func.properties["function_type"] = FunctionType.from_lists(
        [a.type for a in model.block.args], [v.type for _, v in outputs]
    )
    model.func.attributes[OUTPUTS] = BuiltinArrayAttr([StringAttr(n) for n, _ in outputs])
    return model


def hint(name: str) -> str | None:
    """A legal SSA name hint made from a model name, or None."""
    text = re.sub(r"\W", "_", name, flags=re.ASCII).strip("_")
    return text if text and not text[0].isdigit() else None


@dataclass(frozen=True)
class Condition:
    """A comparison of two sizes, such as `S mod 16 == 0`."""

    text: str
    left: Expr
    comparison: str
    right: Expr

    @property
    def names(self) -> set[str]:
        """The symbols whose values decide it."""
        return self.left.names() | self.right.names()

    def holds(self, env: Mapping[str, int]) -> bool:
        """True if it holds for these values. Raises KeyError for a missing one."""
        return bool(_COMPARE[self.comparison](self.left.evaluate(env), self.right.evaluate(env)))


_COMPARE = {
    "==": operator.eq, "!=": operator.ne, "<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt,
}  # fmt: skip


def conditions(model: Model) -> list[Condition]:
    """What has to hold for the sizes of every run of a model."""
    attribute = model.func.attributes.get(CONDITIONS)
    texts = attribute.data if isinstance(attribute, BuiltinArrayAttr) else ()
    return [_condition(t.data) for t in texts if isinstance(t, StringAttr)]


@lru_cache(maxsize=1024)
def _condition(text: str) -> Condition:
    left, comparison, right = re.split(r"(==|!=|<=|>=|<|>)", text, maxsplit=1)
    return Condition(text, expr_from_text(left), comparison, expr_from_text(right))


def check_conditions(model: Model, env: Mapping[str, int]) -> None:
    """Raises InvalidInputError if the sizes of a run break a condition that the model declares.

    Conditions on sizes that only the run itself shows wait until `env` holds them.
    """
    for condition in conditions(model):
        if condition.names <= env.keys() and not condition.holds(env):
            sizes = ", ".join(f"{k} = {v}" for k, v in sorted(env.items()) if k in condition.names)
            raise InvalidInputError(
                "the sizes of the inputs break a condition of the model", where=model.source,
                expected=condition.text, got=sizes,
            )  # fmt: skip


def bind_by_conditions(model: Model, env: dict[str, int]) -> None:
    """Add the sizes that follow from others because the model needs them to be equal.

    An op may need such a size before the op runs whose result shows it; then it is compared with that.
    """
    for condition in conditions(model):
        if condition.comparison == "==":
            for size, other in ((condition.left, condition.right), (condition.right, condition.left)):
                name = size.as_name()
                if name is not None and name not in env and other.names() <= env.keys():
                    env[name] = other.evaluate(env)


def bind_symbols(
    names: Sequence[str], types: Sequence[TensorType], arrays: Sequence[np.ndarray], where: str | None = None
) -> dict[str, int]:
    """Values of all symbols from the shapes of actual arrays; checks every dim and dtype.

    Raises InvalidInputError naming the input.
    """
    env: dict[str, int] = {}
    checks: list[tuple[str, int, Any, int]] = []
    for name, type_, array in zip(names, types, arrays):
        if array.ndim != type_.rank:
            raise InvalidInputError(f"input '{name}' has the wrong rank", where=where, expected=type_, got=f"shape {array.shape}")
        if array.dtype != type_.dtype.numpy:
            raise InvalidInputError(f"input '{name}' has the wrong element type", where=where, expected=type_.dtype, got=array.dtype)
        for axis, (dim, size) in enumerate(zip(type_.shape, array.shape)):
            symbol = dim.as_name()
            if symbol is not None and symbol not in env:
                env[symbol] = size
            else:
                checks.append((name, axis, dim, size))
    for name, axis, dim, size in checks:
        _solve_dim(dim, size, env)
    for name, axis, dim, size in checks:
        missing = dim.names() - env.keys()
        if missing:
            raise InvalidInputError(
                f"the size of axis {axis} of input '{name}' doesn't give the value of '{sorted(missing)[0]}'", where=where,
                expected=dim, got=size,
            )
        expected = dim.evaluate(env)
        if expected != size:
            text = f"{expected}" if dim.as_int() is not None else f"{dim} = {expected}"
            raise InvalidInputError(f"input '{name}' has the wrong size on axis {axis}", where=where, expected=text, got=size)
    return env


def _solve_dim(dim: Any, size: int, env: dict[str, int]) -> None:
    """Bind the symbol of a dim `c * symbol + k` that no other dim gives, e.g. `16 * s`."""
    missing = dim.names() - env.keys()
    if len(missing) != 1:
        return
    (symbol,) = missing
    scale = dim.coefficient(symbol)
    factor = scale.as_int() if scale is not None else None
    rest = dim.substitute({symbol: 0}).evaluate(env) if factor else None
    if factor and rest is not None and (size - rest) % factor == 0:
        env[symbol] = (size - rest) // factor
