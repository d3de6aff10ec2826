# SPDX-License-Identifier: Apache-2.0
"""`build_report`: the figures of a fusion, from which text, JSON and HTML are made; the same for the same model."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.ir import Operation, SSAValue

from gaf.dialects.ascendc.sync import SyncAllOp
from gaf.dialects.graph.contract import GraphOp, location_name, tensor_type
from gaf.dialects.graph.model import Model
from gaf.dialects.graph.ops.control import ops_of
from gaf.dialects.graph.ops.overlap import times_run
from gaf.dialects.graph.ops.structure import FusedOp
from gaf.errors import UnsupportedError
from gaf.passes.graph.fuse import HOST_REASON
from gaf.passes.graph.lower_graph import fused_work
from gaf.report.kinds import OVERLAP, count_kinds
from gaf.report.names import computes, member_names, num_computing, op_title, pattern_of
from gaf.report.traffic import OpBytes, input_symbols, symbol_sizes
from gaf.runtime.executor import kernel_names
from gaf.runtime.kernel import Kernel

if TYPE_CHECKING:
    from gaf.compiler import FusedModel
    from gaf.fusion.search import Decision
    from gaf.runtime.verify import Verification

SCHEMA = 1
"""Version of the JSON form; it grows when a key changes its meaning or goes away."""


@dataclass
class Buffer:
    """An on-chip buffer of a kernel; bytes at the report's sizes."""

    name: str
    space: str
    bytes: int


@dataclass
class KernelReport:
    """One generated kernel.

    `launches` counts its uses in one run of the model. Bytes are per launch, every operand once, at the
    report's sizes; `blocks` is the launch width and `on_chip` the bytes per memory, both None with the reason
    in `note` if these sizes are left to another variant. `error` and `tolerance` are filled by verification.
    """

    name: str
    kind: str
    pattern: str
    launches: int
    members: list[str]
    source: str
    arguments: list[str]
    guards: list[str]
    barriers: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    blocks: int | None = None
    workspace: int | None = None
    on_chip: dict[str, int] = field(default_factory=dict)
    buffers: list[Buffer] = field(default_factory=list)
    note: str = ""
    error: float | None = None
    tolerance: float | None = None


@dataclass
class LaunchReport:
    """One step of a run: a kernel launch, or an op on the host (`kernel` is None).

    `ops` counts its computing ops, `times` how often it runs: once, or once for each part of an overlap with a
    collective. `bytes` are those of one time. `sources` are the numbers of the steps whose results it reads, through views; `inputs` the model inputs.
    """

    number: int
    kernel: str | None
    label: str
    pattern: str
    ops: int
    members: list[str]
    sources: list[int]
    inputs: list[str]
    outputs: list[str]
    bytes: int
    times: int = 1


@dataclass
class SuperKernelReport:
    """Kernels that one launch runs, in order, with the barrier before each; `launches` are its uses in one run."""

    name: str
    kind: str
    kernels: list[str]
    barriers: list[str | None]
    launches: int

    @property
    def saved(self) -> int:
        """Launches saved in one run of the model."""
        return self.launches * (len(self.kernels) - 1)


@dataclass
class HostReport:
    """Ops of one type that run on the host."""

    op: str
    reason: str
    count: int
    nodes: list[str]


@dataclass
class DecisionReport:
    """One answered question of the search; `reason` is the binding constraint, empty for a join."""

    producer: str
    consumer: str
    fused: bool
    reason: str
    detail: dict[str, Any] = field(default_factory=dict)
    """Kind, rule, kernels, bytes, µs and footprint before and after, as far as they are known."""


@dataclass
class Candidate:
    """Ops that fusion joined; applied unless no kernel of them fits the chip."""

    pattern: str
    members: list[str]
    applied: bool


