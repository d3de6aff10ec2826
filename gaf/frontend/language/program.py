# SPDX-License-Identifier: Apache-2.0
"""`.gaf` files as programs: imports, weights, checked definitions, and models as graphs."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import Expr, const, expr, sym
from gaf.dialects.graph.model import Model, new_model
from gaf.dialects.graph.types import TensorType
from gaf.errors import GafError, InvalidInputError
from gaf.frontend.builder import GraphBuilder, symbol_name
from gaf.frontend.language import syntax as s
from gaf.frontend.language.errors import LanguageError, Source, near
from gaf.frontend.language.formula import check_rule
from gaf.frontend.language.lowering import HostCall, Lowering, OpEntry, Scope, literal
from gaf.frontend.language.parser import parse
from gaf.frontend.language.signature import (
    DTYPES,
    SCALARS,
    Bindings,
    dim_names,
    holds,
    is_scalar,
    is_type_variable,
    resolve,
    unknown_element,
)
from gaf.target.chips import CHIPS, Chip

MAX_FILES = 1000
SAMPLE_SIZES = (48, 80, 112, 176, 208, 272, 304, 368)
"""Sizes for trying an op that isn't right for all sizes: distinct, and divisible by 16."""

MAX_RATIO = 1000
"""A weight array may not unpack to more than this many times its size in the file (zip bombs), above 1 MiB."""


@dataclass
class Program:
    """The definitions of a file and of those it imports. `rules` and `targets` are for fusion and cost."""

    source: Source
    path: Path | None = None
    ops: dict[str, OpEntry] = field(default_factory=dict)
    models: dict[str, s.ModelItem] = field(default_factory=dict)
    rules: dict[str, s.Rule] = field(default_factory=dict)
    targets: dict[str, Chip] = field(default_factory=dict)
    weights: dict[str, _WeightFile] = field(default_factory=dict)

    def find(self, name: str) -> OpEntry | None:
        return self.ops.get(name)

    def names(self) -> Sequence[str]:
        return list(self.ops)

    def weight(self, name: str) -> np.ndarray | None:
        """An array of the weights files, read when it is first asked for."""
        found = self.weights.get(name)
        return found.array(name) if found is not None else None

    def scope(self) -> Scope:
        return Scope(self.source, self.find, self.names, self.weight, lambda: list(self.weights), host_call)

    def model(
        self, name: str | None = None, input_shapes: Mapping[str, Sequence[Any]] | None = None
    ) -> Model:
        """A model of the file as a graph: the one called `name`, the only one, or `main`.

        A file without models gives its op `name` (or its only op) as a model. `input_shapes` fixes sizes of
        inputs: numbers, or None for the declared ones. Raises LanguageError or InvalidInputError.
        """
        return build_model(self, self._choose(name), input_shapes)

    def _choose(self, name: str | None) -> s.ModelItem:
        names = [*self.models, *self.own_ops()]
        if name is not None:
            if name in self.models:
                return self.models[name]
            if name in self.ops:
                return op_as_model(self.ops[name])
            raise InvalidInputError(
                f"there is no model '{name}'",
                where=self.source.name,
                expected=", ".join(names) or "a model",
                hint=near(name, names),
            )
        if len(self.models) == 1:
            return next(iter(self.models.values()))
        if "main" in self.models:
            return self.models["main"]
        if not self.models and len(self.own_ops()) == 1:
            return op_as_model(self.ops[self.own_ops()[0]])
        choices = list(self.models) or self.own_ops()
        raise InvalidInputError(
            f"the file holds {len(choices)} {'models' if self.models else 'ops'}"
            if choices
            else "the file holds no model",
            where=self.source.name,
            expected="the name of one: " + ", ".join(choices) if choices else "model name(x: f32[n]) { ... }",
            hint=f"write {self.source.name}:{choices[-1]}; for gaf-opt: -f 'gaf{{model=\"{choices[-1]}\"}}'"
            if choices
            else None,
        )

    def own_ops(self) -> list[str]:
        """Ops of the file itself."""
        return [n for n, e in self.ops.items() if e.source is self.source]


# -- loading --------------------------------------------------------------------------------------


