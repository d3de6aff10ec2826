# SPDX-License-Identifier: Apache-2.0
"""Structure of a tile kernel: the kernel, the grid over cores, sequential loops, workspaces and syncs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, IsTerminator, NoTerminator, SymbolOpInterface

from gaf.dialects.common.attributes import ExprAttr, ShapeAttr, format_shape, parse_expr, parse_shape
from gaf.dialects.common.index import Expr, ExprLike, expr, format_expr
from gaf.dialects.tile.attributes import (
    AxesAttr,
    Axis,
    BindingsAttr,
    NamesAttr,
    format_axes,
    format_bindings,
    format_names,
    invalid,
    parse_axes,
    parse_bindings,
    parse_names,
    parse_operand,
    parse_operands,
)
from gaf.dialects.tile.types import GmType, TileType


@irdl_op_definition
class KernelOp(IRDLOperation):
    """One fused kernel.

    Block arguments are the arrays in global memory. `symbols` are the sizes that the host knows, `axes` the
    named axes with their extents, `params` the tiling parameters that the host evaluates (over symbols and
    earlier parameters), `guards` expressions over both that have to be >= 0 for the kernel to be legal.
    """

    name = "tile.kernel"

    sym_name = prop_def(StringAttr)
    arg_names = prop_def(NamesAttr)
    symbols_attr = prop_def(NamesAttr, prop_name="symbols")
    axes_attr = prop_def(AxesAttr, prop_name="axes")
    params_attr = prop_def(BindingsAttr, prop_name="params")
    guards_attr = prop_def(ShapeAttr, prop_name="guards")
    body = region_def("single_block")

    traits = traits_def(IsolatedFromAbove(), NoTerminator(), SymbolOpInterface())

    def __init__(
        self,
        name: str,
        arg_names: Sequence[str],
        symbols: Sequence[str],
        axes: Mapping[str, ExprLike] | Sequence[tuple[str, ExprLike] | Axis],
        params: Mapping[str, ExprLike] | Sequence[tuple[str, ExprLike]],
        guards: Sequence[ExprLike],
        body: Region,
        attributes: Mapping[str, Attribute] | None = None,
    ) -> None:
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "arg_names": NamesAttr.of(arg_names),
                "symbols": NamesAttr.of(symbols),
                "axes": AxesAttr.of(axes),
                "params": BindingsAttr.of(params),
                "guards": ShapeAttr.of(guards),
            },
            attributes=dict(attributes or {}),
            regions=[body],
        )

    @property
    def symbols(self) -> tuple[str, ...]:
        return self.symbols_attr.data

    @property
    def axes(self) -> tuple[Axis, ...]:
        return self.axes_attr.data

    @property
    def params(self) -> tuple[tuple[str, Expr], ...]:
        return self.params_attr.data

    @property
    def guards(self) -> tuple[Expr, ...]:
        return self.guards_attr.data

    @property
    def extents(self) -> dict[str, Expr]:
        """Extent of every axis; for a hull axis its expression."""
        return {a.name: a.extent for a in self.axes}

    def argument(self, name: str) -> SSAValue:
        """The block argument called `name`; raises KeyError."""
        return dict(zip(self.arg_names.data, self.body.block.args, strict=True))[name]

    def verify_(self) -> None:
        from gaf.dialects.tile.scope import verify_kernel

        verify_kernel(self)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        printed: list[str] = []

        def argument(arg: SSAValue) -> None:
            printed.append(printer.print_ssa_value(arg))
            printer.print_string(": ")
            printer.print_attribute(arg.type)

        printer.print_string("(")
        printer.print_list(self.body.block.args, argument)
        printer.print_string(")")
        if tuple(p.removeprefix("%") for p in printed) != self.arg_names.data:
            printer.print_string(f" named {format_names(self.arg_names.data)}")
        if self.symbols:
            printer.print_string(f" symbols {format_names(self.symbols)}")
        if self.axes:
            printer.print_string(f" axes {format_axes(self.axes)}")
        if self.params:
            printer.print_string(f" params {format_bindings(self.params)}")
        if self.guards:
            printer.print_string(f" guards {format_shape(self.guards)}")
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False, print_empty_block=False)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        name = parser.parse_symbol_name()
        args = parser.parse_comma_separated_list(Parser.Delimiter.PAREN, parser.parse_argument)
        arg_names: Sequence[str] = [a.name.text.removeprefix("%") for a in args]
        if parser.parse_optional_keyword("named"):
            arg_names = parse_names(parser)
        symbols = parse_names(parser) if parser.parse_optional_keyword("symbols") else ()
        axes = parse_axes(parser) if parser.parse_optional_keyword("axes") else ()
        params = parse_bindings(parser) if parser.parse_optional_keyword("params") else ()
        guards = parse_shape(parser) if parser.parse_optional_keyword("guards") else ()
        attributes = parser.parse_optional_attr_dict_with_keyword()
        body = parser.parse_region(args)
        return cls(
            name.data, arg_names, symbols, axes, params, guards, body, attributes.data if attributes else None
        )


@irdl_op_definition
class GridOp(IRDLOperation):
    """Windows of the axes in `steps`, shared out to cores in any order.

    With `sub` the rows of that axis are halved between the two vector cores of an AI core.
    """

    name = "tile.grid"

    steps_attr = prop_def(BindingsAttr, prop_name="steps")
    sub_attr = opt_prop_def(StringAttr, prop_name="sub")
    body = region_def("single_block")

    traits = traits_def(NoTerminator())

    def __init__(self, steps: Sequence[tuple[str, ExprLike]], body: Region, sub: str | None = None) -> None:
        super().__init__(
            properties={
                "steps": BindingsAttr.of(steps),
                "sub": StringAttr(sub) if sub is not None else None,
            },
            regions=[body],
        )

    @property
    def steps(self) -> tuple[tuple[str, Expr], ...]:
        return self.steps_attr.data

    @property
    def sub(self) -> str | None:
        return self.sub_attr.data if self.sub_attr is not None else None

    def verify_(self) -> None:
        if not isinstance(self.parent_op(), KernelOp):
            raise invalid(
                "tile.grid stands in a loop",
                expected="a grid directly in the kernel",
                hint="use tile.for for the inner loop",
            )
        if not self.steps:
            raise invalid("tile.grid without an axis", expected="at least one `axis step size`")
        if len({n for n, _ in self.steps}) != len(self.steps):
            raise invalid("an axis occurs twice in a grid", got=format_bindings(self.steps, "step"))
        if self.sub is not None and self.sub not in dict(self.steps):
            raise invalid(
                f"the sub axis '{self.sub}' isn't one of the grid",
                expected=" or ".join(n for n, _ in self.steps),
                got=self.sub,
            )

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {format_bindings(self.steps, 'step')} ")
        if self.sub is not None:
            printer.print_string(f"sub {self.sub} ")
        if self.attributes:
            printer.print_string("attributes ")
            printer.print_attr_dict(self.attributes)
            printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False, print_empty_block=False)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        steps = parse_bindings(parser, "step")
        sub = parser.parse_identifier() if parser.parse_optional_keyword("sub") else None
        attributes = parser.parse_optional_attr_dict_with_keyword()
        op = cls(steps, parser.parse_region(()), sub)
        op.attributes.update(attributes.data if attributes else {})
        return op


@irdl_op_definition
class YieldOp(IRDLOperation):
    """Ends a loop body: the next carried states, then tiles collected over the whole window."""

    name = "tile.yield"

    carried = var_operand_def(TileType)
    collected = var_operand_def(TileType)

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(IsTerminator())

    def __init__(self, carried: Sequence[SSAValue] = (), collected: Sequence[SSAValue] = ()) -> None:
        super().__init__(operands=[list(carried), list(collected)])

    def verify_(self) -> None:
        if not isinstance(self.parent_op(), ForOp):
            raise invalid("tile.yield outside a tile.for")

    def print(self, printer: Printer) -> None:
        if self.carried:
            printer.print_string(" ")
            printer.print_list(self.carried, printer.print_operand)
        if self.collected:
            printer.print_string(" collect ")
            printer.print_list(self.collected, printer.print_operand)
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        carried = parse_operands(parser)
        op = cls(carried, parse_operands(parser) if parser.parse_optional_keyword("collect") else ())
        op.attributes.update(parser.parse_optional_attr_dict())
        return op


@irdl_op_definition
class ForOp(IRDLOperation):
    """A sequential loop that narrows the window of `axis` to steps of `step`.

    It covers the current window, or with `bounds` the range [lo, hi) clipped to it. Results: the carried
    states after the last iteration, then the collected tiles over the whole window.
    """

    name = "tile.for"

    axis_attr = prop_def(StringAttr, prop_name="axis")
    step_attr = prop_def(ExprAttr, prop_name="step")
    bounds_attr = opt_prop_def(ShapeAttr, prop_name="bounds")
    inits = var_operand_def(TileType)
    res = var_result_def(TileType)
    body = region_def("single_block")

    def __init__(
        self,
        axis: str,
        step: ExprLike,
        inits: Sequence[SSAValue],
        body: Region,
        bounds: tuple[ExprLike, ExprLike] | None = None,
    ) -> None:
        last = body.block.last_op
        collected = [v.type for v in last.collected] if isinstance(last, YieldOp) else []
        super().__init__(
            operands=[list(inits)],
            properties={
                "axis": StringAttr(axis),
                "step": ExprAttr(expr(step)),
                "bounds": ShapeAttr.of(bounds) if bounds is not None else None,
            },
            result_types=[[v.type for v in inits] + collected],
            regions=[body],
        )

    @property
    def axis(self) -> str:
        return self.axis_attr.data

    @property
    def step(self) -> Expr:
        return self.step_attr.data

    @property
    def bounds(self) -> tuple[Expr, Expr] | None:
        if self.bounds_attr is None:
            return None
        low, high = self.bounds_attr.data
        return low, high

    @property
    def terminator(self) -> YieldOp:
        last = self.body.block.last_op
        assert isinstance(last, YieldOp)
        return last

    @property
    def carried_results(self) -> tuple[SSAValue, ...]:
        return tuple(self.res[: len(self.inits)])

    @property
    def collected_results(self) -> tuple[SSAValue, ...]:
        return tuple(self.res[len(self.inits) :])

    def verify_(self) -> None:
        last = self.body.block.last_op
        if not isinstance(last, YieldOp):
            raise invalid("the body of a tile.for ends without tile.yield")
        if self.bounds_attr is not None and len(self.bounds_attr.data) != 2:
            raise invalid(
                "a tile.for has two bounds", expected="[low, high]", got=format_shape(self.bounds_attr.data)
            )
        args = self.body.block.args
        n = len(self.inits)
        for what, types in (
            ("block arguments", [a.type for a in args]),
            ("carried values of the yield", [v.type for v in last.carried]),
            ("first results", [r.type for r in self.res[:n]]),
        ):
            expected = [v.type for v in self.inits]
            if types != expected:
                raise invalid(
                    f"the {what} of a tile.for differ from the carried values it starts with",
                    expected="(" + ", ".join(map(str, expected)) + ")",
                    got="(" + ", ".join(map(str, types)) + ")",
                )
        if [r.type for r in self.res[n:]] != [v.type for v in last.collected]:
            raise invalid(
                "the last results of a tile.for differ from the collected tiles",
                expected="(" + ", ".join(str(v.type) for v in last.collected) + ")",
                got="(" + ", ".join(str(r.type) for r in self.res[n:]) + ")",
            )
        for value in self.inits:
            assert isinstance(value.type, TileType)
            if self.axis in value.type.axes:
                raise invalid(
                    f"a carried tile has the axis '{self.axis}' of its loop",
                    got=value.type,
                    hint="carry a state that lacks the axis, or collect the tile",
                )
        for value in last.collected:
            assert isinstance(value.type, TileType)
            if self.axis not in value.type.axes:
                raise invalid(
                    f"a collected tile lacks the axis '{self.axis}' of its loop",
                    got=value.type,
                    hint="carry the value instead",
                )

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.axis} step {format_expr(self.step)}")
        if self.bounds is not None:
            low, high = self.bounds
            printer.print_string(f" in {format_expr(low)} to {format_expr(high)}")
        if self.inits:
            printer.print_string(" iter(")

            def assignment(pair: tuple[SSAValue, SSAValue]) -> None:
                printer.print_ssa_value(pair[0])
                printer.print_string(" = ")
                printer.print_ssa_value(pair[1])

            printer.print_list(zip(self.body.block.args, self.inits, strict=True), assignment)
            printer.print_string(")")
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        last = self.body.block.last_op
        printer.print_region(
            self.body,
            print_entry_block_args=False,
            print_empty_block=False,
            print_block_terminators=not (
                isinstance(last, YieldOp) and not last.operands and not last.attributes
            ),
        )

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        axis = parser.parse_identifier()
        parser.parse_keyword("step")
        step = parse_expr(parser)
        bounds = None
        if parser.parse_optional_keyword("in"):
            low = parse_expr(parser)
            parser.parse_keyword("to")
            bounds = (low, parse_expr(parser))
        inits: list[SSAValue] = []
        args: list[Parser.Argument] = []
        if parser.parse_optional_keyword("iter"):

            def assignment() -> None:
                arg = parser.parse_argument(expect_type=False)
                parser.parse_punctuation("=")
                value = parse_operand(parser)
                inits.append(value)
                args.append(arg.resolve(value.type))

            parser.parse_comma_separated_list(Parser.Delimiter.PAREN, assignment)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        body = parser.parse_region(args)
        if not isinstance(body.block.last_op, YieldOp):
            body.block.add_op(YieldOp())
        op = cls(axis, step, inits, body, bounds)
        op.attributes.update(attributes.data if attributes else {})
        return op


@irdl_op_definition
class WorkspaceOp(IRDLOperation):
    """A scratch array in global memory; its contents are undefined at the start of the kernel."""

    name = "tile.workspace"

    res = result_def(GmType)

    assembly_format = "attr-dict `:` type($res)"

    def __init__(self, type: GmType) -> None:
        super().__init__(result_types=[type])

    def verify_(self) -> None:
        type = self.res.type
        assert isinstance(type, GmType)
        if type.role != "ws":
            raise invalid("a workspace has another role", expected="ws", got=type.role)
        if not isinstance(self.parent_op(), KernelOp):
            raise invalid("tile.workspace stands in a loop", hint="declare it at the top of the kernel")


@irdl_op_definition
class SyncOp(IRDLOperation):
    """A barrier over all cores: earlier stores are visible to every core afterwards."""

    name = "tile.sync"

    assembly_format = "attr-dict"

    def verify_(self) -> None:
        if not isinstance(self.parent_op(), KernelOp):
            raise invalid(
                "tile.sync stands in a loop", hint="a sync separates two grids: close the grid before it"
            )
