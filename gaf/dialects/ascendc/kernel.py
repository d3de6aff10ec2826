# SPDX-License-Identifier: Apache-2.0
"""Structure of a kernel: the kernel itself, scalar names, loops, conditions, core sections, model nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, opt_prop_def, prop_def, region_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, NoTerminator, SymbolOpInterface

from gaf.dialects.ascendc.api import AscendOp, Cpp
from gaf.dialects.ascendc.attributes import (
    IDENTIFIER,
    CmpMode,
    CmpModeAttr,
    KernelKind,
    KernelKindAttr,
    NamesAttr,
    TilingAttr,
    format_names,
    format_tiling,
    invalid,
    parse_names,
    parse_tiling,
)
from gaf.dialects.ascendc.types import GmType
from gaf.dialects.common.attributes import ExprAttr, ShapeAttr, format_shape, parse_expr, parse_shape
from gaf.dialects.common.index import Expr, ExprLike, Func, expr, format_expr, sym
from gaf.dialects.common.names import RESERVED_NAMES

if TYPE_CHECKING:
    from gaf.dialects.ascendc.interpreter import Core

BUILTIN_NAMES = ("block", "blocks", "sub")
"""Scalars every kernel knows: index of the core (of the group in a mix kernel), how many, and 0 or 1 of two
AIVs.
"""

ROLES = ("in", "out")


def check_name(name: str, what: str, taken: Iterable[str] = ()) -> None:
    """Raises VerifyException if `name` can't be the name of `what`."""
    if not IDENTIFIER.fullmatch(name) or name in RESERVED_NAMES:
        raise invalid(f"'{name}' can't name {what}", expected="a C++ identifier that isn't reserved")
    if name in taken:
        raise invalid(
            f"the name '{name}' of {what} is taken", hint="names are unique within a kernel's scopes"
        )


def check_expr(e: Expr, scope: set[str], where: str) -> None:
    """Raises VerifyException if an expression uses a name out of scope or reads memory."""
    unknown = e.names() - scope
    if unknown:
        raise invalid(
            f"{where} uses the unknown name {', '.join(sorted(unknown))}",
            expected="one of " + (", ".join(sorted(scope)) or "no names at all"),
        )
    if _reads(e):
        raise invalid(f"{where} reads memory: {e}", hint="gathers are ascendc.gather_tile")


def _reads(e: Expr) -> bool:
    return any(
        isinstance(a, Func) and (a.name == "read" or any(_reads(x) for x in a.args)) for a in e.atoms()
    )


class RegionOp(IRDLOperation):
    """Base of ops with one body of statements."""

    body: Region = region_def("single_block")
    traits = traits_def(NoTerminator())

    def header(self, cpp: Cpp) -> str:
        """The C++ statement that opens the body, without its brace."""
        raise NotImplementedError(self.name)

    def expressions(self) -> Iterator[tuple[str, Expr]]:
        """Integer expressions among the parameters."""
        for name, attr in self.properties.items():
            if isinstance(attr, ExprAttr):
                yield name, attr.data

    def param(self, name: str) -> Expr:
        attr = self.properties[name]
        assert isinstance(attr, ExprAttr)
        return attr.data

    def run(self, core: Core) -> Iterator[str]:
        raise NotImplementedError(self.name)


def _body(body: Region | Sequence[Operation] | None) -> Region:
    return body if isinstance(body, Region) else Region(Block(list(body or ())))


def _print_body(printer: Printer, op: Operation, region: Region) -> None:
    if op.attributes:
        printer.print_string(" attributes ")
        printer.print_attr_dict(op.attributes)
    printer.print_string(" ")
    printer.print_region(region, print_entry_block_args=False, print_empty_block=False)


def _parse_body(parser: Parser) -> tuple[dict[str, Attribute], Region]:
    attributes = parser.parse_optional_attr_dict_with_keyword()
    region = parser.parse_region()
    if not region.blocks:
        region.add_block(Block())
    return dict(attributes.data) if attributes else {}, region


