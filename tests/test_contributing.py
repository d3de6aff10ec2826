# SPDX-License-Identifier: Apache-2.0
"""The pass and its test in docs/contributing.md work as they stand there."""

import re
import textwrap
from pathlib import Path

from tests import lit

GUIDE = Path(__file__).parents[1] / "docs" / "contributing.md"


def code_block(first_line: str) -> str:
    """The indented block of the guide that starts with a line beginning with `first_line`."""
    blocks = re.findall(r"(?:(?:    .*)?\n)+", GUIDE.read_text(encoding="utf-8"))
    (block,) = [b for b in map(textwrap.dedent, blocks) if b.strip().startswith(first_line)]
    return block.strip() + "\n"


def test_the_pass_of_the_guide_passes_its_test(tmp_path: Path) -> None:
    pass_file = tmp_path / "drop_double_negation.py"
    pass_file.write_text(code_block("# SPDX"), encoding="utf-8")
    test_file = tmp_path / "drop_double_negation.mlir"
    test_file.write_text(code_block("// RUN: gaf-opt"), encoding="utf-8")
    (line,) = lit.run_lines(test_file.read_text(encoding="utf-8"))
    commands = lit.parse_run_line(line, test_file, tmp_path / "scratch")
    commands[0].words += ["--load", str(pass_file)]
    assert lit.missing_checks(test_file.read_text(encoding="utf-8"), [commands]) is None
    lit.execute(commands)
