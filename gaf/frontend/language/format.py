# SPDX-License-Identifier: Apache-2.0
"""`format_source`: `.gaf` text in its standard layout. Comments stay; `parse(format_source(x)) == parse(x)`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from gaf.errors import InvalidInputError
from gaf.frontend.language import syntax as s

WIDTH = 100
INDENT = "    "

# How tight an expression binds; a part that binds looser than its place asks for gets parentheses.
_OR, _AND, _NOT, _COMPARE, _SUM, _PRODUCT, _NEGATIVE, _POWER, _POSTFIX, _ATOM = range(10)
_LEVEL = {
    "or": _OR, "and": _AND, "+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT, "//": _PRODUCT, "%": _PRODUCT,
    "@": _PRODUCT, "^": _POWER,
    "==": _COMPARE, "!=": _COMPARE, "<": _COMPARE, "<=": _COMPARE, ">": _COMPARE, ">=": _COMPARE,
}  # fmt: skip


def format_source(text: str, name: str = "text") -> str:
    """The text of a file laid out anew. Raises LanguageError if it can't be parsed."""
    from gaf.frontend.language.parser import (
        parse,
    )  # lark takes 70 ms to import, and messages need this module

    return format_file(parse(text, name))


def format_path(path: Path, write: bool) -> bool:
    """Whether a file isn't in the standard layout; with `write` it then is replaced by its text in that layout.

    Raises LanguageError if it can't be parsed, InvalidInputError if it can't be read or written.
    """
    try:
        text = path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise InvalidInputError(f"can't read the file: {reason}", where=str(path)) from None
    new = format_source(text, str(path))
    if new == text or not write:
        return new != text
    target = path.resolve()  # a link stays a link
    part = target.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_text(new, "utf-8", newline="")
        part.chmod(target.stat().st_mode)
        os.replace(part, target)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise InvalidInputError(f"can't write: {error.strerror}", where=str(path)) from None
    return True


def format_file(file: s.File) -> str:
    """The text of a syntax tree, with its comments beside the items and statements they stand at."""
    return _Formatter(file.comments).file(file)


def format_expression(e: s.Expression) -> str:
    """One expression on one line."""
    return _expr(e, _OR)


def format_type(type_: s.TypeExpr) -> str:
    """`f16[n, d]`."""
    return f"{type_.element}[{', '.join(_expr(d, _OR) for d in type_.dims)}]"


# -- expressions ----------------------------------------------------------------------------------


def _level(e: s.Expression) -> int:
    match e:
        case s.Binary(op):
            return _LEVEL[op]
        case s.Unary(op):
            return _NOT if op == "not" else _NEGATIVE
        case s.Index():
            return _POSTFIX
    return _ATOM


def _expr(e: s.Expression, least: int) -> str:
    text = _bare(e)
    return f"({text})" if _level(e) < least else text


def _bare(e: s.Expression) -> str:
    match e:
        case s.Number(value):
            return _number(value)
        case s.String(value):
            return _quoted(value)
        case s.Bool(value):
            return "true" if value else "false"
        case s.Ellipsis():
            return "..."
        case s.Name(name):
            return name
        case s.ListExpr(items):
            return f"[{_joined(items)}]"
        case s.Unary("not", operand):
            return f"not {_expr(operand, _NOT)}"
        case s.Unary(_, operand):
            return f"-{_expr(operand, _NEGATIVE)}"
        case s.Binary():
            return _binary(e)
        case s.Call(function, args):
            return f"{function}({', '.join(map(_argument, args))})"
        case s.Index(base, index):
            return f"{_expr(base, _ATOM)}[{_joined(index)}]"
        case s.Fold(kind, axes, body):
            return f"{kind}({', '.join(map(_axis, axes))}: {_expr(body, _OR)})"
        case s.Comprehension(axes, body):
            return f"[{_axes(e)}] = {_expr(body, _OR)}"
    raise TypeError(f"not an expression: {e!r}")


def _binary(e: s.Binary) -> str:
    """A chain of operators, down its left side in a loop: sums can have thousands of terms."""
    if e.op == "^":
        return f"{_expr(e.left, _POSTFIX)}^{_expr(e.right, _NEGATIVE)}"
    parts: list[str] = []
    node: s.Expression = e
    level = _LEVEL[e.op]
    while isinstance(node, s.Binary) and _LEVEL[node.op] == level and node.op != "^":
        parts.append(f" {node.op} {_expr(node.right, level + 1)}")
        if level == _COMPARE:
            node = node.left
            break
        node = node.left
    parts.append(_expr(node, level + 1 if level == _COMPARE else level))
    return "".join(reversed(parts))


def _argument(a: s.Argument) -> str:
    return f"{a.name}={_expr(a.value, _OR)}" if a.name is not None else _expr(a.value, _OR)