@irdl_op_definition
class ForOp(RegionOp):
    """`ascendc.for i = lo to hi step s { ... }`: a scalar loop, `lo <= i < hi`, step > 0."""

    name = "ascendc.for"
    var = prop_def(StringAttr)
    lo = prop_def(ExprAttr)
    hi = prop_def(ExprAttr)
    step = prop_def(ExprAttr)

    def __init__(
        self, var: str, lo: ExprLike, hi: ExprLike, step: ExprLike = 1, body: Region | None = None
    ) -> None:
        super().__init__(
            properties={
                "var": StringAttr(var),
                "lo": ExprAttr(expr(lo)),
                "hi": ExprAttr(expr(hi)),
                "step": ExprAttr(expr(step)),
            },
            regions=[_body(body)],
        )

    def verify_(self) -> None:
        step = self.param("step").as_int()
        if step is not None and step <= 0:
            raise invalid("ascendc.for: step", expected="> 0", got=step)

    @classmethod
    def parse(cls, parser: Parser) -> ForOp:
        var = parser.parse_identifier()
        parser.parse_punctuation("=")
        lo = parse_expr(parser)
        parser.parse_keyword("to")
        hi = parse_expr(parser)
        step: ExprLike = parse_expr(parser) if parser.parse_optional_keyword("step") else 1
        attributes, body = _parse_body(parser)
        op = cls(var, lo, hi, step, body)
        op.attributes = attributes
        return op

    def print(self, printer: Printer) -> None:
        step = "" if self.param("step") == 1 else f" step {format_expr(self.param('step'))}"
        lo, hi = format_expr(self.param("lo")), format_expr(self.param("hi"))
        printer.print_string(f" {self.var.data} = {lo} to {hi}{step}")
        _print_body(printer, self, self.body)

    def header(self, cpp: Cpp) -> str:
        var = self.var.data
        step = "++" + var if self.param("step") == 1 else f"{var} += {cpp.expr(self.param('step'))}"
        lo, hi = cpp.expr(self.param("lo")), cpp.expr(self.param("hi"))
        return f"for (int64_t {var} = {lo}; {var} < {hi}; {step})"

    def run(self, core: Core) -> Iterator[str]:
        step = core.int(self.param("step"))
        if step <= 0:
            raise core.error(self, f"step {step} of a loop isn't positive")
        for i in range(core.int(self.param("lo")), core.int(self.param("hi")), step):
            core.env[self.var.data] = i
            yield from core.block(self.body.block)


@irdl_op_definition
class IfOp(RegionOp):
    """`ascendc.if a ge b { ... }`: runs the body if the scalar comparison holds."""

    name = "ascendc.if"
    lhs = prop_def(ExprAttr)
    mode = prop_def(CmpModeAttr)
    rhs = prop_def(ExprAttr)

    def __init__(self, lhs: ExprLike, mode: CmpMode | str, rhs: ExprLike, body: Region | None = None) -> None:
        super().__init__(
            properties={
                "lhs": ExprAttr(expr(lhs)),
                "mode": CmpModeAttr(CmpMode(mode)),
                "rhs": ExprAttr(expr(rhs)),
            },
            regions=[_body(body)],
        )

    @classmethod
    def parse(cls, parser: Parser) -> IfOp:
        lhs = parse_expr(parser)
        mode = parser.parse_str_enum(CmpMode)
        rhs = parse_expr(parser)
        attributes, body = _parse_body(parser)
        op = cls(lhs, mode, rhs, body)
        op.attributes = attributes
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(
            f" {format_expr(self.param('lhs'))} {self.mode.data.value} {format_expr(self.param('rhs'))}"
        )
        _print_body(printer, self, self.body)

    def header(self, cpp: Cpp) -> str:
        return f"if ({cpp.expr(self.param('lhs'))} {self.mode.data.symbol} {cpp.expr(self.param('rhs'))})"

    def run(self, core: Core) -> Iterator[str]:
        if self.mode.data.numpy(core.int(self.param("lhs")), core.int(self.param("rhs"))):
            yield from core.block(self.body.block)


