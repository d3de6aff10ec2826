# SPDX-License-Identifier: Apache-2.0
"""Collectives beside kernels: the kernel before one, or behind it, is cut into parts that run while others
travel.

A collective stays a launch of its own. What can be gained is time in which the chip would wait for its links:
the rows of its operand are cut into equal parts, so that part i is on its way while part i + 1 is computed
and part i - 1 is used (`graph.overlap`). All parts of a kernel have one shape, so they are one kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from gaf.config import FusionConfig
from gaf.dialects.graph.contract import GraphOp, tensor_type
from gaf.dialects.graph.ops.collective import CollectiveOp
from gaf.dialects.graph.ops.control import all_blocks
from gaf.dialects.graph.ops.overlap import WHOLE, OverlapOp, part_of
from gaf.dialects.graph.ops.structure import ConstantOp, FusedOp, YieldOp
from gaf.fusion.cost import CostModel, GroupCost, OpView, sizes, total
from gaf.fusion.names import node_name
from gaf.fusion.opgraph import effectful
from gaf.fusion.parts import Axes, cut_op, needed_axes, outer_axis, words_of
from gaf.fusion.plan import SLACK, Decision
from gaf.fusion.pricer import ask, checked
from gaf.fusion.region import NotFusible
from gaf.fusion.search import model_of
from gaf.fusion.work import Sizes, region_work, value_bytes
from gaf.passes.graph.lower_graph import fused_kernel
from gaf.passes.registry import option, register_pass

KIND = "communication+compute"
"""Kind of a group of kernels around a collective."""

SWITCH = "overlap-collectives"
"""Name in `FusionConfig.disabled_rules` that leaves collectives alone."""

PARTS = (2, 4, 8)
"""Numbers of parts that are priced."""

WORTH = 0.95
"""Modelled time of the parts over that without, from which on they are taken: both are estimates."""


@register_pass
@dataclass(frozen=True)
class OverlapPass(ModulePass):
    """Cut the kernels beside collectives into parts that run while other parts travel, where that is modelled
    faster.
    """

    name = "overlap-collectives"

    objective: str = option(
        "traffic", "traffic or time: whether parts may read weights again for a small gain"
    )
    target: str = option("ascend910b3", "the chip that prices kernels")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        config = FusionConfig(objective=self.objective, target=self.target)
        for func in op.body.block.ops:
            if isinstance(func, FuncOp):
                for block in all_blocks(func.body.block):
                    overlap_collectives(block, config)


def overlapped_us(produce: float, transfer: float, consume: float, parts: int) -> float:
    """µs of `parts` equal parts of which each takes these times, on one stream for kernels and one for
    transfers.

    Kernels run in the order p0, p1, c0, p2, c1, ...: with d = max(produce + consume, transfer) it is about
    produce + transfer + consume + (parts - 1) * d, what fusion.md calls max + min / parts. The vendor's
    example (MatMul + AllReduce, 803 and 931 µs, measured 1262 µs in five parts of which the first is half as
    long) comes out at 1338 in equal parts.
    """
    now = sent = 0.0
    arrived: list[float] = []
    for i in range(parts + 1):
        if i < parts:
            now += produce
            sent = max(sent, now) + transfer
            arrived.append(sent)
        if i == parts or (i > 0 and consume):
            now = max(now, arrived[i - 1]) + consume
    return now


@dataclass
class Neighbourhood:
    """A collective, with the kernel before it and the kernel behind it, as far as they take part."""

    collective: CollectiveOp
    producer: FusedOp | None
    consumer: FusedOp | None

    @property
    def kernels(self) -> list[FusedOp]:
        return [k for k in (self.producer, self.consumer) if k is not None]

    @property
    def results(self) -> list[SSAValue]:
        """What others read, in the order of the ops that make it."""
        inside = {self.collective, *self.kernels}
        made = [
            r for op in (self.producer, self.collective, self.consumer) if op is not None for r in op.results
        ]
        return [r for r in made if any(u.operation not in inside for u in r.uses)]

    @property
    def last(self) -> Operation:
        return self.consumer or self.collective

    @property
    def name(self) -> str:
        return " + ".join(
            [*dict.fromkeys(n for k in self.kernels for n in _nodes(k)), node_name(self.collective)]
        )


def overlap_collectives(block: Block, config: FusionConfig) -> list[Decision]:
    """Cut kernels beside the collectives of a fused block into parts where that pays; returns what was
    decided.
    """
    if SWITCH in config.disabled_rules or not config.enable_autofuse:
        return []
    model, env = model_of(config), sizes(config.symbols)
    decisions: list[Decision] = []
    for op in [op for op in block.ops if isinstance(op, CollectiveOp)]:
        found = decide(block, op, model, env, config)
        if found is not None:
            decisions.append(found)
    return decisions


def decide(
    block: Block, op: CollectiveOp, model: CostModel, env: Sizes, config: FusionConfig
) -> Decision | None:
    """Overlap one collective with the neighbours that save most time, or say why not. None without
    neighbours.
    """
    whole = _whole(op)
    if not whole.kernels:
        return None
    best: tuple[float, int, GroupCost, GroupCost, Neighbourhood] | None = None
    reasons: dict[str, None] = {}
    nearest: GroupCost | None = None
    for near in _choices(whole):
        before = total(
            [_kernel_cost(k, model, env, config) for k in near.kernels]
            + [_transfer_cost(near.collective, model, env)]
        )
        try:
            _in_one_place(block, near)
            parts, after = min(_forms(near, model, env, config), key=lambda f: f[1].us)
        except NotFusible as reason:
            reasons[str(reason)] = None
            continue
        if near is whole:
            nearest = after
        if after.us > WORTH * before.us:
            least = 100 * (1 - WORTH)
            reasons[
                f"{_sides(near)} in {parts} parts are modelled {after.us:.1f} µs, whole {before.us:.1f}: "
                f"saves less than {least:.0f} %"
            ] = None
        elif not _wanted(before, after, config):
            reasons[_more_bytes(near, parts, before, after)] = None
        elif best is None or before.us - after.us > best[0]:
            best = before.us - after.us, parts, before, after, near
    sides = [tuple(_nodes(k)) for k in whole.kernels]
    producer = (*(sides[0] if whole.producer is not None else ()), node_name(op))
    consumer = sides[-1] if whole.consumer is not None else ()
    if best is None:
        before = total(
            [_kernel_cost(k, model, env, config) for k in whole.kernels] + [_transfer_cost(op, model, env)]
        )
        return Decision(producer, consumer, False, "; ".join(reasons), KIND, before, nearest)
    _, parts, before, after, near = best
    _put(near, cut(near, parts))
    return Decision(
        (*(_nodes(near.producer) if near.producer is not None else ()), node_name(op)),
        tuple(_nodes(near.consumer)) if near.consumer is not None else (),
        True, "", KIND, before, after,
    )  # fmt: skip


def _wanted(before: GroupCost, after: GroupCost, config: FusionConfig) -> bool:
    """Under the objective "traffic", bytes that parts add to HBM's have to save enough time."""
    moved = [c.hbm_bytes - c.resident_bytes for c in (before, after)]
    return config.objective == "time" or moved[1] <= moved[0] or before.us > (1 + SLACK) * after.us


