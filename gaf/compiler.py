# SPDX-License-Identifier: Apache-2.0
"""The whole way from a model to printed kernels: `fuse(model, config) -> FusedModel`."""

from __future__ import annotations

import gc
import itertools
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation, SSAValue

from gaf.config import REWRITES, FusionConfig
from gaf.dialects.ascendc.kernel import KernelOp as AscendKernelOp
from gaf.dialects.graph.contract import GraphOp, location_name
from gaf.dialects.graph.model import Model
from gaf.dialects.graph.ops.control import ControlOp, all_blocks, ops_of
from gaf.dialects.graph.ops.random import RunSaltOp
from gaf.dialects.graph.ops.structure import ConstantOp, FusedOp, WeightOp
from gaf.dialects.tile.structure import KernelOp as TileKernelOp
from gaf.errors import GafError, InternalError, InvalidInputError, UnsupportedError
from gaf.fusion.candidates import Candidate
from gaf.fusion.declared import declared_rules
from gaf.fusion.exact import SearchReport
from gaf.fusion.names import node_name
from gaf.fusion.refit import Failure
from gaf.fusion.rules import registered_rules
from gaf.fusion.search import Decision, FusionPlan
from gaf.passes.graph.fuse import HOST_REASON, fuse_block
from gaf.passes.graph.lower_graph import KnownKernels, lower_module
from gaf.passes.graph.overlap_collectives import overlap_collectives
from gaf.passes.pipeline import ascendc_pipeline, graph_pipeline, run_pipeline, tile_pipeline
from gaf.passes.tile.limit_tiles import limit_tiles
from gaf.report.text import log_fusions, log_stream
from gaf.runtime.executor import Executor, Observer, kernel_names
from gaf.runtime.kernel import Kernel
from gaf.target import chip

if TYPE_CHECKING:
    from gaf.runtime.chains import Chain
    from gaf.runtime.verify import Verification


MAX_TURNS = 16
"""Plans made for groups that have no kernel before their ops become kernels of their own."""


@dataclass
class FusedModel:
    """A model whose ops are grouped into kernels.

    `kernels` are the distinct generated kernels; `fallbacks` the ops that run on the host: one text per op
    type with count and reason; `decisions` every join and refusal of the search; `seconds` the time per phase.
    """

    model: Model
    source_model: Model
    config: FusionConfig
    kernels: list[Kernel]
    decisions: list[Decision]
    seconds: dict[str, float] = field(default_factory=dict)
    candidates: list[Candidate] = field(default_factory=list)
    """Groups of two computing ops or more that fusion joined, or priced and left apart, by gain."""
    search: SearchReport | None = None
    """Modelled cost of the plan, its lower bound and the gap."""
    left_alone: list[tuple[str, list[str]]] = field(default_factory=list)
    """Patterns left to another library: its operator and the model nodes."""
    notes: list[str] = field(default_factory=list)
    """Remarks of the search, e.g. a rule that failed."""
    _executors: dict[str, Executor] = field(default_factory=dict)

    @property
    def fused_ops(self) -> list[FusedOp]:
        return _fused_ops(self.model)

    @property
    def host_ops(self) -> list[GraphOp]:
        """Ops that compute something outside kernels (views, constants, the salt of a run and control flow don't count)."""
        return [
            op for op in ops_of(self.model.block)
            if isinstance(op, GraphOp) and not op.IS_VIEW and not isinstance(op, ConstantOp | WeightOp | RunSaltOp | ControlOp)
        ]

    @cached_property
    def chains(self) -> list[Chain]:
        """Launches of super-kernels, several kernels each; none with `enable_superkernel=False`."""
        if not self.config.enable_superkernel:
            return []
        from gaf.runtime.chains import find_chains

        return find_chains(self.model.block, {k.name: k for k in self.kernels}, chip(self.config.target))

    @property
    def num_ops(self) -> int:
        """Kernel launches plus host ops."""
        return len(self.fused_ops) + len(self.host_ops)

    @property
    def fallbacks(self) -> list[str]:
        """One line per op type on the host: count, node names, reason."""
        groups: dict[tuple[str, str], list[str]] = {}
        for op in self.host_ops:
            reason = op.attributes.get(HOST_REASON)
            groups.setdefault((getattr(op, "user_name", op.name), reason.data if reason else ""), []).append(location_name(op) or "?")  # type: ignore[attr-defined]
        return [
            f"{len(names)} x {op.removeprefix('graph.')} ({', '.join(names[:3])}{', ...' if len(names) > 3 else ''}): {reason}"
            for (op, reason), names in sorted(groups.items())
        ]

    @property
    def report(self) -> Any:
        """The fusion report: `str(report)` is text, `report.to_json()` a dict."""
        from gaf.report.model import build_report

        return build_report(self)

    def executor(self, engine: str = "auto") -> Executor:
        """An executor for an engine; "auto" is the host twin, or the interpreter without a C++ compiler."""
        if engine == "auto":
            from gaf.runtime.compiler import find_compiler

            engine = "host" if find_compiler() is not None else "interpreter"
        if engine not in self._executors:
            self._executors[engine] = Executor(self.model, {k.name: k for k in self.kernels}, engine)
        return self._executors[engine]

    def run(self, inputs: Mapping[str, np.ndarray], engine: str = "auto", observe: Observer | None = None) -> dict[str, np.ndarray]:
        """Run the fused model; inputs and outputs by name."""
        return self.executor(engine).run(inputs, observe)

    def verify(self, inputs: Mapping[str, np.ndarray] | None = None, engine: str = "auto") -> Verification:
        """Compare every kernel launch and every output with a float64 reference.

        Without `inputs`, random ones are made (symbols get small sizes). The result has `.ok`.
        """
        from gaf.runtime.verify import verify_model

        return verify_model(self, inputs, engine)