def load_gaf(
    path: str | os.PathLike[str],
    model: str | None = None,
    input_shapes: Mapping[str, Sequence[Any]] | None = None,
) -> Model:
    """A model of a `.gaf` file; see `Program.model`. Raises LanguageError or InvalidInputError."""
    return load_program(path).model(model, input_shapes)


def load_program(path: str | os.PathLike[str]) -> Program:
    """A `.gaf` file with everything it imports, its definitions checked."""
    return _Loader().file(Path(path))


def program_from_text(text: str, name: str = "text.gaf", folder: Path | None = None) -> Program:
    """The same for text; imports and weights are looked for in `folder`."""
    return _Loader().text(text, name, folder)


class _Loader:
    """Loads files once each; `stack` finds imports that go round in circles."""

    def __init__(self) -> None:
        self.loaded: dict[Path, Program] = {}
        self.stack: list[Path] = []

    def file(self, path: Path, shown: str | None = None) -> Program:
        key = path.resolve()
        if key in self.loaded:
            return self.loaded[key]
        name = shown or str(path)
        text = _read(path, name)
        self.stack.append(key)
        program = self.text(text, name, path.parent, path)
        self.stack.pop()
        self.loaded[key] = program
        return program

    def text(self, text: str, name: str, folder: Path | None, path: Path | None = None) -> Program:
        source = Source(name, text)
        try:
            tree = parse(text, name)
            program = Program(source, path)
            for item in tree.items:
                self.item(item, program, folder)
            for entry in program.ops.values():
                if entry.source is source:
                    check_op(entry, program)
            for model in program.models.values():
                check_params(model.params, source, model.name)
        except RecursionError:
            raise InvalidInputError(
                "an expression is nested too deeply", where=name, hint="name its parts with 'let'"
            ) from None
        return program

    def item(self, item: s.Item, program: Program, folder: Path | None) -> None:
        source = program.source
        match item:
            case s.Import(path):
                self.take(self.imported(path, item, source, folder), program, item)
            case s.Weights(path):
                where = _beside(path, item.span, source, folder, ".npz")
                for name in (weights := _WeightFile(where, source, item.span)).names():
                    program.weights[name] = weights
            case s.Op():
                self.define(item.name, item.name_span, program, program.ops)
                program.ops[item.name] = OpEntry(item, source, program.find, program.names)
            case s.ModelItem():
                self.define(item.name, item.name_span, program, program.models)
                program.models[item.name] = item
            case s.Rule():
                self.define(item.name, item.name_span, program, program.rules)
                check_rule(item, source)
                program.rules[item.name] = item
            case s.TargetItem():
                self.define(item.name, item.name_span, program, program.targets)
                program.targets[item.name] = make_target(item, program)

    def define(self, name: str, span: s.Span, program: Program, table: Mapping[str, Any]) -> None:
        if name in table:
            raise program.source.error(f"'{name}' is defined twice", span, hint="choose another name")

    def imported(self, path: str, item: s.Import, source: Source, folder: Path | None) -> Program:
        where = _beside(path, item.span, source, folder, ".gaf")
        if where.resolve() in self.stack:
            raise source.error(
                f"'{path}' imports this file, directly or not",
                item.span,
                hint="move what both need to a third file",
            )
        if len(self.loaded) >= MAX_FILES:
            raise source.error(f"more than {MAX_FILES} files are imported", item.span)
        if not where.is_file():
            raise source.error(
                f"there is no file '{path}'", item.span, expected=f"a .gaf file in {where.parent}"
            )
        return self.file(where)

    def take(self, other: Program, program: Program, item: s.Import) -> None:
        """Names of an imported file; one definition may come on several ways, two of one name may not."""
        for table, mine in (
            (other.ops, program.ops),
            (other.rules, program.rules),
            (other.targets, program.targets),
        ):
            for name, value in table.items():
                if name in mine and mine[name] is not value and not _same(mine[name], value):
                    raise program.source.error(f"'{name}' is defined here and in '{item.path}'", item.span)
                mine[name] = value  # type: ignore[index]


def _same(a: Any, b: Any) -> bool:
    return isinstance(a, OpEntry) and isinstance(b, OpEntry) and a.node is b.node


def _read(path: Path, name: str) -> str:
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError:
        raise InvalidInputError("this is not text in UTF-8", where=name, expected="a .gaf file") from None
    except OSError as error:
        raise InvalidInputError(f"can't read the file: {error.strerror}", where=name) from None