def _more_bytes(near: Neighbourhood, parts: int, before: GroupCost, after: GroupCost) -> str:
    more = (after.hbm_bytes - after.resident_bytes - before.hbm_bytes + before.resident_bytes) / 1e6
    return (
        f"{_sides(near)} in {parts} parts read {more:.3g} MB more, for "
        f"{100 * (1 - after.us / before.us):.1f} % of the time (objective 'traffic' wants {100 * SLACK / (1 + SLACK):.0f} %)"
    )


def _sides(near: Neighbourhood) -> str:
    """For messages: which neighbours take part."""
    if near.producer is not None and near.consumer is not None:
        return "both neighbours"
    return "the kernel before" if near.producer is not None else "the kernel behind"


# -- neighbours -----------------------------------------------------------------------------------------


def _whole(op: CollectiveOp) -> Neighbourhood:
    """The collective with the fused ops on both sides, if there are any."""
    producer = op.x.owner if isinstance(op.x.owner, FusedOp) else None
    consumers = {use.operation: None for use in op.result.uses}
    fused = [c for c in consumers if isinstance(c, FusedOp)]
    return Neighbourhood(op, producer, fused[0] if len(fused) == 1 else None)


def _choices(whole: Neighbourhood) -> Iterator[Neighbourhood]:
    yield whole
    if whole.producer is not None and whole.consumer is not None:
        yield replace(whole, consumer=None)
        yield replace(whole, producer=None)


def _in_one_place(block: Block, near: Neighbourhood) -> None:
    """Raise NotFusible if the ops can't stand together where the last of them is."""
    number = {op: i for i, op in enumerate(block.ops)}
    inside = {near.collective, *near.kernels}
    last = number[near.last]
    first = min(number[op] for op in inside)
    for op in inside:
        for result in op.results:
            for use in result.uses:
                if use.operation not in inside and number[use.operation] < last:
                    raise NotFusible(
                        f"{node_name(use.operation)} needs a result before the parts are together"
                    )
    for i in effectful(list(block.ops)):
        op = list(block.ops)[i]
        if op is not near.collective and first < i < last:
            raise NotFusible(f"{node_name(op)} keeps its place between the kernels and the collective")


