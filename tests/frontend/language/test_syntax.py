# SPDX-License-Identifier: Apache-2.0
"""The grammar and the formatter: what is written comes back, with its comments."""

from __future__ import annotations

import keyword

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaf.frontend.language import syntax as s
from gaf.frontend.language.format import WIDTH, format_file, format_source
from gaf.frontend.language.parser import parse, parse_signature

WORDS = {
    "or",
    "and",
    "not",
    "let",
    "true",
    "false",
    "op",
    "model",
    "rule",
    "target",
    "import",
    "weights",
    "where",
    "as",
}
names = st.from_regex(r"[a-z_][a-z0-9_]{0,5}", fullmatch=True).filter(
    lambda n: n not in WORDS and not keyword.iskeyword(n)
)
numbers = st.one_of(
    st.integers(0, 10**6).map(s.Number),
    st.floats(0, 1e20, allow_nan=False, allow_infinity=False).map(s.Number),
)
strings = st.text(st.characters(codec="utf-8", exclude_categories=["C"]), max_size=8).map(s.String)
atoms = st.one_of(names.map(s.Name), numbers, strings, st.booleans().map(s.Bool))


def calls(inner: st.SearchStrategy[s.Expression]) -> st.SearchStrategy[s.Expression]:
    arguments = st.builds(s.Argument, st.none() | names, inner)
    return st.builds(s.Call, names, st.lists(arguments, max_size=3).map(tuple))


def axes(inner: st.SearchStrategy[s.Expression]) -> st.SearchStrategy[s.Axis]:
    return st.builds(s.Axis, names, st.none() | st.one_of(numbers, names.map(s.Name)))


def compound(inner: st.SearchStrategy[s.Expression]) -> st.SearchStrategy[s.Expression]:
    arithmetic = st.sampled_from(["+", "-", "*", "/", "//", "%", "@", "^", "and", "or"])
    comparison = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])
    return st.one_of(
        st.builds(s.Binary, arithmetic | comparison, inner, inner),
        st.builds(s.Unary, st.sampled_from(["-", "not"]), inner),
        calls(inner),
        st.builds(s.Index, names.map(s.Name), st.lists(inner, min_size=1, max_size=3).map(tuple)),
        st.builds(s.Fold, names, st.lists(axes(inner), min_size=1, max_size=2).map(tuple), inner),
        st.builds(s.ListExpr, st.lists(inner, max_size=3).map(tuple)),
    )


expressions = st.recursive(atoms, compound, max_leaves=12)
comprehensions = st.builds(
    s.Comprehension,
    st.lists(axes(expressions), min_size=1, max_size=3).map(tuple),
    expressions,
    st.booleans(),
)
values = st.one_of(expressions, comprehensions)
types = st.builds(
    s.TypeExpr,
    st.sampled_from(["f16", "f32", "T"]),
    st.lists(numbers.filter(lambda n: isinstance(n.value, int)) | names.map(s.Name), max_size=3).map(tuple),
)
params = st.builds(s.Param, names, types)


@st.composite
def lets(draw: st.DrawFn) -> s.Let:
    if draw(st.booleans()):
        targets = tuple(s.Target(n) for n in draw(st.lists(names, min_size=1, max_size=3)))
        return s.Let(targets, draw(st.none() | types), draw(expressions))
    return s.Let((s.Target(draw(names)),), draw(st.none() | types), draw(values))


results = st.builds(s.Result, st.none() | names, values)
blocks = st.builds(
    s.Block, st.lists(lets(), max_size=3).map(tuple), st.lists(results, min_size=1, max_size=2).map(tuple)
)
wheres = st.lists(
    st.builds(s.Binary, st.sampled_from(["==", "<="]), names.map(s.Name), numbers), max_size=2
).map(tuple)
bindings = st.lists(st.builds(s.Binding, st.sampled_from(["onnx", "torch"]), st.just("a.b")), max_size=2).map(
    tuple
)
settings = st.lists(st.builds(s.Setting, names, expressions), max_size=3).map(tuple)
items = st.one_of(
    st.builds(s.Import, st.just("a.gaf")),
    st.builds(s.Weights, st.just("a.npz")),
    st.builds(
        s.Op,
        names,
        st.lists(params, max_size=3).map(tuple),
        st.lists(types, min_size=1, max_size=2).map(tuple),
        blocks,
        wheres,
        bindings,
    ),
    st.builds(
        s.ModelItem,
        names,
        st.lists(params, max_size=3).map(tuple),
        st.none() | st.lists(types, min_size=1, max_size=2).map(tuple),
        blocks,
        wheres,
    ),
    st.builds(
        s.Rule,
        names,
        st.lists(st.lists(names, min_size=1, max_size=3).map(tuple), min_size=1, max_size=3).map(tuple),
        settings,
    ),
    st.builds(s.TargetItem, names, names, settings),
)