def _axis(a: s.Axis) -> str:
    return a.name if a.extent is None else f"{a.name} < {_expr(a.extent, _SUM)}"


def _axes(c: s.Comprehension) -> str:
    return ", ".join([*(["..."] if c.batch else []), *map(_axis, c.axes)])


def _joined(items: Iterable[s.Expression]) -> str:
    return ", ".join(_expr(i, _OR) for i in items)


def _number(value: int | float) -> str:
    """The shortest text that reads back as the same number: 1e-5, 1.5e12, 0.25."""
    if isinstance(value, int):
        return str(value)
    text = repr(value)
    if abs(value) >= 1e7 and "e" not in text:
        digits = text.partition(".")[0]
        short = digits.rstrip("0")
        if float(text) == float(digits) and len(short) < len(digits) - 3:
            fraction = f".{short[1:]}" if len(short) > 1 else ""
            return f"{short[0]}{fraction}e{len(digits) - 1}"
    return re.sub(r"e([+-])0*", lambda m: "e-" if m[1] == "-" else "e", text)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'


def _param(p: s.Param) -> str:
    dims = (
        f"[{_joined(p.type.dims)}]"
        if p.type.dims
        else ("" if p.default is not None or _is_plain(p.type) else "[]")
    )
    default = f" = {_expr(p.default, _OR)}" if p.default is not None else ""
    return f"{p.name}: {p.type.element}{dims}{default}"


def _is_plain(type_: s.TypeExpr) -> bool:
    return type_.element in ("int", "float", "bool", "string")


# -- files ------------------------------------------------------------------------------------------


