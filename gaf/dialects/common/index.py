# SPDX-License-Identifier: Apache-2.0
"""Integer expressions over named symbols and axes, in a normal form that makes index maps comparable.

An expression is a polynomial with integer coefficients over *atoms*. An atom is a name (a symbolic
dim, an axis, a tiling parameter) or an application of `floordiv`, `mod`, `min`, `max` or `read`. The
normal form is unique for polynomials, so `==` proves equality of linear maps; `floordiv` and `mod`
are removed when the ranges of the names prove it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Union

ExprLike = Union["Expr", int, str]
# Axis name -> extent: 0 <= axis < extent. All other names are then dims, >= 1. Without a mapping (None) nothing
# is known but that names are >= 0: loop variables and offsets may be 0.
Ranges = Mapping[str, "Expr"]

DIMS: Ranges = {}
"""The ranges of expressions made of dims only: every name is >= 1."""


@dataclass(frozen=True)
class Func:
    """An atom `name(args)`; `read` atoms stand for an integer loaded from memory (gather indices)."""

    name: str
    args: tuple["Expr", ...]
    tag: str = ""

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.name, self.args, self.tag))

    @cached_property
    def key(self) -> tuple:
        return (1, self.name, self.tag, tuple(a.key for a in self.args))


Atom = Union[str, Func]
Monomial = tuple[Atom, ...]


def _atom_key(atom: Atom) -> tuple:
    return (0, atom) if isinstance(atom, str) else atom.key


def _mono_key(mono: Monomial) -> tuple:
    return (len(mono), tuple(_atom_key(a) for a in mono))


class Expr:
    """An immutable integer expression. Build with `sym`, `const`, arithmetic and the module's functions."""

    __slots__ = ("terms", "_hash", "_key", "_flat")

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        self.terms: dict[Monomial, int] = {m: c for m, c in terms.items() if c}
        self._hash: int | None = None
        self._key: tuple | None = None
        self._flat: bool | None = None

    @property
    def is_polynomial(self) -> bool:
        """True if every atom is a name: nothing in it can be simplified."""
        if self._flat is None:
            self._flat = all(type(a) is str for m in self.terms for a in m)
        return self._flat

    @property
    def key(self) -> tuple:
        """A total order on expressions; makes printing and normalisation deterministic."""
        if self._key is None:
            self._key = tuple(sorted((_mono_key(m), c) for m, c in self.terms.items()))
        return self._key

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self.terms.items()))
        return self._hash

    def __eq__(self, other: object) -> bool:
        if isinstance(other, int):
            return self.as_int() == other
        return isinstance(other, Expr) and self.terms == other.terms

    # -- arithmetic ---------------------------------------------------------------------------

    def __add__(self, other: ExprLike) -> Expr:
        other = expr(other)
        if not other.terms:
            return self
        if not self.terms:
            return other
        terms = dict(self.terms)
        for mono, coef in other.terms.items():
            terms[mono] = terms.get(mono, 0) + coef
        return Expr(terms) if self.is_polynomial or other.is_polynomial else _join_div_mod(terms)

    __radd__ = __add__

    def __neg__(self) -> Expr:
        return Expr({m: -c for m, c in self.terms.items()})

    def __sub__(self, other: ExprLike) -> Expr:
        return self + (-expr(other))

    def __rsub__(self, other: ExprLike) -> Expr:
        return expr(other) - self

    def __mul__(self, other: ExprLike) -> Expr:
        other = expr(other)
        if len(other.terms) == 1 and other.terms.get((), 0) == 1:
            return self
        if len(self.terms) == 1 and self.terms.get((), 0) == 1:
            return other
        terms: dict[Monomial, int] = {}
        for m1, c1 in self.terms.items():
            for m2, c2 in other.terms.items():
                mono = tuple(sorted(m1 + m2, key=_atom_key)) if m1 and m2 else m1 + m2
                terms[mono] = terms.get(mono, 0) + c1 * c2
        return Expr(terms) if self.is_polynomial and other.is_polynomial else _join_div_mod(terms)

    __rmul__ = __mul__

    def __floordiv__(self, other: ExprLike) -> Expr:
        return floordiv(self, other)

    def __mod__(self, other: ExprLike) -> Expr:
        return mod(self, other)

    # -- queries ------------------------------------------------------------------------------

    def as_int(self) -> int | None:
        """The value if the expression is a constant, else None."""
        if not self.terms:
            return 0
        if len(self.terms) == 1 and () in self.terms:
            return self.terms[()]
        return None

    def as_name(self) -> str | None:
        """The name if the expression is exactly one symbol or axis, else None."""
        if len(self.terms) == 1:
            (mono, coef), = self.terms.items()
            if coef == 1 and len(mono) == 1 and isinstance(mono[0], str):
                return mono[0]
        return None

    def atoms(self) -> set[Atom]:
        """Top-level atoms (not those inside floordiv etc.)."""
        return {a for mono in self.terms for a in mono}

    def names(self) -> set[str]:
        """Every name that occurs anywhere in the expression."""
        found: set[str] = set()
        for atom in self.atoms():
            if isinstance(atom, str):
                found.add(atom)
            else:
                for arg in atom.args:
                    found |= arg.names()
        return found

    def coefficient(self, name: str) -> Expr | None:
        """`c` when the expression is `c*name + rest` with `name` in neither part's other atoms.

        Returns None if `name` occurs non-linearly (squared, or inside floordiv, mod, min, max, read).
        """
        terms: dict[Monomial, int] = {}
        for mono, coef in self.terms.items():
            if name in mono:
                rest = list(mono)
                rest.remove(name)
                terms[tuple(rest)] = coef
        result = Expr(terms)
        without = Expr({m: c for m, c in self.terms.items() if name not in m})
        return None if name in result.names() or name in without.names() else result

    def substitute(self, env: Mapping[str, ExprLike], ranges: Ranges | None = None) -> Expr:
        """Replace names by expressions (simultaneously) and renormalise."""
        if not env or self.as_int() is not None:
            return self
        if self.is_polynomial and not any(a in env for m in self.terms for a in m):
            return self
        result = const(0)
        for mono, coef in self.terms.items():
            term = const(coef)
            for atom in mono:
                if isinstance(atom, str):
                    term = term * env[atom] if atom in env else term * sym(atom)
                else:
                    args = tuple(a.substitute(env, ranges) for a in atom.args)
                    term = term * _apply(atom.name, args, atom.tag, ranges)
            result = result + term
        return result

    def simplify(self, ranges: Ranges) -> Expr:
        """Remove floordiv, mod, min and max that `ranges` proves to be trivial."""
        if self.is_polynomial:
            return self
        result = const(0)
        for mono, coef in self.terms.items():
            term = const(coef)
            for atom in mono:
                if isinstance(atom, str):
                    term = term * sym(atom)
                else:
                    term = term * _apply(atom.name, tuple(a.simplify(ranges) for a in atom.args), atom.tag, ranges)
            result = result + term
        return result

    def evaluate(self, env: Mapping[str, int], read: Callable[[str, list[int]], int] | None = None) -> int:
        """The integer value; `env` gives every name, `read(tag, indices)` serves `read` atoms.

        Raises KeyError for a missing name.
        """
        total = 0
        for mono, coef in self.terms.items():
            value = coef
            for atom in mono:
                if isinstance(atom, str):
                    value = value * env[atom]
                    continue
                args = [a.evaluate(env, read) for a in atom.args]
                if atom.name == "read":
                    if read is None:
                        raise KeyError(f"read {atom.tag}")
                    value = value * read(atom.tag, args)
                else:
                    value = value * _EVAL[atom.name](*args)
            total = total + value
        return total

    def __str__(self) -> str:
        return format_expr(self)

    __repr__ = __str__


