# SPDX-License-Identifier: Apache-2.0
"""Tools of the op tests: a direct evaluator of meanings, and the smallest ONNX importer and exporter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from xdsl.dialects.test import TestOp
from xdsl.ir import SSAValue

from gaf.dialects.common import dtype as dt
from gaf.dialects.common import monoid, scalar
from gaf.dialects.common.index import Expr, expr, sym
from gaf.dialects.common.order import PLACES, stable_order
from gaf.dialects.common.scalar import Call, Const, Extent, Scalar
from gaf.dialects.graph import registry
from gaf.dialects.graph.contract import GraphOp
from gaf.dialects.graph.meaning import Meaning, Opaque, Stage, View, result_dims
from gaf.dialects.graph.ops.structure import constant
from gaf.dialects.graph.types import TensorType
from gaf.errors import UnsupportedError

# -- building ---------------------------------------------------------------------------------------


def value(type_: TensorType) -> SSAValue:
    """A value of unknown origin."""
    return TestOp(result_types=[type_]).results[0]


def type_of(array: np.ndarray) -> TensorType:
    return TensorType.of(array.shape, dt.of_numpy(array.dtype))


def build(op_class: type[GraphOp], arrays: Sequence[np.ndarray], attrs: Mapping[str, Any]) -> GraphOp:
    """The op on operands with the arrays' types."""
    return op_class.make([value(type_of(a)) for a in arrays], attrs)


def widen(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64) if dt.of_numpy(array.dtype).is_float else array


# -- the meaning, element by element --------------------------------------------------------------------


