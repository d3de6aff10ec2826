# SPDX-License-Identifier: Apache-2.0
"""The C++ compiler of this machine: finding it, running it, the disk cache, errors for users."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from gaf.errors import CompileError

GAF = Path(__file__).resolve().parent.parent
INCLUDE = GAF / "runtime" / "include"
NATIVE = GAF / "runtime" / "native"
DEVICE = GAF / "codegen" / "device"

COMMON_FLAGS = (
    "-std=c++17",
    "-fPIC",
    "-pipe",
    "-ffp-contract=off",
    "-fno-strict-aliasing",
    "-fno-gnu-unique",
    "-fvisibility-inlines-hidden",
)


@dataclass(frozen=True)
class Compiler:
    """A C++17 compiler: `command` to run it, `version` (first line of --version), `clang` or not."""

    command: tuple[str, ...]
    version: str
    clang: bool

    def flags(self, *flags: str) -> list[str]:
        """`flags` without those that this compiler does not know."""
        if not self.clang:
            return list(flags)
        gcc_only = ("-fno-gnu-unique",)
        return [f for f in flags if f not in gcc_only]


def _probe(command: Sequence[str]) -> Compiler | None:
    if shutil.which(command[0]) is None:
        return None
    try:
        run = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    first = run.stdout.splitlines()[0] if run.stdout else ""
    return Compiler(tuple(command), first, "clang" in run.stdout.lower())


@lru_cache(maxsize=1)
def find_compiler() -> Compiler | None:
    """The compiler that `CXX` names, else g++, else clang++; None without one: see `compiler_reason`."""
    named = os.environ.get("CXX")
    candidates = [shlex.split(named)] if named else [["g++"], ["clang++"]]
    return next((c for c in map(_probe, candidates) if c is not None), None)


@cache
def native_flags(compiler: Compiler) -> tuple[str, ...]:
    """The flag that gives the compiler all instructions of this processor; none where it has no such flag."""
    for flag in ("-march=native", "-mcpu=native"):
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "empty.cpp"
            source.write_text("")
            command = [
                *compiler.command,
                flag,
                "-Werror",
                "-c",
                str(source),
                "-o",
                str(source.with_suffix(".o")),
            ]
            if subprocess.run(command, check=False, capture_output=True).returncode == 0:
                return (flag,)
    return ()


def compiler_reason() -> str:
    """One line: which compiler is used, or why none is."""
    found = find_compiler()
    if found is not None:
        return f"C++ compiler: {found.version}"
    named = os.environ.get("CXX")
    if named:
        return f"no C++ compiler: CXX='{named}' does not run"
    return "no C++ compiler: neither g++ nor clang++ found (install one, or set CXX)"


def require_compiler() -> Compiler:
    """Raises CompileError when the machine has no C++ compiler."""
    found = find_compiler()
    if found is None:
        raise CompileError(compiler_reason(), hint="use --engine=interpreter, which needs no compiler")
    return found


def default_cache_dir() -> Path:
    """GAF_CACHE_DIR, else the platform's folder for caches; a temporary folder when that can't be written."""
    if given := os.environ.get("GAF_CACHE_DIR"):
        base = Path(given)
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches" / "gaf"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gaf"
    try:
        base.mkdir(parents=True, exist_ok=True)
        if os.access(base, os.W_OK):
            return base
    except OSError:
        pass
    fallback = Path(tempfile.gettempdir()) / f"gaf-cache-{os.getuid() if hasattr(os, 'getuid') else 0}"
    fallback.mkdir(parents=True, exist_ok=True)
    return fallback


@lru_cache(maxsize=1)
def cpu_identity() -> str:
    """What decides the code of -march=native: architecture, model and instruction sets."""
    text = platform.machine()
    try:
        wanted = ("model name", "flags", "Features", "CPU part")
        lines = Path("/proc/cpuinfo").read_text().split("\n\n", 1)[0].splitlines()
        text += "\n".join(line for line in lines if line.startswith(wanted))
    except OSError:
        text += platform.processor()
    return text


@cache
def tree_digest(*folders: Path, suffixes: tuple[str, ...] = (".h", ".cpp")) -> str:
    """Hash of the names and contents of the C++ files below the folders."""
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.suffix in suffixes:
                digest.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def key_of(*parts: str | bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update((part if isinstance(part, bytes) else part.encode()) + b"\0")
    return digest.hexdigest()[:32]


class ObjectCache:
    """Compiled objects on disk, found by the content of their source and of every file that it includes.

    Beside an object lies the list of its includes (from the compiler's -MMD) with their hashes, so editing a
    header rebuilds only what includes it. `roots` are the folders whose files may change; others are the
    compiler's own and belong to `common`, the parts of the key that all objects share.
    """

    def __init__(self, folder: Path, roots: Sequence[Path], common: Sequence[str]) -> None:
        self.folder, self.roots, self.common = folder, tuple(roots), tuple(common)
        self._hashes: dict[str, str] = {}

    def find(self, source: Path) -> Path | None:
        """The object of this source with the includes as they are now."""
        stem = self._stem(source)
        for listing in sorted(self.folder.glob(f"{stem}-*.json")):
            try:
                includes = json.loads(listing.read_text())
            except (OSError, ValueError):
                continue
            built = listing.with_suffix(".o")
            if all(self._hash(name) == digest for name, digest in includes.items()) and built.exists():
                return built
        return None

    def keep(self, source: Path, built: Path, depends: Path, started: float) -> Path:
        """Take an object into the cache; `depends` is the compiler's list of what it includes.

        An object whose includes were edited after `started` (a time.time()) serves this process only: nobody
        knows which text the compiler read.
        """
        words = depends.read_text().replace("\\\n", " ").partition(": ")[2].split()
        names = [name for word in words if (name := self._name(Path(word))) is not None]
        files = [source, *(self._path(name) for name in names)]
        if any(f.stat().st_mtime >= started for f in files):
            target = self.folder / f"{source.stem}-{os.getpid()}-{built.name}"
            publish(built, target)
            return target
        includes = {name: self._hash(name) for name in sorted(names)}
        target = self.folder / f"{self._stem(source)}-{key_of(*includes.values())}.o"
        publish(built, target)
        listing = built.with_suffix(".json")
        listing.write_text(json.dumps(includes))
        publish(listing, target.with_suffix(".json"))
        return target

    def _stem(self, source: Path) -> str:
        return f"{source.stem}-{key_of(self._name(source) or source.name, source.read_bytes(), *self.common)}"

    def _name(self, path: Path) -> str | None:
        """A path as "number of the root/relative path", the same wherever the package lies."""
        for i, root in enumerate(self.roots):
            if path.is_relative_to(root):
                return f"{i}/{path.relative_to(root).as_posix()}"
        return None

    def _hash(self, name: str) -> str:
        if name not in self._hashes:
            path = self._path(name)
            self._hashes[name] = key_of(path.read_bytes()) if path.exists() else ""
        return self._hashes[name]

    def _path(self, name: str) -> Path:
        number, _, relative = name.partition("/")
        return self.roots[int(number)] / relative


def run_compiler(
    command: Sequence[str], what: str, reproducer: Path | None = None, text: str | None = None
) -> str:
    """Run one compiler command on `text` as its stdin; returns its stdout.

    Raises CompileError with the first error lines and the reproducer's path.
    """
    try:
        run = subprocess.run(
            command, check=False, capture_output=True, text=True, errors="replace", input=text
        )
    except OSError as e:
        raise CompileError(f"the C++ compiler can't be run: {e}", where=what) from e
    if run.returncode == 0:
        return run.stdout
    lines = run.stderr.splitlines()
    errors = [line for line in lines if "error" in line] or lines
    shown = "\n    ".join(errors[:5]) or f"exit code {run.returncode}, no message"
    hint = None
    if reproducer is not None:
        (reproducer / "command.txt").write_text(shlex.join(command) + "\n")
        (reproducer / "log.txt").write_text(run.stderr)
        hint = f"sources, command and full log are kept in {reproducer}"
    raise CompileError(f"the C++ compiler refused it\n    {shown}", where=what, hint=hint)


@contextmanager
def build_lock(path: Path) -> Iterator[None]:
    """Keeps two processes from building the same thing at the same time, where the platform can."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with open(path, "w") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        yield


@contextmanager
def work_dir(cache: Path) -> Iterator[Path]:
    """A folder for the files of one build; removed when the build succeeds or fails."""
    cache.mkdir(parents=True, exist_ok=True)
    path = Path(tempfile.mkdtemp(prefix="build-", dir=cache))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def publish(built: Path, target: Path) -> None:
    """Move a finished file into the cache in one step: nobody ever sees half of it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    os.replace(built, target)
