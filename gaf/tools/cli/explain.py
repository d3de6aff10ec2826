# SPDX-License-Identifier: Apache-2.0
"""`gaf explain`: which kernel every op is in, why, and what kept it apart from its neighbours."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from gaf.errors import EXIT_OK, InvalidInputError
from gaf.report.model import DecisionReport, LaunchReport, Report, build_report
from gaf.report.text import bytes_text, figures_text, shorten
from gaf.tools.cli.common import Output, add_model_options, config_of, load


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model_options(parser)
    parser.add_argument("--op", metavar="NAME", help="only this node of the model (a name, or a part of one)")


def run(args: argparse.Namespace, out: Output) -> int:
    """Raises InvalidInputError if no node has the name."""
    from gaf.compiler import fuse

    config = config_of(args)
    model = load(args)
    with out.phase("fuse and generate"):
        report = build_report(fuse(model, config))
    steps, decisions = report.steps, report.decisions
    if args.op is not None:
        steps, decisions = select(report, args.op)
    out.result(
        "\n".join(_text(report, steps, decisions, args.op)),
        {
            "command": "explain",
            "op": args.op,
            "figures": report.figures(),
            "steps": [_step(s, report) for s in steps],
            "decisions": [vars(d) for d in decisions],
        },
    )
    return EXIT_OK


def names_in(text: str) -> list[str]:
    """Node names of one side of a decision."""
    return text.split(" + ")


def select(report: Report, name: str) -> tuple[list[LaunchReport], list[DecisionReport]]:
    """Steps and decisions about nodes that are called `name`, or else contain it."""
    everything = {m for s in report.steps for m in s.members}
    everything |= {n for d in report.decisions for n in (*names_in(d.producer), *names_in(d.consumer))}
    wanted = {name} if name in everything else {n for n in everything if name in n}
    if not wanted:
        near = get_close_matches(name, sorted(everything), n=3, cutoff=0.4)
        raise InvalidInputError(
            f"no node that computes something is called '{name}'",
            where=report.source,
            hint=f"similar names: {', '.join(near)}"
            if near
            else "constants and plain views have no kernel of their own",
        )
    steps = [s for s in report.steps if wanted & set(s.members)]
    decisions = [d for d in report.decisions if wanted & {*names_in(d.producer), *names_in(d.consumer)}]
    return steps, decisions


def _reason(step: LaunchReport, report: Report) -> str:
    return next((h.reason for h in report.host if step.label in h.nodes), "") if step.kernel is None else ""


def _step(step: LaunchReport, report: Report) -> dict[str, Any]:
    kind = next((k.kind for k in report.kernel_list if k.name == step.kernel), None)
    return {
        "kernel": step.kernel,
        "kind": kind,
        "pattern": step.pattern,
        "members": step.members,
        "bytes": step.bytes,
        "host_reason": _reason(step, report) or None,
    }


def _numbers(detail: Mapping[str, Any]) -> list[str]:
    """What the kernels cost apart and, where there is such a kernel, as one."""

    def cost(when: str, kernels: int) -> str:
        moved, us, jit = (detail[f"{key}_{when}"] for key in ("bytes", "us", "jit_s"))
        return f"{kernels} kernel{'s' if kernels > 1 else ''}, {bytes_text(moved)}, {us:.1f} µs, build {jit:.1f} s"

    if "us_before" not in detail:
        return []
    if "us_after" not in detail:
        return [f"      apart: {cost('before', detail['kernels_before'])}; there is no such kernel"]
    count = detail["launches_after"]
    memory = ""
    if detail["footprint_limit"]:
        memory = f", UB {bytes_text(detail['footprint'])} of {bytes_text(detail['footprint_limit'])} at the smallest tile"
    return [
        f"      apart: {cost('before', detail['kernels_before'])}; together: {cost('after', count)}{memory}, bound by {detail['limit']}"
    ]


def _text(
    report: Report, steps: list[LaunchReport], decisions: list[DecisionReport], op: str | None
) -> list[str]:
    kinds = {k.name: k.kind for k in report.kernel_list}
    lines = [] if op is not None else [*figures_text(report), ""]
    for step in steps:
        if step.kernel is None:
            lines.append(f"on the host: {step.pattern} ({step.label}): {_reason(step, report)}")
        else:
            lines.append(
                f"kernel {step.kernel} ({kinds[step.kernel]}, {bytes_text(step.bytes)}): {step.pattern}"
            )
            lines.append(f"    nodes: {', '.join(step.members)}")
    joined = [d for d in decisions if d.fused]
    apart = [d for d in decisions if not d.fused]
    for title, found in (("fused:", joined if op is not None else []), ("not fused:", apart)):
        if found:
            lines += ["", title]
        for d in found:
            sides = "  " + "  ->  ".join(shorten(side, 70) for side in (d.producer, d.consumer) if side)
            lines += [sides, *([f"      because {d.reason}"] if d.reason else []), *_numbers(d.detail)]
    if op is None and joined:
        lines += ["", f"{len(joined)} joins; --op NAME shows those of one node, --json all of them"]
    return lines