@dataclass
class Report:
    """Everything a reader of a fusion wants to know.

    `ops_before` counts ops as the user wrote them. `kernels` are the generated kernels of one run, a kernel with
    b grid-wide barriers counting max(1, b), and the ops that stay on the host, views excluded; `launches` are what
    is launched for the generated ones when super-kernels join several.
    `bytes_before` and `bytes_after` are what all ops, or all kernels and host ops, read and write when every
    operand moves once, views cost nothing and constants are folded, at the sizes in `symbols`.
    """

    version: str
    model: str
    source: str
    opset: int
    target: str
    numerics: str
    inputs: list[str]
    outputs: list[str]
    symbols: dict[str, int]
    ops_before: int
    launches: int
    kernels: int
    bytes_before: int
    bytes_after: int
    float_ops_outside_kernels: int
    kernel_list: list[KernelReport]
    steps: list[LaunchReport]
    host: list[HostReport]
    candidates: list[Candidate]
    decisions: list[DecisionReport]
    notes: list[str]
    super_kernels: list[SuperKernelReport] = field(default_factory=list)
    verification: dict[str, Any] | None = None
    opportunities: list[dict[str, Any]] = field(default_factory=list)
    """Groups that the search priced, with gains and costs; those it left apart say why."""
    search: dict[str, Any] | None = None
    """Modelled cost of the plan, lower bound and gap."""
    kinds: dict[str, int] = field(default_factory=dict)
    """The five kinds of fusion -> how many fusions have it; see `gaf.report.kinds`."""

    @property
    def fusions(self) -> dict[str, int]:
        """Kind of kernel -> steps with kernels of this kind that join two ops or more; and collectives with kernels
        cut into parts beside them.
        """
        kinds = {k.name: k for k in self.kernel_list}
        found = Counter(kinds[s.kernel].kind for s in self.steps if s.kernel is not None and s.ops > 1)
        found += Counter({OVERLAP: self.kinds.get(OVERLAP, 0)})
        return dict(sorted(found.items()))

    @property
    def memory_saved(self) -> float:
        """Fraction of the bytes that fusion saves, 0..1."""
        return max(0.0, 1 - self.bytes_after / self.bytes_before) if self.bytes_before else 0.0

    def attach(self, verification: Verification) -> None:
        """Add the result of `FusedModel.verify`."""
        tolerances: dict[str, float] = {}
        for c in verification.launches:
            if c.kernel is not None:
                tolerances[c.kernel] = min(c.tolerance, tolerances.get(c.kernel, math.inf))
        errors = verification.kernel_errors()
        for kernel in self.kernel_list:
            kernel.error, kernel.tolerance = errors.get(kernel.name), tolerances.get(kernel.name)
        self.verification = verification_json(verification)

    def to_json(self) -> dict[str, Any]:
        """Plain data; equal for equal models and options (no times, no paths of this machine)."""
        return {
            "schema": SCHEMA,
            "gaf": self.version,
            "model": {
                "name": self.model,
                "source": self.source,
                "opset": self.opset,
                "inputs": self.inputs,
                "outputs": self.outputs,
            },
            "target": self.target,
            "numerics": self.numerics,
            "symbols": self.symbols,
            "figures": self.figures(),
            "fusions": self.fusions,
            "kinds": self.kinds,
            "kernels": [_plain(k) for k in self.kernel_list],
            "launches": [_plain(s) for s in self.steps],
            "super_kernels": [{**_plain(s), "saved": s.saved} for s in self.super_kernels],
            "host": [_plain(h) for h in self.host],
            "candidates": [_plain(c) for c in self.candidates],
            "decisions": [_plain(d) for d in self.decisions],
            "opportunities": self.opportunities,
            "search": self.search,
            "notes": self.notes,
            "verification": self.verification,
        }

    def figures(self) -> dict[str, Any]:
        """The numbers at the top of a report."""
        return {
            "ops_before": self.ops_before,
            "kernels": self.kernels,
            "launches": self.launches,
            "distinct_kernels": len(self.kernel_list),
            "host_ops": sum(h.count for h in self.host),
            "float_ops_outside_kernels": self.float_ops_outside_kernels,
            "bytes_before": self.bytes_before,
            "bytes_after": self.bytes_after,
            "memory_saved": round(self.memory_saved, 6),
        }

    def __str__(self) -> str:
        from gaf.report.text import report_text

        return report_text(self)


def build_report(
    fused: FusedModel, verification: Verification | None = None, symbols: Mapping[str, int] | None = None
) -> Report:
    """The report of a fused model.

    `symbols` gives the sizes at which bytes and buffers are evaluated; by default those that verification
    takes for its random inputs.
    """
    from gaf import __version__

    model, source = fused.model, fused.source_model
    env = symbol_sizes(fused, symbols)
    strict = fused.config.strict
    kernels = {k.name: k for k in fused.kernels}
    steps = list(_steps(model, kernels, env, strict))
    reports = _kernel_reports(fused, steps, env, strict)
    barriers = {k.name: k.barriers for k in reports}
    host = _host(model)
    launched = sum(s.times * max(1, barriers[s.kernel]) for s in steps if s.kernel is not None)
    chained = _super_kernels(fused)
    report = Report(
        version=__version__,
        model=source.name,
        source=Path(source.source).name,
        opset=source.opset,
        target=fused.config.target,
        numerics=fused.config.numerics,
        inputs=[f"{n}: {t}" for n, t in zip(source.input_names, source.input_types)],
        outputs=[f"{n}: {t}" for n, t in zip(source.output_names, source.output_types)],
        symbols={s: env[s] for s in input_symbols(source)},
        ops_before=source.num_ops,
        launches=launched - sum(s.saved for s in chained),
        kernels=launched + sum(h.count for h in host),
        bytes_before=OpBytes(env, strict).model(source),
        bytes_after=sum(s.times * s.bytes for s in steps),
        float_ops_outside_kernels=sum(_is_float(op) for op in _host_ops(model)),
        kernel_list=reports,
        super_kernels=chained,
        steps=steps,
        host=host,
        candidates=_candidates(fused),
        decisions=[DecisionReport(d.producer, d.consumer, d.fused, d.reason, _detail(d)) for d in fused.decisions],
        opportunities=[c.to_json() for c in fused.candidates],
        search=fused.search.to_json() if fused.search is not None else None,
        notes=[*source.notes, *fused.notes],
        kinds=count_kinds(fused),
    )
    if verification is not None:
        report.attach(verification)
    return report