class _Formatter:
    def __init__(self, comments: Sequence[s.Comment]) -> None:
        self.comments = list(comments)
        self.lines: list[str] = []

    def file(self, file: s.File) -> str:
        previous: s.Item | None = None
        for item in file.items:
            if previous is not None and not self._close(previous, item):
                self._blank()
            self._before(item.span.line, "")
            self._item(item)
            previous = item
        self._before(None, "", blank=previous is not None)
        text = "\n".join(self.lines).strip("\n")
        return text + "\n" if text else ""

    @staticmethod
    def _close(first: s.Item, second: s.Item) -> bool:
        """One-line items of one kind stand together."""
        return type(first) is type(second) and isinstance(first, s.Import | s.Weights)

    def _blank(self) -> None:
        if self.lines and self.lines[-1]:
            self.lines.append("")

    def _before(self, line: int | None, indent: str, blank: bool = False) -> None:
        """Comments that stand before `line` (all that are left for None), each on a line of its own."""
        last: int | None = None
        while self.comments and (line is None or self.comments[0].line < line):
            if (blank and last is None) or (last is not None and self.comments[0].line > last + 1):
                self._blank()
            last = self.comments[0].line
            self.lines.append(indent + self.comments.pop(0).text)
        if last is not None and line is not None and line > last + 1:
            self._blank()

    def _behind(self, span: s.Span) -> None:
        """Comments inside a statement, and behind it on its last line, go behind the line just written."""
        inside: list[str] = []
        while self.comments and self.comments[0].line <= span.end_line:
            inside.append(self.comments.pop(0).text)
        if inside:
            self.lines[-1] += "  " + " ".join(inside[:1])
            indent = self.lines[-1][: len(self.lines[-1]) - len(self.lines[-1].lstrip())]
            for text in inside[1:]:
                self.lines.append(indent + text)

    def _item(self, item: s.Item) -> None:
        match item:
            case s.Import(path):
                self.lines.append(f"import {_quoted(path)}")
                self._behind(item.span)
            case s.Weights(path):
                self.lines.append(f"weights {_quoted(path)}")
                self._behind(item.span)
            case s.Op():
                tail = " -> " + self._results(item.results) + self._where(item.where)
                if item.bindings:
                    tail += " as " + ", ".join(f"{b.framework} {_quoted(b.name)}" for b in item.bindings)
                self._block(f"op {item.name}", item.params, tail, item.block, item.span)
            case s.ModelItem():
                tail = (
                    " -> " + self._results(item.results) if item.results is not None else ""
                ) + self._where(item.where)
                self._block(f"model {item.name}", item.params, tail, item.block, item.span)
            case s.Rule():
                slots = [names[0] if len(names) == 1 else f"({' | '.join(names)})" for names in item.slots]
                self._settings(f"rule {item.name}: {' >> '.join(slots)}", item.settings, item.span)
            case s.TargetItem():
                self._settings(f"target {item.name} = {item.base}", item.settings, item.span)

    @staticmethod
    def _results(results: Sequence[s.TypeExpr]) -> str:
        return format_type(results[0]) if len(results) == 1 else f"({', '.join(map(format_type, results))})"

    @staticmethod
    def _where(where: Sequence[s.Expression]) -> str:
        return f" where {_joined(where)}" if where else ""

    def _settings(self, head: str, settings: Sequence[s.Setting], span: s.Span) -> None:
        inside = ", ".join(f"{x.name} = {_expr(x.value, _OR)}" for x in settings)
        line = f"{head} {{ {inside} }}" if inside else f"{head} {{}}"
        if len(line) <= WIDTH and not self._has_comments(span):
            self.lines.append(line)
            self._behind(span)
            return
        self.lines.append(f"{head} {{")
        for x in settings:
            self._before(x.span.line, INDENT)
            self.lines.append(f"{INDENT}{x.name} = {_expr(x.value, _OR)},")
            self._behind(s.Span(end_line=x.span.end_line))
        self._end(span)

    def _has_comments(self, span: s.Span) -> bool:
        return bool(self.comments) and self.comments[0].line < span.end_line

    def _end(self, span: s.Span) -> None:
        self._before(span.end_line, INDENT)
        self.lines.append("}")
        self._behind(span)

    def _block(self, head: str, params: Sequence[s.Param], tail: str, block: s.Block, span: s.Span) -> None:
        signature = f"{head}({', '.join(map(_param, params))}){tail}"
        one_line = f"{signature} {{ {self._results_text(block.results)} }}"
        if not block.lets and len(one_line) <= WIDTH and not self._has_comments(span):
            self.lines.append(one_line)
            self._behind(span)
            return
        if len(signature) + 2 <= WIDTH or not params:
            self.lines.append(f"{signature} {{")
        else:
            self.lines.append(f"{head}(")
            for p in params:
                self._before(p.span.line, INDENT)
                self.lines.append(f"{INDENT}{_param(p)},")
                self._behind(s.Span(end_line=p.span.end_line))
            self.lines.append(f"){tail} {{")
        statements = [*block.lets, *block.results]
        if (
            self.comments
            and self.comments[0].line == block.span.line < statements[0].span.line
            and not self.comments[0].own_line
        ):
            self.lines[-1] += "  " + self.comments.pop(0).text
        for let in block.lets:
            self._before(let.span.line, INDENT)
            self._add(self._let(let), ";")
            self._behind(let.span)
        first = block.results[0].span.line if block.results else None
        self._before(first, INDENT)
        if len(INDENT + self._results_text(block.results)) <= WIDTH:
            self.lines.append(INDENT + self._results_text(block.results))
        else:
            for r in block.results:
                self._add(_result(r), "," if len(block.results) > 1 else "")
        # a comment behind the closing brace stays there
        self._behind(s.Span(end_line=min(block.results[-1].span.end_line, span.end_line - 1)))
        self._end(span)

    @staticmethod
    def _results_text(results: Sequence[s.Result]) -> str:
        return ", ".join(map(_result, results))

    def _add(self, text: str, end: str) -> None:
        """A statement; one that is too long is cut after commas and before operators, outside of strings."""
        line = INDENT + text + end
        while len(line) > WIDTH:
            cut = _cut(line)
            if cut is None:
                break
            self.lines.append(line[:cut].rstrip())
            line = INDENT * 2 + line[cut:].lstrip()
        self.lines.append(line)

    @staticmethod
    def _let(let: s.Let) -> str:
        names = ", ".join(t.name for t in let.targets)
        type_ = f": {format_type(let.type)}" if let.type is not None else ""
        if (
            isinstance(let.value, s.Comprehension)
            and len(let.targets) == 1
            and (let.value.axes or let.value.batch)
        ):
            return f"let {names}[{_axes(let.value)}]{type_} = {_expr(let.value.body, _OR)}"
        return f"let {names}{type_} = {_expr(let.value, _OR)}"


def _result(r: s.Result) -> str:
    return f"{r.name} = {_expr(r.value, _OR)}" if r.name is not None else _expr(r.value, _OR)


def _cut(line: str) -> int | None:
    """Where to break a long line within WIDTH: outside of brackets rather than inside, after commas rather than
    before sums, before sums rather than products; the last such place."""
    depth, best, best_rank, quoted = 0, None, (1 << 30, 0), False
    i = len(line) - len(line.lstrip())
    start = i
    while i < min(len(line), WIDTH):
        c = line[i]
        if c == '"' and line[i - 1] != "\\":
            quoted = not quoted
        elif not quoted and c in "([":
            depth += 1
        elif not quoted and c in ")]":
            depth -= 1
        elif not quoted and i > start + 20:
            after_comma = line[i - 1 : i + 1] == ", "
            operator = line[i + 1 : i + 3] if c == " " else ""
            rank = (
                0
                if after_comma
                else 1
                if operator in ("+ ", "- ")
                else 2
                if operator in ("* ", "/ ", "@ ")
                else None
            )
            if rank is not None and (depth, rank) <= best_rank:
                best, best_rank = i, (depth, rank)
        i += 1
    return best
