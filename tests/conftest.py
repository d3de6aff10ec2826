# SPDX-License-Identifier: Apache-2.0
"""Collects `.mlir` files as tests, and gives tests golden files and property-test settings."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest

from tests.lit import LitFile

FOLDER = Path(__file__).parent
GOLDEN = FOLDER / "golden"

# No deadline: a first example may compile a kernel. CI draws the same examples each time, to be repeatable.
hypothesis.settings.register_profile("default", deadline=None, max_examples=30)
hypothesis.settings.register_profile("ci", deadline=None, max_examples=30, derandomize=True, print_blob=True)
hypothesis.settings.register_profile("thorough", deadline=None, max_examples=300, print_blob=True)
hypothesis.settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "default")
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write tests/golden anew from what tests produce"
    )


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> LitFile | None:
    if file_path.suffix == ".mlir" and FOLDER / "filecheck" in file_path.parents:
        return LitFile.from_parent(parent, path=file_path)
    return None


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden(name, text)` compares `text` with the file tests/golden/`name`; --update-golden writes it."""

    def check(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return
        hint = "if the new text is right: pytest --update-golden, and read the diff"
        if not path.is_file():
            pytest.fail(f"tests/golden/{name} doesn't exist; {hint}", pytrace=False)
        expected = path.read_text(encoding="utf-8")
        if text != expected:
            lines = difflib.unified_diff(
                expected.splitlines(), text.splitlines(), f"tests/golden/{name}", "produced", lineterm=""
            )
            pytest.fail("\n".join([*lines, hint]), pytrace=False)

    return check


@pytest.fixture
def lone_group() -> Iterator[None]:
    """PyTorch's default process group, with this process alone in it."""
    dist = pytest.importorskip("torch.distributed")
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        yield
    finally:
        dist.destroy_process_group()
