# SPDX-License-Identifier: Apache-2.0
"""Where passes are registered and found: by decorator, by file name, and from other packages."""

from __future__ import annotations

import dataclasses
import importlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass, get_pass_option_infos
from xdsl.utils.arg_spec import ArgSpec, ArgSpecConvertible, parse_pipeline
from xdsl.utils.exceptions import ArgSpecParseError
from xdsl.utils.hints import type_repr

from gaf.errors import InternalError, InvalidInputError
from gaf.passes import PASS_MODULES, PIPELINES

if TYPE_CHECKING:
    from gaf.passes.driver import RewriteRule

ENTRY_POINT_GROUP = "gaf.passes"
"""Packages publish passes under this entry-point group: the name of the pass = `module:Class`."""

PassClass = TypeVar("PassClass", bound=type[ModulePass])
Spec = TypeVar("Spec", bound=ArgSpecConvertible)
PassFactory = Callable[[], type[ModulePass]]

_registered: dict[str, type[ModulePass]] = {}
_added_rules: dict[str, list[RewriteRule]] = {}


@dataclass(frozen=True)
class PassOption:
    """One option of a pass: its name on the command line, type, default (None: required) and meaning."""

    name: str
    type: str
    default: str | None
    doc: str


class PipelinePass(ModulePass):
    """A name and options that stand for a list of passes, by which `parse_passes` replaces it."""

    def expand(self) -> str:
        """The passes with their options, as text."""
        raise NotImplementedError

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for one in parse_passes(self.expand()):
            one.apply(ctx, op)


def option(default: Any, doc: str) -> Any:
    """A dataclass field of a pass, with the sentence that `gaf-opt --list-passes` shows for it."""
    return dataclasses.field(default=default, metadata={"doc": doc})