def _nodes(kernel: FusedOp) -> list[str]:
    return list(dict.fromkeys(node_name(op) for op in kernel.members if not isinstance(op, ConstantOp)))


# -- costs ----------------------------------------------------------------------------------------------


def _kernel_cost(
    kernel: FusedOp, model: CostModel, env: Sizes, config: FusionConfig, again: Sequence[SSAValue] = ()
) -> GroupCost:
    """The cost of a kernel; operands in `again` are those that a launch just before left in L2."""
    region, schedules = fused_kernel(kernel, config.strict)
    inner = dict(zip(kernel.block.args, kernel.operands))
    reads = [inner.get(v) in again for v in region.inputs]  # type: ignore[call-overload,arg-type]
    return model.price(region_work(region, schedules[0], env), reads, ops=len(kernel.members))


def _transfer_cost(op: CollectiveOp, model: CostModel, env: Sizes) -> GroupCost:
    view = OpView(op, env)
    us = checked(ask(model, "estimate_latency", view, view.name), model, view.name, "estimate_latency")
    return GroupCost(us=us, hbm_bytes=view.bytes, launch_us=min(us, model.rates.launch_us), memory_us=us)


def _forms(
    near: Neighbourhood, model: CostModel, env: Sizes, config: FusionConfig
) -> Iterator[tuple[int, GroupCost]]:
    """Every number of parts that the rows allow, and what they cost. Raises NotFusible if there is none."""
    if near.collective.axis_moved is not None:
        raise NotFusible(
            f"ranks share out axis {near.collective.axis_moved}, so its parts aren't parts of the result"
        )
    type_ = tensor_type(near.collective.x)
    axis = outer_axis(type_)
    rows = type_.shape[axis].as_int()
    if rows is None:
        raise NotFusible(f"the size of axis {axis} is symbolic: parts have to be equal for all sizes")
    found = [parts for parts in PARTS if rows % parts == 0]
    if not found:
        raise NotFusible(f"axis {axis} of {rows} has no {' or '.join(map(str, PARTS))} equal parts")
    for parts in found:
        made = cut(near, parts)
        cost = overlap_cost(made, model, env, config)
        made.erase()  # or it would count as a reader of its operands
        yield parts, cost


def overlap_cost(op: OverlapOp, model: CostModel, env: Sizes, config: FusionConfig) -> GroupCost:
    """What all parts of an overlap cost together.

    `hbm_bytes` counts every operand of every launch once, as everywhere; operands that all parts read whole
    are `resident_bytes` from the second part on, if what one part touches leaves room in L2.
    """
    room = model.l2_bytes * model.rates.l2_fraction
    bodies = op.produce.block, op.consume.block
    touched = sum(value_bytes(v, env) for body in bodies for v in body.args)
    whole = [a for body in bodies for a in body.args if touched <= room and _is_whole(op, a)]
    produce, consume = (
        [_kernel_cost(k, model, env, config, whole) for k in body.ops if isinstance(k, FusedOp)]
        for body in bodies
    )
    kept = sum(c.resident_bytes for c in (*produce, *consume))
    transfer, parts = _transfer_cost(op.collective, model, env), op.attrs()["parts"]
    sums = total([*produce, transfer, *consume])
    before, after = sum(c.us for c in produce), sum(c.us for c in consume)
    return GroupCost(
        us=overlapped_us(before, transfer.us, after, parts), hbm_bytes=parts * sums.hbm_bytes,
        resident_bytes=(parts - 1) * kept,
        l2_bytes=parts * sums.l2_bytes, launches=parts * sums.launches, launch_us=parts * sums.launch_us,
        memory_us=parts * sums.memory_us, jit_s=sums.jit_s, footprint=sums.footprint,
        pipes={"transfer": parts * transfer.us, "kernels": parts * (before + after)},
    )  # fmt: skip


def _is_whole(op: OverlapOp, argument: BlockArgument) -> bool:
    """Is an argument of `produce` or `consume` an operand that every part reads whole?"""
    axes = op.attrs()["axes"]
    first = len(argument.block.args) - len(axes)  # `consume` begins with what arrived
    return argument.index >= first and axes[argument.index - first] == WHOLE


# -- the op ---------------------------------------------------------------------------------------------


