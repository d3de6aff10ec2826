# SPDX-License-Identifier: Apache-2.0
"""Hand-written Ascend C sources made into plain C++: launches `k<<<...>>>(...)`, kernel types, stubs.

Only what a C++ compiler can't read is rewritten, on the same lines, so that line numbers stay: a launch becomes
a call of the twin's launcher, `[host, aicore]` disappears, and the kernel's type (`__vector__`, `__cube__`, `__mix__(1, 2)`) and its
`__kfc_workspace__` parameter become the first statements of its body. Everything else is left as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from gaf.errors import InvalidInputError

LAUNCH = "<<<"
KERNEL_TYPES = {
    "vector": "KERNEL_TYPE_AIV_ONLY",
    "cube": "KERNEL_TYPE_AIC_ONLY",
    (0, 1): "KERNEL_TYPE_MIX_AIV_1_0",
    (1, 0): "KERNEL_TYPE_MIX_AIC_1_0",
    (1, 1): "KERNEL_TYPE_MIX_AIC_1_1",
    (1, 2): "KERNEL_TYPE_MIX_AIC_1_2",
}

WITH_SCHEDULER = {
    "KERNEL_TYPE_AIV_ONLY": "KERNEL_TYPE_MIX_AIV_1_0",
    "KERNEL_TYPE_AIC_ONLY": "KERNEL_TYPE_MIX_AIC_1_0",
}
"""What a `__vector__` or `__cube__` kernel becomes that waits for other cores: the device compiler sees it."""

_BETWEEN_CORES = re.compile(r"\b(?:SyncAll|CrossCoreSetFlag|CrossCoreWaitFlag)\b")

_QUALIFIER_MACRO = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+(__vector__|__cube__|__mix__[ \t]*\([^()\n]*\))[ \t]*$", re.M
)


_SIDES = re.compile(
    r"\[\s*(?:host\s*,\s*aicore|aicore\s*,\s*host|aicore)\s*\]|(?<=__forceinline__)(\s*)\[\s*host\s*\]"
)
"""Where a function may run, in the device compiler's own words; one C++ compiler does both."""


@dataclass
class KernelDeclaration:
    """A function marked `__global__`: parameters as written, type it declares (None: not declared)."""

    name: str
    parameters: list[str]
    type_name: str | None
    line: int
    defined: bool
    extern_c: bool
    body: int | None = None
    """Offset of the first character inside the body."""


@dataclass
class RewrittenSource:
    """A source after `rewrite_source`: text, the kernels it declares, whether anything was changed."""

    text: str
    kernels: list[KernelDeclaration] = field(default_factory=list)
    changed: bool = False


def blank_out(text: str, literals: bool = True) -> str:
    """The text with comments and (`literals`) the inside of literals made spaces: same length, same lines."""
    out = list(text)
    i, n = 0, len(text)

    def clear(start: int, end: int) -> None:
        for k in range(start, min(end, n)):
            if out[k] != "\n":
                out[k] = " "

    while i < n:
        two = text[i : i + 2]
        if two == "//":
            end = i
            while True:
                end = text.find("\n", end)
                if end < 0:
                    end = n
                    break
                if text[end - 1] != "\\":
                    break
                end += 1
            clear(i, end)
            i = end
        elif two == "/*":
            end = text.find("*/", i + 2)
            end = n if end < 0 else end + 2
            clear(i, end)
            i = end
        elif two == 'R"' and (i == 0 or not (text[i - 1].isalnum() or text[i - 1] == "_")):
            head = re.match(r'R"([^\s()\\]{0,16})\(', text[i:])
            end = text.find(f'){head[1]}"', i) if head else -1
            end = i + 2 if end < 0 else end + len(head[1]) + 2  # type: ignore[index]
            if literals:
                clear(i, end)
            i = end
        elif text[i] == '"' or (text[i] == "'" and (i == 0 or not text[i - 1].isalnum())):
            end = i + 1
            while end < n and text[end] != text[i] and text[end] != "\n":
                end += 2 if text[end] == "\\" else 1
            if literals:
                clear(i + 1, end)
            i = end + 1
        else:
            i += 1
    return "".join(out)


_OPEN, _CLOSE = "([{", ")]}"


def matching_bracket(text: str, at: int, what: str) -> int:
    """Offset of the bracket that closes the one at `at`."""
    depth = 0
    for i in range(at, len(text)):
        if text[i] in _OPEN:
            depth += 1
        elif text[i] in _CLOSE:
            depth -= 1
            if depth == 0:
                return i
    raise InvalidInputError(f"{what} has no closing bracket", where=f"line {_line(text, at)}")


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def split_parameters(text: str) -> list[str]:
    """Comma-separated pieces at bracket depth 0 (angle brackets of templates counted too)."""
    pieces, depth, start = [], 0, 0
    for i, c in enumerate(text):
        if c in _OPEN or c == "<":
            depth += 1
        elif c in _CLOSE or (c == ">" and text[i - 1 : i] != "-"):
            depth -= 1
        elif c == "," and depth <= 0:
            pieces.append(text[start:i].strip())
            start = i + 1
    last = text[start:].strip()
    return [*pieces, last] if last or pieces else []


