# SPDX-License-Identifier: Apache-2.0
"""Text to syntax tree, through a lark LALR parser; syntax errors say what was expected."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedInput, UnexpectedToken, VisitError
from lark.visitors import Transformer_NonRecursive, v_args

from gaf.frontend.language import syntax as s
from gaf.frontend.language.errors import Source, near
from gaf.frontend.language.syntax import Span

ITEMS = ("import", "weights", "op", "model", "rule", "target")
_GRAMMAR = Path(__file__).with_name("grammar.lark")

# Terminals that are spelled differently from their names, for messages
_READABLE = {
    "NAME": "a name", "INT": "a number", "FLOAT": "a number", "STRING": 'a string "..."', "COMPARE": "a comparison",
    "PLUS": "'+'", "MINUS": "'-'", "STAR": "'*'", "SLASH": "'/'", "FLOORDIV": "'//'", "PERCENT": "'%'", "AT": "'@'",
    "CARET": "'^'", "ELLIPSIS": "'...'", "TRUE": "true", "FALSE": "false", "$END": "the end of the file",
    "LPAR": "'('", "RPAR": "')'", "LSQB": "'['", "RSQB": "']'", "LBRACE": "'{'", "RBRACE": "'}'", "COMMA": "','",
    "COLON": "':'", "MORETHAN": "'>'", "SEMICOLON": "';'", "EQUAL": "'='", "VBAR": "'|'", "CHAIN": "'>>'", "ARROW": "'->'",
}  # fmt: skip
_START_OF_EXPRESSION = {"NAME", "INT", "FLOAT", "LPAR", "LSQB"}
_OPERATORS = {
    "PLUS",
    "MINUS",
    "STAR",
    "SLASH",
    "FLOORDIV",
    "PERCENT",
    "AT",
    "CARET",
    "COMPARE",
    "_AND",
    "_OR",
}


@lru_cache(maxsize=1)
def grammar_text() -> str:
    """The grammar as a person reads it."""
    return _GRAMMAR.read_text("utf-8")


@lru_cache(maxsize=1)
def _lark() -> Lark:
    return Lark(
        grammar_text(),
        parser="lalr",
        start=["start", "signature"],
        propagate_positions=True,
        maybe_placeholders=True,
    )


def parse(text: str, name: str = "text") -> s.File:
    """The syntax tree of a file. Raises LanguageError with the place and what was expected there."""
    source = Source(name, text)
    tree = _parse(source, "start")
    items = _convert(source, tree)
    return s.File(tuple(items), _comments(text))


def parse_signature(text: str, name: str = "signature") -> s.Op:
    """`(x: f16[n, d]) -> f16[n, d] where n > 1` as an op without a body."""
    source = Source(name, text)
    params, results, where = _convert(source, _parse(source, "signature"))
    return s.Op("", params, results, s.Block((), ()), where)


def _convert(source: Source, tree: Tree[Any]) -> Any:
    try:
        return _ToSyntax(source).transform(tree)
    except VisitError as error:
        raise error.orig_exc from None


def _parse(source: Source, start: str) -> Tree[Any]:
    try:
        return _lark().parse(source.text, start=start)
    except UnexpectedInput as error:
        raise _syntax_error(source, error) from None


def _syntax_error(source: Source, error: UnexpectedInput) -> Exception:
    match error:
        case UnexpectedToken():
            token = error.token
            expected = _readable(set(error.accepts or error.expected), error.expected)
            if token.type == "$END":
                return source.error(
                    "the file ends in the middle of something", _end(source), expected=expected
                )
            span = _token_span(token)
            hint = None
            if "_OP" in error.expected and token.type == "NAME":
                hint = near(str(token), ITEMS)
            elif token.type == "RBRACE" and "EQUAL" not in error.expected and "SEMICOLON" in error.expected:
                hint = "a 'let' ends with ';', and after it comes the result"
            elif "SEMICOLON" in error.expected:
                hint = "a 'let' ends with ';'"
            return source.error(f"unexpected '{token}'", span, expected=expected, hint=hint)
        case UnexpectedCharacters():
            place = Span(error.line, error.column, error.line, error.column + 1)
            character = source.text[error.pos_in_stream]
            hint = None
            if character == '"':
                hint = "a string ends on the line where it begins"
            elif source.text.startswith(("&&", "||", "!"), error.pos_in_stream):
                hint = "logic is written with 'and', 'or' and 'not'"
            return source.error(f"unexpected character {character!r}", place, hint=hint)
        case UnexpectedEOF():
            return source.error("the file ends in the middle of something", _end(source))
    return source.error(
        str(error).splitlines()[0], Span(error.line, error.column, error.line, error.column + 1)
    )


def _readable(accepts: set[str], expected: set[str]) -> str:
    """What may come next, in words: an operator, an expression, or the tokens by name."""
    names = set(accepts)
    words: list[str] = []
    if _START_OF_EXPRESSION <= names:
        words.append("an expression")
        names -= _START_OF_EXPRESSION | {"STRING", "TRUE", "FALSE", "ELLIPSIS", "MINUS", "_NOT"}
    if {"PLUS", "STAR"} <= names:
        words.append("an operator")
        names -= _OPERATORS
    names -= {"WS", "COMMENT"}
    words += sorted({_READABLE.get(n) or _keyword(n) for n in names})
    return " or ".join(words) if len(words) < 3 else ", ".join(words[:-1]) + f" or {words[-1]}"


def _keyword(terminal: str) -> str:
    """A terminal as it is written: `_LET` is 'let'."""
    if terminal.startswith("_"):
        return f"'{terminal[1:].lower()}'"
    known = next((t for t in _lark().terminals if t.name == terminal), None)
    return f"'{known.pattern.value}'" if known is not None else terminal.lower()


def _end(source: Source) -> Span:
    lines = source.text.rstrip().splitlines() or [""]
    return Span(len(lines), len(lines[-1]) + 1, len(lines), len(lines[-1]) + 2)


def _token_span(token: Token) -> Span:
    return Span(token.line or 0, token.column or 0, token.end_line or 0, token.end_column or 0)


def _comments(text: str) -> tuple[s.Comment, ...]:
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r'^((?:[^"#]|"(?:\\.|[^"\\])*")*)(#.*)$', line)
        if match:
            found.append(s.Comment(match[2].rstrip(), number, not match[1].strip()))
    return tuple(found)


def _span(meta: Any) -> Span:
    if getattr(meta, "empty", True):
        return s.NOWHERE
    return Span(meta.line, meta.column, meta.end_line, meta.end_column)


def _given(children: Sequence[Any]) -> list[Any]:
    return [c for c in children if c is not None]


def _tokenless(children: Sequence[Any]) -> list[Any]:
    """Children without the tokens of arrows."""
    return [c for c in children if getattr(c, "type", None) not in ("ARROW", "CHAIN")]


class _List(list[Any]):
    """Children of a rule that stands for a group, told apart by `kind`."""

    def __init__(self, kind: str, items: Sequence[Any]) -> None:
        super().__init__(items)
        self.kind = kind


@v_args(meta=True)
class _ToSyntax(Transformer_NonRecursive):
    """Lark's tree to ours; without recursion, so that deep expressions cost no Python stack."""

    def __init__(self, source: Source) -> None:
        super().__init__()
        self.source = source

    # -- files and items ------------------------------------------------------------------------

    def start(self, meta: Any, children: list[Any]) -> list[s.Item]:
        return children

    def signature(self, meta: Any, children: list[Any]) -> tuple[Any, Any, Any]:
        params, results, *rest = _tokenless(children)
        return tuple(params), tuple(results), self._group(rest, "where")

    def import_item(self, meta: Any, children: list[Any]) -> s.Import:
        return s.Import(self._string(children[0]), _span(meta))

    def weights_item(self, meta: Any, children: list[Any]) -> s.Weights:
        return s.Weights(self._string(children[0]), _span(meta))

    def op_item(self, meta: Any, children: list[Any]) -> s.Op:
        name, params, results, *rest = _tokenless(children)
        where, bindings = self._group(rest, "where"), self._group(rest, "bindings")
        return s.Op(
            str(name),
            tuple(params),
            tuple(results),
            rest[-1],
            where,
            bindings,
            _span(meta),
            _token_span(name),
        )

    def model_item(self, meta: Any, children: list[Any]) -> s.ModelItem:
        name, params, *rest = _tokenless(children)
        results = next((tuple(c) for c in rest if isinstance(c, _List) and c.kind == "results"), None)
        where = self._group(rest, "where")
        return s.ModelItem(str(name), tuple(params), results, rest[-1], where, _span(meta), _token_span(name))

    @staticmethod
    def _group(children: Sequence[Any], kind: str) -> tuple[Any, ...]:
        return next((tuple(c) for c in children if isinstance(c, _List) and c.kind == kind), ())

    def params(self, meta: Any, children: list[Any]) -> _List:
        return _List("params", _given(children))

    def param(self, meta: Any, children: list[Any]) -> s.Param:
        name, type_, default = children
        return s.Param(str(name), type_, default, _span(meta))

    def results(self, meta: Any, children: list[Any]) -> _List:
        return _List("results", children)

    def type(self, meta: Any, children: list[Any]) -> s.TypeExpr:
        name, *dims = children
        return s.TypeExpr(str(name), tuple(_given(dims)), _span(meta))

    def where(self, meta: Any, children: list[Any]) -> _List:
        return _List("where", children)

    def bindings(self, meta: Any, children: list[Any]) -> _List:
        return _List("bindings", children)

    def binding(self, meta: Any, children: list[Any]) -> s.Binding:
        return s.Binding(str(children[0]), self._string(children[1]), _span(meta))

    def rule_item(self, meta: Any, children: list[Any]) -> s.Rule:
        name, slots, settings = children
        return s.Rule(str(name), tuple(slots), tuple(settings), _span(meta), _token_span(name))

    def pattern(self, meta: Any, children: list[Any]) -> list[Any]:
        return _tokenless(children)

    def slot(self, meta: Any, children: list[Any]) -> tuple[str, ...]:
        return tuple(map(str, children))

    def target_item(self, meta: Any, children: list[Any]) -> s.TargetItem:
        name, base, settings = children
        return s.TargetItem(
            str(name), str(base), tuple(settings), _span(meta), _token_span(name), _token_span(base)
        )

    def settings(self, meta: Any, children: list[Any]) -> list[Any]:
        return _given(children)

    def setting(self, meta: Any, children: list[Any]) -> s.Setting:
        return s.Setting(str(children[0]), children[1], _span(meta))

    # -- blocks -----------------------------------------------------------------------------------

    def block(self, meta: Any, children: list[Any]) -> s.Block:
        lets = tuple(c for c in children if isinstance(c, s.Let))
        results = tuple(self._result(c) for c in children if isinstance(c, _List))
        return s.Block(lets, results, _span(meta))

    def outcome(self, meta: Any, children: list[Any]) -> _List:
        return _List("outcome", children)

    def let(self, meta: Any, children: list[Any]) -> s.Let:
        *targets, type_, outcome = children
        value = self._comprehension(list(outcome))
        if any(t.kind for t in targets):
            if len(targets) > 1 or isinstance(value, s.Comprehension):
                raise self.source.error(
                    "a 'let' with axes defines one tensor",
                    targets[0][0].span,
                    expected="let name[i, j] = ...",
                )
            axes, batch = self._axes(tuple(targets[0][1:]))
            value = s.Comprehension(axes, value, batch, _span(meta))
        return s.Let(tuple(t[0] for t in targets), type_, value, _span(meta))

    def target(self, meta: Any, children: list[Any]) -> _List:
        name, *axes = children
        return _List("axes" if _given(axes) else "", [s.Target(str(name), _token_span(name)), *_given(axes)])

    def _result(self, parts: _List) -> s.Result:
        """`value`, `name = value`, `[i] = value` or `name = [i] = value`."""
        span = Span(
            parts[0].span.line, parts[0].span.column, parts[-1].span.end_line, parts[-1].span.end_column
        )
        name = None
        items = list(parts)
        if len(items) > 1 and isinstance(items[0], s.Name):
            name = items.pop(0).name
        return s.Result(name, self._comprehension(items), span)

    def _comprehension(self, parts: list[Any]) -> s.Expression:
        if len(parts) == 1:
            return parts[0]
        axes, value, *more = parts
        if more or not isinstance(axes, s.ListExpr):
            raise self.source.error(
                "only axes or a name can stand left of '='",
                (more[0] if more and isinstance(axes, s.ListExpr) else axes).span,
                expected="[i, j] = ... or name = ...",
            )
        names, batch = self._axes(axes.items)
        span = Span(axes.span.line, axes.span.column, value.span.end_line, value.span.end_column)
        return s.Comprehension(names, value, batch, span)

    def _axes(self, items: Sequence[s.Expression]) -> tuple[tuple[s.Axis, ...], bool]:
        batch = bool(items) and isinstance(items[0], s.Ellipsis)
        return tuple(self._axis(i) for i in items[batch:]), batch

    def _axis(self, item: s.Expression) -> s.Axis:
        match item:
            case s.Name(name):
                return s.Axis(name, None, item.span)
            case s.Binary("<", s.Name(name), extent):
                return s.Axis(name, extent, item.span)
        raise self.source.error("this is no axis", item.span, expected="a name, or name < extent")

    # -- expressions ----------------------------------------------------------------------------

    def name(self, meta: Any, children: list[Any]) -> s.Name:
        return s.Name(str(children[0]), _span(meta))

    def int(self, meta: Any, children: list[Any]) -> s.Number:
        if len(children[0]) > 18:
            raise self.source.error("this number is too large", _span(meta), expected="at most 18 digits")
        return s.Number(int(children[0]), _span(meta))

    def float(self, meta: Any, children: list[Any]) -> s.Number:
        return s.Number(float(children[0]), _span(meta))

    def string(self, meta: Any, children: list[Any]) -> s.String:
        return s.String(self._string(children[0]), _span(meta))

    def true(self, meta: Any, children: list[Any]) -> s.Bool:
        return s.Bool(True, _span(meta))

    def false(self, meta: Any, children: list[Any]) -> s.Bool:
        return s.Bool(False, _span(meta))

    def ellipsis(self, meta: Any, children: list[Any]) -> s.Ellipsis:
        return s.Ellipsis(_span(meta))

    def list(self, meta: Any, children: list[Any]) -> s.ListExpr:
        return s.ListExpr(tuple(_given(children)), _span(meta))

    def parens(self, meta: Any, children: list[Any]) -> s.Expression:
        return children[0]

    def binary(self, meta: Any, children: list[Any]) -> s.Binary:
        left, op, right = children
        return s.Binary(str(op), left, right, _span(meta), _token_span(op))

    compare = binary

    def and_(self, meta: Any, children: list[Any]) -> s.Binary:
        return s.Binary("and", *children, _span(meta), _span(meta))

    def or_(self, meta: Any, children: list[Any]) -> s.Binary:
        return s.Binary("or", *children, _span(meta), _span(meta))

    def not_(self, meta: Any, children: list[Any]) -> s.Unary:
        return s.Unary("not", children[0], _span(meta))

    def negative(self, meta: Any, children: list[Any]) -> s.Unary:
        return s.Unary("-", children[1], _span(meta))

    def index(self, meta: Any, children: list[Any]) -> s.Index:
        base, *index = children
        return s.Index(base, tuple(_given(index)), _span(meta))

    def argument(self, meta: Any, children: list[Any]) -> s.Argument:
        first, second = children
        if second is None:
            return s.Argument(None, first, _span(meta))
        if not isinstance(first, s.Name):
            raise self.source.error("only a name can stand left of '='", first.span, expected="name=value")
        return s.Argument(first.name, second, _span(meta))

    def call(self, meta: Any, children: list[Any]) -> s.Call:
        name, *args = children
        return s.Call(str(name), tuple(_given(args)), _span(meta), _token_span(name))

    def fold(self, meta: Any, children: list[Any]) -> s.Fold:
        name, *axes, body = children
        for axis in axes:
            if axis.name is not None:
                raise self.source.error("this is no axis", axis.span, expected="a name, or name < extent")
        names = tuple(self._axis(a.value) for a in axes)
        return s.Fold(str(name), names, body, _span(meta), _token_span(name))

    def _string(self, token: Token) -> str:
        def escape(match: re.Match[str]) -> str:
            known = {"n": "\n", "t": "\t", '"': '"', "\\": "\\"}
            if match[1] not in known:
                raise self.source.error(
                    f"unknown escape '\\{match[1]}' in a string",
                    _token_span(token),
                    expected='\\n, \\t, \\" or \\\\',
                )
            return known[match[1]]

        return re.sub(r"\\(.)", escape, str(token)[1:-1])