def register_pass(cls: PassClass) -> PassClass:
    """Class decorator: makes a `ModulePass` dataclass known by its `name` to pipelines and `gaf-opt`.

    The first line of the class docstring is its summary. Raises `InvalidInputError` when the class isn't a
    pass or another class has the name.
    """
    name = getattr(cls, "name", None)
    if not (isinstance(cls, type) and issubclass(cls, ModulePass) and isinstance(name, str)):
        raise InvalidInputError(
            f"{cls!r} can't be registered as a pass",
            expected="a frozen dataclass derived from xdsl.passes.ModulePass with a `name`",
        )
    known = _registered.get(name)
    if known is not None and (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
        raise InvalidInputError(
            f"two passes are named '{name}': {known.__module__}.{known.__qualname__} and "
            f"{cls.__module__}.{cls.__qualname__}",
            hint="give one of them another name",
        )
    _registered[name] = cls
    return cls


def pass_name(module: str) -> str:
    """The name of the pass in a module: the last part of its dotted name, in kebab-case."""
    return module.rpartition(".")[2].replace("_", "-")


def available_passes() -> dict[str, PassFactory]:
    """Every known pass by name, as a factory that imports it: gaf's, other packages', and registered ones.

    A package can't replace a pass of gaf: `InvalidInputError` names the package instead.
    """
    factories: dict[str, PassFactory] = {}
    for module in PASS_MODULES:
        factories[pass_name(module)] = lambda module=module: _import_own(module)
    for name, target in PIPELINES.items():
        factories[name] = lambda target=target: _import_pipeline(target)
    for entry in entry_points(group=ENTRY_POINT_GROUP):
        if entry.name in factories:
            raise InvalidInputError(
                f"entry point '{entry.value}' publishes a pass named '{entry.name}', which gaf has already",
                hint="rename it in the other package, or uninstall that package",
            )
        factories[entry.name] = lambda entry=entry: _import_foreign(entry)
    for name, cls in _registered.items():
        factories.setdefault(name, lambda cls=cls: cls)
    return factories


def get_pass(name: str) -> type[ModulePass]:
    """The class of the pass `name`; raises `InvalidInputError` with the nearest names when there is none."""
    factories = available_passes()
    if name not in factories:
        raise unknown_pass(name, factories)
    return factories[name]()


def parse_passes(
    pipeline: str, factories: Mapping[str, PassFactory] | None = None
) -> tuple[ModulePass, ...]:
    """The passes of a text such as `fuse{max-depth=3}, lower-graph`; blanks around commas are free.

    A name of `PIPELINES` gives the passes that it stands for.
    Raises `InvalidInputError` for wrong syntax, unknown passes and wrong options.
    """
    known = available_passes() if factories is None else factories
    # xDSL wants no blanks around commas; strings keep theirs
    without_blanks = re.sub(r'("(?:\\.|[^"\\])*")|\s*,\s*', lambda match: match[1] or ",", pipeline.strip())
    try:
        specs = tuple(parse_pipeline(without_blanks))
    except ArgSpecParseError as error:
        what = str(error).strip()
        raise InvalidInputError(what, hint="quote the pipeline: -p 'pass-a{option=1},pass-b'") from error
    passes: list[ModulePass] = []
    for spec in specs:
        if spec.name not in known:
            raise unknown_pass(spec.name, known)
        found = with_options(known[spec.name](), spec)
        passes += parse_passes(found.expand(), known) if isinstance(found, PipelinePass) else (found,)
    return tuple(passes)


def with_options(cls: type[Spec], spec: ArgSpec) -> Spec:
    """An instance of a pass, target or frontend; `InvalidInputError` lists its options if some are wrong."""
    try:
        return cls.from_spec(spec)
    except ValueError as error:
        options = ", ".join(f"{o.name}: {o.type}" for o in pass_options(cls)) or "no options"
        raise InvalidInputError(
            f"wrong options for '{spec.name}': {str(error).strip()}", expected=options, got=f"'{spec}'"
        ) from error


def unknown_pass(name: str, known: Iterable[str]) -> InvalidInputError:
    """The error for a pass that doesn't exist, with the names that the user may have meant."""
    close = get_close_matches(name, list(known), n=3)
    hint = f"did you mean {' or '.join(map(repr, close))}?" if close else "gaf-opt --list-passes lists all"
    return InvalidInputError(f"unknown pass '{name}'", hint=hint)


def pass_options(cls: type[ArgSpecConvertible]) -> tuple[PassOption, ...]:
    """The options of a pass with their defaults and meaning, in declaration order."""
    docs = {f.name: f.metadata.get("doc", "") for f in dataclasses.fields(cls)}
    types = get_type_hints(cls)
    return tuple(
        PassOption(
            info.name.replace("_", "-"), type_repr(types[info.name]), info.default_value, docs[info.name]
        )
        for info in get_pass_option_infos(cls)
    )


def pass_summary(cls: type[ModulePass]) -> str:
    """The first line of a pass's own docstring, or an empty string."""
    doc = cls.__dict__.get("__doc__") or ""
    # dataclasses invent a docstring that is only the signature
    return "" if doc.startswith(f"{cls.__name__}(") else doc.strip().partition("\n")[0]


def pass_level(cls: type[ModulePass]) -> str | None:
    """The level whose operations a pass of gaf reads: graph, tile or ascendc; None for any other pass."""
    parts = cls.__module__.split(".")
    return parts[2] if parts[:2] == ["gaf", "passes"] and len(parts) > 3 else None


def add_rule(pass_name: str, rule: RewriteRule) -> None:
    """Adds a rule to those of a pass; raises `InvalidInputError` when there is no such pass."""
    known = available_passes()
    if pass_name not in known:
        raise unknown_pass(pass_name, known)
    _added_rules.setdefault(pass_name, []).append(rule)


def rules_for(pass_name: str) -> tuple[RewriteRule, ...]:
    """The rules that were added to a pass from outside it."""
    return tuple(_added_rules.get(pass_name, ()))


@contextmanager
def scoped_registry() -> Iterator[None]:
    """Forgets on exit what was registered inside: for tools and tests that load a user's file."""
    passes, rules = dict(_registered), {name: list(added) for name, added in _added_rules.items()}
    try:
        yield
    finally:
        for store, saved in ((_registered, passes), (_added_rules, rules)):
            store.clear()
            store.update(saved)


def _import_pipeline(target: str) -> type[ModulePass]:
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _import_own(module: str) -> type[ModulePass]:
    # the decorator may have run in a scope that is over: look at the module, not at the register
    for value in vars(importlib.import_module(module)).values():
        if isinstance(value, type) and issubclass(value, ModulePass) and value.__module__ == module:
            if value.name == pass_name(module):
                return value
    raise InternalError(f"module {module} holds no pass named '{pass_name(module)}'")


def _import_foreign(entry: Any) -> type[ModulePass]:
    try:
        cls = entry.load()
    except Exception as error:
        raise InvalidInputError(
            f"the pass '{entry.name}' of another package can't be imported from '{entry.value}': {error}",
            hint="repair or uninstall that package",
        ) from error
    if getattr(cls, "name", None) != entry.name:
        raise InvalidInputError(
            f"entry point '{entry.value}' has the wrong name",
            expected=f"'{getattr(cls, 'name', None)}', the name of the pass",
            got=f"'{entry.name}'",
        )
    return register_pass(cls)