def fuse(model: Model, config: FusionConfig | None = None) -> FusedModel:
    """Find the kernels of a model and generate them down to C++ source.

    `model` is not changed. Raises GafError subclasses; anything else is a bug.
    """
    config = config or FusionConfig()
    seconds: dict[str, float] = {}
    work = model.clone()
    with _no_gc(), _bugs_named(model.source):
        passes = graph_pipeline(config.enable_autofuse, config.strict, config.disabled_rules)
        for step, spent in run_pipeline(work.module, passes).by_pass().items():
            seconds[step] = spent
        with _timed(seconds, "fuse"), declared_rules(model):
            _check_switches(config)
            *inner, plan = [fuse_block(block, config=config) for block in all_blocks(work.block)]
        decisions = [d for p in (plan, *inner) for d in p.decisions]
        with _timed(seconds, "overlap"):
            decisions += [d for block in all_blocks(work.block) for d in overlap_collectives(block, config)]
        kernels = _generate(work, config, seconds, decisions)
        _count_uses(work, kernels)
    fused = FusedModel(work, model, config, list(kernels.values()), decisions, seconds)
    fused.candidates, fused.search, fused.left_alone = plan.candidates, plan.report, _left_alone(plan)
    for body in inner:
        fused.candidates = [*fused.candidates, *body.candidates]
        fused.left_alone += _left_alone(body)
    fused.notes += [note for p in (plan, *inner) for note in p.notes]
    if log_stream() is not None:
        log_fusions(fused.report)
    return fused


def _check_switches(config: FusionConfig) -> None:
    """Raises InvalidInputError if `disabled_rules` names something that can't be switched off."""
    known = [*REWRITES, *(r.title for r in registered_rules())]
    for name in config.disabled_rules:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            raise InvalidInputError(
                f"FusionConfig.disabled_rules: no rule or rewrite is called '{name}'", expected=", ".join(known),
                hint=f"did you mean '{near[0]}'?" if near else None,
            )  # fmt: skip


def _left_alone(plan: FusionPlan) -> list[tuple[str, list[str]]]:
    return [(operator, [node_name(plan.ops[i]) for i in ops]) for operator, ops in plan.left_alone]


def _generate(
    work: Model, config: FusionConfig, seconds: dict[str, float], decisions: list[Decision]
) -> dict[str, Kernel]:
    """Lower every distinct fused op; a group without a kernel that fits the chip is cut in two and planned again.

    What the new plans decide is added to `decisions`.
    """
    kernels: dict[str, Kernel] = {}
    failed: dict[str, str] = {}
    known = KnownKernels()
    for turn in itertools.count():
        with _timed(seconds, "lower to tile"):
            refused = lower_module(work.module, strict=config.strict, known=known)
        for op in [op for op in work.module.body.block.ops if isinstance(op, TileKernelOp)]:
            op.detach()
            name = op.sym_name.data
            try:
                kernels[name] = _lower_kernel(op, config, seconds)
            except UnsupportedError as error:
                failed[name] = error.what
        failures: list[Failure] = []
        for fused in _fused_ops(work):
            names = kernel_names(fused)
            if not any(n in kernels for n in names):
                reason = refused.get(fused) or "; ".join(dict.fromkeys(failed.get(n, "no kernel") for n in names))
                failures.append(Failure(_dissolve(fused, reason), reason))
        if not failures:
            used = {n for op in _fused_ops(work) for n in kernel_names(op)}
            return {n: k for n, k in kernels.items() if n in used}
        with _timed(seconds, "fuse"):
            patient = None if turn < MAX_TURNS else False
            for block in all_blocks(work.block):
                mine = [f for f in failures if f.ops and f.ops[0].parent_block() is block]
                plan = fuse_block(block, config=config, autofuse=patient, rules=False, failures=mine)
                decisions += plan.decisions
    raise InternalError("unreachable")