def cut(near: Neighbourhood, parts: int) -> OverlapOp:
    """The overlap of a collective with its neighbours, in parts along the outer axis of what it moves; not
    inserted yet.

    Raises NotFusible if a kernel has no parts, with the reason.
    """
    results, axis = near.results, outer_axis(tensor_type(near.collective.x))
    axes: Axes = {near.collective.x: axis, near.collective.result: axis}
    for value in results:
        axes.setdefault(value, outer_axis(tensor_type(value)))
    inner: dict[FusedOp, Axes] = {}
    for kernel in reversed(
        near.kernels
    ):  # what the consumer asks of the producer's other results comes first
        wanted = {inside: axes[r] for r, inside in zip(kernel.results, kernel.yielded) if r in axes}
        inner[kernel] = needed_axes(list(kernel.block.ops), wanted)
        for arg, operand in zip(kernel.block.args, kernel.operands):
            asked = inner[kernel].get(arg, WHOLE)
            if axes.setdefault(operand, asked) != asked:
                maker = node_name(operand.owner) if isinstance(operand.owner, Operation) else "an input"
                raise NotFusible(
                    f"{_nodes(kernel)[-1]} needs {words_of(asked)} of {maker}, which comes in {words_of(axes[operand])}"
                )
    made_inside = {r for op in (near.collective, *near.kernels) for r in op.results}
    operands = list(dict.fromkeys(o for k in near.kernels for o in k.operands if o not in made_inside))
    if near.producer is None:
        operands = list(dict.fromkeys([near.collective.x, *operands]))
    kept = _kept(near, results)
    produce, transfer, consume = Block(), Block(), Block()
    # what is sent
    at = {o: produce.insert_arg(part_of(tensor_type(o), axes[o], parts), i) for i, o in enumerate(operands)}
    if near.producer is not None:
        _add_part(produce, near.producer, at, inner[near.producer], parts)
    produce.add_op(YieldOp.create(operands=[at[near.collective.x], *(at[v] for v in kept)]))
    # how
    sent = transfer.insert_arg(part_of(tensor_type(near.collective.x), axis, parts), 0)
    moved = type(near.collective).make([sent], near.collective.attrs())
    moved.location, moved.attributes = near.collective.location, dict(near.collective.attributes)
    transfer.add_ops([moved, YieldOp.create(operands=[moved.result])])
    # and used
    outer = [near.collective.result, *kept, *operands]
    at = {v: consume.insert_arg(part_of(tensor_type(v), axes[v], parts), i) for i, v in enumerate(outer)}
    if near.consumer is not None:
        _add_part(consume, near.consumer, at, inner[near.consumer], parts)
    consume.add_op(YieldOp.create(operands=[at[v] for v in results]))
    made = OverlapOp.of(
        parts, operands, [axes[o] for o in operands], [Region(produce), Region(transfer), Region(consume)],
        [tensor_type(v) for v in results], [axes[v] for v in results],
    )  # fmt: skip
    made.location = near.collective.location
    return made


def _kept(near: Neighbourhood, results: Sequence[SSAValue]) -> list[SSAValue]:
    """Results of the producer, besides what is sent, that the consumer or somebody outside reads."""
    if near.producer is None:
        return []
    later = set(results) | (set(near.consumer.operands) if near.consumer is not None else set())
    return [r for r in near.producer.results if r in later]


def _add_part(block: Block, kernel: FusedOp, at: dict[SSAValue, SSAValue], axes: Axes, parts: int) -> None:
    """Append a part of a fused op to a body; `at` maps values outside to those of the body, and gets the
    results.
    """
    body = Block()
    mapping: dict[SSAValue, SSAValue] = {}
    for i, (arg, operand) in enumerate(zip(kernel.block.args, kernel.operands)):
        inside: BlockArgument = body.insert_arg(at[operand].type, i)
        inside.name_hint = arg.name_hint
        mapping[arg] = inside
    for op in kernel.members:
        values = [mapping[o] for o in op.operands]
        whole = all(axes.get(r, WHOLE) == WHOLE for r in op.results)
        copy = _copied(op, values) if whole else cut_op(op, values, axes, parts)
        body.add_op(copy)
        mapping.update(zip(op.results, copy.results))
    body.add_op(YieldOp.create(operands=[mapping[v] for v in kernel.yielded]))
    operands = [at[o] for o in kernel.operands]
    made = FusedOp.build_from(
        kernel.kind.data, f"{kernel.label.data}_part", operands, Region(body), kernel.in_stages
    )
    block.add_op(made)
    for old, new in zip(kernel.results, made.results):
        new.name_hint = old.name_hint
        at[old] = new


def _copied(op: GraphOp, values: Sequence[SSAValue]) -> Operation:
    copy = op.clone(value_mapper=dict(zip(op.operands, values)))
    copy.location = op.location
    return copy


def _put(near: Neighbourhood, made: OverlapOp) -> None:
    """Insert the op in place of what it stands for."""
    results, last = near.results, near.last
    block = last.parent_block()
    assert block is not None
    block.insert_op_before(made, last)
    for old, new in zip(results, made.results):
        new.name_hint = old.name_hint
        old.replace_all_uses_with(new)
    for op in [near.consumer, near.collective, near.producer]:
        if op is not None:
            op.detach()
            op.erase()
