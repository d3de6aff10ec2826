# SPDX-License-Identifier: Apache-2.0
"""Writes `docs/reference/twin-api.md`: the calls that the twin's headers hold, read off the headers.

    python -m gaf.tools.twin_api > docs/reference/twin-api.md
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from gaf.runtime.ascend_source import blank_out, matching_bracket, parameter_name, split_parameters
from gaf.runtime.compiler import INCLUDE, require_compiler, run_compiler
from gaf.runtime.samples import DEFINES

HOST = (
    "acl/acl.h",
    "toolkit/tiling/matmul_tiling.h",
    "toolkit/tiling/vector_tiling.h",
    "toolkit/tiling/platform/platform_ascendc.h",
)
"""Headers of host code; device code is what `kernel_operator.h` and `lib/matmul_intf.h` include."""

HEAD = """\
# Calls that the twin has

Made from the headers by `python -m gaf.tools.twin_api > docs/reference/twin-api.md`; a test compares. Names are those of
Ascend C, in the spelling of CANN 8 and of CANN 9 where the two differ. `f(a, b)` and `f(a, c)` are forms of one call; template
parameters and types are in the header. A call that the Ascend 910B lacks is refused in check mode (rule `not-on-a2`) or doesn't compile.
"""

_FUNCTION = re.compile(r"\b([A-Za-z_]\w*)\s*\(")
_TYPE = re.compile(r"\b(?:class|struct|enum(?:\s+class)?)\s+([A-Za-z_]\w*)\s*(?:final\s*)?(?::[^{};]*)?\{")
_NOT_CALLS = frozenset("if for while switch return sizeof static_assert alignas decltype defined operator".split())


def page() -> str:
    """The page as text. Raises CompileError without a C++ compiler."""
    parts = [HEAD]
    seen: set[str] = set()
    for title, headers in (("Device", ("kernel_operator.h", "lib/matmul_intf.h")), ("Host", HOST)):
        parts.append(f"## {title}\n")
        for header, text in sorted(_sources(headers).items()):
            calls, types = _calls(text), _types(text)
            if header in seen or (not calls and not types):
                continue
            seen.add(header)
            parts.append(f"### `{header}`: {_purpose(INCLUDE / header)}\n")
            plain = [f"`{name}`" for name, members in types.items() if not members]
            lines = [f"* {_forms(forms, name)}" for name, forms in calls.items()]
            for name, members in types.items():
                if members:
                    lines.append(f"* `{name}`: " + ", ".join(_forms(f, m) for m, f in members.items()))
            if plain:
                lines.append("* Types: " + ", ".join(plain))
            parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _forms(forms: list[str], name: str) -> str:
    return ", ".join(f"`{name}({parameters})`" for parameters in forms)


def _sources(headers: tuple[str, ...]) -> dict[str, str]:
    """Preprocessed text by header below the include folder: macros are expanded, so that all calls are seen."""
    compiler = require_compiler()
    found: dict[str, list[str]] = {}
    unit = "\n".join(f'#include "{h}"' for h in headers)
    command = [
        *compiler.command, "-std=c++17", "-E", "-w", *(f"-D{d}" for d in (*DEFINES, "GAF_TWIN=2")),
        f"-I{INCLUDE}", f"-I{INCLUDE / 'toolkit'}", "-x", "c++", "-",
    ]  # fmt: skip
    current: list[str] = []
    for line in run_compiler(command, "the twin's headers", text=unit).splitlines():
        marker = re.match(r'# \d+ "([^"]+)"', line)
        if marker is None:
            current.append(line)
            continue
        path = Path(marker[1])
        inside = path.is_absolute() and path.is_relative_to(INCLUDE)
        current = found.setdefault(str(path.relative_to(INCLUDE)), []) if inside else []
    return {h: "\n".join(lines) for h, lines in found.items() if not h.startswith("gaf_")}


def _purpose(header: Path) -> str:
    """The comment at the top of a header."""
    lines = []
    for line in header.read_text(encoding="utf-8").splitlines()[1:]:
        if not line.startswith("//"):
            break
        lines.append(line.lstrip("/ "))
        if line.endswith("."):
            break
    return " ".join(lines) or "includes others."


def _public(text: str) -> Iterator[tuple[str, str]]:
    """Pieces of code at the outermost level of the public namespaces: their head, and their body if they have one."""
    plain = blank_out(text)
    at, depth, private = 0, 0, 0
    opened: list[tuple[int, bool]] = []
    start = 0
    while at < len(plain):
        c = plain[at]
        if c == "{":
            head = plain[start:at]
            name = re.search(r"\bnamespace\s*([\w:]*)\s*$", head)
            extern = re.search(r'extern\s*"\s*"\s*$|extern\s*"[^"]*"\s*$', head)
            if name or extern:
                hidden = bool(name) and not re.match(r"AscendC$|matmul_tiling$|platform_ascendc$|optiling$", name[1])  # type: ignore[index]
                opened.append((depth, hidden))
                private += hidden
                depth += 1
                start = at + 1
            else:
                end = matching_bracket(plain, at, "a body")
                if head.count("(") > head.count(")"):  # the default of a parameter
                    at = end + 1
                    continue
                if not private:
                    yield head + "{", plain[at + 1 : end]
                at = end
                start = at + 1
        elif c == "}":
            if opened:
                depth, hidden = opened.pop()
                private -= hidden
            start = at + 1
        elif c == ";":
            if not private:
                yield plain[start : at + 1], ""
            start = at + 1
        at += 1


def _calls(text: str) -> dict[str, list[str]]:
    """Functions with the names of their parameters, one text per form."""
    found: dict[str, dict[str, None]] = {}
    for piece, _ in _public(text):
        code = re.sub(r"template\s*<(?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*>", " ", piece)
        if re.search(r"^\s*(?:typedef|using|class|struct|enum|union|static_assert|friend)\b|=\s*\w", code.split("(")[0]):
            continue
        match = _FUNCTION.search(code)
        if match is None or match[1] in _NOT_CALLS or match[1].startswith("__") or not code[: match.start()].strip():
            continue
        try:
            end = matching_bracket(code, match.end() - 1, "parameters")
        except Exception:
            continue
        names = [parameter_name(p) or "..." for p in split_parameters(code[match.end() : end]) if p.strip() != "void"]
        found.setdefault(match[1], {})[", ".join(names)] = None
    return {name: list(forms) for name, forms in sorted(found.items())}


def _types(text: str) -> dict[str, dict[str, list[str]]]:
    """Classes and enumerations with their public member functions."""
    found: dict[str, dict[str, list[str]]] = {}
    for head, body in _public(text):
        match = _TYPE.search(head)
        if match is None:
            continue
        sections = re.split(r"\b(public|private|protected)\s*:(?!:)", ("private:" if "class" in match[0] else "public:") + body)
        shown = "".join(part for access, part in zip(sections[1::2], sections[2::2]) if access == "public")
        members = {} if "enum" in match[0] else _calls(shown)
        members.pop(match[1], None)
        found.setdefault(match[1], {}).update(members)
    return dict(sorted(found.items()))


if __name__ == "__main__":
    sys.stdout.write(page())
