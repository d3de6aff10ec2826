# SPDX-License-Identifier: Apache-2.0
"""`#graph.meaning<...>`: iteration spaces as an attribute, for ops whose meaning is written down in the IR.

Text of one stage (`in0` is operand 0, `s0` the result of stage 0; several stages are separated by commas)::

    #graph.meaning<[(d0 in m, d1 in n) -> f32 : fold sum (r0 in k) mul(in0[d0, r0], in1[r0, d1])] results [0]>
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import NoReturn

from xdsl.ir import Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from gaf.dialects.common import dtype as dt
from gaf.dialects.common import monoid
from gaf.dialects.common.attributes import format_shape, parse_expr, parse_shape
from gaf.dialects.common.index import Expr, Func, format_expr, map_atoms
from gaf.dialects.common.scalar import FUNCTIONS, Arg, Call, Const, Coord, Extent, Scalar, rewrite_args
from gaf.dialects.graph.meaning import Dim, Meaning, Read, Stage

_SOURCE = re.compile(r"^(in|s)(\d+)$")


def canonical(stage: Stage) -> Stage:
    """The stage with equal reads merged, unused ones dropped, and the rest numbered as the body meets them."""
    order: dict[Read, int] = {}

    def visit(node: Scalar) -> None:
        match node:
            case Arg(i):
                order.setdefault(stage.reads[i], len(order))
            case Call(_, args, _):
                for a in args:
                    visit(a)

    visit(stage.body)
    numbers = [Arg(order[r]) if r in order else Const(0.0) for r in stage.reads]
    body = rewrite_args(stage.body, numbers)
    return Stage(stage.dims, tuple(order), body, stage.dtype, stage.reduced, stage.monoid)


@irdl_attr_definition
class MeaningAttr(Data[Meaning]):
    """A `Meaning` in canonical form; equal text means equal iteration spaces."""

    name = "graph.meaning"

    @classmethod
    def of(cls, meaning: Meaning) -> MeaningAttr:
        """The attribute for a meaning; its stages are brought into canonical form."""
        return cls(Meaning(tuple(canonical(s) for s in meaning.stages), meaning.results))

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Meaning:
        with parser.in_angle_brackets():
            stages = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: _parse_stage(parser))
            parser.parse_keyword("results")
            results = parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE, lambda: parser.parse_integer(allow_negative=False)
            )
        return Meaning(tuple(stages), tuple(results))

    def print_parameter(self, printer: Printer) -> None:
        stages = ", ".join(format_stage(s) for s in self.data.stages)
        printer.print_string(f"<[{stages}] results [{', '.join(map(str, self.data.results))}]>")


# -- printing ---------------------------------------------------------------------------------------


def format_stage(stage: Stage) -> str:
    """One stage as in the attribute's text."""
    fold = f"fold {stage.monoid} {_format_dims(stage.reduced)} " if stage.monoid is not None else ""
    return f"{_format_dims(stage.dims)} -> {stage.dtype} : {fold}{format_body(stage.body, stage.reads)}"


def _format_dims(dims: Sequence[Dim]) -> str:
    return "(" + ", ".join(f"{d.name} in {format_expr(d.extent)}" for d in dims) + ")"


def format_body(body: Scalar, reads: Sequence[Read]) -> str:
    """A scalar body with its reads written in place: `mul(in0[d0], 2.0)`."""
    match body:
        case Arg(i):
            read = reads[i]
            source = f"in{read.operand}" if read.operand is not None else f"s{read.stage}"
            return source + format_shape(_tags(e, "in") for e in read.index)
        case Const(value):
            return _format_number(value)
        case Coord(dim):
            return f"coord({dim})"
        case Extent(value):
            return f"extent({format_expr(value)})"
        case Call(function, args, dtype):
            name = str(dtype) if function == "cast" else function
            return f"{name}({', '.join(format_body(a, reads) for a in args)})"
    raise TypeError(f"not a scalar expression: {body!r}")