def _lower_kernel(tile: TileKernelOp, config: FusionConfig, seconds: dict[str, float]) -> Kernel:
    """Plan, lower and print one tile kernel. Raises UnsupportedError if it can't fit the chip."""
    from gaf.codegen.host import HostTiling
    from gaf.codegen.printer import print_kernel

    module = ModuleOp([tile])
    limits = (config.tuning or {}).get(tile.sym_name.data, {})
    with _timed(seconds, "plan and lower"):
        run_pipeline(module, tile_pipeline(config.target), level="tile", trusted=True)
        if limits:
            limit_tiles(next(op for op in module.body.block.ops if isinstance(op, TileKernelOp)), limits)
        planned_tile = next(op for op in module.body.block.ops if isinstance(op, TileKernelOp)).clone()
        run_pipeline(module, ascendc_pipeline(config.target, config.matmul_precision == "hf32"), level="tile", trusted=True)
    op = next((op for op in module.body.block.ops if isinstance(op, AscendKernelOp)), None)
    if op is None:
        raise InternalError(f"lower-tile made no kernel of '{tile.sym_name.data}'")
    with _timed(seconds, "print"):
        source = print_kernel(op)
        host = HostTiling(op, chip(config.target))
    attributes = planned_tile.attributes
    return Kernel(
        op.sym_name.data,
        attributes["kind"].data if "kind" in attributes else "elementwise",  # type: ignore[attr-defined]
        source,
        [m.data for m in attributes["members"].data] if "members" in attributes else [],  # type: ignore[attr-defined]
        host,
        planned_tile,
        op,
    )


def _fused_ops(model: Model) -> list[FusedOp]:
    """All kernels of a model, those in the bodies of control flow included."""
    return [op for op in ops_of(model.block) if isinstance(op, FusedOp)]


def _dissolve(fused: FusedOp, reason: str) -> list[Operation]:
    """Put the members of a fused op back; a lone member that has no kernel stays on the host. Returns them."""
    block = fused.parent_block()
    assert block is not None
    mapping: dict[SSAValue, SSAValue] = dict(zip(fused.block.args, fused.operands))
    copies: list[Operation] = []
    for op in fused.members:
        copy = op.clone(value_mapper=mapping)
        copy.location = op.location
        mapping.update(zip(op.results, copy.results))
        block.insert_op_before(copy, fused)
        copies.append(copy)
    compute = [c for c in copies if isinstance(c, GraphOp) and not c.IS_VIEW and not isinstance(c, ConstantOp)]
    stored = [c for c in copies if c not in compute and any(mapping[v] is c.results[0] for v in fused.yielded)]
    if len(compute) <= 1 and not (compute and stored):
        for op in compute or copies:
            op.attributes[HOST_REASON] = StringAttr(reason)
    for old, new in zip(fused.results, fused.yielded):
        old.replace_all_uses_with(mapping[new])
    fused.detach()
    fused.erase()
    return copies


def _count_uses(work: Model, kernels: Mapping[str, Kernel]) -> None:
    for kernel in kernels.values():
        kernel.uses = 0
    for op in _fused_ops(work):
        for name in kernel_names(op):
            if name in kernels:
                kernels[name].uses += 1


@contextmanager
def _timed(seconds: dict[str, float], phase: str) -> Iterator[None]:
    start = time.perf_counter()
    try:
        yield
    finally:
        seconds[phase] = seconds.get(phase, 0.0) + time.perf_counter() - start


@contextmanager
def _bugs_named(where: str) -> Iterator[None]:
    """Any exception that isn't meant for users becomes an InternalError that says what failed."""
    try:
        yield
    except GafError:
        raise
    except Exception as error:
        raise InternalError(
            f"compiling failed: {type(error).__name__}: {str(error).partition(chr(10))[0]}", where=where,
            hint="this is a bug in gaf: please report it with the model",
        ) from error


@contextmanager
def _no_gc() -> Iterator[None]:
    """The collector finds nothing in IR that is alive anyway and costs about 14 % of a compile."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
