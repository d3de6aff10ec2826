# SPDX-License-Identifier: Apache-2.0
"""Data flows left to right: a package imports only packages left of it, and `import gaf` stays cheap."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = (
    "errors",
    "config",
    "target",
    "dialects",
    "frontend",
    "fusion",
    "passes",
    "codegen",
    "runtime",
    "report",
    "autofuse",
    "compiler",
    "tuning",
    "torch",
    "tools",
)
DIALECTS = ("common", "ascendc", "tile", "graph")
HEAVY = {"torch", "onnx", "onnxruntime", "tensorflow", "transformers", "tokenizers", "lark", "rich"}
"""Packages that take 0.07 to 3 s to import."""


def position(module: str) -> tuple[int, int]:
    """Where a module of gaf stands from left to right; the package `gaf` itself is right of everything."""
    parts = module.split(".")[1:]
    if not parts:
        return len(PACKAGES), 0
    dialect = DIALECTS.index(parts[1]) if parts[0] == "dialects" and len(parts) > 1 else -1
    return PACKAGES.index(parts[0]), dialect


def imports(path: Path, module: str) -> Iterator[tuple[int, str]]:
    """Line and name of every import of gaf in a file, also inside functions, but not for type checking."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in run_time_nodes(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = (
                ".".join(package.split(".")[: len(package.split(".")) - node.level + 1]) if node.level else ""
            )
            source = ".".join(filter(None, (base, node.module)))
            # `from gaf import errors` imports gaf.errors
            below = [f"{source}.{alias.name}" for alias in node.names if alias.name != "__version__"]
            names = below if source in ("gaf", "gaf.dialects") else [source]
        else:
            continue
        yield from ((node.lineno, name) for name in names if name.split(".")[0] == "gaf")


def run_time_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Every node of a syntax tree except what stands under `if TYPE_CHECKING:`."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"):
            yield from run_time_nodes(child)


def violations(path: Path, module: str) -> list[str]:
    found = []
    for line, imported in imports(path, module):
        try:
            if position(imported) > position(module):
                found.append(f"{path}:{line}: {module} imports {imported}, which stands right of it")
        except ValueError:
            found.append(f"{path}:{line}: {imported} belongs to no package in PACKAGES and DIALECTS")
    return found


def test_packages_import_only_what_stands_left_of_them() -> None:
    found: list[str] = []
    for path in sorted((ROOT / "gaf").rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        if module != "gaf":
            found += violations(path, module)
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("module", "line", "wrong"),
    [
        ("gaf.fusion.search", "from gaf.passes import registry", True),
        ("gaf.passes.graph.fuse", "from gaf.fusion.search import plan", False),
        ("gaf.passes.graph.fuse", "from ...codegen import writer", True),
        ("gaf.dialects.tile.ops", "import gaf.dialects.graph.ops", True),
        ("gaf.dialects.tile.ops", "from gaf.dialects import graph", True),
        ("gaf.dialects.graph.ops", "from gaf.dialects import tile", False),
        ("gaf.runtime.twin", "def f():\n    from gaf.report import html", True),
        ("gaf.report.html", "import gaf", True),
        ("gaf.report.html", "from gaf import errors", False),
        ("gaf.report.html", "import gaf.elsewhere", True),
        ("gaf.report.html", "from gaf import __version__", False),
        ("gaf.report.html", "if TYPE_CHECKING:\n    from gaf.compiler import FusedModel", False),
        ("gaf.report.html", "if True:\n    from gaf.compiler import FusedModel", True),
    ],
)
def test_the_rule_itself(tmp_path: Path, module: str, line: str, wrong: bool) -> None:
    path = tmp_path / "module.py"
    path.write_text(line)
    assert bool(violations(path, module)) is wrong


def modules_after(code: str) -> set[str]:
    """The modules that a fresh interpreter holds after running `code`."""
    program = f"import sys, json\n{code}\nprint(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stderr.splitlines()[-1]))


@pytest.mark.parametrize(
    "code",
    [
        "import gaf",
        "import graph_autofusion",
        "from gaf.tools.gaf_opt import main; "
        "main(['tests/filecheck/gaf_opt/print_after.mlir', '-p', 'verify-level'])",
    ],
)
def test_heavy_packages_load_on_use(code: str) -> None:
    loaded = {name.partition(".")[0] for name in modules_after(code)}
    assert not loaded & HEAVY


def test_import_gaf_loads_few_modules() -> None:
    """At about 0.5 ms a module, 400 modules keep `import gaf` below 0.5 s on a slow machine."""
    assert len(modules_after("import gaf") - modules_after("")) < 400


def test_both_spellings_give_the_same_objects() -> None:
    import gaf
    import graph_autofusion

    for name in (name for name in dir(gaf) if not name.startswith("_")):
        try:
            value = getattr(gaf, name)
        except (ImportError, gaf.GafError) as error:
            assert "torch" in str(error) or "tensorflow" in str(error).lower()  # extras: their names need them
            continue
        assert getattr(graph_autofusion, name) is value
