# SPDX-License-Identifier: Apache-2.0
"""parse(print(x)) == x for attributes, types and kernels, in the custom and the generic syntax."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.ir import Attribute, Dialect
from xdsl.parser import Parser
from xdsl.printer import Printer

from gaf.dialects.ascendc import API_OPS, OPS, AscendC, KernelBuilder, KernelOp, queue
from gaf.dialects.ascendc.attributes import (
    ATTRIBUTES,
    PARAM_KINDS,
    NamesAttr,
    Scalar,
    ScalarAttr,
    TilingAttr,
)
from gaf.dialects.ascendc.types import BufType, GmType, LocalType, MmadType, QueueType
from gaf.dialects.common import dtype as dt
from gaf.dialects.common.attributes import ArrayAttr, ExprAttr, ShapeAttr
from gaf.dialects.common.index import Expr, const, floordiv, maximum, minimum, mod, sym
from tests.dialects.ascendc.kernels import CASES

NAMES = st.sampled_from(["M", "tm", "block", "rows", "x2", "a_1"])
LOCAL_TYPES = st.sampled_from([d for d in dt.ALL if not d.is_bool])


def expressions(names: st.SearchStrategy[str] = NAMES) -> st.SearchStrategy[Expr]:
    leaf = st.one_of(names.map(sym), st.integers(-9, 9).map(const))
    positive = st.integers(1, 130).map(const)

    def extend(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
        return st.one_of(
            st.tuples(inner, inner).map(lambda t: t[0] + t[1]),
            st.tuples(inner, inner).map(lambda t: t[0] * t[1]),
            st.tuples(inner, positive).map(lambda t: floordiv(*t)),
            st.tuples(inner, positive).map(lambda t: mod(*t)),
            st.tuples(inner, inner).map(lambda t: minimum(*t)),
            st.tuples(inner, inner).map(lambda t: maximum(*t)),
        )

    return st.recursive(leaf, extend, max_leaves=6)


SCALARS = st.one_of(
    st.floats().map(Scalar.of), st.integers(-(2**40), 2**40).map(Scalar.of), expressions().map(Scalar.of)
)
FIELDS = st.lists(st.tuples(NAMES, expressions()), max_size=3).map(TilingAttr.of)
ENUMS = st.sampled_from([a for a in ATTRIBUTES if hasattr(a, "enum_type")]).flatmap(
    lambda cls: st.sampled_from(list(cls.enum_type)).map(cls)
)
TYPES = st.one_of(
    st.sampled_from(dt.ALL).map(GmType.of),
    LOCAL_TYPES.map(LocalType.of),
    st.builds(QueueType.of, st.sampled_from(["vecin", "vecout"]), st.integers(1, 8)),
    st.just(BufType.of()),
    st.builds(MmadType.of, st.sampled_from([dt.F16, dt.BF16, dt.F32]), st.booleans(), st.booleans()),
)
ATTRS = st.one_of(
    SCALARS.map(ScalarAttr), st.lists(NAMES, max_size=3).map(NamesAttr.of), FIELDS, ENUMS, TYPES
)


def context() -> Context:
    ctx = Context()
    for dialect in (Builtin, AscendC, Dialect("graph", [], [ExprAttr, ShapeAttr, ArrayAttr])):
        ctx.load_dialect(dialect)
    return ctx


def text(op: ModuleOp, generic: bool = False) -> str:
    out = io.StringIO()
    Printer(out, print_generic_format=generic).print_op(op)
    return out.getvalue()


def check_round_trip(kernel: KernelOp) -> None:
    module = ModuleOp([kernel])
    for generic in (False, True):
        printed = text(module, generic)
        again = Parser(context(), printed).parse_module()
        again.verify()
        assert again.is_structurally_equivalent(module)
        assert text(again, generic) == printed


@given(ATTRS)
def test_attributes_and_types_read_back(attribute: Attribute) -> None:
    assert Parser(context(), str(attribute)).parse_attribute() == attribute


@pytest.mark.parametrize("name", CASES)
def test_kernels_read_back(name: str) -> None:
    check_round_trip(CASES[name].build())


def test_two_kernels_of_a_module_keep_their_argument_names() -> None:
    first, second = CASES["softmax"].build(), CASES["layer_norm"].build()
    again = Parser(context(), text(ModuleOp([first, second]))).parse_module()
    assert [list(k.arg_names.data) for k in again.ops if isinstance(k, KernelOp)] == [
        ["x", "y"],
        ["x", "gamma", "beta", "y"],
    ]


def operand_of(kb: KernelBuilder, name: str, kinds: tuple[dt.DType, ...], data: st.DataObject):  # type: ignore[no-untyped-def]
    """A tensor operand of an allowed type; the parser needs no more, so the memory rules are left aside."""
    element = data.draw(st.sampled_from(kinds))
    buf = kb.init_buf(f"{name}Buf", 4096)
    return kb.buf_get(buf, 0, 4096 // element.bytes, element, name)


@given(st.data())
def test_every_call_reads_back_with_any_parameters(data: st.DataObject) -> None:
    """Print and parse only: operand types and parameters are arbitrary, so the op itself isn't verified."""
    cls = data.draw(st.sampled_from([c for c in API_OPS]))
    definition = cls.get_irdl_definition()
    kb = KernelBuilder(
        "k", "mix", [("g", dt.F32, "in", [4096])], tiling=[(n, 1) for n in ("M", "tm", "rows", "x2", "a_1")]
    )
    operands = []
    with kb.section("aiv"):
        for name, operand in definition.operands:
            constraint = str(operand.constr)
            if "GmType" in constraint:
                operands.append(kb.arg("g"))
            elif "MmadType" in constraint:
                from gaf.dialects.ascendc.cube import InitMmadOp

                op = InitMmadOp(m=64, n=64, result=data.draw(TYPES.filter(lambda t: isinstance(t, MmadType))))
                operands.append(kb.emit(op).results[0])
            else:
                operands.append(operand_of(kb, name, tuple(cls.DTYPES.get(name, (dt.F32,))), data))
        params = {}
        for name, prop in definition.properties.items():
            kind = prop.constr.attr  # type: ignore[attr-defined]
            if kind is ExprAttr:
                params[name] = data.draw(expressions())
            elif kind is ScalarAttr:
                params[name] = ScalarAttr(data.draw(SCALARS))
            else:
                params[name] = data.draw(st.sampled_from(list(kind.enum_type)))
        kb.call(cls, *operands, **params)
    kernel = KernelOp(kb.name, kb.kind, kb.args, (), kb.tiling, (), 1, 0, (), kb._body)
    module = ModuleOp([kernel])
    for generic in (False, True):
        printed = text(module, generic)
        again = Parser(context(), printed).parse_module()
        assert text(again, generic) == printed
        assert again.is_structurally_equivalent(module)


def test_every_parameter_has_a_syntax() -> None:
    for cls in OPS:
        for name, prop in cls.get_irdl_definition().properties.items():
            attr = getattr(prop.constr, "attr", None)
            if issubclass(cls, queue.AscendOp):
                assert attr in PARAM_KINDS, f"{cls.name}: {name}"


def test_unknown_parameters_and_values_are_named() -> None:
    head = "ascendc.kernel @k(%x: !ascendc.gm<f32> in [8]) kind<aiv> blocks 1 {\n"
    with pytest.raises(Exception, match="ascendc.pipe_barrier has no parameter 'pip', only pipe"):
        Parser(context(), head + "ascendc.pipe_barrier [pip = V]\n}").parse_module()
    with pytest.raises(Exception, match="value used before it is defined"):
        Parser(context(), head + "ascendc.exp %y, %y [count = 8]\n}").parse_module()