def _format_number(value: float) -> str:
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    text = repr(value)
    return text if "." in text else text.replace("e", ".0e")


def _tags(e: Expr, prefix: str) -> Expr:
    """`read` tags are operand numbers; the text puts `in` before them so that they are identifiers."""

    def atom(found: Func) -> Expr | None:
        if found.name != "read":
            return None
        tag = f"in{found.tag}" if prefix else found.tag.removeprefix("in")
        return Expr({(Func("read", tuple(_tags(a, prefix) for a in found.args), tag),): 1})

    return map_atoms(e, atom)


# -- parsing ------------------------------------------------------------------------------------------


def _parse_stage(parser: AttrParser) -> Stage:
    dims = _parse_dims(parser)
    parser.parse_punctuation("->")
    dtype = _parse_dtype(parser)
    parser.parse_punctuation(":")
    reduced: tuple[Dim, ...] = ()
    fold: str | None = None
    if parser.parse_optional_keyword("fold") is not None:
        fold = parser.parse_identifier()
        if fold not in monoid.ALL:
            _fail(parser, f"unknown fold '{fold}', expected one of {', '.join(monoid.ALL)}")
        reduced = _parse_dims(parser)
    reads: list[Read] = []
    body = _parse_body(parser, reads)
    return Stage(dims, tuple(reads), body, dtype, reduced, fold)


def _parse_dims(parser: AttrParser) -> tuple[Dim, ...]:
    def dim() -> Dim:
        name = parser.parse_identifier()
        parser.parse_keyword("in")
        return Dim(name, parse_expr(parser))

    return tuple(parser.parse_comma_separated_list(parser.Delimiter.PAREN, dim))


def _parse_dtype(parser: AttrParser) -> dt.DType:
    name = parser.parse_identifier()
    if name not in dt._BY_NAME:
        _fail(parser, f"unknown element type '{name}', expected one of {', '.join(dt._BY_NAME)}")
    return dt.by_name(name)


def _parse_body(parser: AttrParser, reads: list[Read]) -> Scalar:
    negative = parser.parse_optional_punctuation("-") is not None
    number = parser.parse_optional_number()
    if number is not None:
        return Const(-float(number) if negative else float(number))
    name = parser.parse_identifier()
    if name == "inf":
        return Const(-math.inf if negative else math.inf)
    if negative:
        _fail(parser, "expected a number after '-'; the negation of a value is neg(...)")
    source = _SOURCE.match(name)
    if source is not None:
        index = tuple(_tags(e, "") for e in parse_shape(parser))
        number_ = int(source[2])
        read = Read(index, operand=number_) if source[1] == "in" else Read(index, stage=number_)
        if read not in reads:
            reads.append(read)
        return Arg(reads.index(read))
    match name:
        case "nan":
            return Const(math.nan)
        case "coord":
            parser.parse_punctuation("(")
            dim = parser.parse_identifier()
            parser.parse_punctuation(")")
            return Coord(dim)
        case "extent":
            parser.parse_punctuation("(")
            value = parse_expr(parser)
            parser.parse_punctuation(")")
            return Extent(value)
    cast = dt._BY_NAME.get(name)
    if cast is None and (name not in FUNCTIONS or name == "cast"):
        _fail(parser, f"unknown scalar function '{name}'")
    args = parser.parse_comma_separated_list(parser.Delimiter.PAREN, lambda: _parse_body(parser, reads))
    arity = 1 if cast is not None else FUNCTIONS[name].arity
    if len(args) != arity:
        _fail(parser, f"{name} takes {arity} operand{'s' if arity > 1 else ''}, got {len(args)}")
    return Call("cast", tuple(args), cast) if cast is not None else Call(name, tuple(args))


def _fail(parser: AttrParser, message: str) -> NoReturn:
    parser.raise_error(message)
