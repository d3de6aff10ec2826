# SPDX-License-Identifier: Apache-2.0
"""Every pass is listed, named like its file, documented and tested; others can join but not replace."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

import gaf.passes
from gaf.errors import InvalidInputError
from gaf.passes import PASS_MODULES, registry
from gaf.passes.registry import option, register_pass

ROOT = Path(gaf.passes.__file__).parent
FILECHECK = Path(__file__).parents[1] / "filecheck" / "passes"
LEVELS = ("graph", "tile", "ascendc")


@dataclass(frozen=True)
class Sample(ModulePass):
    """Do nothing.

    At length.
    """

    name = "sample-pass"

    depth: int = option(4, "how deep")
    kinds: tuple[str, ...] = option(("exp",), "which")

    def apply(self, ctx: Context, op: ModuleOp) -> None: ...


def test_every_pass_file_is_listed() -> None:
    files = {
        ".".join(("gaf.passes", *path.relative_to(ROOT).with_suffix("").parts))
        for level in LEVELS
        for path in (ROOT / level).rglob("*.py")
        if "@register_pass" in path.read_text(encoding="utf-8")
    }
    assert files <= set(PASS_MODULES), "add the module to PASS_MODULES in gaf/passes/__init__.py"
    assert len(PASS_MODULES) == len(set(PASS_MODULES))


@pytest.mark.parametrize("module", PASS_MODULES)
def test_every_pass_is_documented_and_has_a_filecheck_test(module: str) -> None:
    name = registry.pass_name(module)
    cls = registry.get_pass(name)
    assert cls.name == name
    assert registry.pass_summary(cls), f"{cls.__name__} has no docstring"
    undocumented = [o.name for o in registry.pass_options(cls) if not o.doc]
    assert not undocumented, "declare options with gaf.passes.registry.option(default, doc)"
    tests = [path for path in FILECHECK.rglob("*.mlir") if path.stem.replace("_", "-").startswith(name)]
    assert tests, f"tests/filecheck/passes has no {name}.mlir"


def test_options_are_described() -> None:
    depth, kinds = registry.pass_options(Sample)
    assert (depth.name, depth.type, depth.default, depth.doc) == ("depth", "int", "4", "how deep")
    assert (kinds.name, kinds.type) == ("kinds", "tuple[str, ...]")
    assert registry.pass_summary(Sample) == "Do nothing."


def test_registration_is_scoped_and_idempotent() -> None:
    with registry.scoped_registry():
        register_pass(register_pass(Sample))
        assert registry.get_pass("sample-pass") is Sample
    with pytest.raises(InvalidInputError, match="unknown pass 'sample-pass'"):
        registry.get_pass("sample-pass")


def test_a_name_can_be_taken_once() -> None:
    @dataclass(frozen=True)
    class Other(Sample): ...

    with registry.scoped_registry():
        register_pass(Sample)
        with pytest.raises(InvalidInputError, match="two passes are named 'sample-pass'.*Sample and .*Other"):
            register_pass(Other)


def test_only_passes_can_be_registered() -> None:
    with pytest.raises(InvalidInputError, match="expected a frozen dataclass derived from"):
        register_pass(int)  # type: ignore[type-var]


def test_a_misspelled_name_gets_a_suggestion() -> None:
    with pytest.raises(InvalidInputError, match="hint: did you mean 'verify-level'"):
        registry.get_pass("verfy-level")


def publish(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    """Makes `name` an entry point as another package's metadata would."""
    entry = EntryPoint(name, value, registry.ENTRY_POINT_GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: [entry] if group == entry.group else [])


def test_entry_points_publish_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    publish(monkeypatch, "sample-pass", f"{__name__}:Sample")
    monkeypatch.setitem(
        __import__("sys").modules, __name__, __import__("types").SimpleNamespace(Sample=Sample)
    )
    with registry.scoped_registry():
        assert registry.get_pass("sample-pass") is Sample


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("verify-level", "some.package:Pass", "publishes a pass named 'verify-level', which gaf has already"),
        ("absent", "no_such_package.passes:Pass", "can't be imported from 'no_such_package.passes:Pass'"),
        (
            "misnamed",
            "gaf.passes.verify_level:VerifyLevelPass",
            "expected 'verify-level', the name of the pass",
        ),
    ],
)
def test_bad_entry_points_are_named(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, problem: str
) -> None:
    publish(monkeypatch, name, value)
    with pytest.raises(InvalidInputError, match=problem):
        registry.get_pass(name)