def eval_index(e: Expr, env: Mapping[str, Any], operands: Sequence[np.ndarray]) -> Any:
    """An index expression on numpy coordinate arrays; `read` loads from the operand its tag names."""
    total: Any = np.asarray(0)
    for mono, coef in e.terms.items():
        term: Any = np.asarray(coef)
        for atom in mono:
            if isinstance(atom, str):
                term = term * env[atom]
                continue
            args = [eval_index(a, env, operands) for a in atom.args]
            match atom.name:
                case "floordiv":
                    term = term * (args[0] // args[1])
                case "mod":
                    term = term * (args[0] % args[1])
                case "min":
                    term = term * np.minimum(*args)
                case "max":
                    term = term * np.maximum(*args)
                case "read":
                    term = term * load(operands[int(atom.tag)], args)
        total = total + term
    return total


def load(source: np.ndarray, index: Sequence[Any], where: Any = True) -> np.ndarray:
    """Elements of `source`; an index out of bounds where `where` holds is an error of the meaning."""
    assert len(index) == source.ndim, f"{len(index)} index expressions for rank {source.ndim}"
    if source.size == 0:
        assert not np.any(where), "an empty operand has no elements to read"
        return np.zeros((), source.dtype)
    safe = []
    for position, size in zip(index, source.shape):
        position = np.asarray(position)
        ok = (position >= 0) & (position < size)
        assert np.all(ok | ~np.asarray(where)), (
            f"index {position.min()}..{position.max()} outside 0..{size - 1}"
        )
        safe.append(np.where(ok, position, 0))
    return source[tuple(safe)] if safe else source


def concrete_body(body: Scalar, env: Mapping[str, int], wide: bool) -> Scalar:
    """Extents as numbers; with `wide`, casts to floats stay float64."""
    match body:
        case Extent(e):
            return Const(float(e.evaluate(env)))
        case Call(function, args, dtype):
            if wide and dtype is not None and dtype.is_float:
                dtype = dt.F64
            return Call(function, tuple(concrete_body(a, env, wide) for a in args), dtype)
        case _:
            return body


def run_stage(
    stage: Stage,
    operands: Sequence[np.ndarray],
    earlier: Sequence[np.ndarray],
    env: Mapping[str, int],
    wide: bool,
) -> np.ndarray:
    dims = [*stage.dims, *stage.reduced]
    shape = [d.extent.evaluate(env) for d in dims]
    grids = np.indices(shape, sparse=True) if shape else []
    coords = {d.name: g for d, g in zip(dims, grids)}
    args = []
    for read in stage.reads:
        source = operands[read.operand] if read.operand is not None else earlier[read.stage]
        if 0 in shape:  # nothing is read
            args.append(np.zeros(shape, source.dtype))
            continue
        names = {**env, **coords}
        where: Any = True
        for guard in read.guards:
            at, low, high = (eval_index(e, names, operands) for e in (guard.index, guard.low, guard.high))
            where = where & (at >= low) & (at < high)
        loaded = load(source, [eval_index(e, names, operands) for e in read.index], where)
        if read.guards:
            loaded = np.where(where, loaded, np.asarray(read.fill).astype(source.dtype))
        kind = dt.of_numpy(loaded.dtype)
        args.append(loaded.astype(np.float32) if kind in (dt.F16, dt.BF16) else loaded)
    result = np.asarray(scalar.evaluate(concrete_body(stage.body, env, wide), args, coords))
    result = np.broadcast_to(result, shape)
    if stage.rank is not None:  # the ordered axis is the last one, and goes to its dim
        axis = [d.name for d in stage.dims].index(stage.rank.dim)
        rows = np.take(np.moveaxis(result, axis, 0), 0, 0)  # the same for each kept element
        order = stable_order(rows, -1, stage.rank.order)[..., : shape[axis]]
        kept = order if stage.rank.what == PLACES else np.take_along_axis(rows, order, -1)
        result = np.moveaxis(kept, -1, axis)
    elif stage.scan is not None:
        axis = [d.name for d in stage.dims].index(stage.scan.dim)
        fold = {"sum": np.add, "prod": np.multiply}[stage.scan.monoid]
        total = fold.accumulate(result, axis=axis, dtype=result.dtype)
        if stage.scan.exclusive:
            first = np.full_like(np.take(result, [0], axis), fold.identity)
            total = np.concatenate([first, np.delete(total, -1, axis)], axis)
        result = total
    elif stage.monoid is not None:
        axes = tuple(range(len(stage.dims), len(dims)))
        result = np.asarray(monoid.by_name(stage.monoid).fold(result, axes))
    if wide and stage.dtype.is_float:
        return result.astype(np.float64)
    return scalar.convert(result, stage.dtype)


def run_view(
    view: View, operands: Sequence[np.ndarray], type_: TensorType, env: Mapping[str, int]
) -> np.ndarray:
    shape = type_.concrete(dict(env))
    grids = np.indices(shape, sparse=True) if shape else []
    coords = {**env, **{d.name: g for d, g in zip(result_dims(shape), grids)}}
    result = np.zeros(shape, operands[0].dtype)
    written = np.zeros(shape, int)
    if 0 in shape:
        return result
    for piece in view.pieces:
        mask = np.ones(shape, bool)
        for guard in piece.guards:
            at, low, high = (eval_index(e, coords, operands) for e in (guard.index, guard.low, guard.high))
            mask = mask & (at >= low) & (at < high)
        loaded = load(operands[piece.operand], [eval_index(e, coords, operands) for e in piece.index], mask)
        result = np.where(mask, loaded, result)
        written = written + mask
    if view.fill is None:
        assert np.all(written == 1), "pieces must cover every result element exactly once"
    else:
        assert np.all(written <= 1), "pieces overlap"
        result = np.where(written == 1, result, np.asarray(view.fill).astype(result.dtype))
    return result


def run_meaning(
    op: GraphOp, operands: Sequence[np.ndarray], env: Mapping[str, int] | None = None, wide: bool = False
) -> list[np.ndarray] | None:
    """The results of an op by its meaning alone; None if the op is opaque."""
    meaning, env = op.meaning(), env or {}
    types = op.result_tensor_types()
    match meaning:
        case Opaque():
            return None
        case View():
            return [run_view(meaning, operands, types[0], env)]
        case Meaning():
            stages: list[np.ndarray] = []
            for stage in meaning.stages:
                stages.append(run_stage(stage, operands, stages, env, wide))
            return [stages[i] for i in meaning.results]


# -- ONNX ---------------------------------------------------------------------------------------------------


@dataclass
class MiniExport:
    """An ExportContext that writes one op into a model."""

    opset: int
    env: Mapping[str, int] = field(default_factory=dict)
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    initializers: list[TensorProto] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    count: int = 0

    def _name(self, stem: str) -> str:
        self.count += 1
        return f"{stem}_{self.count}"

    def node(
        self, op_type: str, inputs: Sequence[str], outputs: int | None = None, domain: str = "", **attrs: Any
    ) -> list[str]:
        names = list(self.outputs) if outputs is None else [self._name("t") for _ in range(outputs)]
        self.nodes.append(helper.make_node(op_type, list(inputs), names, domain=domain, **attrs))
        return names

    def constant(self, array: np.ndarray) -> str:
        name = self._name("c")
        self.initializers.append(
            numpy_helper.from_array(np.ascontiguousarray(array).reshape(np.shape(array)), name)
        )
        return name

    def dims(self, dims: Sequence[Expr]) -> str:
        return self.constant(
            np.asarray([expr(d).evaluate(dict(self.env)) for d in dims], np.int64).reshape(len(dims))
        )


def export(op: GraphOp, arrays: Sequence[np.ndarray], opset: int) -> onnx.ModelProto:
    """A checked model that holds only this op; inputs x0, x1, ... and outputs y0, y1, ..."""
    results = op.result_tensor_types()
    ctx = MiniExport(opset, outputs=[f"y{i}" for i in range(len(results))])
    inputs = [f"x{i}" for i in range(len(arrays))]
    names = op.to_onnx(ctx, inputs)
    assert list(names) == ctx.outputs, "to_onnx must end with the op's own result names"
    graph = helper.make_graph(
        ctx.nodes,
        "g",
        [helper.make_tensor_value_info(n, type_of(a).dtype.onnx, a.shape) for n, a in zip(inputs, arrays)],
        [
            helper.make_tensor_value_info(
                n, t.dtype.onnx, [d.as_int() if d.as_int() is not None else str(d) for d in t.shape]
            )
            for n, t in zip(ctx.outputs, results)
        ],
        ctx.initializers,
    )
    others = sorted({n.domain for n in ctx.nodes} - {""})
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in others)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    onnx.checker.check_model(model, full_check=True)
    return model