def _super_kernels(fused: FusedModel) -> list[SuperKernelReport]:
    uses = Counter(c.kernel.name for c in fused.chains)
    kernels = {c.kernel.name: c.kernel for c in fused.chains}
    return [
        SuperKernelReport(
            name,
            k.kind.value,
            [m.kernel.sym_name.data for m in k.members],
            [b.value if b is not None else None for b in k.barriers],
            uses[name],
        )
        for name, k in kernels.items()
    ]


# -- the host ---------------------------------------------------------------------------------------


def _is_float(op: GraphOp) -> bool:
    """Computes on floats: the ops that belong into kernels."""
    return any(tensor_type(r).dtype.is_float for r in op.results)


def _host_ops(model: Model) -> list[GraphOp]:
    """Ops outside kernels that compute: constants and plain views don't count."""
    return [op for op in ops_of(model.block) if isinstance(op, GraphOp) and computes(op)]


def _host(model: Model) -> list[HostReport]:
    groups: dict[tuple[str, str], list[str]] = {}
    for op in _host_ops(model):
        reason = op.attributes.get(HOST_REASON)
        text = reason.data if reason is not None else "it has no kernel form"  # type: ignore[attr-defined]
        groups.setdefault((op_title(op), text), []).extend([location_name(op) or op.name] * times_run(op))
    return [HostReport(op, reason, len(nodes), nodes) for (op, reason), nodes in sorted(groups.items())]


# -- kernels and steps ------------------------------------------------------------------------------


def _steps(
    model: Model, kernels: Mapping[str, Kernel], env: Mapping[str, int], strict: bool
) -> Iterator[LaunchReport]:
    """Launches and host ops in the order in which they run; those in the bodies of control flow once, behind the rest."""
    single = OpBytes(env, strict)
    moved: dict[str, int] = {}
    number_of: dict[Operation, int] = {}
    input_of: dict[SSAValue, str] = dict(zip(model.block.args, model.input_names))
    for op in ops_of(model.block):
        if isinstance(op, FusedOp):
            kernel = _launched(op, kernels, env)
            if kernel.name not in moved:
                moved[kernel.name] = fused_work(op, strict, env).bytes
            name, label, size = kernel.name, op.label.data, moved[kernel.name]
            members, pattern, count = (
                member_names(op.members),
                pattern_of(op.members),
                num_computing(op.members),
            )
        elif computes(op):
            name, label, size = None, location_name(op) or op.name, single.op(op)
            members, pattern, count = [label], op_title(op), 1
        else:
            continue
        sources, inputs = _sources(op, number_of, input_of)
        number_of[op] = len(number_of)
        yield LaunchReport(
            number_of[op],
            name,
            label,
            pattern,
            count,
            members,
            sources,
            inputs,
            [str(r.type) for r in op.results],
            size,
            times_run(op),
        )


def _sources(
    op: Operation, number_of: Mapping[Operation, int], input_of: Mapping[SSAValue, str]
) -> tuple[list[int], list[str]]:
    """Steps and model inputs that an op reads, through views."""
    steps: set[int] = set()
    inputs: dict[str, None] = {}
    stack, seen = list(op.operands), set()
    while stack:
        value = stack.pop()
        if value in seen:
            continue
        seen.add(value)
        if value in input_of:
            inputs[input_of[value]] = None
        elif isinstance(value.owner, Operation):
            if value.owner in number_of:
                steps.add(number_of[value.owner])
            else:
                stack += value.owner.operands
    return sorted(steps), sorted(inputs)


def _launched(fused: FusedOp, kernels: Mapping[str, Kernel], env: Mapping[str, int]) -> Kernel:
    """The variant that is launched at these sizes; the first one if none fits them."""
    variants = [kernels[n] for n in kernel_names(fused) if n in kernels]
    return next((k for k in variants if k.host.failed_guard(env) is None), variants[0])


