# SPDX-License-Identifier: Apache-2.0
"""Canonicalization: what each rule does, where it must not fire, and that results keep their bits."""

from __future__ import annotations

import numpy as np
import pytest

from gaf.dialects.common import dtype as dt
from gaf.passes.graph import canonicalize
from gaf.passes.graph.canonicalization.casts import holds
from tests.passes.graph.harness import array, assert_same, f32, model_of, names, run, t

X = t(4, 8)
PASSES = "canonicalize,dce"


def check(
    body: str,
    expected: list[str],
    *,
    inputs: str = f"%x: {X}",
    result: str = X,
    ulps: float = 0,
    sizes: dict[str, int] | None = None,
) -> None:
    """The graph `body`, which defines %y, becomes the ops `expected` and computes the same."""
    model = model_of(inputs, result, body, "%y")
    after, _ = run(model, PASSES)
    assert names(after) == expected
    assert_same(model, after, ulps=ulps, sizes=sizes)


def binary(op: str, constant: str, left: bool = False, x: str = X, y: str = X) -> str:
    c = constant.rpartition("-> ")[2]
    first, second = ("%c, %x", f"{c}, {x}") if left else ("%x, %c", f"{x}, {c}")
    return f"%c = graph.constant {constant}\n%y = graph.{op} {first} : ({second}) -> {y}"


# -- neutral elements ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "value"),
    [
        ("mul", "1.0"),
        ("div", "1.0"),
        ("pow", "1.0"),
        ("sub", "0.0"),
        ("add", "-0.0"),
        ("max", "-inf"),
        ("min", "inf"),
    ],
)
@pytest.mark.parametrize("shape", [(), (1,), (8,), (4, 8)])
def test_neutral_elements_vanish(op: str, value: str, shape: tuple[int, ...]) -> None:
    check(binary(op, f32(value, *shape)), [])


@pytest.mark.parametrize(("op", "value"), [("mul", "1.0"), ("add", "-0.0"), ("max", "-inf"), ("min", "inf")])
def test_neutral_elements_vanish_on_the_left(op: str, value: str) -> None:
    check(binary(op, f32(value), left=True), [])


@pytest.mark.parametrize(
    ("op", "value"),
    [
        ("add", "0.0"),  # -0.0 + 0.0 is 0.0
        ("sub", "-0.0"),
        ("mul", "-1.0"),
        ("mul", "1.0000001"),
        ("max", "inf"),
        ("mul", "0x7fc00000"),
    ],
)
def test_others_stay(op: str, value: str) -> None:
    check(binary(op, f32(value)), ["constant", op])


def test_one_over_x_stays() -> None:
    check(binary("div", f32("1.0"), left=True), ["constant", "div"])


def test_a_neutral_element_that_widens_stays() -> None:
    wide = t(3, 4, 8)
    check(binary("mul", f32("1.0", 3, 1, 1), y=wide), ["constant", "mul"], result=wide)


def test_a_constant_with_one_other_element_stays() -> None:
    check(binary("mul", f32(["1.0"] * 7 + ["2.0"], 8)), ["constant", "mul"])


@pytest.mark.parametrize(
    ("op", "dtype", "value"),
    [("add", "i32", 0), ("sub", "i64", 0), ("mul", "i8", 1), ("div", "i32", 1), ("bitwise_and", "i32", -1),
     ("bitwise_or", "ui8", 0), ("bitwise_xor", "i16", 0), ("and", "i1", "true"), ("or", "i1", "false"),
     ("xor", "i1", "false")],
)  # fmt: skip
def test_neutral_elements_of_integers_and_bools(op: str, dtype: str, value: object) -> None:
    x = t(4, 8, dtype=dtype)
    check(binary(op, array(value, dtype, ()), x=x, y=x), [], inputs=f"%x: {x}", result=x)


def test_and_with_false_stays() -> None:
    x = t(4, dtype="i1")
    check(binary("and", array("false", "i1", ()), x=x, y=x), ["constant", "and"], inputs=f"%x: {x}", result=x)


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f64"])
def test_neutral_elements_of_other_floats(dtype: str) -> None:
    x = t(4, 8, dtype=dtype)
    check(binary("mul", array("1.0", dtype, ()), x=x, y=x), [], inputs=f"%x: {x}", result=x)


