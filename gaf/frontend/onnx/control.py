# SPDX-License-Identifier: Apache-2.0
"""If, Loop and Scan: folded or unrolled where that is known at import, else `graph.if` and `graph.loop`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import AttributeProto, NodeProto
from xdsl.ir import SSAValue

from gaf.dialects.common.index import Expr, const
from gaf.dialects.graph.contract import tensor_type
from gaf.dialects.graph.ops.cast import CastOp
from gaf.dialects.graph.ops.compare import EqualOp
from gaf.dialects.graph.ops.shape import ReshapeOp, SqueezeOp, TransposeOp, UnsqueezeOp
from gaf.dialects.graph.ops.slice import ConcatOp, SliceOp
from gaf.errors import InvalidInputError, UnsupportedError
from gaf.frontend.control import Iteration, emit_if, emit_loop
from gaf.frontend.onnx.frames import Frame
from gaf.frontend.onnx.nodes import free_names, order_nodes

if TYPE_CHECKING:
    from gaf.frontend.onnx.importer import Importer

UNROLLED_TRIPS, UNROLLED_NODES = 8, 64
"""A loop of at most so many iterations, and nodes in all of them, is written out."""


class ControlFlow:
    """Imports the control flow of one model."""

    def __init__(self, importer: Importer) -> None:
        self.importer = importer

    @property
    def builder(self):  # noqa: ANN201 - the importer's, which doesn't exist before the import starts
        return self.importer.builder

    # -- If -----------------------------------------------------------------------------------------

    def branch(
        self,
        frame: Frame,
        node: NodeProto,
        condition: SSAValue | None,
        attributes: Mapping[str, AttributeProto],
        location: str,
        where: str,
    ) -> Frame | list[SSAValue]:
        """The branch that a constant condition takes, as a frame to import; else the results of a `graph.if`."""
        known = None if condition is None else self.builder.known(condition)
        graphs = [attributes[name].g for name in ("then_branch", "else_branch")]
        if known is not None and known.size == 1:
            graph = graphs[0 if known.reshape(-1)[0] else 1]
            inner = self._frame(frame, graph, {}, location, where, parent=frame)
            inner.done = lambda: self.importer.hand_over(inner, [v.name for v in graph.output], frame, node, where)
            return inner
        assert condition is not None
        names, values = self._captured(frame, graphs, where)

        def fill(graph: onnx.GraphProto):  # noqa: ANN202
            return lambda inside: self._run(frame, graph, dict(zip(names, inside)), location, where)

        for graph in graphs:
            if len(graph.output) != len(node.output):
                raise InvalidInputError(
                    "a branch has another number of results than the If", where=where,
                    expected=len(node.output), got=len(graph.output),
                )  # fmt: skip
        mark = self.builder.mark()
        try:
            return emit_if(
                self.builder, self._scalar(condition, where), values, [fill(g) for g in graphs],
                location=location, where=where,
            )  # fmt: skip
        except UnsupportedError:
            sizes = self._compared_sizes(condition)
            if sizes is None:
                raise
        # `squeeze` of a dim that is 1 in the runs that count: true as far as the sizes are equal
        self.builder.reset(mark)
        self.builder.assume_equal(*sizes, location)
        inner = self._frame(frame, graphs[0], {}, location, where, parent=frame)
        inner.done = lambda: self.importer.hand_over(inner, [v.name for v in graphs[0].output], frame, node, where)
        return inner

    def _compared_sizes(self, condition: SSAValue) -> tuple[Expr, Expr] | None:
        """The two sizes whose equality is the condition, if it is one."""
        owner = condition.owner
        while isinstance(owner, ReshapeOp | SqueezeOp | CastOp):
            owner = owner.operands[0].owner
        if not isinstance(owner, EqualOp):
            return None
        a, b = (self.builder.dims(v) for v in owner.operands)
        return (a[0], b[0]) if a and b and len(a) == len(b) == 1 else None

    # -- Loop -----------------------------------------------------------------------------------------

    def loop(
        self,
        frame: Frame,
        operands: Sequence[SSAValue | None],
        attributes: Mapping[str, AttributeProto],
        location: str,
        where: str,
    ) -> list[SSAValue]:
        """The results of an ONNX Loop."""
        graph = attributes["body"].g
        limit, begin, *rest = [*operands, *([None] * (2 - len(operands)))]
        carried = [v for v in rest if v is not None]
        if len(graph.input) != 2 + len(carried) or len(graph.output) < 1 + len(carried):
            raise InvalidInputError(
                "the body doesn't fit the loop", where=where,
                expected=f"{2 + len(carried)} inputs and at least {1 + len(carried)} outputs",
                got=f"{len(graph.input)} and {len(graph.output)}",
            )  # fmt: skip
        limit = None if limit is None else self._scalar(limit, where)
        begin = None if begin is None else self._scalar(begin, where)
        inputs = [v.name for v in graph.input]
        count = self._unrolled_count(graph, limit)
        if count is not None and (begin is None or self._decided(begin)):
            mark = self.builder.mark()
            names, values = self._captured(frame, [graph], where)
            done = self._unroll_loop(
                frame, graph, count, begin, carried, dict(zip(names, values)), location, where
            )
            if done is not None:
                return done
            self.builder.reset(mark)
        names, values = self._captured(frame, [graph], where)

        def fill(number, state, elements, inside) -> Iteration:  # noqa: ANN001
            going = self.builder.constant(np.asarray(True))
            bound = dict(zip(names, inside)) | dict(zip(inputs, [number, going, *state]))
            go_on, *made = self._run(frame, graph, bound, location, where)
            return Iteration(self._scalar(go_on, where), made[: len(state)], made[len(state) :])

        return emit_loop(
            self.builder, limit, begin, carried, [], values, fill, location=location, where=where
        )

    def _unroll_loop(
        self,
        frame: Frame,
        graph: onnx.GraphProto,
        count: int,
        begin: SSAValue | None,
        carried: Sequence[SSAValue],
        captured: Mapping[str, SSAValue],
        location: str,
        where: str,
    ) -> list[SSAValue] | None:
        """The loop written out; None if whether it goes on is computed at run time."""
        state, outputs = list(carried), []
        going = begin if begin is not None else self.builder.constant(np.asarray(True))
        for i in range(count):
            if not self._decided(going):
                return None
            if not self.builder.known(going).reshape(-1)[0]:
                break
            number = self.builder.constant(np.asarray(i, np.int64))
            bound = dict(captured) | dict(zip((v.name for v in graph.input), [number, going, *state]))
            going, *made = self._run(frame, graph, bound, f"{location}/{i}", where)
            state, outputs = made[: len(state)], [*outputs, made[len(state) :]]
        if not outputs and len(graph.output) > 1 + len(state):
            return None  # stacked outputs of no iteration: the loop itself knows their types
        return [*state, *(self._stacked(list(column)) for column in zip(*outputs))]

    # -- Scan -----------------------------------------------------------------------------------------

    def scan(
        self,
        frame: Frame,
        operands: Sequence[SSAValue | None],
        attributes: Mapping[str, AttributeProto],
        opset: int,
        location: str,
        where: str,
    ) -> list[SSAValue]:
        """The results of an ONNX Scan (opset 9 and later)."""
        if opset < 9:
            raise UnsupportedError(
                "Scan before opset 9 works on batches, which is not supported", where=where,
                hint="convert the model with onnx.version_converter",
            )  # fmt: skip
        graph = attributes["body"].g
        values = [v for v in operands if v is not None]
        number = attributes["num_scan_inputs"].i
        states = len(values) - number
        if states < 0 or number < 1 or len(graph.input) != len(values) or len(graph.output) < states:
            raise InvalidInputError(
                "the body doesn't fit the scan", where=where, expected=f"{len(values)} inputs", got=len(graph.input)
            )  # fmt: skip
        outs = len(graph.output) - states
        axes = _ints(attributes, "scan_input_axes", number, where)
        backward = _ints(attributes, "scan_input_directions", number, where)
        out_axes = _ints(attributes, "scan_output_axes", outs, where)
        out_backward = _ints(attributes, "scan_output_directions", outs, where)
        carried = values[:states]
        scanned = [self._moved(v, axis, 0, where) for v, axis in zip(values[states:], axes)]
        inputs = [v.name for v in graph.input]
        names, read = self._captured(frame, [graph], where)
        sizes = {tensor_type(s).shape[0] for s in scanned}
        size = next(iter(sizes)).as_int() if len(sizes) == 1 else None
        if size and size <= UNROLLED_TRIPS and size * len(graph.node) <= UNROLLED_NODES:
            state, outputs = list(carried), []
            for i in range(size):
                elements = [
                    self._element(s, size - 1 - i if back else i) for s, back in zip(scanned, backward)
                ]
                bound = dict(zip(names, read)) | dict(zip(inputs, [*state, *elements]))
                made = self._run(frame, graph, bound, f"{location}/{i}", where)
                state, outputs = made[:states], [*outputs, made[states:]]
            columns = [list(c)[::-1] if back else list(c) for c, back in zip(zip(*outputs), out_backward)]
            results = [*state, *map(self._stacked, columns)]
        else:

            def fill(number, state, elements, inside) -> Iteration:  # noqa: ANN001
                bound = dict(zip(names, inside)) | dict(zip(inputs, [*state, *elements]))
                made = self._run(frame, graph, bound, location, where)
                return Iteration(None, made[: len(state)], made[len(state) :])

            results = emit_loop(
                self.builder, None, None, carried, scanned, read, fill,
                backward=[i for i, back in enumerate(backward) if back],
                backward_outputs=[i for i, back in enumerate(out_backward) if back],
                location=location, where=where,
            )  # fmt: skip
        stacked = [self._moved(v, 0, axis, where) for v, axis in zip(results[states:], out_axes)]
        return [*results[:states], *stacked]

    # -- bodies -----------------------------------------------------------------------------------------

    def _captured(
        self, frame: Frame, graphs: Sequence[onnx.GraphProto], where: str
    ) -> tuple[list[str], list[SSAValue]]:
        """Names from outside that the bodies use, and their values."""
        names = list(dict.fromkeys(name for graph in graphs for name in free_names(graph)))
        found = [(name, self.importer.value(frame, name, where)) for name in names]
        return [n for n, v in found if v is not None], [v for _, v in found if v is not None]

    def _frame(
        self,
        frame: Frame,
        graph: onnx.GraphProto,
        bound: Mapping[str, SSAValue],
        location: str,
        where: str,
        parent: Frame | None = None,
    ) -> Frame:
        """The nodes of a subgraph, ready to import."""
        initializers = self.importer.initializers(graph)
        visible = set(initializers) | set(bound)
        scope = parent
        while scope is not None:
            visible |= scope.values.keys() | scope.initializers.keys() | scope.lacking.keys()
            scope = scope.parent
        nodes = order_nodes(graph.node, visible, where)
        self.importer.check_supported(nodes, frame.opsets)
        return Frame(
            iter(nodes),
            frame.opsets,
            dict(bound),
            initializers,
            parent=parent,
            attributes=frame.attributes,
            prefix=f"{location}/",
            calls=frame.calls,
        )

    def _run(
        self,
        frame: Frame,
        graph: onnx.GraphProto,
        bound: Mapping[str, SSAValue],
        location: str,
        where: str,
    ) -> list[SSAValue]:
        """Import a body into the current block; returns its results."""
        inner = self._frame(frame, graph, bound, location, where)
        self.importer.drain(inner)
        results = [self.importer.value(inner, v.name, where) for v in graph.output]
        if any(r is None for r in results):
            raise InvalidInputError("a body lacks one of its results", where=where)
        return results  # type: ignore[return-value]

    # -- small things -------------------------------------------------------------------------------------

    def _unrolled_count(self, graph: onnx.GraphProto, limit: SSAValue | None) -> int | None:
        known = None if limit is None else self.builder.known(limit)
        if known is None or known.size != 1:
            return None
        count = max(int(known.reshape(-1)[0]), 0)
        return count if count <= UNROLLED_TRIPS and count * len(graph.node) <= UNROLLED_NODES else None

    def _decided(self, flag: SSAValue) -> bool:
        known = self.builder.known(flag)
        return known is not None and known.size == 1

    def _scalar(self, value: SSAValue, where: str) -> SSAValue:
        """A limit or condition as a tensor of rank 0."""
        type_ = tensor_type(value)
        if type_.rank == 0:
            return value
        if type_.num_elements() != 1:
            raise InvalidInputError(
                "a condition or limit is a single value", where=where, expected="one element", got=type_
            )
        return self.builder.emit(ReshapeOp, [value], {"shape": ()})

    def _moved(self, value: SSAValue, source: int, target: int, where: str) -> SSAValue:
        """The tensor with axis `source` moved to `target`."""
        rank = tensor_type(value).rank
        if not rank or not -rank <= source < rank or not -rank <= target < rank:
            raise InvalidInputError("a scan axis is out of range", where=where, got=source or target)
        source, target = source % rank, target % rank
        if source == target:
            return value
        perm = [i for i in range(rank) if i != source]
        perm.insert(target, source)
        return self.builder.emit(TransposeOp, [value], {"perm": tuple(perm)})

    def _element(self, value: SSAValue, number: int) -> SSAValue:
        """Element `number` along axis 0, without the axis."""
        shape = tensor_type(value).shape
        starts = (const(number), *(const(0) for _ in shape[1:]))
        attrs = {"starts": starts, "sizes": (const(1), *shape[1:]), "steps": (1,) * len(shape)}
        row = self.builder.emit(SliceOp, [value], attrs)
        return self.builder.emit(ReshapeOp, [row], {"shape": tuple(shape[1:])})

    def _stacked(self, values: Sequence[SSAValue]) -> SSAValue:
        rows = [self.builder.emit(UnsqueezeOp, [v], {"axes": (0,)}) for v in values]
        return rows[0] if len(rows) == 1 else self.builder.emit(ConcatOp, rows, {"axis": 0})


def _ints(attributes: Mapping[str, AttributeProto], name: str, count: int, where: str) -> list[int]:
    """A list of `count` integers, by default zeros."""
    given = list(attributes[name].ints) if name in attributes else [0] * count
    if len(given) != count:
        raise InvalidInputError(f"attribute '{name}' has the wrong length", where=where, expected=count, got=len(given))
    return given
