# SPDX-License-Identifier: Apache-2.0
"""The syntax tree of `.gaf` files. Nodes compare by content: where they stand in the text doesn't count."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Span:
    """A piece of the source text; lines and columns count from 1, the end is exclusive."""

    line: int = 0
    column: int = 0
    end_line: int = 0
    end_column: int = 0


NOWHERE = Span()


def _span() -> Span:
    return field(default=NOWHERE, compare=False, repr=False)  # type: ignore[return-value]


# -- expressions ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Number:
    """A literal; an int or a float, as written."""

    value: int | float
    span: Span = _span()

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Number) and type(self.value) is type(other.value) and self.value == other.value
        )

    def __hash__(self) -> int:
        return hash((type(self.value), self.value))


@dataclass(frozen=True)
class String:
    value: str
    span: Span = _span()


@dataclass(frozen=True)
class Bool:
    value: bool
    span: Span = _span()


@dataclass(frozen=True)
class Ellipsis:
    """`...`: any number of leading dims."""

    span: Span = _span()


@dataclass(frozen=True)
class Name:
    name: str
    span: Span = _span()


@dataclass(frozen=True)
class ListExpr:
    items: tuple[Expression, ...]
    span: Span = _span()


@dataclass(frozen=True)
class Unary:
    """`-x` or `not x`."""

    op: str
    operand: Expression
    span: Span = _span()


@dataclass(frozen=True)
class Binary:
    """Arithmetic `+ - * / // % @ ^`, comparison, `and`, `or`. `op_span` is the operator's own place."""

    op: str
    left: Expression
    right: Expression
    span: Span = _span()
    op_span: Span = _span()


@dataclass(frozen=True)
class Argument:
    """An argument of a call; `name` is None for a positional one."""

    name: str | None
    value: Expression
    span: Span = _span()


@dataclass(frozen=True)
class Call:
    function: str
    args: tuple[Argument, ...]
    span: Span = _span()
    name_span: Span = _span()


@dataclass(frozen=True)
class Index:
    """`tensor[index, ...]`."""

    base: Expression
    index: tuple[Expression, ...]
    span: Span = _span()


@dataclass(frozen=True)
class Axis:
    """An axis of a comprehension or fold; without an extent it comes from the tensors that it indexes."""

    name: str
    extent: Expression | None = None
    span: Span = _span()


@dataclass(frozen=True)
class Fold:
    """`sum(k: body)`: `body` folded over axes."""

    kind: str
    axes: tuple[Axis, ...]
    body: Expression
    span: Span = _span()
    name_span: Span = _span()


@dataclass(frozen=True)
class Comprehension:
    """`[i, j] = body`: a tensor, element by element. `batch` says that the axes begin with `...`."""

    axes: tuple[Axis, ...]
    body: Expression
    batch: bool = False
    span: Span = _span()


Expression = (
    Number | String | Bool | Ellipsis | Name | ListExpr | Unary | Binary | Call | Index | Fold | Comprehension
)

# -- items ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TypeExpr:
    """`f16[n, d]`; `dims` may begin with `...`."""

    element: str
    dims: tuple[Expression, ...]
    span: Span = _span()


@dataclass(frozen=True)
class Param:
    name: str
    type: TypeExpr
    default: Expression | None = None
    span: Span = _span()


@dataclass(frozen=True)
class Target:
    """A name that a `let` binds."""

    name: str
    span: Span = _span()


@dataclass(frozen=True)
class Let:
    """`let a, b: type = value;`; several names take the results of one call."""

    targets: tuple[Target, ...]
    type: TypeExpr | None
    value: Expression
    span: Span = _span()


@dataclass(frozen=True)
class Result:
    """A result of a block, under a name if it has one."""

    name: str | None
    value: Expression
    span: Span = _span()


@dataclass(frozen=True)
class Block:
    lets: tuple[Let, ...]
    results: tuple[Result, ...]
    span: Span = _span()


@dataclass(frozen=True)
class Import:
    path: str
    span: Span = _span()


@dataclass(frozen=True)
class Weights:
    path: str
    span: Span = _span()


@dataclass(frozen=True)
class Binding:
    """A name of an op in another framework: `onnx "com.acme.Gate"`."""

    framework: str
    name: str
    span: Span = _span()


@dataclass(frozen=True)
class Op:
    name: str
    params: tuple[Param, ...]
    results: tuple[TypeExpr, ...]
    block: Block
    where: tuple[Expression, ...] = ()
    bindings: tuple[Binding, ...] = ()
    span: Span = _span()
    name_span: Span = _span()


@dataclass(frozen=True)
class ModelItem:
    name: str
    params: tuple[Param, ...]
    results: tuple[TypeExpr, ...] | None
    block: Block
    where: tuple[Expression, ...] = ()
    span: Span = _span()
    name_span: Span = _span()


@dataclass(frozen=True)
class Setting:
    name: str
    value: Expression
    span: Span = _span()


@dataclass(frozen=True)
class Rule:
    """`rule name: (A | B) >> C { gain = ... }`: a chain of slots, each a list of op names."""

    name: str
    slots: tuple[tuple[str, ...], ...]
    settings: tuple[Setting, ...]
    span: Span = _span()
    name_span: Span = _span()


@dataclass(frozen=True)
class TargetItem:
    """`target name = chip { field = value }`."""

    name: str
    base: str
    settings: tuple[Setting, ...]
    span: Span = _span()
    name_span: Span = _span()
    base_span: Span = _span()


Item = Import | Weights | Op | ModelItem | Rule | TargetItem


@dataclass(frozen=True)
class Comment:
    """A comment with its `#`; `own_line` if nothing stands before it."""

    text: str
    line: int
    own_line: bool


@dataclass(frozen=True)
class File:
    """A whole file; `comments` are only for the formatter."""

    items: tuple[Item, ...]
    comments: tuple[Comment, ...] = field(default=(), compare=False)
