# SPDX-License-Identifier: Apache-2.0
"""Checks and runs a `Meaning` in numpy: the verifier and reference of ops whose meaning is written down.

Scalar bodies are typed: operands of one function have one element type, literals take it, and nothing is
converted silently. 16-bit floats are computed in float32, with `wide` all floats in float64.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from gaf.dialects.common import dtype as dt
from gaf.dialects.common import monoid, scalar
from gaf.dialects.common.index import Expr, Func, const, is_nonneg
from gaf.dialects.common.scalar import Arg, Call, Const, Coord, Extent, Scalar
from gaf.dialects.graph.meaning import Meaning, Stage
from gaf.dialects.graph.ops.common import accumulator, format_dims
from gaf.dialects.graph.types import TensorType
from gaf.errors import InvalidInputError

BLOCK = 1 << 22
"""Elements of an iteration space that are evaluated at once; larger spaces are cut along their first dims."""

LOGIC = frozenset({"and", "or", "xor", "not"})
BITWISE = frozenset({"bitand", "bitor", "bitxor", "bitnot", "random24"})
COMPARE = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
ON_INTEGERS = frozenset({
    "neg", "abs", "sign", "relu", "add", "sub", "mul", "div", "max", "min", "pow", "floormod", "fmod",
})  # fmt: skip
"""Functions of numbers that integers have too; the others need floats."""


# -- types ------------------------------------------------------------------------------------------


def function_type(
    name: str, types: Sequence[dt.DType | None], target: dt.DType | None = None
) -> dt.DType | None:
    """The element type of a scalar function's result; None stands for a literal that fits any number.

    Raises InvalidInputError for operands that the function doesn't take.
    """
    if name == "cast":
        return target
    values = types[1:] if name == "select" else types
    if name == "select" and types[0] not in (dt.BOOL, None):
        raise InvalidInputError("the condition of 'select' is a bool", expected=dt.BOOL, got=types[0])
    known = [t for t in values if t is not None]
    for other in known[1:]:
        if other != known[0]:
            raise InvalidInputError(
                f"operands of '{name}' have different element types",
                expected=known[0],
                got=other,
                hint=f"convert one of them, e.g. {known[0]}(..)",
            )
    kind = known[0] if known else None
    if kind is not None:
        _check_kind(name, kind)
    if scalar.FUNCTIONS[name].result == "bool":
        return dt.BOOL
    return kind


def _check_kind(name: str, kind: dt.DType) -> None:
    if name in LOGIC:
        wanted, fits = "bool", kind.is_bool
    elif name in BITWISE:
        wanted, fits = "integers", kind.is_int
    elif name in COMPARE or name == "select":
        wanted, fits = "numbers", True
    elif name in ON_INTEGERS:
        wanted, fits = "numbers", not kind.is_bool
    else:
        wanted, fits = "floats", kind.is_float
    if not fits:
        raise InvalidInputError(f"'{name}' works on {wanted}", expected=wanted, got=kind)


def body_type(body: Scalar, args: Sequence[dt.DType], coords: Sequence[str] = ()) -> dt.DType | None:
    """The element type of a body whose arguments have the types `args`; None if it is made of literals.

    Raises InvalidInputError for a wrong argument number, an unknown coordinate, or operands that don't fit.
    """
    match body:
        case Arg(i):
            if i >= len(args):
                raise InvalidInputError("the body names an operand that is not read", got=f"number {i}")
            return accumulator(args[i])
        case Const() | Extent():
            return None
        case Coord(dim):
            if dim not in coords:
                raise InvalidInputError(
                    f"'{dim}' is no dim of the iteration space", expected=", ".join(coords)
                )
            return dt.I64
        case Call(name, operands, target):
            types = [body_type(o, args, coords) for o in operands]
            found = function_type(name, types, target)
            kind = next((t for t in (types[1:] if name == "select" else types) if t is not None), None)
            if kind is not None and not kind.is_float:
                for operand in operands:
                    if isinstance(operand, Const) and not operand.value.is_integer():
                        raise InvalidInputError(
                            f"the fraction {operand.value} meets {kind} values in '{name}'"
                        )
            return accumulator(found) if found is not None else None
    raise InvalidInputError(f"not a scalar expression: {body!r}")


# -- the verifier -------------------------------------------------------------------------------------


def check_meaning(meaning: Meaning, operands: Sequence[TensorType]) -> list[TensorType]:
    """Result types of a meaning on operands of these types.

    Raises InvalidInputError for reads of things that don't exist or that can't be shown to stay in bounds,
    for dims that are named twice, and for bodies whose types don't fit.
    """
    if not meaning.stages or not meaning.results:
        raise InvalidInputError("there is no stage or no result")
    made: list[TensorType] = []
    for number, stage in enumerate(meaning.stages):
        try:
            made.append(_check_stage(stage, operands, made))
        except InvalidInputError as error:
            if len(meaning.stages) > 1:
                error.what = f"stage {number}: {error.what}"
            raise
    for result in meaning.results:
        if not 0 <= result < len(made):
            raise InvalidInputError("a result names no stage", expected=f"0..{len(made) - 1}", got=result)
    return [made[r] for r in meaning.results]


def _check_stage(stage: Stage, operands: Sequence[TensorType], made: Sequence[TensorType]) -> TensorType:
    dims = [*stage.dims, *stage.reduced]
    ranges = {d.name: d.extent for d in dims}
    if len(ranges) != len(dims):
        raise InvalidInputError("two dims have one name", got=", ".join(d.name for d in dims))
    expected = [f"d{i}" for i in range(len(stage.dims))]
    if [d.name for d in stage.dims] != expected:
        raise InvalidInputError(
            "parallel dims are called d0, d1, ...", got=", ".join(d.name for d in stage.dims)
        )
    if (stage.monoid is None) != (not stage.reduced):
        raise InvalidInputError("a fold has reduced dims, and reduced dims have a fold")
    kinds: list[dt.DType] = []
    for read in stage.reads:
        source, what = _source(read.operand, read.stage, operands, made)
        check_bounds(read.index, source.shape, ranges, what)
        for e in read.index:
            _check_gathers(e, operands, ranges)
        kinds.append(source.dtype)
    found = body_type(stage.body, kinds, list(ranges))
    if found is not None and found != accumulator(stage.dtype):
        raise InvalidInputError(
            "the body has another element type than the result",
            expected=stage.dtype,
            got=found,
            hint="add a cast",
        )
    if stage.monoid is not None and stage.dtype.is_bool and stage.monoid in ("sum", "prod"):
        raise InvalidInputError(f"a {stage.monoid} of bools", hint="convert them to numbers")
    return TensorType.of([d.extent for d in stage.dims], stage.dtype)


def _source(
    operand: int | None, stage: int | None, operands: Sequence[TensorType], made: Sequence[TensorType]
) -> tuple[TensorType, str]:
    if operand is not None:
        if operand >= len(operands):
            raise InvalidInputError(
                f"operand {operand} is read", expected=f"{len(operands)} operands", got="no such operand"
            )
        return operands[operand], f"operand {operand}"
    assert stage is not None
    if stage >= len(made):
        raise InvalidInputError(f"stage {stage} is read before it is computed")
    return made[stage], f"the result of stage {stage}"


def _check_gathers(e: Expr, operands: Sequence[TensorType], ranges: Mapping[str, Expr]) -> None:
    for atom in e.atoms():
        if not isinstance(atom, Func):
            continue
        for a in atom.args:
            _check_gathers(a, operands, ranges)
        if atom.name == "read":
            source, what = _source(int(atom.tag), None, operands, ())
            if source.dtype not in (dt.I32, dt.I64):
                raise InvalidInputError(f"{what} holds indices", expected="i32 or i64", got=source.dtype)
            check_bounds(atom.args, source.shape, ranges, what)


def check_bounds(index: Sequence[Expr], shape: Sequence[Expr], ranges: Mapping[str, Expr], what: str) -> None:
    """Raises InvalidInputError unless `0 <= index < shape` is proven; gather indices are checked when they are read."""
    if len(index) != len(shape):
        raise InvalidInputError(
            f"{what} has rank {len(shape)}", expected=f"{len(shape)} indices", got=len(index)
        )
    for axis, (e, size) in enumerate(zip(index, shape)):
        if _gathers(e):
            continue
        unknown = e.names() - set(ranges) - {n for d in (*shape, *ranges.values()) for n in d.names()}
        if unknown:
            raise InvalidInputError(f"'{sorted(unknown)[0]}' is no dim of the iteration space")
        if not in_bounds(e, size, ranges):
            limits = ", ".join(f"0 <= {n} < {ranges[n]}" for n in sorted(e.names() & set(ranges)))
            raise InvalidInputError(
                f"the index '{e}' can't be shown to stay inside dim {axis} of {what} {format_dims(shape)}"
                + (f" for {limits}" if limits else ""),
                expected=f"0 <= {e} < {size}",
                hint="limit the axis, or the index with min(.., size - 1) and max(.., 0)",
            )


def _gathers(e: Expr) -> bool:
    return any(isinstance(a, Func) and (a.name == "read" or any(map(_gathers, a.args))) for a in e.atoms())


def in_bounds(e: Expr, size: Expr, ranges: Mapping[str, Expr]) -> bool:
    """True if `0 <= e < size` is proven for axes within `ranges` and dims >= 1."""
    low_high = _interval(e, ranges)
    limit = size.as_int()
    if low_high is not None and limit is not None:
        return low_high[0] >= 0 and low_high[1] < limit
    if not is_nonneg(e, ranges):
        return False
    if is_nonneg(size - 1 - e, ranges) or is_nonneg(size - 1 - _without_floordiv(e, ranges), ranges):
        return True
    atoms = list(e.terms.items())
    if len(atoms) == 1 and atoms[0][1] == 1 and len(atoms[0][0]) == 1 and isinstance(atoms[0][0][0], Func):
        atom = atoms[0][0][0]
        if atom.name == "floordiv":  # a floordiv b < size  <=>  a < size * b
            return is_nonneg(size * atom.args[1] - 1 - atom.args[0], ranges)
        if atom.name == "min":
            return any(is_nonneg(size - 1 - a, ranges) for a in atom.args)
        if atom.name == "max":
            return all(is_nonneg(size - 1 - a, ranges) for a in atom.args)
    return False


def _without_floordiv(e: Expr, ranges: Mapping[str, Expr]) -> Expr:
    """An upper bound of `e`: (a floordiv b) * b is at most a."""
    result = const(0)
    for mono, coef in e.terms.items():
        atom = mono[0] if len(mono) == 1 else None
        if (
            isinstance(atom, Func)
            and atom.name == "floordiv"
            and coef > 0
            and is_nonneg(atom.args[0], ranges)
        ):
            divisor = atom.args[1].as_int()
            if divisor and coef % divisor == 0:
                result = result + atom.args[0] * (coef // divisor)
                continue
        result = result + Expr({mono: coef})
    return result


def _interval(e: Expr, ranges: Mapping[str, Expr]) -> tuple[int, int] | None:
    """Smallest and largest value by interval arithmetic, if all extents are numbers."""
    low = high = 0
    for mono, coef in e.terms.items():
        a = b = coef
        for atom in mono:
            found = _atom_interval(atom, ranges)
            if found is None:
                return None
            products = [a * found[0], a * found[1], b * found[0], b * found[1]]
            a, b = min(products), max(products)
        low, high = low + a, high + b
    return low, high


def _atom_interval(atom: str | Func, ranges: Mapping[str, Expr]) -> tuple[int, int] | None:
    if isinstance(atom, str):
        extent = ranges[atom].as_int() if atom in ranges else None
        return None if extent is None else (0, max(extent - 1, 0))
    args = [_interval(a, ranges) for a in atom.args]
    if atom.name == "read" or any(a is None for a in args):
        return None
    (a, b), (c, d) = args  # type: ignore[misc]
    match atom.name:
        case "min":
            return min(a, c), min(b, d)
        case "max":
            return max(a, c), max(b, d)
        case "floordiv" if c == d > 0:
            return a // c, b // c
        case "mod" if c == d > 0:
            return (a, b) if 0 <= a and b < c else (0, c - 1)
    return None


# -- the reference --------------------------------------------------------------------------------------


def run_meaning(
    meaning: Meaning, operands: Sequence[np.ndarray], env: Mapping[str, int], wide: bool = False
) -> list[np.ndarray]:
    """The results in numpy; `env` gives the values of symbols.

    Raises InvalidInputError for a gather index out of range.
    """
    made: list[np.ndarray] = []
    for stage in meaning.stages:
        made.append(_run_stage(stage, operands, made, env, wide))
    return [made[r] for r in meaning.results]


def _run_stage(
    stage: Stage,
    operands: Sequence[np.ndarray],
    made: Sequence[np.ndarray],
    env: Mapping[str, int],
    wide: bool,
) -> np.ndarray:
    shape = [d.extent.evaluate(dict(env)) for d in stage.dims]
    inner = [d.extent.evaluate(dict(env)) for d in stage.reduced]
    sources = [operands[r.operand] if r.operand is not None else made[r.stage] for r in stage.reads]  # type: ignore[index]
    result = _einsum(stage, sources, env, wide)
    if result is None:
        result = np.empty(shape, computing_type(stage.dtype, wide))
        if result.size:
            for window in _windows(shape, int(np.prod(inner, dtype=np.int64))):
                result[window] = _run_window(stage, sources, operands, window, shape, inner, env, wide)
    if wide and stage.dtype.is_float:
        return np.asarray(result, np.float64)
    return scalar.convert(result, stage.dtype)


def computing_type(dtype: dt.DType, wide: bool) -> np.dtype:
    """What values of an element type are computed in."""
    return np.dtype(np.float64) if wide and dtype.is_float else accumulator(dtype).numpy


def _windows(shape: Sequence[int], inner: int) -> Iterator[tuple[slice, ...]]:
    """Boxes that cover `shape`, each of about BLOCK elements with its `inner` ones."""
    if not shape:
        yield ()
        return
    rest = int(np.prod(shape[1:], dtype=np.int64)) * max(inner, 1)
    step = max(1, min(shape[0], BLOCK // max(rest, 1)))
    for start in range(0, shape[0], step):
        first = slice(start, min(start + step, shape[0]))
        if rest > BLOCK and len(shape) > 1:
            yield from ((first, *others) for others in _windows(shape[1:], inner))
        else:
            yield (first, *(slice(0, n) for n in shape[1:]))


def _run_window(
    stage: Stage,
    sources: Sequence[np.ndarray],
    operands: Sequence[np.ndarray],
    window: tuple[slice, ...],
    shape: Sequence[int],
    inner: Sequence[int],
    env: Mapping[str, int],
    wide: bool,
) -> np.ndarray:
    extents = [*((w.start, w.stop) for w in window), *((0, n) for n in inner)]
    rank = len(extents)
    coords = {
        d.name: np.arange(a, b, dtype=np.int64).reshape([-1 if i == k else 1 for k in range(rank)])
        for i, (d, (a, b)) in enumerate(zip((*stage.dims, *stage.reduced), extents))
    }
    full = [b - a for a, b in extents]
    if 0 in full:  # nothing is read
        args = [np.zeros(full, computing_type(dt.of_numpy(s.dtype), wide)) for s in sources]
    else:
        args = [_load(s, r.index, coords, operands, env, wide) for s, r in zip(sources, stage.reads)]
    body = run_body(stage.body, args, coords, env, wide, computing_type(stage.dtype, wide))
    value = np.broadcast_to(body, full)
    if stage.monoid is not None:
        value = monoid.by_name(stage.monoid).fold(value, tuple(range(len(stage.dims), rank)))
    return np.asarray(value)


def _load(
    source: np.ndarray,
    index: Sequence[Expr],
    coords: Mapping[str, np.ndarray],
    operands: Sequence[np.ndarray],
    env: Mapping[str, int],
    wide: bool,
) -> np.ndarray:
    places = [_place(e, coords, operands, env) for e in index]
    for axis, (place, size) in enumerate(zip(places, source.shape)):
        if np.any(place < 0) or np.any(place >= size):
            raise InvalidInputError(
                f"an index is out of range on axis {axis}",
                expected=f"0..{size - 1}",
                got=int(np.min(place)) if np.any(place < 0) else int(np.max(place)),
            )
    loaded = source[tuple(places)] if places else source
    return np.asarray(loaded).astype(computing_type(dt.of_numpy(source.dtype), wide), copy=False)


def _place(
    e: Expr, coords: Mapping[str, np.ndarray], operands: Sequence[np.ndarray], env: Mapping[str, int]
) -> np.ndarray:
    """An index expression on coordinate arrays."""
    total: np.ndarray = np.asarray(0, np.int64)
    for mono, coef in e.terms.items():
        term: np.ndarray = np.asarray(coef, np.int64)
        for atom in mono:
            if isinstance(atom, str):
                term = term * (coords[atom] if atom in coords else env[atom])
                continue
            args = [_place(a, coords, operands, env) for a in atom.args]
            match atom.name:
                case "floordiv":
                    term = term * (args[0] // args[1])
                case "mod":
                    term = term * (args[0] % args[1])
                case "min":
                    term = term * np.minimum(*args)
                case "max":
                    term = term * np.maximum(*args)
                case "read":
                    table = operands[int(atom.tag)]
                    term = term * (table[tuple(args)] if args else table)
        total = total + term
    return np.asarray(total)


def run_body(
    body: Scalar,
    args: Sequence[np.ndarray],
    coords: Mapping[str, np.ndarray],
    env: Mapping[str, int],
    wide: bool,
    literal: np.dtype,
) -> np.ndarray:
    """A typed body on arrays; a literal takes the type of what it meets, or `literal` where it meets nothing."""
    value, _ = _run(body, args, coords, env, wide, literal)
    return np.asarray(value)


def _run(
    body: Scalar,
    args: Sequence[np.ndarray],
    coords: Mapping[str, np.ndarray],
    env: Mapping[str, int],
    wide: bool,
    literal: np.dtype,
) -> tuple[np.ndarray, bool]:
    """(value, whether it is made of literals only and so has no type of its own)."""
    match body:
        case Arg(i):
            return args[i], False
        case Const(value):
            return np.asarray(value).astype(literal), True
        case Extent(value):
            return np.asarray(value.evaluate(dict(env))).astype(literal), True
        case Coord(dim):
            return coords[dim], False
        case Call("cast", (operand,), dtype):
            assert dtype is not None
            value, _ = _run(operand, args, coords, env, wide, np.dtype(np.float64))
            if wide and dtype.is_float:
                return np.asarray(value, np.float64), False
            return scalar.convert(value, dtype).astype(computing_type(dtype, wide), copy=False), False
        case Call(name, operands, _):
            found = [_run(o, args, coords, env, wide, literal) for o in operands]
            typed = found[1:] if name == "select" else found
            kind = next((v.dtype for v, free in typed if not free), None)
            if kind is not None:  # run the literals again, now that their type is known
                found = [
                    _run(o, args, coords, env, wide, kind) if free and (name != "select" or k) else (v, free)
                    for k, (o, (v, free)) in enumerate(zip(operands, found))
                ]
            free = all(f for _, f in (found[1:] if name == "select" else found))
            result = np.asarray(scalar.FUNCTIONS[name].numpy(*(v for v, _ in found)))
            return result, free and scalar.FUNCTIONS[name].result != "bool"
    raise TypeError(f"not a scalar expression: {body!r}")


def _einsum(
    stage: Stage, sources: Sequence[np.ndarray], env: Mapping[str, int], wide: bool
) -> np.ndarray | None:
    """A sum of products of plain reads through numpy's einsum: without it, a matmul is a 3-D array."""
    if stage.monoid != "sum" or not stage.dtype.is_float:
        return None
    factors: list[int] = []

    def visit(node: Scalar) -> bool:
        match node:
            case Arg(i):
                factors.append(i)
                return True
            case Call("mul", (a, b), _):
                return visit(a) and visit(b)
        return False

    dims = [d.name for d in (*stage.dims, *stage.reduced)]
    letters = {name: chr(ord("a") + i) if i < 26 else "" for i, name in enumerate(dims)}
    if not visit(stage.body) or len(factors) < 2 or len(dims) > 26:
        return None
    terms: list[str] = []
    for i in factors:
        names = [e.as_name() for e in stage.reads[i].index]
        if any(n not in letters for n in names):
            return None
        terms.append("".join(letters[n] for n in names if n is not None))
    if not set(letters.values()) <= set("".join(terms)):
        return None
    extents = {d.name: d.extent.evaluate(dict(env)) for d in (*stage.dims, *stage.reduced)}
    for i in factors:  # an axis may be shorter than the operand's dim
        if any(extents[str(e)] != size for e, size in zip(stage.reads[i].index, sources[i].shape)):
            return None
    kind = computing_type(stage.dtype, wide)
    arrays = [sources[i].astype(kind, copy=False) for i in factors]
    target = "".join(letters[d.name] for d in stage.dims)
    with np.errstate(all="ignore"):
        return np.asarray(np.einsum(f"{','.join(terms)}->{target}", *arrays, optimize=True))