def _beside(path: str, span: s.Span, source: Source, folder: Path | None, ending: str) -> Path:
    """A file named in a `.gaf` file: relative to it, and inside its folder."""
    if Path(path).suffix != ending:
        raise source.error(f"'{path}' isn't called *{ending}", span, expected=f"a {ending} file")
    if Path(path).is_absolute() or ".." in Path(path).parts:
        raise source.error(
            f"'{path}' lies outside of the folder of this file", span, expected="a path inside of it"
        )
    return (folder or Path()) / path


class _WeightFile:
    """A `.npz` file whose arrays are read one by one."""

    def __init__(self, path: Path, source: Source, span: s.Span) -> None:
        self.path, self.source, self.span = path, source, span

    def error(self, what: str) -> LanguageError:
        return self.source.error(f"can't read the weights '{self.path.name}': {what}", self.span)

    def names(self) -> list[str]:
        try:
            with zipfile.ZipFile(self.path) as archive:
                entries = archive.infolist()
        except FileNotFoundError:
            raise self.error("there is no such file") from None
        except (OSError, zipfile.BadZipFile) as error:
            raise self.error(str(error)) from None
        for entry in entries:
            if entry.file_size > max(1 << 20, MAX_RATIO * entry.compress_size):
                raise self.error(
                    f"'{entry.filename}' unpacks to {entry.file_size} bytes from {entry.compress_size}"
                )
        return [e.filename.removesuffix(".npy") for e in entries if e.filename.endswith(".npy")]

    def array(self, name: str) -> np.ndarray:
        import ml_dtypes

        try:
            with np.load(self.path, allow_pickle=False) as arrays:
                array = arrays[name]
        except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
            raise self.error(f"array '{name}': {error}") from None
        # .npz has no bfloat16: numpy writes it as two raw bytes
        array = array.view(ml_dtypes.bfloat16) if array.dtype == "V2" else array
        try:
            dt.of_numpy(array.dtype)
        except GafError as error:
            raise self.error(f"array '{name}': {error.what}") from None
        return array


def host_call(name: str) -> HostCall | None:
    """A custom op that was registered in Python, by its name in `.gaf`."""
    from gaf.frontend import custom

    op = custom.by_gaf(name)
    return None if op is None else HostCall(name, op.emit, op.mutated_numbers)


# -- checks of definitions ----------------------------------------------------------------------------


def check_params(params: Sequence[s.Param], source: Source, what: str) -> None:
    """Raises LanguageError for names used twice, unknown element types and misplaced `...`."""
    seen: dict[str, s.Param] = {}
    dims = set(dim_names(params))
    for p in params:
        if p.name in seen:
            raise source.error(f"two parameters of '{what}' are called '{p.name}'", p.span)
        if p.name in dims:
            raise source.error(
                f"'{p.name}' is both a size and a parameter of '{what}'", p.span, hint="rename one of them"
            )
        seen[p.name] = p
        if is_scalar(p):
            continue
        if p.type.element not in DTYPES and not is_type_variable(p.type.element):
            if p.type.element in SCALARS:
                raise source.error(
                    f"'{p.type.element}' is a single value", p.type.span, expected="f32[..] for a tensor"
                )
            raise unknown_element(p.type, source)
        if p.default is not None:
            raise source.error(
                "a tensor has no default", p.span, expected="defaults for int, float, bool and string"
            )
        for i, d in enumerate(p.type.dims):
            if isinstance(d, s.Ellipsis) and i:
                raise source.error("'...' stands for leading dims", d.span, expected="... as the first dim")


def check_op(entry: OpEntry, program: Program) -> None:
    """Build an op for arbitrary sizes, or, if it isn't right for all, for sizes that its `where` allows.

    Raises the LanguageError of the first try if both fail.
    """
    op, source = entry.node, entry.source
    check_params(op.params, source, op.name)
    if any(is_scalar(p) and p.default is None and p.type.element == "string" for p in op.params):
        return  # nothing to try it with
    names = dim_names(op.params)
    try:
        _try_op(entry, program, {n: sym(n) for n in names}, sym("batch"))
    except GafError as error:
        for sizes in _samples(names, op, source):
            try:
                _try_op(entry, program, sizes, const(2))
                return
            except GafError:
                continue
        raise error from None


