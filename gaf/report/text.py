# SPDX-License-Identifier: Apache-2.0
"""A report as plain text: figures, kernels, what stays on the host; and the log lines that people grep for."""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from gaf.report.model import Report

LOG_LEVEL, LOG_TO_STDOUT = "ASCEND_GLOBAL_LOG_LEVEL", "ASCEND_SLOG_PRINT_TO_STDOUT"
"""Environment variables of the Ascend toolkit: 0 debug, 1 info, 2 warning, 3 error; and 1 for logs on stdout."""

INFO = 1
REASONS = 20
"""Kinds of reasons against joins that a report lists."""

PATTERN_PARTS = 5
"""Ops of a pattern that a log line names."""


def bytes_text(count: float) -> str:
    """`1536` as `1.5 KiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024 or unit == "GiB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError


def error_text(error: float | str | None) -> str:
    """A relative error for a table."""
    if error is None:
        return "-"
    return error if isinstance(error, str) else "0" if error == 0 else f"{error:.1e}"


def table(head: Sequence[str], rows: Iterable[Sequence[object]], right: Iterable[int] = ()) -> list[str]:
    """Aligned columns, two spaces apart; the columns in `right` are right-aligned."""
    cells = [list(head), *([str(c) for c in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    ends = set(right)
    return [
        "  ".join(
            c.rjust(w) if i in ends else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths))
        ).rstrip()
        for row in cells
    ]


def records_table(rows: Sequence[Mapping[str, object]]) -> str:
    """Records as aligned text; the keys of the first one are the columns. Numbers stand at the right."""
    if not rows:
        return "no rows"
    columns = list(rows[0])
    right = [i for i, c in enumerate(columns) if all(isinstance(r.get(c), int | float | None) for r in rows)]
    lines = table(columns, ([_figure(r.get(c)) for c in columns] for r in rows), right)
    widths = [max(len(c), *(len(_figure(r.get(c))) for r in rows)) for c in columns]
    return "\n".join([lines[0], "  ".join("-" * w for w in widths), *lines[1:]])


def _figure(value: object) -> str:
    """A number with three digits that count; `-` for what isn't known."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"
    return str(value)


def shorten(text: str, width: int) -> str:
    """At most `width` characters."""
    return text if len(text) <= width else text[: width - 3] + "..."


def figures_text(report: Report) -> list[str]:
    """The lines at the top: ops, kernels and bytes before and after."""
    host = sum(h.count for h in report.host)
    sizes = ", ".join(f"{k} = {v}" for k, v in report.symbols.items())
    used = sum(k.launches > 0 for k in report.kernel_list)
    lines = [
        f"ops in the model      {report.ops_before}",
        f"kernels               {report.kernels}: {report.kernels - host} of {used} generated kernels, {host} on the host",
        f"launches              {report.launches}{_saved(report)}",
        f"bytes moved before    {bytes_text(report.bytes_before)} (every op on its own{'; ' + sizes if sizes else ''})",
        f"bytes moved after     {bytes_text(report.bytes_after)} ({100 * report.memory_saved:.0f} % less)",
    ]
    if report.fusions:
        lines.append(
            "fusions               " + ", ".join(f"{n} x {kind}" for kind, n in report.fusions.items())
        )
    if any(report.kinds.values()):
        lines.append("of the five kinds     " + ", ".join(f"{n} x {kind}" for kind, n in report.kinds.items()))
    return lines


def _saved(report: Report) -> str:
    chained = report.super_kernels
    if not chained:
        return ""
    return f": {sum(s.saved for s in chained)} saved by {len(chained)} super-kernels, used {sum(s.launches for s in chained)} times"


def kernel_rows(report: Report) -> list[str]:
    """One line per kernel that these sizes launch, and one for those that other sizes need."""
    spare = [k.name for k in report.kernel_list if not k.launches]
    lines = table(
        ("kernel", "uses", "kind", "bytes", "UB", "error", "ops"),
        (
            (
                k.name,
                k.launches,
                k.kind,
                bytes_text(k.bytes_read + k.bytes_written),
                bytes_text(k.on_chip["UB"]) if "UB" in k.on_chip else "-",
                error_text(k.error),
                shorten(k.pattern, 60),
            )
            for k in report.kernel_list
            if k.launches
        ),
        right=(1, 3, 4, 5),
    )
    return lines + ([f"for sizes that these don't fit: {', '.join(spare)}"] if spare else [])