# -- order of operands -----------------------------------------------------------------------------


@pytest.mark.parametrize("op", ["add", "mul", "max", "min"])
def test_constants_go_right(op: str) -> None:
    model = model_of(f"%x: {X}", X, binary(op, f32(["2.5"] * 7 + ["-1.0"], 8), left=True), "%y")
    after, fired = run(model, PASSES)
    assert fired == {"constant-to-the-right": 1}
    assert after.returned[0].owner.operands[0] is after.block.args[0]
    assert_same(model, after)


@pytest.mark.parametrize(("op", "mirrored"), [("less", "greater"), ("greater_or_equal", "less_or_equal")])
def test_comparisons_are_mirrored(op: str, mirrored: str) -> None:
    y = t(4, 8, dtype="i1")
    check(binary(op, f32("0.5"), left=True, y=y), ["constant", mirrored], result=y)


def test_two_constants_do_not_swap_for_ever() -> None:
    body = f"%c = graph.constant {f32('2.0')}\n%d = graph.constant {f32('3.0')}\n" + (
        f"%e = graph.add %c, %d : ({t()}, {t()}) -> {t()}\n%y = graph.add %x, %e : ({X}, {t()}) -> {X}"
    )
    check(body, ["constant", "constant", "add", "add"])


# -- division and powers ---------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["2.0", "-0.25", "8.0", "1024.0", "1.0e+0"])
def test_division_by_powers_of_two(value: str) -> None:
    expected = [] if float(value) == 1 else ["constant", "mul"]
    check(binary("div", f32(value)), expected)


def test_division_by_a_vector_of_powers_of_two() -> None:
    check(binary("div", f32(["2.0", "4.0", "-8.0", "0.5"] * 2, 8)), ["constant", "mul"])


@pytest.mark.parametrize(
    "value", ["3.0", "0.1", "0.0", "-0.0", "inf", "0x7fc00000", f"{2.0**127}", f"{2.0**-149}"]
)
def test_other_divisions_stay(value: str) -> None:
    check(binary("div", f32(value)), ["constant", "div"])


@pytest.mark.parametrize(
    ("dtype", "power", "becomes"), [("f16", 14, "mul"), ("f16", 15, "div"), ("bf16", 126, "mul")]
)
def test_the_reciprocal_must_be_normal_in_its_type(dtype: str, power: int, becomes: str) -> None:
    x = t(4, 8, dtype=dtype)
    constant = array(f"{2.0**power}", dtype, ())
    check(binary("div", constant, x=x, y=x), ["constant", becomes], inputs=f"%x: {x}", result=x)


def test_integer_division_stays() -> None:
    x = t(4, 8, dtype="i32")
    check(binary("div", array(2, "i32", ()), x=x, y=x), ["constant", "div"], inputs=f"%x: {x}", result=x)


@pytest.mark.parametrize(
    ("exponent", "expected"), [("2.0", ["mul"]), ("3.0", ["mul", "mul"]), ("-1.0", ["reciprocal"])]
)
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "f64"])
def test_powers_become_products(exponent: str, expected: list[str], dtype: str) -> None:
    x = t(4, 8, dtype=dtype)
    # the reference's own pow may be 1 ulp off
    check(
        binary("pow", array(exponent, dtype, ()), x=x, y=x), expected, inputs=f"%x: {x}", result=x, ulps=2.5
    )


def test_integer_powers_wrap_around() -> None:
    x = t(4, 8, dtype="i8")
    check(binary("pow", array(3, "i8", ()), x=x, y=x), ["mul", "mul"], inputs=f"%x: {x}", result=x)


@pytest.mark.parametrize("exponent", ["2.5", "-2.0", "0.0", "0.5", "-0.5"])
def test_other_powers_stay(exponent: str) -> None:
    # (-inf) ** 0.5 is inf, the square root is nan
    check(binary("pow", f32(exponent)), ["constant", "pow"])


def test_a_power_that_widens_stays() -> None:
    wide = t(3, 4, 8)
    check(binary("pow", f32("2.0", 3, 1, 1), y=wide), ["constant", "pow"], result=wide)


