# SPDX-License-Identifier: Apache-2.0
"""Numbers that a PyTorch program computes from sizes (`x / n ** 0.5` with a dynamic n), as rank-0 tensors."""

from __future__ import annotations

import sympy
from xdsl.ir import SSAValue

from gaf.dialects.common import dtype as dt
from gaf.dialects.graph.ops.binary import AddOp, DivOp, MulOp, PowOp
from gaf.dialects.graph.ops.common import number
from gaf.dialects.graph.ops.unary import SqrtOp
from gaf.errors import UnsupportedError
from gaf.frontend.builder import GraphBuilder
from gaf.frontend.calls import size_tensor
from gaf.frontend.torch.types import expression

_OPS = {
    **dict.fromkeys(("IntTrueDiv", "FloatTrueDiv"), DivOp),
    **dict.fromkeys(("FloatPow", "PowByNatural", "Pow"), PowOp),
    **{"Add": AddOp, "Mul": MulOp},
}
_ROOTS = ("OpaqueUnaryFn_sqrt", "sqrt")


def size_number(builder: GraphBuilder, value: sympy.Expr, location: str | None = None) -> SSAValue:
    """A float that depends on sizes as a rank-0 f32 tensor. Raises UnsupportedError for other functions."""
    if value.is_number:
        return builder.constant(number(float(value), dt.F32))
    if value.is_integer:
        return size_tensor(builder, expression(value), dt.F32, location)
    name = type(value).__name__
    operands = [size_number(builder, a, location) for a in value.args]
    if name in ("ToFloat", "Identity"):
        return operands[0]
    if name in _ROOTS:
        return builder.emit(SqrtOp, operands, location=location)
    if name not in _OPS:
        raise UnsupportedError(f"{value} is a number made of sizes", expected="+, *, /, powers and roots")
    result = operands[0]
    for other in operands[1:]:
        result = builder.emit(_OPS[name], [result, other], location=location)
    return result