def report_text(report: Report) -> str:
    """The whole report for a terminal or a file."""
    lines = [f"{report.model} ({report.source}) for {report.target}", "", *figures_text(report), ""]
    if report.kernel_list:
        lines += [*kernel_rows(report), ""]
    if report.host:
        lines.append("on the host:")
        lines += [
            f"  {h.count} x {h.op} ({shorten(', '.join(h.nodes), 50)}): {h.reason}" for h in report.host
        ]
        lines.append("")
    refused = _reasons(report)
    if refused:
        lines.append("not fused, by reason (one of each kind; gaf explain shows all with their costs):")
        lines += [f"  {n:5d}  {reason}" for reason, n in refused[:REASONS]]
        rest = refused[REASONS:]
        lines += [f"  {sum(n for _, n in rest):5d}  others, of {len(rest)} kinds"] if rest else []
        lines.append("")
    lines += [f"note: {note}" for note in report.notes]
    if report.verification is not None:
        lines += verification_lines(report.verification)
    return "\n".join(lines).rstrip() + "\n"


def _reasons(report: Report) -> list[tuple[str, int]]:
    """Reasons against joins and how often they came up, the most frequent first; those that differ in numbers only
    (of layers, of µs) count as one.
    """
    first: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for decision in report.decisions:
        if not decision.fused:
            kind = re.sub(r"[0-9]+(\.[0-9]+)?", "#", decision.reason)
            first.setdefault(kind, decision.reason)
            counts[kind] += 1
    return [(first[kind], n) for kind, n in sorted(counts.items(), key=lambda c: (-c[1], first[c[0]]))]


def verification_lines(result: Mapping[str, object]) -> list[str]:
    """What verification found; `result` is the JSON form."""
    outputs, launches, violations = result["outputs"], result["launches"], result["violations"]
    assert isinstance(outputs, list) and isinstance(launches, list) and isinstance(violations, list)
    bad = [c for c in [*launches, *outputs] if not c["ok"]]
    lines = [
        f"verification          {'passed' if result['ok'] else 'FAILED'} on engine '{result['engine']}': "
        f"{len(launches)} kernel results, {len(outputs)} outputs against float64, {len(violations)} violations",
        f"largest error         outputs {error_text(result['max_error'])}, kernels {error_text(result['max_kernel_error'])} (relative)",  # type: ignore[arg-type]
    ]
    for c in bad[:10]:
        what = (
            f"kernel {c['kernel']} ({', '.join(c['nodes'][:3])})"
            if c.get("kernel")
            else f"output '{c['name']}'"
        )
        note = f"; {c['note']}" if c["note"] else ""
        lines.append(
            f"  differs: {what}: error {error_text(c['error'])} > {error_text(c['tolerance'])}{note}"
        )
    for v in violations[:10]:
        lines.append(
            f"  violation: kernel {v.get('kernel')}, {v.get('node') or 'unknown node'}: {v.get('message', v.get('rule'))}"
        )
    for kind, found in (("differences", bad), ("violations", violations)):
        if len(found) > 10:
            lines.append(f"  ... {len(found) - 10} more {kind}")
    return lines


# -- log lines --------------------------------------------------------------------------------------


def log_lines(report: Report) -> list[str]:
    """`[GRAPH_AUTOFUSION]` lines; each candidate is counted in exactly one Detected line."""
    patterns = Counter(_short_pattern(c.pattern) for c in report.candidates)
    lines = [
        f"[GRAPH_AUTOFUSION] Detected {n} {pattern} fusion opportunities"
        for pattern, n in sorted(patterns.items(), key=lambda p: (-p[1], p[0]))
    ]
    applied = sum(c.applied for c in report.candidates)
    lines.append(f"[GRAPH_AUTOFUSION] Applied {applied}/{len(report.candidates)} fusions successfully")
    return lines


def log_stream(environ: Mapping[str, str] | None = None) -> TextIO | None:
    """Where the toolkit's variables send log lines: stdout, stderr or nowhere."""
    environ = os.environ if environ is None else environ
    if environ.get(LOG_TO_STDOUT, "").strip() == "1":
        return sys.stdout
    level = environ.get(LOG_LEVEL, "").strip()
    return sys.stderr if level.isdigit() and int(level) <= INFO else None


def log_fusions(report: Report) -> None:
    """Print the log lines if the environment asks for them."""
    stream = log_stream()
    if stream is not None:
        for line in log_lines(report):
            print(line, file=stream, flush=True)


def _short_pattern(pattern: str) -> str:
    parts = pattern.split("+")
    return "+".join(parts[:PATTERN_PARTS]) + ("+..." if len(parts) > PATTERN_PARTS else "")