@pytest.mark.parametrize(("exponent", "root"), [("0.5", "sqrt"), ("-0.5", "rsqrt")])
def test_roots_of_what_cannot_be_negative(exponent: str, root: str) -> None:
    row = t(4, 1)
    body = f"""
      %s = graph.mul %x, %x : ({X}, {X}) -> {X}
      %m = graph.reduce_mean %s {{axes = array<i64: 1>, keepdims = true}} : ({X}) -> {row}
      %eps = graph.constant {f32("1.0e-06")}
      %v = graph.add %m, %eps : ({row}, {t()}) -> {row}
      %c = graph.constant {f32(exponent)}
      %y = graph.pow %v, %c : ({row}, {t()}) -> {row}"""
    check(body, ["mul", "reduce_mean", "constant", "add", root], result=row, ulps=3)


def test_a_negative_epsilon_forbids_the_root() -> None:
    body = f"""
      %s = graph.mul %x, %x : ({X}, {X}) -> {X}
      %eps = graph.constant {f32("-1.0e-06")}
      %v = graph.add %s, %eps : ({X}, {t()}) -> {X}
      %c = graph.constant {f32("0.5")}
      %y = graph.pow %v, %c : ({X}, {t()}) -> {X}"""
    check(body, ["mul", "constant", "add", "constant", "pow"])


# -- double operations, where ----------------------------------------------------------------------


def unary(*ops: str, x: str = X) -> str:
    values = ["%x", *(f"%v{i}" for i in range(len(ops) - 1)), "%y"]
    return "\n".join(f"{r} = graph.{op} {o} : ({x}) -> {x}" for op, o, r in zip(ops, values, values[1:]))


@pytest.mark.parametrize(
    ("ops", "expected"),
    [
        (("neg", "neg"), []),
        (("neg", "neg", "neg"), ["neg"]),
        (("abs", "abs"), ["abs"]),
        (("neg", "abs"), ["abs"]),
        (("relu", "relu", "relu"), ["relu"]),
        (("floor", "ceil"), ["floor"]),
        (("round", "trunc", "floor"), ["round"]),
        (("abs", "neg"), ["abs", "neg"]),
        (("exp", "exp"), ["exp", "exp"]),
        (("reciprocal", "reciprocal"), ["reciprocal", "reciprocal"]),  # rounds twice
    ],
)
def test_double_operations(ops: tuple[str, ...], expected: list[str]) -> None:
    check(unary(*ops), expected)


def test_double_negation_of_integers_and_bools() -> None:
    for op, dtype in (("neg", "i8"), ("bitwise_not", "i32"), ("not", "i1")):
        x = t(4, 8, dtype=dtype)
        check(unary(op, op, x=x), [], inputs=f"%x: {x}", result=x)


C = t(4, 8, dtype="i1")


@pytest.mark.parametrize(("value", "chosen"), [("true", 0), ("false", 1)])
def test_a_decided_where(value: str, chosen: int) -> None:
    body = f"%c = graph.constant {array(value, 'i1', (8,))}\n" + (
        f"%y = graph.where %c, %a, %b : ({t(8, dtype='i1')}, {X}, {X}) -> {X}"
    )
    model = model_of(f"%a: {X}, %b: {X}", X, body, "%y")
    after, _ = run(model, PASSES)
    assert names(after) == [] and after.returned[0] is after.block.args[chosen]
    assert_same(model, after)


def test_a_where_that_widens_its_choice_stays() -> None:
    body = f"%c = graph.constant {array('true', 'i1', ())}\n" + (
        f"%y = graph.where %c, %a, %b : ({t(dtype='i1')}, {t(8)}, {X}) -> {X}"
    )
    check(body, ["constant", "where"], inputs=f"%a: {t(8)}, %b: {X}")


def test_where_with_equal_or_negated_parts() -> None:
    check(f"%y = graph.where %c, %x, %x : ({C}, {X}, {X}) -> {X}", [], inputs=f"%c: {C}, %x: {X}")
    body = f"%n = graph.not %c : ({C}) -> {C}\n%y = graph.where %n, %a, %b : ({C}, {X}, {X}) -> {X}"
    check(body, ["where"], inputs=f"%c: {C}, %a: {X}, %b: {X}")


