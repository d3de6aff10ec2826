# SPDX-License-Identifier: Apache-2.0
"""The tensor type of the graph level: `!graph.tensor<[B, S, 768], f16>`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition, param_def
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.attributes import ShapeAttr, format_shape, parse_shape
from gaf.dialects.common.index import Expr, ExprLike, product


@irdl_attr_definition
class TensorType(ParametrizedAttribute, TypeAttribute):
    """A dense tensor. A dim is an integer or an expression over named symbols (each >= 1)."""

    name = "graph.tensor"

    shape_attr: ShapeAttr = param_def()
    element: Attribute = param_def()

    @classmethod
    def of(cls, shape: Iterable[ExprLike], element: dt.DType | Attribute) -> TensorType:
        """Build a type from dims (int, name or Expr) and an element type."""
        return cls(ShapeAttr.of(shape), element.mlir if isinstance(element, dt.DType) else element)

    @property
    def shape(self) -> tuple[Expr, ...]:
        return self.shape_attr.data

    @property
    def dtype(self) -> dt.DType:
        return dt.of(self.element)

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def is_static(self) -> bool:
        return all(d.as_int() is not None for d in self.shape)

    def static_shape(self) -> tuple[int, ...] | None:
        """The shape as integers, or None if a dim is symbolic."""
        dims = tuple(d.as_int() for d in self.shape)
        return dims if all(d is not None for d in dims) else None  # type: ignore[return-value]

    def num_elements(self) -> Expr:
        return product(self.shape)

    def num_bytes(self) -> Expr:
        return self.num_elements() * self.dtype.bytes

    def symbols(self) -> set[str]:
        return {n for d in self.shape for n in d.names()}

    def concrete(self, env: dict[str, int]) -> tuple[int, ...]:
        """The shape for given symbol values; raises KeyError for a missing symbol."""
        return tuple(d.evaluate(env) for d in self.shape)

    def verify(self) -> None:
        if self.element not in dt._BY_MLIR:
            raise VerifyException(f"graph.tensor: unsupported element type {self.element}")
        for dim in self.shape:
            value = dim.as_int()
            if value is not None and value < 0:
                raise VerifyException(f"graph.tensor: dims are >= 0, got {format_shape(self.shape)}")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            shape = parse_shape(parser)
            parser.parse_punctuation(",")
            element = parser.parse_type()
        return (ShapeAttr(shape), element)

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<{format_shape(self.shape)}, ")
        printer.print_attribute(self.element)
        printer.print_string(">")

    def __str__(self) -> str:
        return f"{self.dtype.name}[{', '.join(str(d) for d in self.shape)}]"
