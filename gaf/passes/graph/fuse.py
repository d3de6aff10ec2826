# SPDX-License-Identifier: Apache-2.0
"""`fuse`: put every op that has a kernel form into a `graph.fused` region, joined with its neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from gaf.config import FusionConfig
from gaf.dialects.graph.ops.control import all_blocks
from gaf.dialects.graph.ops.structure import ConstantOp, FusedOp, YieldOp
from gaf.fusion.refit import Failure
from gaf.fusion.search import FusionPlan, Group, check_acyclic, plan_fusion
from gaf.passes.graph.effects import is_pure
from gaf.passes.graph.footprint import smallest_tile
from gaf.passes.registry import option, register_pass

HOST_REASON = "gaf.host"
"""Attribute of an op that stays on the host: the reason, for the report."""


@register_pass
@dataclass(frozen=True)
class FusePass(ModulePass):
    """Group ops into kernels by their index maps and outline each group as a `graph.fused`."""

    name = "fuse"

    autofuse: bool = option(True, "join ops; false makes every op its own kernel")
    max_depth: int | None = option(None, "most contractions and reductions on a path inside a kernel")
    strict: bool = option(False, "round fp16 and bf16 after every op, as the unfused model does")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in op.body.block.ops:
            if isinstance(func, FuncOp):
                for block in all_blocks(func.body.block):
                    fuse_block(block, autofuse=self.autofuse, max_depth=self.max_depth, strict=self.strict)


def fuse_block(
    block: Block,
    *,
    config: FusionConfig | None = None,
    autofuse: bool | None = None,
    max_depth: int | None = None,
    strict: bool | None = None,
    rules: bool = True,
    failures: Sequence[Failure] = (),
) -> FusionPlan:
    """Plan and outline the kernels of a block; returns the plan with its decisions.

    `config` holds all options, the others override it; `rules=False` joins nothing that a rule asks for and
    describes no candidates. `failures` are groups of an earlier plan that have no kernel.
    """
    pinned = {i: op.attributes[HOST_REASON].data for i, op in enumerate(block.ops) if HOST_REASON in op.attributes}  # type: ignore[attr-defined]
    plan = plan_fusion(
        block, config=config, autofuse=autofuse, max_depth=max_depth, strict=strict, host=pinned, rules=rules,
        candidates=rules, failures=failures, planner=smallest_tile,
    )  # fmt: skip
    for i, reason in plan.host.items():
        plan.ops[i].attributes[HOST_REASON] = StringAttr(reason)
    outline(block, plan)
    return plan


def outline(block: Block, plan: FusionPlan) -> None:
    """Rebuild `block` in group order, each group as one `graph.fused`; unused ops are erased."""
    order = check_acyclic(plan)
    groups = {g.ops[0]: g for g in plan.groups}
    folded = {plan.ops[i] for i in plan.folded_views}
    outputs = {first: _escaping(g, plan, folded) for first, g in groups.items()}
    for op in plan.ops:
        op.detach()
    replaced: dict[SSAValue, SSAValue] = {}
    for unit in order:
        group = groups.get(unit[0])
        if group is None:
            for i in unit:
                block.add_op(plan.ops[i])
            continue
        fused = _fuse_group(group, plan, folded, outputs[unit[0]])
        block.add_op(fused)
        for old, new in zip(outputs[unit[0]], fused.results):
            replaced[old] = new
            new.name_hint = old.name_hint
    members = {plan.ops[i] for g in plan.groups for i in g.ops}
    for old, new in replaced.items():
        old.replace_all_uses_with(new)
    for op in reversed(plan.ops):
        if op in members:
            op.drop_all_references()
    for op in members:
        op.erase(safe_erase=False)
    erase_unused(block)


def erase_unused(block: Block) -> None:
    """Erase pure ops without uses: views that were folded everywhere, constants that moved inside."""
    for op in reversed(list(block.ops)):
        if op.results and not any(r.uses for r in op.results) and is_pure(op):
            op.detach()
            op.erase()


def _escaping(group: Group, plan: FusionPlan, folded: set[Operation]) -> list[SSAValue]:
    """Results of the group that something outside reads, directly or through a folded view."""
    members = {plan.ops[i] for i in group.ops}
    found: list[SSAValue] = []
    for i in group.ops:
        for result in plan.ops[i].results:
            stack, escapes = [result], False
            while stack and not escapes:
                for use in stack.pop().uses:
                    user = use.operation
                    if user in members:
                        continue
                    if user in folded:
                        stack += user.results
                    else:
                        escapes = True
            if escapes:
                found.append(result)
    return found


def _fuse_group(group: Group, plan: FusionPlan, folded: set[Operation], outputs: Sequence[SSAValue]) -> FusedOp:
    """A fused op with clones of the members, of the views they read through and of scalar constants."""
    members = {plan.ops[i] for i in group.ops}
    inputs: list[SSAValue] = []
    inside: list[Operation] = []
    mapping: dict[SSAValue, SSAValue] = {}
    body = Block()

    def visit(value: SSAValue) -> None:
        """Post-order without recursion over the (short) view chains and member operands."""
        stack: list[tuple[SSAValue, bool]] = [(value, False)]
        while stack:
            v, done = stack.pop()
            if v in mapping:
                continue
            owner = v.owner
            clone = isinstance(owner, Operation) and (
                owner in members or owner in folded or (isinstance(owner, ConstantOp) and owner.value.array.size == 1)
            )
            if not clone:
                mapping[v] = body.insert_arg(v.type, len(body.args))
                mapping[v].name_hint = v.name_hint
                inputs.append(v)
            elif done:
                assert isinstance(owner, Operation)
                copy = owner.clone(value_mapper=mapping)
                copy.location = owner.location
                body.add_op(copy)
                inside.append(owner)
                mapping.update(zip(owner.results, copy.results))
                for old, new in zip(owner.results, copy.results):
                    new.name_hint = old.name_hint
            else:
                assert isinstance(owner, Operation)
                stack.append((v, True))
                stack += [(o, False) for o in reversed(owner.operands)]

    for out in outputs:
        visit(out)
    body.add_op(YieldOp.create(operands=[mapping[v] for v in outputs]))
    staged = bool(group.schedules and group.schedules[0].stages)
    return FusedOp.build_from(group.kind, group.label or label(inside), inputs, Region(body), staged)


def label(ops: Sequence[Operation]) -> str:
    """A short C-legal kernel name from the ops, `matmul_add_gelu`: five parts at most.

    A single word gets the ending `_op`: a kernel called `tanh` would take the place of the C library's.
    """
    words = [(op.name, getattr(op, "user_name", op.name.removeprefix("graph."))) for op in ops]
    fills = ("graph.constant", "graph.full")
    parts = [word for name, word in words if name not in fills] or [word for _, word in words]
    views = ("reshape", "transpose", "unsqueeze", "squeeze", "expand", "slice", "flatten", "cast")
    main = [p for p in parts if p not in views] or parts
    shown = [p for i, p in enumerate(main) if i == 0 or p != main[i - 1]]
    name = "_".join(shown[:5] + (["etc"] if len(shown) > 5 else []))
    return name if "_" in name else f"{name}_op"