# -- casts -----------------------------------------------------------------------------------------


def casts(*types: str) -> tuple[str, str, str]:
    """A chain of casts through element types: (body, operand type, result type)."""
    values = ["%x", *(f"%v{i}" for i in range(len(types) - 2)), "%y"]
    lines = [
        f"{r} = graph.cast {o} {{to = {b}}} : ({t(4, 8, dtype=a)}) -> {t(4, 8, dtype=b)}"
        for o, r, a, b in zip(values, values[1:], types, types[1:])
    ]
    return "\n".join(lines), t(4, 8, dtype=types[0]), t(4, 8, dtype=types[-1])


@pytest.mark.parametrize(
    ("types", "left"),
    [
        (("f32", "f32"), 0),
        (("f16", "f32", "f16"), 0),
        (("bf16", "f32", "bf16"), 0),
        (("i8", "f16", "i8"), 0),
        (("i1", "f32", "i1"), 0),
        (("i8", "i32", "f32"), 1),
        (("f16", "f32", "f64"), 1),
        (("f16", "f32", "bf16"), 1),
        (("f32", "f16", "f32"), 2),  # rounds
        (("f32", "bf16", "f32"), 2),
        (("f16", "bf16", "f16"), 2),
        (("f64", "f32", "f16"), 2),  # rounds twice
        (("f32", "i32", "f32"), 2),  # truncates
        (("i32", "f32", "i32"), 2),  # 2^24 + 1
        (("i32", "i1", "i32"), 2),
        (("i32", "i8", "i32"), 2),
    ],
)
def test_cast_chains(types: tuple[str, ...], left: int) -> None:
    body, x, y = casts(*types)
    model = model_of(f"%x: {x}", y, body, "%y")
    after, _ = run(model, PASSES)
    assert names(after) == ["cast"] * left
    if types[0] not in ("f32", "f64") or "i32" not in types:  # out-of-range values have no defined result
        assert_same(model, after)


def test_explicit_widening_around_an_op_stays() -> None:
    # the square of 300 overflows f16: case 22
    h, f = t(4, 8, dtype="f16"), t(4, 8)
    body = f"""
      %w = graph.cast %x {{to = f32}} : ({h}) -> {f}
      %s = graph.mul %w, %w : ({f}, {f}) -> {f}
      %r = graph.sqrt %s : ({f}) -> {f}
      %y = graph.cast %r {{to = f16}} : ({f}) -> {h}"""
    check(body, ["cast", "mul", "sqrt", "cast"], inputs=f"%x: {h}", result=h)


def exact(values: np.ndarray) -> list[int | float]:
    """Python numbers, which compare exactly."""
    return values.tolist() if values.dtype.kind in "biu" else values.astype(np.float64).tolist()


def test_holds_is_what_conversions_say() -> None:
    rng = np.random.default_rng(0)
    for narrow in dt.ALL:
        values = rng.integers(0, 256, 16000, dtype=np.uint8)
        values = (values % 2).astype(bool) if narrow.is_bool else values.view(narrow.numpy)
        if narrow.is_int:
            limits = np.iinfo(narrow.numpy)
            values[:3] = limits.min, limits.max, limits.max - 1
        elif narrow.is_float:
            values = values[np.isfinite(values)]
        for wide in dt.ALL:
            with np.errstate(all="ignore"):
                kept = exact(values.astype(wide.numpy)) == exact(values)
            assert holds(wide, narrow) == kept, f"{narrow} in {wide}"


# -- views -----------------------------------------------------------------------------------------


def reshape(source: str, x: str, result: str, y: str) -> str:
    dims = y.removeprefix("!graph.tensor<").rpartition(",")[0]
    return f"{result} = graph.reshape {source} {{shape = #graph.shape<{dims}>}} : ({x}) -> {y}"