def _samples(names: Sequence[str], op: s.Op, source: Source) -> list[dict[str, Expr]]:
    """Sizes that fit the conditions of an op."""
    found: list[dict[str, Expr]] = []
    for shift in range(3):
        sizes = {n: expr(SAMPLE_SIZES[(i + shift) % len(SAMPLE_SIZES)]) for i, n in enumerate(names)}
        if all(holds(w, sizes, source)[0] is True for w in op.where):
            found.append(sizes)
    return found


def _try_op(entry: OpEntry, program: Program, dims: Mapping[str, Expr], batch: Expr) -> None:
    op = entry.node
    variables = {p.type.element: dt.F32 for p in op.params if is_type_variable(p.type.element)}
    bindings = Bindings(dict(dims), variables, (batch,))
    tensors = [p for p in op.params if not is_scalar(p)]
    model = new_model([(p.name, resolve(p.type, bindings, entry.source)) for p in tensors])
    values = dict(zip((p.name for p in tensors), model.block.args))
    sample = {"int": 1, "float": 1.0, "bool": True, "string": ""}
    args: list[Any] = []
    for p in op.params:
        if p.name in values:
            args.append(values[p.name])
        else:
            args.append(literal(p.default, entry.source) if p.default is not None else sample[p.type.element])
    lowering = Lowering(GraphBuilder(model))
    lowering.call_op(
        entry,
        args,
        [p.span for p in op.params],
        entry.source,
        op.name_span,
        (),
        lambda e: _op_scope(e, program),
    )


def _op_scope(entry: OpEntry, program: Program) -> Scope:
    return Scope(entry.source, entry.find, entry.names, host_call=host_call)


def make_target(item: s.TargetItem, program: Program) -> Chip:
    """The chip of a `target` line. Raises LanguageError for unknown chips and fields."""
    source = program.source
    base = program.targets.get(item.base) or CHIPS.get(item.base.lower())
    if base is None:
        known = [*program.targets, *CHIPS]
        raise source.error(
            f"unknown chip '{item.base}'",
            item.base_span,
            expected=", ".join(known),
            hint=near(item.base, known),
        )
    fields = {
        f: getattr(base, f)
        for f in base.__dataclass_fields__
        if isinstance(getattr(base, f), int | float | str)
    }
    changes: dict[str, Any] = {"name": item.name}
    for setting in item.settings:
        if setting.name not in fields or setting.name == "name":
            known = [f for f in fields if f != "name"]
            raise source.error(
                f"a chip has no '{setting.name}'",
                setting.span,
                expected=", ".join(known),
                hint=near(setting.name, known),
            )
        value = literal(setting.value, source)
        wanted = type(fields[setting.name])
        if wanted is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if wanted is int and isinstance(value, float) and value == int(value):
            value = int(value)
        if not isinstance(value, wanted) or isinstance(value, bool):
            raise source.error(
                f"'{setting.name}' has the wrong kind",
                setting.value.span,
                expected=wanted.__name__,
                got=value,
            )
        changes[setting.name] = value
    return replace(base, **changes)


# -- models -------------------------------------------------------------------------------------------


def op_as_model(entry: OpEntry) -> s.ModelItem:
    """An op as a model of its own; parameters that are no tensors keep their defaults."""
    op = entry.node
    args = tuple(s.Argument(p.name, s.Name(p.name, p.span), p.span) for p in op.params if not is_scalar(p))
    call = s.Call(op.name, args, op.name_span, op.name_span)
    if len(op.results) == 1:
        block = s.Block((), (s.Result("y", call, op.name_span),), op.span)
    else:
        targets = tuple(s.Target(f"y{i}") for i in range(len(op.results)))
        results = tuple(s.Result(t.name, s.Name(t.name, op.name_span), op.name_span) for t in targets)
        block = s.Block((s.Let(targets, None, call, op.name_span),), results, op.span)
    params = tuple(replace(p, type=_concrete(p.type)) for p in op.params if not is_scalar(p))
    return s.ModelItem(op.name, params, None, block, op.where, op.span, op.name_span)


def _concrete(type_: s.TypeExpr) -> s.TypeExpr:
    """A type variable as f32, `...` as one dim called batch."""
    element = "f32" if is_type_variable(type_.element) else type_.element
    dims = tuple(s.Name("batch", d.span) if isinstance(d, s.Ellipsis) else d for d in type_.dims)
    return replace(type_, element=element, dims=dims)