class MiniImport:
    """An ImportContext on a list of ops; `run` evaluates them."""

    def __init__(
        self,
        node: onnx.NodeProto,
        operands: list[SSAValue | None],
        opset: int,
        known: dict[SSAValue, np.ndarray],
    ) -> None:
        self.op_type, self.opset, self.operands = node.op_type, opset, operands
        self.num_outputs = len(node.output)
        self._attributes = {a.name: a for a in node.attribute}
        self.known = known
        self.symbolic: dict[SSAValue, tuple[Expr, ...]] = {}
        self.ops: list[GraphOp] = []
        self.assumed: list[tuple[Expr, str]] = []

    def attr(self, name: str, default: Any = None) -> Any:
        proto = self._attributes.get(name)
        if proto is None:
            return default
        found = helper.get_attribute_value(proto)
        match found:
            case bytes():
                return found.decode()
            case TensorProto():
                return numpy_helper.to_array(found)
            case int() | float():
                return found
        return tuple(found)

    def operand(self, index: int) -> SSAValue | None:
        return self.operands[index] if index < len(self.operands) else None

    def constant(self, index: int) -> np.ndarray | None:
        operand = self.operand(index)
        return None if operand is None else self.known.get(operand)

    def dims(self, index: int) -> tuple[Expr, ...] | None:
        operand = self.operand(index)
        if operand in self.symbolic:
            return self.symbolic[operand]
        array = self.constant(index)
        if array is None or array.dtype.kind not in "iu" or array.ndim > 1:
            return None
        return tuple(expr(int(v)) for v in array.reshape(-1))

    def constant_value(self, array: np.ndarray) -> SSAValue:
        op = constant(array)
        self.ops.append(op)
        self.known[op.result] = array
        return op.result

    def random_source(self) -> tuple[SSAValue, int]:
        return self.constant_value(np.asarray(5, np.int32)), len(self.ops)

    def new_symbol(self, stem: str) -> Expr:
        return sym(stem)

    def emit(self, op: type[GraphOp], operands: Sequence[SSAValue], **attributes: Any) -> Any:
        made = op.make(operands, attributes)
        made.verify()
        self.ops.append(made)
        return made.results[0] if len(made.results) == 1 else list(made.results)

    def assume(self, condition: Expr, what: str) -> None:
        self.assumed.append((condition, what))

    def unsupported(self, what: str, **details: Any) -> UnsupportedError:
        return UnsupportedError(what, where=f"{self.op_type} node", **details)