@pytest.mark.parametrize(
    "op",
    [
        "reshape %x {shape = #graph.shape<[4, 8]>}",
        "transpose %x {perm = array<i64: 0, 1>}",
        "expand %x {shape = #graph.shape<[4, 8]>}",
        "tile %x {repeats = #graph.shape<[1, 1]>}",
        "slice %x {starts = #graph.shape<[0, 0]>, sizes = #graph.shape<[4, 8]>, steps = array<i64: 1, 1>}",
        "concat %x {axis = 0 : i64}",
        (
            "pad %x {before = #graph.shape<[0, 0]>, after = #graph.shape<[0, 0]>, "
            'mode = "constant", value = 0.0 : f64}'
        ),
        "flip %x {axes = array<i64>}",
        "squeeze %x {axes = array<i64>}",
    ],
)
def test_views_that_change_nothing_vanish(op: str) -> None:
    check(f"%y = graph.{op} : ({X}) -> {X}", [])


@pytest.mark.parametrize("op", ["flip %x {axes = array<i64: 0>}", "transpose %x {perm = array<i64: 1, 0>}"])
def test_views_of_the_same_type_that_move_elements_stay(op: str) -> None:
    x = t(5, 5)
    check(f"%y = graph.{op} : ({x}) -> {x}", [op.split()[0]], inputs=f"%x: {x}", result=x)


def test_a_flip_of_one_element_vanishes() -> None:
    x = t(1, 5)
    check(f"%y = graph.flip %x {{axes = array<i64: 0>}} : ({x}) -> {x}", [], inputs=f"%x: {x}", result=x)


def test_chains_of_reshapes_with_symbolic_dims() -> None:
    a, b, c = t("B", "S", 768), t("B * S", 768), t("B", "S", 12, 64)
    body = reshape("%x", a, "%v", b) + "\n" + reshape("%v", b, "%y", c)
    check(body, ["reshape"], inputs=f"%x: {a}", result=c, sizes={"B": 2, "S": 3})
    body = reshape("%x", a, "%v", b) + "\n" + reshape("%v", b, "%y", a)
    check(body, [], inputs=f"%x: {a}", result=a, sizes={"B": 2, "S": 3})


def test_squeezes_and_unsqueezes_become_one_reshape() -> None:
    a, b, c = t("B", 1, 8), t("B", 8), t("B", 8, 1)
    body = f"""
      %v = graph.squeeze %x {{axes = array<i64: 1>}} : ({a}) -> {b}
      %y = graph.unsqueeze %v {{axes = array<i64: 2>}} : ({b}) -> {c}"""
    check(body, ["reshape"], inputs=f"%x: {a}", result=c, sizes={"B": 3})
    body = f"""
      %v = graph.unsqueeze %x {{axes = array<i64: 1>}} : ({b}) -> {a}
      %y = graph.squeeze %v {{axes = array<i64: 1>}} : ({a}) -> {b}"""
    check(body, [], inputs=f"%x: {b}", result=b, sizes={"B": 3})


def test_a_reshape_that_checks_sizes_at_run_time_stays() -> None:
    a, b = t("N"), t("M", 2)
    body = reshape("%x", a, "%v", b) + "\n" + reshape("%v", b, "%y", a)
    check(body, ["reshape", "reshape"], inputs=f"%x: {a}, %m: {t('M')}", result=a, sizes={"N": 6, "M": 3})


def test_a_transpose_of_dims_of_size_one_is_a_reshape() -> None:
    a, b, c = t("B", 1, 8), t("B", 8, 1), t(1, 8, "B")
    body = f"%y = graph.transpose %x {{perm = array<i64: 0, 2, 1>}} : ({a}) -> {b}"
    check(body, ["reshape"], inputs=f"%x: {a}", result=b, sizes={"B": 3})
    body = f"%y = graph.transpose %x {{perm = array<i64: 1, 2, 0>}} : ({a}) -> {c}"
    check(body, ["transpose"], inputs=f"%x: {a}", result=c, sizes={"B": 3})