_ATTRIBUTE = re.compile(
    r"\b__(?:global|aicore|vector|cube|simt_vf|simd_vf)__\b|\b__attribute__\s*\(\(.*?\)\)"
    r"|\b__(?:mix|launch_bounds|inout_pipe|schedmode)__\s*\([^()]*\)"
)


def _kernels(plain: str, qualifiers: Mapping[str, str]) -> Iterator[KernelDeclaration]:
    seen = set()
    for match in re.finditer(r"\b__global__\b", plain):
        # The declaration starts behind the previous statement, block or preprocessor line.
        start = max(plain.rfind(c, 0, match.start()) for c in ";{}") + 1
        directives = list(re.finditer(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*$", plain[start : match.start()], re.M))
        if directives:
            last = directives[-1]
            if start + last.end() >= match.start():  # inside of a #define
                continue
            start += last.end()
        if start in seen:
            continue
        seen.add(start)
        head_end = match.end()
        while True:  # the parameter list: the first bracket that is no attribute's
            bracket = plain.find("(", head_end)
            if bracket < 0:
                return
            word = re.search(r"(\w+)\s*$", plain[start:bracket])
            if word is None or not re.fullmatch(r"__\w+__|alignas", word[1]):
                break
            head_end = matching_bracket(plain, bracket, "an attribute") + 1
        if word is None:
            continue
        end = matching_bracket(plain, bracket, "a parameter list")
        head = re.sub(r"\b[A-Za-z_]\w*\b", lambda m: qualifiers.get(m[0], m[0]), plain[start:bracket])
        after = re.match(r"\s*(?:noexcept\s*)?([{;])", plain[end + 1 :])
        if after is None:
            continue
        defined = after[1] == "{"
        type_name = None
        mix = re.search(r"\b__mix__\s*\(\s*(\d+)\s*,\s*(\d+)\s*\)", head)
        if mix:
            type_name = KERNEL_TYPES.get((int(mix[1]), int(mix[2])))
            if type_name is None:
                raise InvalidInputError(
                    f"kernel '{word[1]}': __mix__({mix[1]}, {mix[2]}) does not exist",
                    expected="(0, 1), (1, 0), (1, 1) or (1, 2)",
                    where=f"line {_line(plain, match.start())}",
                )
        elif re.search(r"\b__vector__\b", head):
            type_name = KERNEL_TYPES["vector"]
        elif re.search(r"\b__cube__\b", head):
            type_name = KERNEL_TYPES["cube"]
        yield KernelDeclaration(
            word[1],
            split_parameters(plain[bracket + 1 : end]),
            type_name,
            _line(plain, match.start()),
            defined,
            "extern" in head.split(),
            end + 1 + after.end() if defined else None,
        )


def _inferred_type(plain: str) -> str | None:
    """Type of an `__aicore__` kernel whose source names none: by the units that it uses."""
    if "KERNEL_TASK_TYPE" in plain:
        return None
    if re.search(r"\bREGIST_MATMUL_OBJ\b", plain):
        cube_only = re.search(r"^\s*#\s*define\s+ASCENDC_CUBE_ONLY\b", plain, re.M)
        return KERNEL_TYPES["cube"] if cube_only else KERNEL_TYPES[1, 2]
    if re.search(r"\b(?:Mmad|Fixpipe)\s*(?:<[^;(){}]*>)?\s*\(", plain):
        vector = re.search(r"\bTPosition::VEC|\bQuePosition::VEC|\bCrossCoreWaitFlag\b", plain)
        return KERNEL_TYPES[1, 2] if vector else KERNEL_TYPES["cube"]
    return None


def _callee_start(plain: str, at: int) -> int:
    """Start of the expression `ns::kernel<args>` that ends at `at`."""
    i = at
    while i > 0 and plain[i - 1].isspace():
        i -= 1
    if i > 0 and plain[i - 1] == ">":
        depth = 0
        while i > 0:
            i -= 1
            if plain[i] == ">" and plain[i - 1] != "-":
                depth += 1
            elif plain[i] in ")]}":
                pass
            elif plain[i] == "<":
                depth -= 1
                if depth == 0:
                    break
        while i > 0 and plain[i - 1].isspace():
            i -= 1
    found = re.search(r"(?:[A-Za-z_]\w*\s*::\s*|::\s*)*[A-Za-z_]\w*$", plain[:i])
    if found is None:
        raise InvalidInputError("no kernel name before '<<<'", where=f"line {_line(plain, at)}")
    return found.start()


def _launches(plain: str) -> Iterator[tuple[int, int, int, int, int]]:
    """Launches as offsets: callee start, `<<<`, `>>>`, start of the arguments' bracket, its end."""
    at = plain.find(LAUNCH)
    while at >= 0:
        depth, close = 0, -1
        for i in range(at + 3, len(plain)):
            if plain[i] in _OPEN:
                depth += 1
            elif plain[i] in _CLOSE:
                depth -= 1
            elif depth == 0 and plain.startswith(">>>", i):
                close = i
                break
        bracket = re.compile(r"\s*\(").match(plain, close + 3) if close >= 0 else None
        if bracket is None:
            raise InvalidInputError(
                "a kernel launch can't be read", expected="kernel<<<blocks, l2, stream>>>(arguments)",
                where=f"line {_line(plain, at)}",
            )
        end = matching_bracket(plain, bracket.end() - 1, "a kernel launch")
        yield _callee_start(plain, at), at, close, bracket.end() - 1, end
        at = plain.find(LAUNCH, end)


def rewrite_source(text: str, name: str, qualifiers: Mapping[str, str] | None = None) -> RewrittenSource:
    """Make the launches and kernel definitions of one file plain C++.

    `qualifiers` are macros that stand for a kernel's type (see `qualifier_macros`).

    Raises InvalidInputError naming `name` and the line for a launch or kernel that can't be read.
    """
    plain = blank_out(text)
    try:
        kernels = list(_kernels(plain, qualifiers or {}))
        launches = list(_launches(plain))
    except InvalidInputError as e:
        raise InvalidInputError(e.what, where=f"{name}, {e.where}", expected=e.expected) from None
    edits = [(m.start(), m.end(), " " * (m.end() - m.start())) for m in _SIDES.finditer(plain)]
    inferred = _inferred_type(plain)
    for kernel in kernels:
        if kernel.body is None:
            continue
        first = ""
        kernel_type = kernel.type_name or inferred
        if _BETWEEN_CORES.search(plain):
            kernel_type = WITH_SCHEDULER.get(kernel_type or "", kernel_type)
        if kernel_type:
            first += f" ::gaf_twin::DeclareKernelType({kernel_type});"
        for parameter in kernel.parameters:
            if "__kfc_workspace__" in parameter.split():
                first += f" ::gaf_twin::host::SetWorkspace({parameter_name(parameter)});"
        if first:
            edits.append((kernel.body, kernel.body, first))
    code = blank_out(text, literals=False)
    for start, open_, close, bracket, end in launches:
        callee, config, arguments = (
            " ".join(code[i:j].split("\n")).strip()
            for i, j in ((start, open_), (open_ + 3, close), (bracket + 1, end))
        )
        short = re.split(r"[<\s]", callee)[0].rsplit("::", 1)[-1]
        edits.append((
            start,
            end + 1,
            f'::gaf_twin::host::Launcher("{short}", {config}).Arguments({arguments})'
            f".Run([&]() {{ {callee}({arguments}); }})" + "\n" * text.count("\n", start, end + 1),
        ))
    out, at = [], 0
    for begin, end, new in sorted(edits):
        out += [text[at:begin], new]
        at = end
    out.append(text[at:])
    return RewrittenSource("".join(out), kernels, bool(edits))


def qualifier_macros(text: str) -> dict[str, str]:
    """Macros that a file defines as a kernel's type: `#define NAME __mix__(1, 2)`."""
    found = _QUALIFIER_MACRO.findall(blank_out(text))
    return dict(found)


def parameter_name(parameter: str) -> str:
    """Name of a parameter as written in a declaration."""
    names = re.findall(r"[A-Za-z_]\w*", parameter.split("=")[0].split("[")[0])
    names = [n for n in names if not re.fullmatch(r"__\w+__", n)]
    return names[-1] if names else ""


def launch_stub(kernel: KernelDeclaration, defined: bool) -> str:
    """`aclrtlaunch_<kernel>`, which ACLRT_LAUNCH_KERNEL calls: declaration, or definition beside the kernel.

    Pointers are `void*` as in the header that the toolkit generates; other parameters keep their type.
    """
    types, casts, names = [], [], []
    for i, parameter in enumerate(kernel.parameters):
        written = re.sub(r"\b__\w+__\b", " ", parameter.split("=")[0]).strip()
        name = parameter_name(parameter) or f"argument{i}"
        bare = re.sub(rf"\b{re.escape(name)}$", "", written).strip() or written
        pointer = "*" in bare or bare == "GM_ADDR"
        types.append(f"void* {name}" if pointer else f"{bare} {name}")
        casts.append(f"reinterpret_cast<{'uint8_t*' if bare == 'GM_ADDR' else bare}>({name})" if pointer else name)
        names.append(name)
    signature = ", ".join(["uint32_t numBlocks", "void* stream", *types])
    head = f'extern "C" uint32_t aclrtlaunch_{kernel.name}({signature})'
    if not defined:
        return head + ";"
    return (
        f"{head}\n{{\n    return static_cast<uint32_t>(::gaf_twin::host::Launcher(\"{kernel.name}\", numBlocks, "
        f"nullptr, stream).Arguments({', '.join(names)}).Run([&]() {{ {kernel.name}({', '.join(casts)}); }}));\n}}"
    )