def import_node(
    node: onnx.NodeProto, operands: list[SSAValue | None], opset: int, known: dict[SSAValue, np.ndarray]
) -> tuple[MiniImport, list[SSAValue]]:
    """Emit the ops for a node; returns the context and the node's results."""
    ctx = MiniImport(node, operands, opset, known)
    entry = registry.by_onnx(node.domain, node.op_type)
    assert entry is not None, f"{node.op_type} is not in the registry"
    results = entry.from_onnx(ctx)
    return ctx, list(results) if isinstance(results, list | tuple) else [results]


def run_ops(
    ops: Sequence[GraphOp], values: dict[SSAValue, np.ndarray], env: Mapping[str, int] | None = None
) -> None:
    """Run ops by their references, and check every result against its type."""
    for op in ops:
        results = op.reference_with_symbols(*[values[o] for o in op.operands], env=env or {})
        for result, type_, array in zip(op.results, op.result_tensor_types(), results):
            if not any(n.startswith("nonzero") for n in type_.symbols()):
                assert tuple(array.shape) == type_.concrete(dict(env or {})), op
            assert array.dtype == type_.dtype.numpy, op
            values[result] = array


def run_onnx(
    model: onnx.ModelProto, arrays: Mapping[str, np.ndarray], constants: bool = True
) -> list[np.ndarray]:
    """Import a model node by node and run it. With `constants`, initializers are known at import."""
    values: dict[str, SSAValue] = {}
    numbers: dict[SSAValue, np.ndarray] = {}
    known: dict[SSAValue, np.ndarray] = {}
    opset = next(o.version for o in model.opset_import if o.domain == "")
    for tensor in model.graph.initializer:
        array = numpy_helper.to_array(tensor)
        values[tensor.name] = value(type_of(array))
        numbers[values[tensor.name]] = known[values[tensor.name]] = array
    for name, array in arrays.items():
        values[name] = value(type_of(array))
        numbers[values[name]] = array
    for node in model.graph.node:
        operands = [values[n] if n else None for n in node.input]
        if node.op_type == "Constant":
            array = numpy_helper.to_array(node.attribute[0].t)
            values[node.output[0]] = value(type_of(array))
            numbers[values[node.output[0]]] = known[values[node.output[0]]] = array
            continue
        ctx, results = import_node(node, operands, opset, known)
        run_ops(ctx.ops, numbers)
        for op in ctx.ops:  # shape arithmetic on known values is known
            if all(o in known for o in op.operands):
                known.update({r: numbers[r] for r in op.results if numbers[r].size <= 64})
        values.update(zip(node.output, results))
    return [numbers[values[o.name]] for o in model.graph.output]
