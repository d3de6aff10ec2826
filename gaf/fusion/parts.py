# SPDX-License-Identifier: Apache-2.0
"""Computing the outermost rows of results from the same rows of operands: ops cut into equal parts along one
axis.

The index maps of the ops decide. A result cut along an axis needs of every operand either the same part of
one axis (that axis is read at the result's position and nowhere else) or all of it. Whatever reads across the
axis (a reduction over it, a softmax, a shift, a position used as data) has no parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.ir import Operation, SSAValue

from gaf.dialects.common.attributes import ShapeAttr
from gaf.dialects.common.scalar import Coord, walk
from gaf.dialects.graph.contract import GraphOp, tensor_type
from gaf.dialects.graph.meaning import Guard, Meaning, OpMeaning, View
from gaf.dialects.graph.ops.overlap import WHOLE, part_of
from gaf.dialects.graph.ops.shape import ReshapeOp
from gaf.dialects.graph.types import TensorType
from gaf.errors import GafError
from gaf.fusion.names import node_name
from gaf.fusion.region import NotFusible

Axes = dict[SSAValue, int]
"""Value -> the axis that it is cut along, or WHOLE."""


def outer_axis(type_: TensorType) -> int:
    """The outermost axis longer than 1: parts along it are contiguous. Raises NotFusible without one."""
    for axis, size in enumerate(type_.shape):
        if size != 1:
            return axis
    raise NotFusible(f"a tensor of type {type_} has no axis to cut")


def needed_axes(ops: Sequence[Operation], wanted: Mapping[SSAValue, int]) -> Axes:
    """How every value that `ops` (in order) read or make is cut, for results cut as in `wanted`.

    Raises NotFusible with what reads across an axis, or a value that is needed both whole and in parts.
    """
    axes: Axes = dict(wanted)
    for op in reversed(ops):
        cuts = {i: axes[r] for i, r in enumerate(op.results) if r in axes}
        if not cuts or not isinstance(op, GraphOp):
            continue
        for operand, axis in _operands_of(op, cuts).items():
            _agree(axes, op.operands[operand], axis, op)
        for result in op.results:
            axes.setdefault(result, WHOLE)
    return axes


def _agree(axes: Axes, value: SSAValue, axis: int, op: Operation) -> None:
    known = axes.setdefault(value, axis)
    if known != axis:
        raise NotFusible(
            f"{node_name(op)} reads {words_of(axis)} of what another op reads {words_of(known)} of"
        )


def words_of(axis: int) -> str:
    """For messages: how much of a value is read."""
    return "all" if axis == WHOLE else f"parts along axis {axis}"


def _operands_of(op: GraphOp, cuts: Mapping[int, int]) -> dict[int, int]:
    """Operand -> axis, for results cut along axes."""
    if all(axis == WHOLE for axis in cuts.values()):
        return dict.fromkeys(range(len(op.operands)), WHOLE)
    if isinstance(op, ReshapeOp):
        return {0: _through_reshape(op, cuts[0])}
    meaning: OpMeaning = op.meaning()
    found: dict[int, int] = {}

    def take(operand: int, axis: int) -> None:
        if found.setdefault(operand, axis) != axis:
            raise NotFusible(f"{node_name(op)} reads one operand in parts and whole")

    if isinstance(meaning, View):
        name = f"d{cuts[0]}"
        for piece in meaning.pieces:
            take(piece.operand, _read_along(op, name, piece.index, piece.guards))
        return found
    if not isinstance(meaning, Meaning):
        raise NotFusible(f"{node_name(op)} has no iteration space")
    along = {meaning.results[i]: axis for i, axis in cuts.items()}
    for number in range(len(meaning.stages) - 1, -1, -1):
        if number not in along:
            continue
        stage, axis = meaning.stages[number], along[number]
        name = f"d{axis}" if axis != WHOLE else ""
        if any(isinstance(s, Coord) and s.dim == name for s in walk(stage.body)):
            raise NotFusible(f"{node_name(op)} computes with the position along axis {axis}")
        for read in stage.reads:
            cut = _read_along(op, name, read.index, read.guards) if name else WHOLE
            if read.operand is not None:
                take(read.operand, cut)
            elif read.stage is not None and along.setdefault(read.stage, cut) != cut:
                raise NotFusible(f"{node_name(op)} needs a value of its own in parts and whole")
    return found


def _read_along(op: GraphOp, name: str, index: Sequence[object], guards: Sequence[Guard]) -> int:
    """The axis of an operand that is read at position `name` and nowhere else; WHOLE if `name` isn't used."""
    used = [i for i, e in enumerate(index) if name in e.names()]  # type: ignore[attr-defined]
    if any(name in g.index.names() for g in guards):
        raise NotFusible(f"{node_name(op)} reads some rows and not others")
    if not used:
        return WHOLE
    if len(used) == 1 and index[used[0]].as_name() == name:  # type: ignore[attr-defined]
        return used[0]
    raise NotFusible(f"{node_name(op)} reads across the rows that parts are cut from")


def _through_reshape(op: ReshapeOp, axis: int) -> int:
    """Parts of a reshape's result are parts of its operand if both axes are the outermost ones."""
    source, target = op.operand_tensor_types()[0], op.result_tensor_types()[0]
    if outer_axis(target) != axis:
        raise NotFusible(f"{node_name(op)} doesn't keep the rows that parts are cut from together")
    return outer_axis(source)


def cut_op(op: GraphOp, operands: Sequence[SSAValue], axes: Axes, parts: int) -> GraphOp:
    """The op on parts of its operands. Raises NotFusible if it can't be made smaller."""
    try:
        wanted = [part_of(tensor_type(r), axes[r], parts) for r in op.results]
        attrs = op.attrs()
        for key, value in op.properties.items():  # a shape that the op states is that of its result
            if isinstance(value, ShapeAttr) and value.data == tensor_type(op.results[0]).shape:
                attrs[key] = wanted[0].shape
        made = type(op).make(operands, attrs)
    except GafError as error:
        raise NotFusible(f"{node_name(op)} can't be cut into {parts} parts: {error.what}") from None
    if made.result_tensor_types() != wanted:
        raise NotFusible(f"{node_name(op)} can't be cut into {parts} parts")
    made.location = op.location
    made.attributes.update(op.attributes)
    for old, new in zip(op.results, made.results):
        new.name_hint = old.name_hint
    return made