@given(st.lists(items, max_size=4).map(lambda found: s.File(tuple(found))))
def test_formatted_text_reads_back_as_the_same_tree(file: s.File) -> None:
    text = format_file(file)
    assert parse(text) == file
    assert format_source(text) == text


@given(st.lists(st.tuples(st.sampled_from(["", " # tail", "\n# own line", "\n\n# far"]), items), max_size=3))
def test_every_comment_survives_once(found: list[tuple[str, s.Item]]) -> None:
    text = "".join(format_file(s.File((item,))).rstrip("\n") + comment + "\n" for comment, item in found)
    new = format_source(text)
    assert parse(new) == parse(text)
    for word in ("# tail", "# own line", "# far"):
        assert new.count(word) == text.count(word)
    assert format_source(new) == new


def test_layout() -> None:
    text = """
# about f

op f(x:f32[n,d],g:f32[d])->f32[n,d]{let a=x*g; # why
# then
let m[i]=sum(k:a[i,k]);
[i,j]=a[i,j]/(m[i]+1e-5)^2} # end
op a_function_with_a_long_name(first_operand: f32[n, d], second_operand: f32[n, d], third: f32[n]) -> f32[n, d] { first_operand }
"""
    assert (
        format_source(text)
        == """\
# about f

op f(x: f32[n, d], g: f32[d]) -> f32[n, d] {
    let a = x * g;  # why
    # then
    let m[i] = sum(k: a[i, k]);
    [i, j] = a[i, j] / (m[i] + 1e-5)^2
}  # end

op a_function_with_a_long_name(
    first_operand: f32[n, d],
    second_operand: f32[n, d],
    third: f32[n],
) -> f32[n, d] {
    first_operand
}
"""
    )


def test_long_lines_are_cut() -> None:
    terms = " + ".join(f"a_long_name_{i} * 2.5" for i in range(20))
    text = format_source(f"model m(x: f32[n]) {{ let y = {terms}; y }}")
    assert max(map(len, text.splitlines())) <= WIDTH
    assert parse(text) == parse(f"model m(x: f32[n]) {{ let y = {terms}; y }}")


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("-x^2", s.Unary("-", s.Binary("^", s.Name("x"), s.Number(2)))),
        ("a - b - c", s.Binary("-", s.Binary("-", s.Name("a"), s.Name("b")), s.Name("c"))),
        ("a ^ b ^ c", s.Binary("^", s.Name("a"), s.Binary("^", s.Name("b"), s.Name("c")))),
        ("a + b * c @ d", s.Binary("+", s.Name("a"), s.Binary("@", s.Binary("*", s.Name("b"), s.Name("c")), s.Name("d")))),
        ("not a < b or c", s.Binary("or", s.Unary("not", s.Binary("<", s.Name("a"), s.Name("b"))), s.Name("c"))),
        ("model(weights)", s.Call("model", (s.Argument(None, s.Name("weights")),))),
    ],
)  # fmt: skip
def test_precedence(text: str, tree: s.Expression) -> None:
    (model,) = parse(f"model m(x: f32[n]) {{ {text} }}").items
    assert isinstance(model, s.ModelItem)
    assert model.block.results[0].value == tree


def test_signatures_stand_alone() -> None:
    op = parse_signature("(x: T[..., d], alpha: float = 1.5) -> (T[..., d], i64[]) where d > 1")
    assert [p.name for p in op.params] == ["x", "alpha"] and len(op.results) == 2 and len(op.where) == 1


def test_deep_and_long_expressions_need_no_stack() -> None:
    chain = " + ".join(["x"] * 3000)
    assert format_source(f"model m(x: f32[n]) {{ {chain} }}").count("x") == 3002 - 1
    nested = "(" * 3000 + "x" + ")" * 3000
    assert parse(f"model m(x: f32[n]) {{ {nested} }}") == parse("model m(x: f32[n]) { x }")
