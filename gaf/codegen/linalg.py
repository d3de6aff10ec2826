# SPDX-License-Identifier: Apache-2.0
"""Fused groups as linalg-on-tensors MLIR text, for other toolchains: one function a group, one generic op a stage.

Everything comes from the meaning of the ops. Index maps become affine maps, dims that vary become `?` with
`tensor.dim`, 16-bit floats are computed and folded in f32 as kernels do. What has no such form (gathers, windows
with padding, unsigned integers, opaque ops) raises UnsupportedError with the op's name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NoReturn

import numpy as np
from xdsl.ir import SSAValue

from gaf.codegen.linalg_scalar import Body, element, literal, scalar_constant
from gaf.dialects.common import dtype as dt
from gaf.dialects.common import monoid
from gaf.dialects.common.index import Expr, Func, const, sym
from gaf.dialects.common.scalar import Arg, Extent, walk
from gaf.dialects.graph.contract import GraphOp, tensor_type
from gaf.dialects.graph.meaning import Dim, Meaning, Read, Stage, View, result_dims
from gaf.dialects.graph.model import Model
from gaf.dialects.graph.ops.common import accumulator
from gaf.dialects.graph.ops.structure import ConstantOp, FusedOp, YieldOp
from gaf.dialects.graph.types import TensorType
from gaf.errors import UnsupportedError


def export_linalg(model: Model) -> str:
    """A module with a `func.func` for each fused group of a fused model; what lies between groups is left out.

    Raises UnsupportedError for a group that can't be said, or if there is none.
    """
    groups = [op for op in model.block.ops if isinstance(op, FusedOp)]
    if not groups:
        raise UnsupportedError(
            "there is no fused group to export", where=model.source, hint="gaf explain MODEL says why"
        )
    taken: dict[str, int] = {}
    functions = []
    for op in groups:
        label = op.label.data
        taken[label] = taken.get(label, -1) + 1
        function = _Function(op, f"{label}_{taken[label]}" if taken[label] else label)
        try:
            functions.append(function.text())
        except UnsupportedError as error:
            error.where = error.where or function.at
            raise
    return "builtin.module {\n" + "\n".join(functions) + "}\n"


def tensor_text(shape: Sequence[Expr], dtype: dt.DType) -> str:
    """`tensor<?x64xf32>`."""
    dims = "".join(f"{'?' if d.as_int() is None else d.as_int()}x" for d in shape)
    return f"tensor<{dims}{element(dtype)}>"


class _Function:
    """The text of one group; `at` is the op at hand, for messages."""

    def __init__(self, group: FusedOp, name: str) -> None:
        self.group, self.name = group, name
        self.lines: list[str] = []
        self.names: dict[SSAValue, str] = {}
        self.sizes: dict[Expr, str] = {}
        self.symbols: dict[str, tuple[int, int]] = {}
        self.at = name
        self._count = 0

    def text(self) -> str:
        block = self.group.block
        args = []
        for i, value in enumerate(block.args):
            type_ = tensor_type(value)
            self.names[value] = f"%arg{i}"
            args.append(f"%arg{i}: {tensor_text(type_.shape, type_.dtype)}")
            for axis, size in enumerate(type_.shape):
                if (name := size.as_name()) is not None:
                    self.symbols.setdefault(name, (i, axis))
        results: list[str] = []
        for op in block.ops:
            if isinstance(op, YieldOp):
                results = [self.names[v] for v in op.operands]
            elif isinstance(op, GraphOp):
                self.at = f"{self.name}, {op.location_name() or op.name}"
                self._op(op)
        types = ", ".join(tensor_text(tensor_type(v).shape, tensor_type(v).dtype) for v in self.group.outputs)
        body = "".join(f"    {line}\n" for line in self.lines)
        return (
            f"  func.func @{self.name}({', '.join(args)}) -> ({types}) {{\n{body}"
            f"    func.return {', '.join(results)} : {types}\n  }}\n"
        )

    def refuse(self, what: str) -> NoReturn:
        raise UnsupportedError(f"{what} has no linalg form", where=self.at)

    def emit(self, text: str) -> str:
        """`%n = text`; returns the name."""
        name = f"%{self._count}"
        self._count += 1
        self.lines.append(f"{name} = {text}")
        return name

    # -- ops --------------------------------------------------------------------------------------

    def _op(self, op: GraphOp) -> None:
        if isinstance(op, ConstantOp):
            self.names[op.result] = self._constant(op.value.array)
            return
        operands = [(self.names[v], tensor_type(v)) for v in op.operands]
        meaning = op.meaning()
        if isinstance(meaning, View):
            result = tensor_type(op.results[0])
            if not meaning.is_simple:
                self.refuse("a view of several or guarded pieces")
            piece = meaning.pieces[0]
            read = Read(piece.index, operand=piece.operand)
            meaning = Meaning((Stage(result_dims(result.shape), (read,), Arg(0), result.dtype),))
        if not isinstance(meaning, Meaning):
            self.refuse(f"an opaque op ({meaning.reason})")
        stages: list[tuple[str, TensorType]] = []
        for stage in meaning.stages:
            type_ = TensorType.of([d.extent for d in stage.dims], stage.dtype)
            stages.append((self._stage(stage, operands, stages), type_))
        for value, number in zip(op.results, meaning.results):
            self.names[value] = stages[number][0]

    def _constant(self, array: np.ndarray) -> str:
        dtype = dt.of_numpy(array.dtype)

        def nested(a: np.ndarray) -> str:
            return "[" + ", ".join(map(nested, a)) + "]" if a.ndim else literal(a.item(), dtype)

        type_ = tensor_text([const(n) for n in array.shape], dtype)
        return self.emit(f"arith.constant dense<{nested(array)}> : {type_}")

    def _stage(
        self, stage: Stage, operands: Sequence[tuple[str, TensorType]], stages: Sequence[tuple[str, TensorType]]
    ) -> str:
        if stage.rank is not None or stage.scan is not None:
            self.refuse("a sort" if stage.rank is not None else "a running fold")
        space = (*stage.dims, *stage.reduced)
        place = {d.name: f"d{i}" for i, d in enumerate(space)}
        inputs: list[tuple[str, TensorType, str]] = []
        for read in stage.reads:
            if read.guards:
                self.refuse("a read under guards")
            if read.operand is not None:
                name, type_ = operands[read.operand]
            else:
                assert read.stage is not None
                name, type_ = stages[read.stage]
            inputs.append((name, type_, ", ".join(self._affine(e, place) for e in read.index)))
        plain = {e.as_name() for read in stage.reads for e in read.index}
        if hidden := [d for d in stage.reduced if d.name not in plain]:
            # linalg takes loop bounds from operands: an operand that is only a shape gives those of these dims
            shape = [d.extent for d in hidden]
            type_ = TensorType.of(shape, dt.F32)
            inputs.append((self._empty(shape, dt.F32), type_, ", ".join(place[d.name] for d in hidden)))
        inner = accumulator(stage.dtype) if stage.reduced else stage.dtype
        result = self._generic(stage, space, place, inputs, inner)
        if inner == stage.dtype:
            return result
        shape = [d.extent for d in stage.dims]
        rounded = Stage(stage.dims, (), Arg(0), stage.dtype)
        identity = ", ".join(place[d.name] for d in stage.dims)
        return self._generic(rounded, stage.dims, place, [(result, TensorType.of(shape, inner), identity)], stage.dtype)

    def _generic(
        self,
        stage: Stage,
        space: Sequence[Dim],
        place: Mapping[str, str],
        inputs: Sequence[tuple[str, TensorType, str]],
        dtype: dt.DType,
    ) -> str:
        shape = [d.extent for d in stage.dims]
        out = self._empty(shape, dtype)
        out_type = tensor_text(shape, dtype)
        if stage.monoid is not None:
            start = self.emit(scalar_constant(_identity(stage.monoid, dtype), dtype))
            out = self.emit(f"linalg.fill ins({start} : {element(dtype)}) outs({out} : {out_type}) -> {out_type}")
        sizes = {n.value: self.size(n.value) for n in walk(stage.body) if isinstance(n, Extent)}
        dims = ", ".join(place[d.name] for d in space)
        maps = [m for _, _, m in inputs] + [", ".join(place[d.name] for d in stage.dims)]
        kinds = ["parallel"] * len(stage.dims) + ["reduction"] * len(stage.reduced)
        head = (
            f"indexing_maps = [{', '.join(f'affine_map<({dims}) -> ({m})>' for m in maps)}], "
            f"iterator_types = [{', '.join(f'{chr(34)}{k}{chr(34)}' for k in kinds)}]"
        )
        types = [tensor_text(t.shape, t.dtype) for _, t, _ in inputs]
        ins = f"ins({', '.join(n for n, _, _ in inputs)} : {', '.join(types)}) " if inputs else ""
        arguments = [(f"%a{i}", t.dtype) for i, (_, t, _) in enumerate(inputs)] + [("%acc", dtype)]
        positions = {d.name: i for i, d in enumerate(space)}
        body = Body(arguments, positions, sizes, self.refuse)
        value = body.result(stage.body, dtype)
        if stage.monoid is not None:
            value = body.combine(monoid.by_name(stage.monoid).combine, "%acc", value, dtype)
        signature = ", ".join(f"{n}: {element(t)}" for n, t in arguments)
        lines = "".join(f"        {line}\n" for line in [*body.lines, f"linalg.yield {value} : {element(dtype)}"])
        block = f"{{\n      ^bb0({signature}):\n{lines}    }}"
        return self.emit(f"linalg.generic {{{head}}} {ins}outs({out} : {out_type}) {block} -> {out_type}")

    # -- sizes and index maps ---------------------------------------------------------------------

    def _empty(self, shape: Sequence[Expr], dtype: dt.DType) -> str:
        sizes = ", ".join(self.size(d) for d in shape if d.as_int() is None)
        return self.emit(f"tensor.empty({sizes}) : {tensor_text(shape, dtype)}")

    def size(self, size: Expr) -> str:
        """The name of an index value that holds a dim expression."""
        if size not in self.sizes:
            self.sizes[size] = self._size(size)
        return self.sizes[size]

    def _size(self, size: Expr) -> str:
        if (value := size.as_int()) is not None:
            return self.emit(f"arith.constant {value} : index")
        if (name := size.as_name()) is not None:
            if name not in self.symbols:
                self.refuse(f"the dim {name}, which no operand of the group has as it is,")
            number, axis = self.symbols[name]
            type_ = tensor_type(self.group.block.args[number])
            at = self.size(const(axis))
            return self.emit(f"tensor.dim %arg{number}, {at} : {tensor_text(type_.shape, type_.dtype)}")
        total: str | None = None
        for mono, factor in size.terms.items():
            part: str | None = self.size(const(factor)) if factor != 1 or not mono else None
            for atom in mono:
                value_ = self.size(sym(atom)) if isinstance(atom, str) else self._atom(atom)
                part = value_ if part is None else self.emit(f"arith.muli {part}, {value_} : index")
            assert part is not None
            total = part if total is None else self.emit(f"arith.addi {total}, {part} : index")
        assert total is not None
        return total

    def _atom(self, atom: Func) -> str:
        ops = {"floordiv": "floordivsi", "mod": "remsi", "min": "minsi", "max": "maxsi"}  # sizes are >= 0
        if atom.name not in ops:
            self.refuse(f"a size with {atom.name}")
        first, second = (self.size(a) for a in atom.args)
        return self.emit(f"arith.{ops[atom.name]} {first}, {second} : index")

    def _affine(self, e: Expr, place: Mapping[str, str]) -> str:
        """An index as a result of an affine map over the dims."""
        parts = []
        for mono, factor in sorted(e.terms.items(), key=lambda t: str(t[0])):
            if not mono:
                parts.append(str(factor))
                continue
            if len(mono) != 1:
                self.refuse(f"the index {e}, whose stride varies,")
            (atom,) = mono
            if isinstance(atom, str):
                if atom not in place:
                    self.refuse(f"the index {e}, whose offset varies,")
                text = place[atom]
            else:
                divisor = atom.args[1].as_int() if atom.name in ("floordiv", "mod") else None
                if divisor is None or divisor < 1:
                    self.refuse(f"the index {e}")
                text = f"(({self._affine(atom.args[0], place)}) {atom.name} {divisor})"
            parts.append(text if factor == 1 else f"{text} * {factor}")
        return " + ".join(parts) or "0"


def _identity(name: str, dtype: dt.DType) -> float | int:
    """What a fold starts with: for integers the lowest or highest instead of an infinity."""
    value = monoid.by_name(name).identity
    if dtype.is_float:
        return value
    if not math.isinf(value):
        return int(value)
    if dtype.is_bool:
        return int(value > 0)
    limits = np.iinfo(dtype.numpy)
    return int(limits.max if value > 0 else limits.min)