def _kernel_reports(
    fused: FusedModel, steps: Sequence[LaunchReport], env: Mapping[str, int], strict: bool
) -> list[KernelReport]:
    launches: Counter[str | None] = Counter()
    for s in steps:
        launches[s.kernel] += s.times
    first: dict[str, FusedOp] = {}
    for op in fused.fused_ops:
        for name in kernel_names(op):
            first.setdefault(name, op)
    found: list[KernelReport] = []
    for kernel in fused.kernels:
        op = first[kernel.name]
        work = fused_work(op, strict, env)
        read, written = sum(work.reads), sum(work.writes)
        entry = KernelReport(
            kernel.name,
            kernel.kind,
            pattern_of(op.members),
            launches[kernel.name],
            member_names(op.members),
            f"kernels/{kernel.name}.cpp",
            [
                f"{role} {name}: {dtype}[{', '.join(map(str, shape))}]"
                for name, dtype, role, shape in _arguments(kernel)
            ],
            [g.meaning for g in kernel.host.guards if g.value.as_int() is None],
            sum(isinstance(o, SyncAllOp) for o in kernel.ascendc.walk()),
            read,
            written,
        )
        _fill_sizes(entry, kernel, env)
        found.append(entry)
    return found


def _arguments(kernel: Kernel) -> list[tuple[str, str, str, Sequence[Any]]]:
    return [(name, str(kind.element), role, shape) for name, kind, role, shape in kernel.ascendc.args]


def _fill_sizes(entry: KernelReport, kernel: Kernel, env: Mapping[str, int]) -> None:
    try:
        launch = kernel.host.evaluate(env)
    except UnsupportedError as error:
        entry.note = f"not launched at these sizes: {error.what}"
        return
    sizes = {**env, **launch.fields}
    entry.blocks, entry.workspace = launch.blocks, launch.workspace
    entry.buffers = [Buffer(b.name, b.space, b.bytes.evaluate(sizes)) for b in kernel.host.buffers]
    for buffer in entry.buffers:
        entry.on_chip[buffer.space] = entry.on_chip.get(buffer.space, 0) + buffer.bytes


def _candidates(fused: FusedModel) -> list[Candidate]:
    """Groups of two computing ops or more that the search joined, with those that were given up again."""
    found: list[Candidate] = []
    kernel_of: dict[str, set[int]] = {}
    for number, op in enumerate(fused.fused_ops):
        members = member_names(op.members)
        for name in members:
            kernel_of.setdefault(name, set()).add(number)
        if num_computing(op.members) > 1:
            found.append(Candidate(pattern_of(op.members), members, True))
    titles: dict[str, str] = {}
    for members in _joined(fused):
        if not set.intersection(*(kernel_of.get(m, set()) for m in members)):
            titles = titles or {location_name(o) or o.name: op_title(o) for o in ops_of(fused.source_model.block)}
            found.append(Candidate("+".join(titles.get(m, m) for m in members), members, False))
    return found


def _joined(fused: FusedModel) -> list[list[str]]:
    """Groups of node names that the search joined."""
    return [c.members for c in fused.candidates if c.fused]


def _detail(decision: Decision) -> dict[str, Any]:
    """What a decision says besides its two sides."""
    return {k: v for k, v in decision.to_json().items() if k not in ("members", "fused", "reason")}


# -- plain data -----------------------------------------------------------------------------------


def verification_json(verification: Verification) -> dict[str, Any]:
    """A verification as plain data."""
    return _finite(
        {
            "engine": verification.engine,
            "ok": verification.ok,
            "max_error": verification.max_error,
            "max_kernel_error": verification.max_kernel_error,
            "outputs": [
                {
                    "name": c.name,
                    "error": c.error,
                    "max_abs": c.max_abs,
                    "tolerance": c.tolerance,
                    "ok": c.ok,
                    "note": c.note,
                    "ill_conditioned": c.ill_conditioned,
                }
                for c in verification.outputs
            ],
            "launches": [
                {
                    "kernel": c.kernel,
                    "output": c.name,
                    "error": c.error,
                    "tolerance": c.tolerance,
                    "ok": c.ok,
                    "note": c.note,
                    "ill_conditioned": c.ill_conditioned,
                    "nodes": list(dict.fromkeys(c.nodes)),
                }
                for c in verification.launches
            ],
            "violations": [dict(v) for v in verification.violations],
        }
    )


def _finite(value: Any) -> Any:
    """JSON has no inf and nan: they become text; numpy scalars become Python's."""
    match value:
        case np.generic():
            return _finite(value.item())
        case float() if not math.isfinite(value):
            return str(value)
        case dict():
            return {k: _finite(v) for k, v in value.items()}
        case list() | tuple():
            return [_finite(v) for v in value]
    return value


def _plain(record: Any) -> dict[str, Any]:
    from dataclasses import asdict

    return _finite(asdict(record))
