# SPDX-License-Identifier: Apache-2.0
"""Every mistake is one message with file, line, column, the line itself, and what was expected."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gaf.errors import EXIT_INVALID, EXIT_UNSUPPORTED, GafError, InvalidInputError
from gaf.frontend.language.program import load_gaf, program_from_text

OP = "op f(x: f32[n, d], y: f32[d]) -> f32[n, d] {{ {} }}"

# text, line and column, parts of the message
ERRORS: list[tuple[str, str, list[str]]] = [
    # syntax
    ("opp f(x: f32[n]) -> f32[n] { x }", "1:1", ["unexpected 'opp'", "did you mean op?"]),
    ("op f(x: f32[n]) -> f32[n] { x +* 2 }", "1:32", ["unexpected '*'", "expected an expression", "^"]),
    ("op f(x: f32[n]) -> f32[n] {\n  let y = x\n  y\n}", "3:3", ["unexpected 'y'", "a 'let' ends with ';'"]),
    ("op f(x: f32[n]) -> f32[n] { let y = x; }", "1:40", ["unexpected '}'", "an expression"]),
    ("op f(x: f32[n]) -> f32[n] { x", "1:30", ["the file ends in the middle of something"]),
    ('import "a.gaf', "1:8", ["unexpected character '\"'", "a string ends on the line"]),
    ("op f(x: f32[n]) -> f32[n] { x && x }", "1:31", ["'and', 'or' and 'not'"]),
    ("op f(x: f32[n]) -> f32[n] { [i + 1] = x[i] }", "1:30", ["this is no axis", "name < extent"]),
    ('model m(x: f32[n]) { pad(x, mode="\\q") }', "1:34", ["unknown escape '\\q'"]),
    ("model m(x: f32[n]) { x * 1234567890123456789012 }", "1:26", ["number is too large"]),
    # names
    (OP.format("x * sigmiod(y)"), "1:50", ["unknown function 'sigmiod'", "did you mean sigmoid"]),
    (OP.format("x * yy"), "1:50", ["unknown name 'yy'", "did you mean y?"]),
    (OP.format("x * sigmoid"), "1:50", ["unknown name 'sigmoid'", "call it, sigmoid(...)"]),
    ("op f(x: f33[n]) -> f32[n] { x }", "1:9", ["unknown element type 'f33'", "did you mean"]),
    ("op f(x: f32[n]) -> f32[m] { x }", "1:24", ["unknown size 'm'", "expected n"]),
    ("op f(x: f32[n]) -> T[n] { x }", "1:20", ["'T' isn't bound by a parameter"]),
    ("op f(x: f32[n], x: f32[n]) -> f32[n] { x }", "1:17", ["two parameters of 'f' are called 'x'"]),
    ("op f(n: f32[n]) -> f32[n] { n }", "1:6", ["'n' is both a size and a parameter"]),
    (OP.format("x") + "\n" + OP.format("x"), "2:4", ["'f' is defined twice"]),
    # types
    (OP.format("y"), "1:46", ["another type than declared", "expected f32[n, d], got f32[d]"]),
    (OP.format("x, y"), "1:49", ["wrong number of results", "expected 1, got 2"]),
    (OP.format("x + cast(y, to=f16)"), "1:46", ["different element types", "expected f32, got f16", "hint"]),
    ("op f(x: f32[n, 3], y: f32[4]) -> f32[n] { x @ y }", "1:43", ["the summed dims differ"]),
    (OP.format("reshape(x, shape=[n, d, 2])"), "1:46", ["reshape"]),
    (OP.format("softmax(x, axis=5)"), "1:46", ["axis out of range"]),
    (OP.format("softmax(x, aces=1)"), "1:46", ["'softmax' has no argument 'aces'", "did you mean axes?"]),
    (OP.format('softmax(x, axes="last")'), "1:46", ["argument 'axes' of 'softmax' has the wrong kind", "a list of integers"]),
    (OP.format("gelu()"), "1:46", ["'gelu' needs the argument 'x'"]),
    (OP.format("let a, b = gelu(x); a"), "1:46", ["2 names for 1 result"]),
    ("model m(x: i32[n]) { x * 0.5 }", "1:22", ["the fraction 0.5 meets i32 values"]),
    ("model m(x: f32[n]) { x[0] }", "1:22", ["indexed inside of comprehensions"]),
    ("model m(x: f32[n]) { sum(k: x) }", "1:22", ["folds axes of a comprehension", "sum(x, axes=[..])"]),
    ("model m(x: f32[n]) { x // 2 }", "1:24", ["'//' works on sizes"]),
    # calls of ops
    (OP.format("x") + "\nmodel m(x: f32[n, 4]) { f(x) }", "2:25", ["'f' needs the argument 'y'"]),
    (OP.format("x") + "\nmodel m(x: f32[n, 4], y: f32[3]) { f(x, y) }", "2:41", ["wrong size on axis 0", "d = 4", "got 3"]),
    (OP.format("x") + "\nmodel m(x: f32[b, n, 4], y: f32[4]) { f(x, y) }", "2:41", ["wrong rank", "x: f32[..., n, d]"]),
    (OP.format("x") + "\nmodel m(x: f16[n, 4], y: f32[4]) { f(x, y) }", "2:38", ["wrong element type", "cast(.., to=f32)"]),
    ("op f(x: f32[n]) -> f32[n] { f(x) }", "1:29", ["'f' calls itself"]),
    ("op f(x: f32[n]) -> f32[n] where n % 16 == 0 { x }\nmodel m(x: f32[20]) { f(x) }", "2:23", ["'f' needs n % 16 == 0", "got 4 == 0"]),
    ("op f(x: f32[2 * h]) -> f32[h] { [i] = x[2 * i] }\nmodel m(x: f32[7]) { f(x) }", "2:24", ["7"]),
    ("op f(x: f32[n], a: float) -> f32[n] { x * a }\nmodel m(x: f32[n]) { f(x, x) }", "2:27", ["argument 'a' of 'f' has the wrong kind", "expected float"]),
    # comprehensions
    ("op f(x: f32[n]) -> f32[n] { [i] = x[i + 1] }", "1:37", ["index 'i + 1' can't be shown to stay inside", "0 <= i < n", "min("]),
    ("op f(x: f32[n, d]) -> f32[n] { [i] = x[i] }", "1:38", ["'x' has rank 2", "expected 2 indices"]),
    ("op f(x: f32[n]) -> f32[n] { [i] = x }", "1:35", ["'x' is a tensor of rank 1, not a number", "x[i]"]),
    ("op f(x: f32[n], y: f32[m]) -> f32[n] { [i] = x[i] + y[i] }\nmodel m(x: f32[4], y: f32[3]) { f(x, y) }", "1:55",
     ["can't be shown to stay inside dim 0 of 'y'", "in 'f', called at t.gaf:2:33"]),
    ("op f(x: f32[n], y: f32[m]) -> f32[n] { let z[i] = x[i] + y[i]; z }", "1:60", ["axis 'i' indexes dims of different sizes"]),
    ("op f(x: f32[n]) -> f32[n] { [i] = sum(k: x[i]) }", "1:39", ["nothing says how long axis 'k' is"]),
    ("op f(x: f32[n]) -> f32[n] { [i] = softmax(x[i]) }", "1:35", ["'softmax' works on tensors, not on the numbers"]),
    ("op f(x: f32[n]) -> f32[n] { [i] = i * x[i] }", "1:35", ["different element types", "expected i64, got f32"]),
    ("op f(x: f32[n]) -> f32[n] { [i] = sum(i: x[i]) }", "1:39", ["axis 'i' is in use already"]),
    ("op f(x: f32[n]) -> f32[n] { [i] = median(k: x[k]) }", "1:35", ["'median' is no fold", "sum, prod, max, min, mean"]),
    ("op f(x: f32[n]) -> f16[n] { [i] = x[i] }", "1:29", ["another element type than its type", "f16(..)"]),
    ("op f(x: f32[n], i: f32[n]) -> f32[n] { [j] = x[i[j]] }", "1:48", ["'i' holds no indices", "i32 or i64"]),
    ("op f(x: f32[n]) -> f32[n] { [i] = x[i / 2] }", "1:39", ["a whole number", "//"]),
    # models
    ("model m(x: T[n]) { x }", "1:12", ["known element types"]),
    ("model m(x: f32[..., n]) { x }", "1:16", ["known rank"]),
    ("model m(x: f32[n], alpha: float) { x }", "1:20", ["the inputs of a model are tensors"]),
    ("model m(x: f32[n]) { a = x, a = x + 1 }", "1:29", ["two outputs are called 'a'"]),
    ("model m(x: f32[n]) { x = x + 1 }", "1:22", ["an output is called like the input 'x'"]),
    ("model m(x: f32[n]) -> f32[n, 2] { x }", "1:35", ["another type than declared"]),
    # rules, targets, files
    ("rule r: A > B { gain = 1 }", "1:11", ["unexpected '>'", "'>>'"]),
    ("rule r: Mul >> Add { gain = memroy }", "1:29", ["unknown name 'memroy'", "did you mean memory?"]),
    ("rule r: Mul >> Add { weight = 1 }", "1:22", ["a rule has no 'weight'", "expected gain"]),
    ("target t = ascend910b9 {}", "1:12", ["unknown chip 'ascend910b9'", "did you mean ascend910b"]),
    ("target t = ascend910b3 { aiv_core = 4 }", "1:26", ["a chip has no 'aiv_core'", "did you mean aiv_cores"]),
    ('target t = ascend910b3 { aiv_cores = "many" }', "1:38", ["'aiv_cores' has the wrong kind", "expected int"]),
    ('import "nowhere.gaf"', "1:1", ["there is no file 'nowhere.gaf'"]),
    ('import "../secret.gaf"', "1:1", ["outside of the folder"]),
    ('weights "nowhere.npz"', "1:1", ["there is no such file"]),
    ('weights "a.bin"', "1:1", ["isn't called *.npz"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "place", "parts"), ERRORS, ids=[p[0].split("\n")[-1][:60] for p in ERRORS])
def test_errors_say_where_and_what(text: str, place: str, parts: list[str], tmp_path: Path) -> None:
    with pytest.raises(GafError) as caught:
        program = program_from_text(text, "t.gaf", tmp_path)
        for name in program.models:
            program.model(name)
    message = str(caught.value)
    for part in parts:
        assert part in message, message
    assert message.startswith(f"t.gaf:{place}:"), message
    line, column = map(int, place.split(":"))
    shown = message.splitlines()
    source = text.splitlines()[line - 1]
    assert f"  {source}" in shown, message
    caret = shown[shown.index(f"  {source}") + 1]
    assert caret.index("^") == column - 1 + 2
    assert caught.value.exit_code in (EXIT_INVALID, EXIT_UNSUPPORTED)


def test_bad_files(tmp_path: Path) -> None:
    for name, data, message in (
        ("a.gaf", b"\xff\xfe", "not text in UTF-8"),
        ("b.gaf", b"", "holds no model"),
        (
            "c.gaf",
            b"op f(x: f32[n]) -> f32[n] { x }\nop g(x: f32[n]) -> f32[n] { x }",
            "the name of one: f, g",
        ),
    ):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(InvalidInputError, match=message):
            load_gaf(tmp_path / name)
    with pytest.raises(InvalidInputError, match="can't read the file"):
        load_gaf(tmp_path / "none.gaf")
    with pytest.raises(InvalidInputError, match="no model 'h'"):
        load_gaf(tmp_path / "c.gaf", "h")


def test_imports_in_a_circle(tmp_path: Path) -> None:
    (tmp_path / "a.gaf").write_text('import "b.gaf"')
    (tmp_path / "b.gaf").write_text('import "a.gaf"')
    with pytest.raises(InvalidInputError, match="'a.gaf' imports this file") as caught:
        load_gaf(tmp_path / "a.gaf")
    assert "b.gaf:1:1" in str(caught.value)


def test_bad_weights(tmp_path: Path) -> None:
    (tmp_path / "text.npz").write_text("no archive")
    np.savez(tmp_path / "objects.npz", w=np.array([{}], dtype=object))
    np.savez(tmp_path / "strings.npz", w=np.array(["a"]))
    np.savez_compressed(tmp_path / "bomb.npz", w=np.zeros(1 << 24, np.float32))
    model = 'weights "{}"\nmodel m(x: f32[1]) {{ x + w }}'
    for name, message in (
        ("text.npz", "can't read the weights"),
        ("objects.npz", "array 'w'"),
        ("strings.npz", "array 'w': numpy dtype"),
        ("bomb.npz", "unpacks to"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            program_from_text(model.format(name), "t.gaf", tmp_path).model()


def test_nesting_without_end() -> None:
    nested = "abs(" * 2000 + "x" + ")" * 2000
    with pytest.raises(InvalidInputError, match="nested too deeply"):
        program_from_text(f"model m(x: f32[n]) {{ {nested} }}", "t.gaf").model()


def test_a_long_sum_is_no_problem() -> None:
    chain = " + ".join(["x"] * 1500)
    model = program_from_text(f"model m(x: f32[n]) {{ {chain} }}", "t.gaf").model()
    assert model.run({"x": np.ones(2, np.float32)})["y"][0] == 1500