def _fixed(
    item: s.ModelItem, input_shapes: Mapping[str, Sequence[Any]], dims: dict[str, Expr], source: Source
) -> None:
    """Sizes that the caller gives. Raises InvalidInputError if they don't fit the declared shapes."""
    params = {p.name: p for p in item.params}
    given: dict[str, int] = {}
    for name, shape in input_shapes.items():
        if name not in params:
            raise InvalidInputError(
                f"the model has no input '{name}'",
                where=source.name,
                expected=", ".join(params),
                hint=near(name, params),
            )
        declared = params[name].type.dims
        if len(shape) != len(declared):
            raise InvalidInputError(
                f"input '{name}' has another rank",
                where=source.name,
                expected=f"{len(declared)} sizes",
                got=tuple(shape),
            )
        for axis, (d, size) in enumerate(zip(declared, shape)):
            if size is None or (isinstance(d, s.Name) and size == d.name):
                continue
            fits = isinstance(size, int) and size >= 0
            if isinstance(d, s.Name) and fits and given.setdefault(d.name, size) == size:
                dims[d.name] = const(size)
            elif not (isinstance(d, s.Number) and size == d.value):
                raise InvalidInputError(
                    f"input '{name}' can't have size {size} on axis {axis}",
                    where=source.name,
                    expected=given.get(d.name, d.name) if isinstance(d, s.Name) else "the declared size",
                )


def build_model(
    program: Program, item: s.ModelItem, input_shapes: Mapping[str, Sequence[Any]] | None = None
) -> Model:
    """The graph of a model. Raises LanguageError."""
    source = program.source
    for p in item.params:
        if is_scalar(p):
            raise source.error("the inputs of a model are tensors", p.span, expected="f32[..]")
        if is_type_variable(p.type.element):
            raise source.error(
                "the inputs of a model have known element types", p.type.span, expected=", ".join(DTYPES)
            )
        for d in p.type.dims:
            if isinstance(d, s.Ellipsis):
                raise source.error(
                    "the inputs of a model have a known rank", d.span, expected="a dim name or number"
                )
    dims = {n: sym(symbol_name(n)) for n in dim_names(item.params)}
    if input_shapes:
        _fixed(item, input_shapes, dims, source)
    bindings = Bindings(dict(dims))
    inputs: list[tuple[str, TensorType]] = []
    for p in item.params:
        if p.name in dict(inputs):
            raise source.error(f"two inputs are called '{p.name}'", p.span)
        inputs.append((p.name, resolve(p.type, bindings, source)))
    model = new_model(inputs, name=item.name, source=source.name, opset=18, origin=program)
    builder = GraphBuilder(model)
    lowering = Lowering(builder, builder.assume_condition)
    env: dict[str, Any] = {**dims, **dict(zip((p.name for p in item.params), model.block.args))}
    lowering.check_where(item.where, dims, source, source, item.name_span, f"model '{item.name}' needs")
    expected = [resolve(r, bindings, source) for r in item.results] if item.results is not None else None
    try:
        results = lowering.block(item.block, env, program.scope(), (), expected, bindings)
    except RecursionError:
        raise InvalidInputError(
            "an expression is nested too deeply", where=source.name, hint="name its parts with 'let'"
        ) from None
    names = _output_names(item, source)
    model.num_source_ops = lowering.written
    for name, value in zip(names, results):
        builder.name(value, name)
    return builder.finish(list(zip(names, results)))


def _output_names(item: s.ModelItem, source: Source) -> list[str]:
    results = item.block.results
    inputs = {p.name for p in item.params}
    names: list[str] = []
    for i, r in enumerate(results):
        plain = r.value.name if isinstance(r.value, s.Name) else None
        if r.name in inputs and plain != r.name:  # an input that a call changes comes back under its name
            raise source.error(f"an output is called like the input '{r.name}'", r.span, hint="give it another name")
        name = r.name or (plain if plain and plain not in inputs else None)
        if name is None:
            name = "y" if len(results) == 1 else f"y{i}"
            while name in inputs:
                name += "_out"
        if name in names:
            raise source.error(f"two outputs are called '{name}'", r.span, hint="name them: a = ..., b = ...")
        names.append(name)
    return names
