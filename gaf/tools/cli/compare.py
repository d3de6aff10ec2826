# SPDX-License-Identifier: Apache-2.0
"""`gaf compare`: what became better or worse between two reports; exit code 1 for a regression, so that CI stops."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gaf.errors import EXIT_MISMATCH, EXIT_OK, InvalidInputError
from gaf.report.text import records_table, shorten
from gaf.tools.cli.common import Output

FIGURES = {
    "kernels": "kernels and ops on the host",
    "launches": "kernel launches",
    "host_ops": "ops on the host",
    "float_ops_outside_kernels": "float ops outside kernels",
    "bytes_after": "bytes moved",
}
"""Figures that should not grow, and what people call them."""

SHOWN = 10
"""Pairs of nodes that are listed before the rest is counted."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("old", help="report.json of the version to compare with, or its folder")
    parser.add_argument("new", help="report.json of the new version, or its folder")
    parser.add_argument(
        "--tolerance",
        type=float,
        default=0.0,
        metavar="PERCENT",
        help="how much a figure may grow (default %(default)s)",
    )


def run(args: argparse.Namespace, out: Output) -> int:
    """Exit code 0, or 1 if a figure grew by more than the tolerance or verification fails now.

    Raises InvalidInputError for files that are no reports, or of different models or sizes.
    """
    if not args.tolerance >= 0:
        raise InvalidInputError("--tolerance is negative", expected=">= 0 percent", got=args.tolerance)
    old, new = read_report(args.old), read_report(args.new)
    for key in ("target", "symbols"):
        if old[key] != new[key]:
            raise InvalidInputError(
                f"the reports are about different {'chips' if key == 'target' else 'sizes'}",
                where=f"{args.old} and {args.new}",
                expected=f"the same '{key}'",
                got=f"{old[key]} and {new[key]}",
            )
    rows = [_row(key, old["figures"][key], new["figures"][key], args.tolerance) for key in FIGURES]
    rows += [_verified(old, new)]
    regressions = [r["figure"] for r in rows if r["result"] == "worse"]
    lost, gained = _joins(old) - _joins(new), _joins(new) - _joins(old)
    host = _host(new) - _host(old)
    lines = [records_table(rows)]
    lines += _listed("no longer fused", [f"{shorten(a, 60)} -> {shorten(b, 60)}" for a, b in lost])
    lines += _listed("newly fused", [f"{shorten(a, 60)} -> {shorten(b, 60)}" for a, b in gained])
    lines += _listed("newly on the host", [f"{n} x {op}" for op, n in host.items()])
    lines += ["", f"worse: {', '.join(regressions)}" if regressions else "no regression"]
    out.result(
        "\n".join(lines),
        {
            "command": "compare",
            "ok": not regressions,
            "regressions": regressions,
            "figures": rows,
            "no_longer_fused": sorted(lost),
            "newly_fused": sorted(gained),
            "newly_on_host": dict(host),
        },
    )
    return EXIT_MISMATCH if regressions else EXIT_OK


def read_report(path: str) -> dict[str, Any]:
    """A report.json, or the one in a folder of `gaf fuse`. Raises InvalidInputError."""
    from gaf.report.model import SCHEMA

    file = Path(path) / "report.json" if Path(path).is_dir() else Path(path)
    try:
        report = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInputError(
            f"can't read the report: {error.strerror}", where=str(file), hint="`gaf fuse -o FOLDER` writes one"
        ) from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InvalidInputError(
            f"this is not JSON: {error}", where=str(file), expected="a report.json of `gaf fuse`"
        ) from None
    figures = report.get("figures") if isinstance(report, dict) else None
    missing = [k for k in FIGURES if not isinstance(figures, dict) or not isinstance(figures.get(k), int)]
    if missing or not {"target", "symbols", "decisions", "host"} <= report.keys():
        raise InvalidInputError(
            "this is not a report of gaf", where=str(file), expected="a report.json of `gaf fuse`"
        )
    if report.get("schema") != SCHEMA:
        raise InvalidInputError(
            "the report was written by another version of gaf",
            where=str(file),
            expected=f"schema {SCHEMA}",
            got=report.get("schema"),
            hint="run `gaf fuse` on the old model again",
        )
    return report


def _row(key: str, old: int, new: int, tolerance: float) -> dict[str, Any]:
    change = 100 * (new - old) / old if old else (0.0 if new == old else None)
    worse = new > old * (1 + tolerance / 100)
    result = "worse" if worse else "better" if new < old else "same" if new == old else "within tolerance"
    return {"figure": FIGURES[key], "old": old, "new": new, "change %": change, "result": result}


def _verified(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Right or wrong before and after; a report without verification says nothing."""
    was, now = (r["verification"]["ok"] if r.get("verification") else None for r in (old, new))
    result = "worse" if now is False and was is not False else "better" if now and was is False else "same"
    words = {True: "ok", False: "FAILED", None: "not run"}
    return {"figure": "verification", "old": words[was], "new": words[now], "change %": None, "result": result}


def _joins(report: Mapping[str, Any]) -> set[tuple[str, str]]:
    return {(d["producer"], d["consumer"]) for d in report["decisions"] if d["fused"]}


def _host(report: Mapping[str, Any]) -> Counter[str]:
    return Counter({h["op"]: h["count"] for h in report["host"]})


def _listed(title: str, items: list[str]) -> list[str]:
    if not items:
        return []
    more = [f"  ... and {len(items) - SHOWN} more"] if len(items) > SHOWN else []
    return ["", f"{title}:", *(f"  {i}" for i in sorted(items)[:SHOWN]), *more]
