# SPDX-License-Identifier: Apache-2.0
"""C++ text of integer expressions, with `/` and `%` only where rounding towards zero is right."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from gaf.dialects.common.index import Atom, Expr, Func, sym


@dataclass
class Signs:
    """What is known about names: the smallest value each may have (0 or 1); other names may be negative."""

    low: dict[str, int] = field(default_factory=dict)

    def nonneg(self, e: Expr) -> bool:
        """True if `e >= 0` follows."""
        known = {n: sym(n) + 1 for n, low in self.low.items() if low >= 1}
        shifted = e.substitute(known)
        return all(c >= 0 for c in shifted.terms.values()) and all(self._atom(a) for a in shifted.atoms())

    def _atom(self, atom: Atom) -> bool:
        if isinstance(atom, str):
            return atom in self.low
        if atom.name == "max":
            return any(self._inner(a) for a in atom.args)
        return atom.name in ("min", "floordiv", "mod") and all(self._inner(a) for a in atom.args)

    def _inner(self, e: Expr) -> bool:
        """Like `nonneg`, for an expression whose names were already shifted."""
        return all(c >= 0 for c in e.terms.values()) and all(self._atom(a) for a in e.atoms())

    def _positive(self, e: Expr) -> bool:
        """True if `e >= 1` follows."""
        atom = next(iter(e.atoms()), None)
        if isinstance(atom, Func) and e.terms == {(atom,): 1} and atom.name in ("min", "max"):
            return (all if atom.name == "min" else any)(self._positive(a) for a in atom.args)
        return self.nonneg(e - 1)

    def learn(self, name: str, value: Expr) -> None:
        """Derive the sign of a name from its value."""
        if self._positive(value):
            self.low[name] = 1
        elif self.nonneg(value):
            self.low[name] = 0
        else:
            self.low.pop(name, None)


@dataclass(frozen=True)
class ExprStyle:
    """How names are written, what is known about their sign, and the prefix of helper functions."""

    name: Callable[[str], str] = lambda n: n
    signs: Signs = field(default_factory=Signs)
    prefix: str = "gaf::"

    def format(self, e: Expr, tight: bool = False) -> str:
        """C++ text of `e`; `tight` puts it in parentheses unless it is one factor."""
        positive = [(m, c) for m, c in e.terms.items() if c > 0]
        negative = [(m, c) for m, c in e.terms.items() if c < 0]

        def order(item: tuple[tuple[Atom, ...], int]) -> tuple[bool, int, str]:
            return (item[0] == (), len(item[0]), self._term(item[0], 1))

        def ordered(terms: list[tuple[tuple[Atom, ...], int]]) -> list[tuple[tuple[Atom, ...], int]]:
            # a lone term needs no key: two texts of every nested function would be 2 ** depth texts
            return sorted(terms, key=order) if len(terms) > 1 else terms

        parts = [self._term(m, c) for m, c in ordered(positive)]
        text = " + ".join(parts)
        for m, c in ordered(negative):
            term = self._term(m, -c)
            text = f"{text} - {term}" if text else f"-{_paren(term)}"
        text = text or "0"
        if tight and (len(e.terms) > 1 or " " in text or text.startswith("-")) and not _is_call(text):
            return f"({text})"
        return text

    def _term(self, mono: tuple[Atom, ...], coefficient: int) -> str:
        """A product. One division comes first, others in parentheses: C++ computes from left to right."""
        atoms = list(mono)
        factors: list[str] = []
        for atom in list(atoms):
            rounded = _round_up(atom, coefficient)
            if rounded is not None:
                value, step = rounded
                atoms.remove(atom)
                coefficient //= step
                factors.append(f"{self.prefix}RoundUp({self.format(value)}, {step})")
                break
        names = [self.name(a) for a in atoms if isinstance(a, str)]
        calls = [self._func(a) for a in atoms if isinstance(a, Func)]
        plain = names + [c for c in calls if _is_call(c)] + factors
        divisions = [c for c in calls if not _is_call(c)]
        if coefficient != 1 or not (plain or divisions):
            plain.append(_integer(coefficient))
        return " * ".join([*divisions[:1], *plain, *(f"({d})" for d in divisions[1:])])

    def _func(self, atom: Func) -> str:
        a, b = atom.args
        match atom.name:
            case "min" | "max":
                return f"{self.prefix}{atom.name.capitalize()}({self.format(a)}, {self.format(b)})"
            case "floordiv" | "mod":
                if self.signs.nonneg(a):
                    sign = "/" if atom.name == "floordiv" else "%"
                    return f"{self.format(a, True)} {sign} {self.format(b, True)}"
                function = "FloorDiv" if atom.name == "floordiv" else "FloorMod"
                return f"{self.prefix}{function}({self.format(a)}, {self.format(b)})"
        raise ValueError(f"{atom.name} has no C++ text")


def _round_up(atom: Atom, coefficient: int) -> tuple[Expr, int] | None:
    """(x, c) when the atom is `(x + c - 1) floordiv c` and the coefficient has the factor c."""
    if not isinstance(atom, Func) or atom.name != "floordiv":
        return None
    step = atom.args[1].as_int()
    if step is None or step < 2 or coefficient % step:
        return None
    inner = atom.args[0]
    return (inner - (step - 1), step) if inner.terms.get((), 0) == step - 1 else None


def _integer(value: int) -> str:
    return str(value) if abs(value) < 2**31 else f"{value}LL"


def _paren(text: str) -> str:
    return f"({text})" if " / " in text or " % " in text else text


def _is_call(text: str) -> bool:
    """Whether text is one call `name(...)`, so that it binds like a name."""
    head, bracket, _ = text.partition("(")
    if not bracket or not head.replace("::", "").isidentifier():
        return False
    depth = 0
    for i, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if c == ")" and depth == 0:
            return i == len(text) - 1
    return False


def field_signs(symbols: Iterable[str], fields: Iterable[tuple[str, Expr]]) -> Signs:
    """Signs of symbols (each >= 1) and of tiling fields computed from them in order."""
    signs = Signs(dict.fromkeys(symbols, 1))
    for name, value in fields:
        signs.learn(name, value)
    return signs