@irdl_op_definition
class SectionOp(RegionOp):
    """`ascendc.section aic { ... }`: statements for the cube core or the vector cores of a mix kernel."""

    name = "ascendc.section"
    core = prop_def(KernelKindAttr)

    def __init__(self, core: KernelKind | str, body: Region | None = None) -> None:
        super().__init__(properties={"core": KernelKindAttr(KernelKind(core))}, regions=[_body(body)])

    def verify_(self) -> None:
        if self.core.data is KernelKind.MIX:
            raise invalid("ascendc.section", expected="aic or aiv", got="mix")

    @classmethod
    def parse(cls, parser: Parser) -> SectionOp:
        core = parser.parse_str_enum(KernelKind)
        attributes, body = _parse_body(parser)
        op = cls(core, body)
        op.attributes = attributes
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.core.data.value}")
        _print_body(printer, self, self.body)

    def header(self, cpp: Cpp) -> str:
        return f"if ASCEND_IS_{self.core.data.name}"

    def run(self, core: Core) -> Iterator[str]:
        if core.kind is self.core.data:
            yield from core.block(self.body.block)


@irdl_op_definition
class LetOp(AscendOp):
    """`ascendc.let rows = min(tm, M - m0)`: a name for an integer in the rest of the enclosing scope."""

    name = "ascendc.let"
    var = prop_def(StringAttr)
    value = prop_def(ExprAttr)

    @classmethod
    def parse(cls, parser: Parser) -> LetOp:
        var = parser.parse_identifier()
        parser.parse_punctuation("=")
        return cls(var=var, value=parse_expr(parser))

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.var.data} = {format_expr(self.param('value'))}")

    def cpp(self, cpp: Cpp) -> Sequence[str]:
        return [f"const int64_t {self.var.data} = {cpp.expr(self.param('value'))};"]

    def run(self, core: Core) -> None:
        core.env[self.var.data] = core.int(self.param("value"))


@irdl_op_definition
class NodeOp(AscendOp):
    """`ascendc.node "encoder/LayerNorm_3"`: the model node that the statements below compute."""

    name = "ascendc.node"
    node = prop_def(StringAttr)
    note = opt_prop_def(StringAttr)

    @classmethod
    def parse(cls, parser: Parser) -> NodeOp:
        node = parser.parse_str_literal()
        note = parser.parse_str_literal() if parser.parse_optional_punctuation(",") else None
        return cls(node=node, note=note)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.node.data)
        if self.note is not None:
            printer.print_string(", ")
            printer.print_string_literal(self.note.data)

    def cpp(self, cpp: Cpp) -> Sequence[str]:
        note = f"  // {cpp_comment(self.note.data)}" if self.note is not None else ""
        return [f"GAF_AT({cpp_string(self.node.data)});{note}"]

    def run(self, core: Core) -> None:
        core.node = self.node.data


def cpp_string(text: str) -> str:
    """A C++ string literal; question marks are escaped, since two of them may start a trigraph."""
    return '"' + "".join(f"\\{c}" if c in '"\\?' else c if c.isprintable() else " " for c in text) + '"'