def test_transposes_are_composed() -> None:
    a, b, c = t(2, 3, 4), t(4, 2, 3), t(3, 4, 2)
    body = f"""
      %v = graph.transpose %x {{perm = array<i64: 2, 0, 1>}} : ({a}) -> {b}
      %y = graph.transpose %v {{perm = array<i64: 2, 0, 1>}} : ({b}) -> {c}"""
    check(body, ["transpose"], inputs=f"%x: {a}", result=c)
    body = f"""
      %v = graph.transpose %x {{perm = array<i64: 2, 0, 1>}} : ({a}) -> {b}
      %y = graph.transpose %v {{perm = array<i64: 1, 2, 0>}} : ({b}) -> {a}"""
    check(body, [], inputs=f"%x: {a}", result=a)


def test_the_order_of_composed_transposes_matters() -> None:
    a = t(3, 3, 3)
    body = f"""
      %v = graph.transpose %x {{perm = array<i64: 1, 0, 2>}} : ({a}) -> {a}
      %y = graph.transpose %v {{perm = array<i64: 0, 2, 1>}} : ({a}) -> {a}"""
    check(body, ["transpose"], inputs=f"%x: {a}", result=a)


def test_a_transpose_under_a_matmul_stays() -> None:
    a, b, y = t(4, 8), t(8, 4), t(4, 4)
    body = f"""
      %v = graph.transpose %x {{perm = array<i64: 1, 0>}} : ({a}) -> {b}
      %y = graph.matmul %x, %v : ({a}, {b}) -> {y}"""
    check(body, ["transpose", "matmul"], result=y)


def test_double_flips() -> None:
    def flip(o: str, r: str, axes: str) -> str:
        return f"{r} = graph.flip {o} {{axes = array<i64: {axes}>}} : ({X}) -> {X}\n"

    check(flip("%x", "%v", "0, 1") + flip("%v", "%y", "-1, 0"), [])
    check(flip("%x", "%v", "0") + flip("%v", "%y", "1"), ["flip", "flip"])


def test_broadcasts_are_left_to_the_user() -> None:
    row, wide = t(8), t("B", 4, 8)
    body = f"""
      %u = graph.unsqueeze %r {{axes = array<i64: 0>}} : ({row}) -> {t(1, 8)}
      %e = graph.expand %u {{shape = #graph.shape<[B, 4, 8]>}} : ({t(1, 8)}) -> {wide}
      %y = graph.add %x, %e : ({wide}, {wide}) -> {wide}"""
    check(body, ["add"], inputs=f"%x: {wide}, %r: {row}", result=wide, sizes={"B": 2})


def test_an_expansion_that_makes_the_result_wide_stays() -> None:
    row = t(8)
    body = f"""
      %e = graph.expand %r {{shape = #graph.shape<[4, 8]>}} : ({row}) -> {X}
      %f = graph.expand %s {{shape = #graph.shape<[4, 8]>}} : ({row}) -> {X}
      %y = graph.add %e, %f : ({X}, {X}) -> {X}"""
    check(body, ["expand", "add"], inputs=f"%r: {row}, %s: {row}")


def test_expansions_are_merged() -> None:
    a, b, c = t(8), t(4, 8), t(2, 4, 8)
    body = f"""
      %v = graph.expand %x {{shape = #graph.shape<[4, 8]>}} : ({a}) -> {b}
      %y = graph.expand %v {{shape = #graph.shape<[2, 4, 8]>}} : ({b}) -> {c}"""
    check(body, ["expand"], inputs=f"%x: {a}", result=c)


def test_shapes_that_are_known() -> None:
    three, one = t(2, dtype="i64"), t(dtype="i64")
    body = f"%y = graph.shape %x {{start = 0 : i64, end = 2 : i64}} : ({X}) -> {three}"
    check(body, ["constant"], result=three)
    check(f"%y = graph.size %x : ({X}) -> {one}", ["constant"], result=one)
    x = t("B", 8)
    body = f"%y = graph.shape %x {{start = 0 : i64, end = 2 : i64}} : ({x}) -> {three}"
    check(body, ["shape"], inputs=f"%x: {x}", result=three, sizes={"B": 2})


# -- the set of rules ------------------------------------------------------------------------------


def test_every_rule_is_documented_and_has_its_own_name() -> None:
    assert all(rule.doc for rule in canonicalize.RULES)
    assert len({rule.name for rule in canonicalize.RULES}) == len(canonicalize.RULES)