_EVAL: dict[str, Callable[..., int]] = {
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "min": lambda a, b: min(a, b),
    "max": lambda a, b: max(a, b),
}


@lru_cache(maxsize=4096)
def sym(name: str) -> Expr:
    """The expression consisting of one name."""
    return Expr({(name,): 1})


@lru_cache(maxsize=4096)
def _const(value: int) -> Expr:
    return Expr({(): value})


def const(value: int) -> Expr:
    """The constant expression `value`."""
    return _const(int(value))


def expr(value: ExprLike) -> Expr:
    """Convert an int (constant) or str (one name) to an expression."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, str):
        return sym(value)
    return const(int(value))


def _join_div_mod(terms: dict[Monomial, int]) -> Expr:
    """Apply `(e floordiv k)*k + e mod k == e`, the identity behind collapsed axes."""
    mods = [(m, a) for m in terms for a in m if isinstance(a, Func) and a.name == "mod" and terms[m]]
    for mono, atom in mods:
        coef = terms.get(mono, 0)
        if not coef:
            continue
        rest = list(mono)
        rest.remove(atom)
        scale = Expr({tuple(rest): coef})
        partner = scale * floordiv(*atom.args) * atom.args[1]
        if partner.terms and all(terms.get(m) == c for m, c in partner.terms.items()):
            for m in partner.terms:
                terms.pop(m)
            terms.pop(mono)
            return Expr(terms) + scale * atom.args[0]
    return Expr(terms)


def _raw(atom: Func) -> Expr:
    return Expr({(atom,): 1})


def _apply(name: str, args: tuple[Expr, ...], tag: str, ranges: Ranges | None) -> Expr:
    match name:
        case "floordiv":
            return floordiv(args[0], args[1], ranges)
        case "mod":
            return mod(args[0], args[1], ranges)
        case "min":
            return minimum(args[0], args[1], ranges)
        case "max":
            return maximum(args[0], args[1], ranges)
        case _:
            return _raw(Func(name, args, tag))


def map_atoms(e: Expr, atom: Callable[[Func], Expr | None]) -> Expr:
    """Rebuild `e` with every applied atom replaced by `atom(f)`, or with mapped arguments where that is None."""
    if e.is_polynomial:
        return e
    result = const(0)
    for mono, coef in e.terms.items():
        term = const(coef)
        for a in mono:
            if isinstance(a, str):
                term = term * sym(a)
                continue
            replaced = atom(a)
            term = term * (
                replaced if replaced is not None else _apply(a.name, tuple(map_atoms(x, atom) for x in a.args), a.tag, None)
            )
        result = result + term
    return result


def read(tag: str, *index: ExprLike) -> Expr:
    """An integer loaded from the index tensor `tag` at `index`: the index expression of a gather."""
    return _raw(Func("read", tuple(expr(i) for i in index), tag))


def is_nonneg(value: ExprLike, ranges: Ranges | None = None) -> bool:
    """True if `value >= 0` is proven for all names (see `Ranges` for what is assumed of them)."""
    value = expr(value)
    known = value.as_int()
    if known is not None:
        return known >= 0
    return _is_nonneg(value, ranges) if ranges is not None else _is_nonneg_cached(value)


@lru_cache(maxsize=65536)
def _is_nonneg_cached(value: Expr) -> bool:
    return _is_nonneg(value, None)


def _is_nonneg(value: Expr, ranges: Ranges | None) -> bool:
    low = _lower(value, ranges)
    return low is not None and _poly_nonneg(low, 0 if ranges is None else 1)


def _lower(e: Expr, ranges: Ranges | None) -> Expr | None:
    """A lower bound of `e` without axis names: each axis goes to the end that makes the term smallest."""
    result = const(0)
    for mono, coef in e.terms.items():
        term = const(coef)
        for atom in mono:
            if isinstance(atom, str):
                if ranges is not None and atom in ranges:
                    term = term * (const(0) if coef > 0 else ranges[atom] - 1)
                else:
                    term = term * sym(atom)
            elif atom.name == "mod":
                term = term * (const(0) if coef > 0 else atom.args[1] - 1)
            elif atom.name == "min" and coef < 0:
                term = term * atom.args[0]
            elif atom.name == "min" and coef > 0 and all(is_nonneg(a, ranges) for a in atom.args):
                term = term * (1 if all(is_nonneg(a - 1, ranges) for a in atom.args) else 0)
            elif atom.name == "max" and coef > 0:
                term = term * atom.args[0]
            elif atom.name == "floordiv" and coef > 0 and is_nonneg(atom.args[0], ranges):
                term = term * 0
            elif atom.name == "floordiv" and coef < 0 and is_nonneg(atom.args[0], ranges):
                up = _upper(atom.args[0], ranges)
                if up is None:
                    return None
                term = term * up
            else:
                return None
        result = result + term
    return result


def _upper(e: Expr, ranges: Ranges | None) -> Expr | None:
    low = _lower(-e, ranges)
    return None if low is None else -low


def _poly_nonneg(e: Expr, least: int) -> bool:
    """Substitute s -> least + s' for every name (s' >= 0); non-negative coefficients then prove it."""
    if not e.is_polynomial:
        return False
    shifted = e.substitute({n: sym(n) + least for n in e.names()}) if least else e
    return all(c >= 0 for c in shifted.terms.values())


def is_positive(value: ExprLike, ranges: Ranges | None = None) -> bool:
    """True if `value > 0` is proven."""
    return is_nonneg(expr(value) - 1, ranges)


def _divide_monomial(mono: Monomial, coef: int, divisor: Expr) -> Expr | None:
    """`coef*mono / divisor` if it is exact and `divisor` is a single term."""
    if len(divisor.terms) != 1:
        return None
    (dm, dc), = divisor.terms.items()
    if coef % dc:
        return None
    rest = list(mono)
    for atom in dm:
        if atom not in rest:
            return None
        rest.remove(atom)
    return Expr({tuple(rest): coef // dc})


def exact_div(a: ExprLike, b: ExprLike) -> Expr | None:
    """`a / b` if the division is exact for all values of the symbols, else None."""
    a, b = expr(a), expr(b)
    if a == b:
        return const(1)
    quotient = const(0)
    for mono, coef in a.terms.items():
        part = _divide_monomial(mono, coef, b)
        if part is None:
            return None
        quotient = quotient + part
    return quotient


def _in_range(value: Expr, size: Expr, ranges: Ranges | None) -> bool:
    """True if 0 <= value < size is proven."""
    if not is_nonneg(value, ranges):
        return False
    top = _upper(value, ranges)
    return top is not None and is_nonneg(size - 1 - top, None if ranges is None else DIMS)


def floordiv(a: ExprLike, b: ExprLike, ranges: Ranges | None = None) -> Expr:
    """`a // b`, split into an exact part and a remainder that vanishes when its range allows.

    Python semantics (rounds towards minus infinity); `b` must be positive.
    """
    a, b = expr(a), expr(b)
    return _floordiv(a, b, ranges) if ranges is not None else _floordiv_cached(a, b)


@lru_cache(maxsize=65536)
def _floordiv_cached(a: Expr, b: Expr) -> Expr:
    return _floordiv(a, b, None)


def _floordiv(a: Expr, b: Expr, ranges: Ranges | None) -> Expr:
    ai, bi = a.as_int(), b.as_int()
    if bi == 0:
        raise ZeroDivisionError(f"{a} floordiv 0")
    if bi == 1:
        return a
    if ai is not None and bi is not None:
        return const(ai // bi)
    if a == b:
        return const(1)
    quotient, rest = const(0), const(0)
    for mono, coef in a.terms.items():
        part = _divide_monomial(mono, coef, b)
        if part is not None:
            quotient = quotient + part
        elif mono == () and bi is not None:
            quotient, rest = quotient + coef // bi, rest + coef % bi
        else:
            rest = rest + Expr({mono: coef})
    if not rest.terms:
        return quotient
    if _in_range(rest, b, ranges):
        return quotient
    # (e floordiv c) floordiv d == e floordiv (c*d)
    if len(rest.terms) == 1:
        (mono, coef), = rest.terms.items()
        if coef == 1 and len(mono) == 1 and isinstance(mono[0], Func) and mono[0].name == "floordiv":
            inner = mono[0].args
            return quotient + floordiv(inner[0], inner[1] * b, ranges)
    return quotient + _raw(Func("floordiv", (rest, b)))


def mod(a: ExprLike, b: ExprLike, ranges: Ranges | None = None) -> Expr:
    """`a % b` for positive `b`, with multiples of `b` removed and the mod dropped when in range."""
    a, b = expr(a), expr(b)
    return _mod(a, b, ranges) if ranges is not None else _mod_cached(a, b)


@lru_cache(maxsize=65536)
def _mod_cached(a: Expr, b: Expr) -> Expr:
    return _mod(a, b, None)


def _mod(a: Expr, b: Expr, ranges: Ranges | None) -> Expr:
    ai, bi = a.as_int(), b.as_int()
    if bi == 0:
        raise ZeroDivisionError(f"{a} mod 0")
    if bi == 1:
        return const(0)
    if ai is not None and bi is not None:
        return const(ai % bi)
    rest = const(0)
    for mono, coef in a.terms.items():
        if _divide_monomial(mono, coef, b) is None:
            rest = rest + (const(coef % bi) if mono == () and bi is not None else Expr({mono: coef}))
    if not rest.terms:
        return const(0)
    if _in_range(rest, b, ranges):
        return rest
    return _raw(Func("mod", (rest, b)))


def minimum(a: ExprLike, b: ExprLike, ranges: Ranges | None = None) -> Expr:
    """`min(a, b)`, resolved when one side is proven to be the smaller."""
    a, b = expr(a), expr(b)
    if is_nonneg(b - a, ranges):
        return a
    if is_nonneg(a - b, ranges):
        return b
    return _raw(Func("min", (a, b) if a.key <= b.key else (b, a)))


def maximum(a: ExprLike, b: ExprLike, ranges: Ranges | None = None) -> Expr:
    """`max(a, b)`, resolved when one side is proven to be the larger."""
    a, b = expr(a), expr(b)
    if is_nonneg(a - b, ranges):
        return a
    if is_nonneg(b - a, ranges):
        return b
    return _raw(Func("max", (a, b) if a.key <= b.key else (b, a)))


def ceildiv(a: ExprLike, b: ExprLike, ranges: Ranges | None = None) -> Expr:
    """`ceil(a / b)` for positive `b`."""
    return floordiv(expr(a) + expr(b) - 1, b, ranges)


def round_up(a: ExprLike, b: ExprLike) -> Expr:
    """The smallest multiple of `b` that is >= `a`."""
    return ceildiv(a, b) * b


def product(values: Iterable[ExprLike]) -> Expr:
    """The product of all values; 1 for none."""
    result = const(1)
    for value in values:
        result = result * value
    return result


# -- text ---------------------------------------------------------------------------------------


def _format_atom(atom: Atom) -> str:
    if isinstance(atom, str):
        return atom
    if atom.name in ("floordiv", "mod"):
        a, b = (format_expr(x, nested=True) for x in atom.args)
        return f"({a} {atom.name} {b})"
    args = ", ".join(format_expr(a) for a in atom.args)
    return f"read {atom.tag}[{args}]" if atom.name == "read" else f"{atom.name}({args})"


def format_expr(e: Expr, nested: bool = False) -> str:
    """MLIR-like text, e.g. `B * S + 4` or `(S + 1) floordiv 2`; `parse_expr` reads it back."""
    parts: list[str] = []
    for mono, coef in sorted(e.terms.items(), key=lambda t: (t[0] == (), _mono_key(t[0]))):
        factors = [_format_atom(a) for a in mono]
        if abs(coef) != 1 or not factors:
            factors.append(str(abs(coef)))
        text = " * ".join(factors)
        if not parts:
            parts.append(f"-{text}" if coef < 0 else text)
        else:
            parts.append(f"- {text}" if coef < 0 else f"+ {text}")
    text = " ".join(parts) if parts else "0"
    if nested and (len(e.terms) > 1 or " * " in text or text.startswith("-")):
        return f"({text})"
    if not nested and text.startswith("(") and len(e.terms) == 1 and not any(" * " in p for p in parts):
        (mono,) = e.terms
        if len(mono) == 1 and isinstance(mono[0], Func) and mono[0].name in ("floordiv", "mod"):
            return text[1:-1]
    return text