def cpp_comment(text: str) -> str:
    """Text for a line comment: one line that doesn't end in a backslash, which would continue the comment."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return f"{line} ." if line.endswith("\\") else line


@irdl_op_definition
class KernelOp(RegionOp):
    """One kernel: its arguments, what the host computes for it (tiling, guards, blocks, workspace), and its
    body.

    `symbols` are the integers the host knows (dims). `tiling` fields are computed on the host from symbols
    and earlier fields and handed over in the tiling struct: the only names that the body starts with, beside
    `block`, `blocks` and `sub`. Every expression in `guards` must be >= 0 for a launch. `blocks` is the
    launch width, `workspace` bytes of global scratch memory. `members` are the model nodes the kernel
    computes.
    """

    name = "ascendc.kernel"
    sym_name = prop_def(StringAttr)
    kind = prop_def(KernelKindAttr)
    arg_names = prop_def(NamesAttr)
    roles = prop_def(NamesAttr)
    shapes = prop_def(ArrayAttr[ShapeAttr])
    symbols = prop_def(NamesAttr)
    tiling = prop_def(TilingAttr)
    guards = prop_def(ShapeAttr)
    blocks = prop_def(ExprAttr)
    workspace = prop_def(ExprAttr)
    members = prop_def(ArrayAttr[StringAttr])

    traits = traits_def(NoTerminator(), IsolatedFromAbove(), SymbolOpInterface())

    def __init__(
        self,
        name: str,
        kind: KernelKind | str,
        args: Sequence[tuple[str, GmType, str, Iterable[ExprLike]]],
        symbols: Iterable[str] = (),
        tiling: Iterable[tuple[str, ExprLike]] = (),
        guards: Iterable[ExprLike] = (),
        blocks: ExprLike = 1,
        workspace: ExprLike = 0,
        members: Iterable[str] = (),
        body: Region | None = None,
    ) -> None:
        """`args` are (name, type, role, shape)."""
        if body is None:
            body = Region(Block(arg_types=[a[1] for a in args]))
        for value, (arg, _, _, _) in zip(body.block.args, args, strict=True):
            value.name_hint = arg
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "kind": KernelKindAttr(KernelKind(kind)),
                "arg_names": NamesAttr.of(a[0] for a in args),
                "roles": NamesAttr.of(a[2] for a in args),
                "shapes": ArrayAttr(ShapeAttr.of(a[3]) for a in args),
                "symbols": NamesAttr.of(symbols),
                "tiling": TilingAttr.of(tiling),
                "guards": ShapeAttr.of(guards),
                "blocks": ExprAttr(expr(blocks)),
                "workspace": ExprAttr(expr(workspace)),
                "members": ArrayAttr(StringAttr(m) for m in members),
            },
            regions=[body],
        )

    @property
    def args(self) -> list[tuple[str, GmType, str, tuple[Expr, ...]]]:
        """(name, type, role, shape) of every argument, in order."""
        return [
            (n, v.type, r, s.data)  # type: ignore[misc]
            for n, v, r, s in zip(
                self.arg_names.data, self.body.block.args, self.roles.data, self.shapes, strict=True
            )
        ]

    def arg(self, name: str) -> SSAValue:
        """The value of the argument of that name; raises ValueError."""
        return self.body.block.args[self.arg_names.data.index(name)]

    # -- text -----------------------------------------------------------------------------------

    @classmethod
    def parse(cls, parser: Parser) -> KernelOp:
        name = parser.parse_symbol_name()
        args: list[tuple[str, Parser.Argument, str, tuple[Expr, ...]]] = []

        def argument() -> None:
            arg = parser.parse_argument()
            role = parser.parse_keyword_in(ROLES)
            args.append((arg.name.text[1:], arg, role, parse_shape(parser)))

        parser.parse_comma_separated_list(parser.Delimiter.PAREN, argument)
        parser.parse_keyword("kind")
        with parser.in_angle_brackets():
            kind = parser.parse_str_enum(KernelKind)
        symbols = parse_names(parser) if parser.parse_optional_keyword("symbols") else ()
        tiling = parse_tiling(parser) if parser.parse_optional_keyword("tiling") else ()
        guards = parse_shape(parser) if parser.parse_optional_keyword("guards") else ()
        parser.parse_keyword("blocks")
        blocks = parse_expr(parser)
        workspace: ExprLike = parse_expr(parser) if parser.parse_optional_keyword("workspace") else 0
        members: Sequence[str] = ()
        if parser.parse_optional_keyword("members"):
            members = parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE, lambda: parser.parse_str_literal()
            )
        attributes = parser.parse_optional_attr_dict_with_keyword()
        body = parser.parse_region([a for _, a, _, _ in args])
        full = [(n, a.type, r, s) for n, a, r, s in args]
        op = cls(name.data, kind, full, symbols, tiling, guards, blocks, workspace, members, body)  # type: ignore[arg-type]
        if attributes is not None:
            op.attributes = dict(attributes.data)
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name)
        printer.print_string("(")
        for i, (value, role, shape) in enumerate(
            zip(self.body.block.args, self.roles.data, self.shapes, strict=True)
        ):
            if i:
                printer.print_string(", ")
            printer.print_block_argument(value)
            printer.print_string(f" {role} {format_shape(shape.data)}")
        printer.print_string(f") kind<{self.kind.data.value}>")
        if self.symbols.data:
            printer.print_string(f" symbols {format_names(self.symbols.data)}")
        if self.tiling.data:
            printer.print_string(f" tiling {format_tiling(self.tiling.data)}")
        if self.guards.data:
            printer.print_string(f" guards {format_shape(self.guards.data)}")
        printer.print_string(f" blocks {format_expr(self.param('blocks'))}")
        if self.param("workspace") != 0:
            printer.print_string(f" workspace {format_expr(self.param('workspace'))}")
        if self.members.data:
            printer.print_string(" members [")
            printer.print_list(self.members.data, lambda m: printer.print_string_literal(m.data))
            printer.print_string("]")
        _print_body(printer, self, self.body)

    # -- rules ----------------------------------------------------------------------------------

    def verify_(self) -> None:
        args = self.body.block.args
        if not len(args) == len(self.arg_names.data) == len(self.roles.data) == len(self.shapes):
            raise invalid(
                "ascendc.kernel: names, roles and shapes", expected=f"{len(args)} each, one per argument"
            )
        taken: set[str] = set()
        for value, name, role in zip(args, self.arg_names.data, self.roles.data, strict=True):
            check_name(name, "an argument", taken)
            taken.add(name)
            if not isinstance(value.type, GmType):
                raise invalid(
                    f"ascendc.kernel: type of argument {name}", expected="!ascendc.gm", got=value.type
                )
            if role not in ROLES:
                raise invalid(
                    f"ascendc.kernel: role of argument {name}", expected=" or ".join(ROLES), got=role
                )
        scope: set[str] = set()
        for name in self.symbols.data:
            check_name(name, "a symbol", taken | scope)
            scope.add(name)
        for name, shape in zip(self.arg_names.data, self.shapes, strict=True):
            for dim in shape.data:
                check_expr(dim, scope, f"the shape of {name}")
        fields: set[str] = set()
        for name, value in self.tiling.data:
            check_name(name, "a tiling field", taken | fields | ({*scope} if value != sym(name) else set()))
            check_expr(value, scope | fields, f"tiling field {name}")
            fields.add(name)
        for what, value in (*((f"guard {g}", g) for g in self.guards.data), *self.expressions()):
            check_expr(value, scope | fields, what)
        self._verify_scope(self.body.block, {*fields, *BUILTIN_NAMES}, taken, None)

    def _verify_scope(self, block: Block, scope: set[str], taken: set[str], core: KernelKind | None) -> None:
        """Checks the names that statements use; `core` is the section they stand in."""
        scope = set(scope)
        for op in block.ops:
            if isinstance(op, AscendOp | RegionOp):
                usable = (
                    scope if core is KernelKind.AIV and self.kind.data is KernelKind.MIX else scope - {"sub"}
                )
                for param, value in op.expressions():
                    check_expr(value, usable, f"{op.name}: {param}")
            match op:
                case LetOp():
                    check_name(op.var.data, "a scalar", scope | taken)
                    scope.add(op.var.data)
                case ForOp():
                    check_name(op.var.data, "a loop variable", scope | taken)
                    self._verify_scope(op.body.block, scope | {op.var.data}, taken, core)
                case SectionOp():
                    if self.kind.data is not KernelKind.MIX or core is not None:
                        raise invalid(
                            f"ascendc.section {op.core.data.value}",
                            expected="directly in a mix kernel, once",
                            got=f"a kernel of kind {self.kind.data.value}" if core is None else "a section",
                        )
                    self._verify_scope(op.body.block, scope, taken, op.core.data)
                case IfOp():
                    self._verify_scope(op.body.block, scope, taken, core)
                case _:
                    pass

    def header(self, cpp: Cpp) -> str:
        params = "".join(f"GM_ADDR {n}, " for n in self.arg_names.data)
        return (
            f'extern "C" __global__ GAF_CORE __aicore__ void {self.sym_name.data}'
            f"({params}GM_ADDR workspace, {tiling_struct(self.sym_name.data)} t)"
        )


def tiling_struct(kernel: str) -> str:
    """The name of a kernel's tiling struct: `softmax_rows` -> `GafSoftmaxRowsTiling`.

    The prefix keeps it apart from the toolkit's own structs (LayerNormTiling, SoftMaxTiling, ...).
    """
    return "Gaf" + "".join(p[:1].upper() + p[1:] for p in kernel.split("_")) + "Tiling"


def core_of(op: Operation) -> KernelKind | None:
    """The kind of core that executes an op: its section's or the kernel's; None for both of a mix kernel."""
    parent: Operation | None = op.parent_op()
    while parent is not None:
        if isinstance(parent, SectionOp):
            return parent.core.data
        if isinstance(parent, KernelOp):
            return None if parent.kind.data is KernelKind.MIX else parent.kind.data
        parent = parent.parent_op()
    return None


OPS = (KernelOp, ForOp, IfOp, SectionOp, LetOp, NodeOp)
