# SPDX-License-Identifier: Apache-2.0
"""Custom operators from Python: traced bodies that fuse, and opaque ops that stay on the host.

Every op has a signature in the notation of `.gaf`, e.g. `(x: T[..., d], g: T[d], alpha: float = 1.0) ->
T[..., d]`, and may be bound to names in ONNX and PyTorch; the importers look here before they look anywhere
else. Registrations are global, and `custom_ops()` confines them to a `with` block.
"""

from __future__ import annotations

import inspect
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.index import Expr
from gaf.dialects.graph import registry
from gaf.dialects.graph.contract import tensor_type
from gaf.dialects.graph.model import finish, new_model
from gaf.dialects.graph.ops.custom import CustomOp as CustomGraphOp
from gaf.dialects.graph.ops.custom import set_reference
from gaf.dialects.graph.types import TensorType
from gaf.errors import GafError, InvalidInputError
from gaf.frontend import calls
from gaf.frontend.builder import GraphBuilder
from gaf.frontend.language import syntax as s
from gaf.frontend.language.errors import Source, near
from gaf.frontend.language.lowering import Lowering, OpEntry, Scope, literal, scalar_value
from gaf.frontend.language.signature import Bindings, bind, is_scalar, resolve

_registry: dict[str, CustomOp] = {}


@dataclass(frozen=True)
class CustomOp:
    """A registered op. Call it on tracers inside of another traced body, or on numpy arrays to try it.

    `name` is `namespace::op`. `entry` is set for ops of a `.gaf` file; for others `function` is the traced
    body, or with `opaque` the numpy reference (None: the op can't run on this machine).
    """

    name: str
    signature: s.Op
    source: Source
    function: Callable[..., Any] | None = None
    opaque: bool = False
    mutates: tuple[str, ...] = ()
    pure: bool = True
    onnx: tuple[str, ...] = ()
    torch: tuple[str, ...] = ()
    device: str | None = None
    entry: OpEntry | None = field(default=None, compare=False)

    @property
    def short_name(self) -> str:
        """The name without its namespace, as `.gaf` files call it."""
        return self.name.rpartition("::")[2]

    @property
    def tensors(self) -> list[s.Param]:
        """The parameters that are tensors."""
        return [p for p in self.signature.params if not is_scalar(p)]

    @property
    def mutated_numbers(self) -> tuple[int, ...]:
        """Numbers of the tensor parameters that the op writes into."""
        names = [p.name for p in self.tensors]
        return tuple(names.index(n) for n in self.mutates)

    def __call__(self, *args: Any, **named: Any) -> Any:
        """On tracers: the op in the graph being traced. On arrays: its results, through the graph's reference."""
        tracer = next((a for a in (*args, *named.values()) if isinstance(a, Tracer)), None)
        if tracer is None:
            return self._run(args, named)
        values = [_untraced(a) for a in args]
        given = {k: _untraced(v) for k, v in named.items()}
        results = self.emit(tracer.builder, values, given, tracer.location)
        count = len(results) - len(self.mutates)
        order = [p.name for p in self.signature.params]
        for name, new in zip(self.mutates, results[count:]):
            position = order.index(name)
            target = args[position] if position < len(args) else named[name]
            if not isinstance(target, Tracer):
                raise InvalidInputError(
                    f"'{self.name}' writes into '{name}'", expected="a tensor of the traced function"
                )
            target.value = new
        outs = [Tracer(tracer.builder, r, tracer.location) for r in results[:count]]
        return outs[0] if len(outs) == 1 else tuple(outs)

    def _run(self, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
        arrays = {p.name: np.asarray(a) for p, a in zip(self.signature.params, args) if not is_scalar(p)}
        arrays |= {k: np.asarray(v) for k, v in named.items() if any(p.name == k for p in self.tensors)}
        types = {k: TensorType.of(a.shape, dt.of_numpy(a.dtype)) for k, a in arrays.items()}
        model = new_model(list(types.items()), name=self.short_name, source=self.name)
        values = dict(zip(arrays, model.block.args))
        params = self.signature.params
        positional = [values.get(p.name, a) for p, a in zip(params, args)] + list(args[len(params) :])
        given = {k: values.get(k, v) for k, v in named.items()}
        results = self.emit(GraphBuilder(model), positional, given, None)
        finish(model, [(str(i), r) for i, r in enumerate(results)])
        outs = list(model.run(arrays).values())
        return outs[0] if len(outs) == 1 else tuple(outs)

    # -- graphs -----------------------------------------------------------------------------------

    def emit(
        self, builder: GraphBuilder, args: Sequence[Any], named: Mapping[str, Any] | None = None,
        location: str | None = None,
    ) -> list[SSAValue]:  # fmt: skip
        """The op in a graph: its results, then the new values of the tensors that it mutates.

        `args` and `named` are tensors, numbers for them, and values of scalar parameters. Raises
        InvalidInputError if they don't fit the signature.
        """
        values = self._arguments(builder, args, dict(named or {}))
        where = Source(self.name, "")
        tensors = [v for p, v in zip(self.signature.params, values) if not is_scalar(p)]
        types = [tensor_type(v) for v in tensors]
        nowhere = [s.NOWHERE] * len(types)
        bindings = bind(self.tensors, types, nowhere, self.source, where, self.name)
        sizes: dict[str, Any] = dict(bindings.dims)
        lowering = Lowering(builder, lambda text: builder.assume_condition(text))
        lowering.check_where(
            self.signature.where, sizes, self.source, where, s.NOWHERE, f"'{self.name}' needs"
        )
        expected = [resolve(r, bindings, self.source) for r in self.signature.results]
        if self.entry is not None:
            entry = self.entry
            scope = lambda e: Scope(e.source, e.find, e.names)
            return lowering.call_op(entry, values, [s.NOWHERE] * len(values), where, s.NOWHERE, (), scope)
        if self.opaque:
            return self._emit_opaque(builder, values, tensors, expected, location)
        return self._trace(builder, values, bindings, expected, location)

    def _arguments(self, builder: GraphBuilder, args: Sequence[Any], named: dict[str, Any]) -> list[Any]:
        params = self.signature.params
        if len(args) > len(params):
            raise InvalidInputError(
                f"'{self.name}' got too many arguments",
                expected=", ".join(p.name for p in params),
                got=len(args),
            )
        given = dict(zip((p.name for p in params), args))
        for name, value in named.items():
            if name in given or all(p.name != name for p in params):
                what = "is given twice" if name in given else "doesn't exist"
                raise InvalidInputError(
                    f"argument '{name}' of '{self.name}' {what}",
                    expected=", ".join(p.name for p in params),
                    hint=near(name, [p.name for p in params]),
                )
            given[name] = value
        first = next((tensor_type(v).dtype for v in given.values() if isinstance(v, SSAValue)), None)
        values: list[Any] = []
        for p in params:
            if given.get(p.name) is None:
                if p.default is None:
                    raise InvalidInputError(
                        f"'{self.name}' needs the argument '{p.name}'",
                        expected=", ".join(q.name for q in params),
                    )
                given[p.name] = literal(p.default, self.source)
            value = given[p.name]
            if is_scalar(p):
                values.append(scalar_value(value, p, self.name, Source(self.name, ""), s.NOWHERE))
            else:
                values.append(calls.as_tensor(builder, value, first, self.name))
        return values

    def _emit_opaque(
        self, builder: GraphBuilder, values: Sequence[Any], tensors: Sequence[SSAValue], types: Sequence[TensorType],
        location: str | None,
    ) -> list[SSAValue]:  # fmt: skip
        arguments = {p.name: v for p, v in zip(self.signature.params, values) if is_scalar(p)}
        op = CustomGraphOp.of(
            self.name, tensors, types, arguments=arguments, mutates=self.mutated_numbers, pure=self.pure,
            onnx=self.onnx[0] if self.onnx else None, device=self.device, location=location or self.short_name,
        )  # fmt: skip
        builder.model.fallbacks.setdefault(self.name, []).append(location or self.short_name)
        return builder.insert(op)

    def _trace(
        self, builder: GraphBuilder, values: Sequence[Any], bindings: Bindings, expected: Sequence[TensorType],
        location: str | None,
    ) -> list[SSAValue]:  # fmt: skip
        assert self.function is not None
        place = _Place(self.function, self.short_name, location)
        args = [
            v if is_scalar(p) else Tracer(builder, v, place) for p, v in zip(self.signature.params, values)
        ]
        returned = self.function(*args)
        outs = list(returned) if isinstance(returned, tuple | list) else [returned]
        if len(outs) != len(expected):
            raise InvalidInputError(
                f"the body of '{self.name}' returns the wrong number of results",
                expected=len(expected),
                got=len(outs),
            )
        results: list[SSAValue] = []
        for number, (out, type_) in enumerate(zip(outs, expected)):
            try:
                value = calls.as_tensor(builder, _untraced(out), type_.dtype, self.name)
            except InvalidInputError as error:
                error.what = f"result {number} of the body of '{self.name}': {error.what}"
                raise
            if tensor_type(value) != type_:
                raise InvalidInputError(
                    f"the body of '{self.name}' returns another type for result {number}",
                    expected=type_,
                    got=tensor_type(value),
                    where=place.line(),
                )
            results.append(value)
        return results


# -- registration ---------------------------------------------------------------------------------


def custom_op(
    name: str,
    shapes: str,
    *,
    opaque: bool = False,
    mutates: Sequence[str] = (),
    pure: bool = True,
    onnx: str | Sequence[str] = (),
    torch: str | Sequence[str] = (),
    device: str | None = None,
) -> Callable[[Callable[..., Any]], CustomOp]:
    """Decorator: registers a function as the op `name` (`acme::gate`).

    The function is called with tensors that record what it does (operators, `gaf.ops.sigmoid(x)`, other
    custom ops), so the op fuses like any built-in one. With `opaque` it is a numpy function instead: gaf
    can't look into the op, runs it on the host and keeps its order. `shapes` is the signature in `.gaf`
    notation; `mutates` names the tensors that an opaque op writes into; `pure=False` says that its calls
    may not be merged, reordered or dropped. `onnx` (`com.acme.Gate`) and `torch` (`acme.gate.default`) are
    names that the importers recognise; `device` is the Ascend C function of an opaque op.

    Raises LanguageError for a malformed signature, InvalidInputError for contradictions and for a name
    that is taken.
    """

    def register(function: Callable[..., Any]) -> CustomOp:
        return _register(_make(name, shapes, function, opaque, mutates, pure, onnx, torch, device))

    return register


def opaque_op(
    name: str,
    shapes: str,
    *,
    reference: Callable[..., Any] | None = None,
    mutates: Sequence[str] = (),
    pure: bool = True,
    onnx: str | Sequence[str] = (),
    torch: str | Sequence[str] = (),
    device: str | None = None,
) -> CustomOp:
    """Registers an op that gaf can't look into; see `custom_op`. Without `reference` it can't run here."""
    return _register(_make(name, shapes, reference, True, mutates, pure, onnx, torch, device))


def _make(
    name: str, shapes: str, function: Callable[..., Any] | None, opaque: bool, mutates: Sequence[str], pure: bool,
    onnx: str | Sequence[str], torch: str | Sequence[str], device: str | None,
) -> CustomOp:  # fmt: skip
    namespace, _, short = name.rpartition("::")
    if not namespace.isidentifier() or not short.isidentifier():
        raise InvalidInputError("a custom op has a namespace and a name", expected="acme::gate", got=name)
    from gaf.frontend.language.parser import parse_signature  # lark takes 70 ms to import
    from gaf.frontend.language.program import check_params

    source = Source(f"signature of {name}", shapes)
    signature = parse_signature(shapes, source.name)
    check_params(signature.params, source, name)
    tensors = [p.name for p in signature.params if not is_scalar(p)]
    for wrong in (m for m in mutates if m not in tensors):
        raise InvalidInputError(
            f"'{name}' mutates '{wrong}', which is no tensor of its signature", expected=", ".join(tensors)
        )
    if not opaque and (mutates or not pure or device):
        raise InvalidInputError(
            f"'{name}' has a traced body, whose effects and kernel gaf knows itself",
            hint="mutates, pure and device are for opaque ops: opaque=True",
        )
    texts = [
        (onnx,) if isinstance(onnx, str) else tuple(onnx),
        (torch,) if isinstance(torch, str) else tuple(torch),
    ]
    return CustomOp(name, signature, source, function, opaque, tuple(mutates), pure, *texts, device)


def _register(op: CustomOp) -> CustomOp:
    if op.name in _registry:
        raise InvalidInputError(
            f"the custom op '{op.name}' is registered already",
            hint=f"gaf.unregister_custom_op('{op.name}') removes it",
        )
    for kind in ("onnx", "torch"):
        for text in getattr(op, kind):
            other = next((o for o in _registry.values() if text in getattr(o, kind)), None)
            if other is not None:
                raise InvalidInputError(
                    f"the {kind} name '{text}' belongs to the custom op '{other.name}' already"
                )
    _registry[op.name] = op
    if op.opaque and op.function is not None:
        set_reference(op.name, op.function)
    return op


def unregister_custom_op(name: str) -> None:
    """Forget a custom op. Raises InvalidInputError if there is none of this name."""
    if name not in _registry:
        raise InvalidInputError(
            f"there is no custom op '{name}'",
            expected=", ".join(_registry) or "none is registered",
            hint=near(name, _registry),
        )
    _registry.pop(name)
    set_reference(name, None)


@contextmanager
def custom_ops() -> Iterator[None]:
    """What is registered inside of the `with` block is forgotten at its end."""
    before = dict(_registry)
    try:
        yield
    finally:
        for name in [n for n in _registry if n not in before]:
            unregister_custom_op(name)
        for name, op in before.items():
            _registry[name] = op
            if op.opaque:
                set_reference(name, op.function)


def load_custom_ops(path: str | os.PathLike[str]) -> list[CustomOp]:
    """Registers the ops of a `.gaf` file, under its name: `ops.gaf` gives `ops::gate`, ...; or runs a `.py` file,
    whose ops register themselves. Returns the ops that are new.

    `as onnx "..."` and `as torch "..."` lines bind ops of a `.gaf` file to other frameworks. A `.py` file is a
    program of the caller's: whatever it does happens. A file with an error registers nothing.
    Raises InvalidInputError (LanguageError for a `.gaf` file).
    """
    file = Path(path)
    if file.suffix.lower() not in (".gaf", ".py"):
        raise InvalidInputError(
            "the file's ending says how operators are defined",
            where=str(path),
            expected=".gaf or .py",
            got=file.suffix or "no ending",
        )
    before = dict(_registry)
    try:
        if file.suffix.lower() == ".py":
            _run_file(file)
        else:
            _register_program(file)
    except BaseException:
        for name in [n for n in _registry if n not in before]:
            unregister_custom_op(name)
        raise
    return [op for name, op in _registry.items() if name not in before]


def _register_program(path: Path) -> None:
    from gaf.frontend.language.program import load_program

    program = load_program(path)
    stem = path.stem.replace("-", "_")
    for op_name in program.own_ops():
        entry = program.ops[op_name]
        names = {
            kind: tuple(b.name for b in entry.node.bindings if b.framework == kind)
            for kind in ("onnx", "torch")
        }
        _register(
            CustomOp(
                f"{stem}::{op_name}",
                entry.node,
                entry.source,
                onnx=names["onnx"],
                torch=names["torch"],
                entry=entry,
            )
        )


def _run_file(path: Path) -> None:
    """Runs a Python file as a module of its own, not as `__main__`."""
    try:
        code = compile(path.read_bytes(), str(path), "exec")
    except OSError as error:
        raise InvalidInputError(f"can't read the file: {error.strerror}", where=str(path)) from None
    except (SyntaxError, ValueError) as error:
        line = f":{error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        what = error.msg if isinstance(error, SyntaxError) else str(error)
        raise InvalidInputError(f"this is not Python: {what}", where=f"{path}{line}") from None
    module = ModuleType(f"gaf_custom_ops_{path.stem}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # dataclasses and pickles look their module up
    try:
        exec(code, module.__dict__)  # noqa: S102 - the caller names the file to run
    except GafError:
        raise
    except (Exception, SystemExit) as error:
        raise _python_error(path, error) from error


def _python_error(path: Path, error: BaseException) -> InvalidInputError:
    """What stopped a file of custom operators, at the last line of that file that ran."""
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
    return InvalidInputError(
        f"running the file stopped with {type(error).__name__}: {error}",
        where=f"{path}:{lines[-1]}" if lines else str(path),
        hint="it has to run by itself: python " + str(path),
    )


def by_name(name: str) -> CustomOp | None:
    """The custom op `namespace::op`, or None."""
    return _registry.get(name)


def by_onnx(domain: str, op_type: str) -> CustomOp | None:
    """The custom op bound to an ONNX operator, or None."""
    text = f"{domain}.{op_type}" if domain else op_type
    return next((o for o in _registry.values() if text in o.onnx), None)


def by_torch(name: str) -> CustomOp | None:
    """The custom op bound to a PyTorch overload (`acme.gate.default`, or `acme.gate` for all), or None."""
    return next(
        (o for o in _registry.values() if name in o.torch or name.rpartition(".")[0] in o.torch), None
    )


def by_gaf(name: str) -> CustomOp | None:
    """The custom op that `.gaf` files call `name`: its name without namespace, if only one has it."""
    found = [o for o in _registry.values() if o.short_name == name or o.name.replace("::", "_") == name]
    return found[0] if len(found) == 1 else None


def registered() -> list[CustomOp]:
    """All custom ops, in order of registration."""
    return list(_registry.values())


# -- tracing ----------------------------------------------------------------------------------------


class _Place:
    """Where a traced op comes from: the model node it stands for, or the Python line of the body."""

    def __init__(self, function: Callable[..., Any], name: str, location: str | None) -> None:
        self.code = (
            inspect.unwrap(function).__code__ if hasattr(inspect.unwrap(function), "__code__") else None
        )
        self.name, self.location = name, location

    def line(self) -> str | None:
        """`file.py:12`, the line of the body that is running, or where the body begins."""
        if self.code is None:
            return None
        frame = sys._getframe()
        while frame is not None:
            if frame.f_code is self.code:
                return f"{Path(self.code.co_filename).name}:{frame.f_lineno}"
            frame = frame.f_back  # type: ignore[assignment]
        return f"{Path(self.code.co_filename).name}:{self.code.co_firstlineno}"

    def of(self, op: str) -> str:
        if self.location is not None:
            return f"{self.location}/{op}"
        line = self.line()
        return f"{line} {self.name}/{op}" if line else f"{self.name}/{op}"


class Tracer:
    """A tensor of a body being traced: operators add ops to the graph. It has no values to look at."""

    __array_ufunc__ = None  # numpy operators leave the work to us

    def __init__(self, builder: GraphBuilder, value: SSAValue, location: Any) -> None:
        self.builder, self.value, self._place = builder, value, location

    @property
    def location(self) -> Any:
        return self._place.of("call") if isinstance(self._place, _Place) else self._place

    @property
    def shape(self) -> tuple[Expr | int, ...]:
        """Dims: integers, or expressions over symbols."""
        return tuple(d if d.as_int() is None else d.as_int() for d in tensor_type(self.value).shape)  # type: ignore[misc]

    @property
    def dtype(self) -> dt.DType:
        return tensor_type(self.value).dtype

    @property
    def ndim(self) -> int:
        return tensor_type(self.value).rank

    def apply(self, name: str, *args: Any, **named: Any) -> Any:
        """A registry function on these arguments."""
        place = self._place.of(name) if isinstance(self._place, _Place) else self._place
        try:
            given = {k: _untraced(v) for k, v in named.items()}
            results = calls.call(self.builder, name, [_untraced(a) for a in args], given, place)
        except GafError as error:
            if error.where is None and isinstance(self._place, _Place):
                error.where = self._place.line()
            raise
        outs = [Tracer(self.builder, r, self._place) for r in results]
        return outs[0] if len(outs) == 1 else tuple(outs)

    def __bool__(self) -> bool:
        raise InvalidInputError(
            "a traced tensor has no value to branch on",
            where=self._place.line() if isinstance(self._place, _Place) else None,
            hint="choose element by element: gaf.ops.where(condition, a, b)",
        )

    def __iter__(self) -> Iterator[Any]:
        raise InvalidInputError("a traced tensor can't be iterated", hint="gaf.ops.split gives parts of it")

    def __getitem__(self, index: Any) -> Any:
        raise InvalidInputError(
            "a traced tensor isn't indexed with [..]",
            hint="gaf.ops.slice, gaf.ops.gather, or a comprehension in .gaf",
        )

    def __neg__(self) -> Any:
        return self.apply("neg", self)

    def __invert__(self) -> Any:
        return self.apply("not", self)

    def __abs__(self) -> Any:
        return self.apply("abs", self)

    def __pow__(self, other: Any) -> Any:
        if isinstance(other, int | float) and other == 2:
            return self.apply("mul", self, self)
        return self.apply("pow", self, other)

    def __hash__(self) -> int:
        return id(self)


def _operator(method: str, name: str, reflected: bool = True) -> None:
    setattr(Tracer, f"__{method}__", lambda self, other: self.apply(name, self, other))
    if reflected:
        setattr(Tracer, f"__r{method}__", lambda self, other: self.apply(name, other, self))


for _method, _name in (
    ("add", "add"), ("sub", "sub"), ("mul", "mul"), ("truediv", "div"), ("mod", "mod"), ("matmul", "matmul"),
    ("and", "and"), ("or", "or"), ("xor", "xor"),
):  # fmt: skip
    _operator(_method, _name)
for _method, _name in (
    ("eq", "equal"), ("ne", "not_equal"), ("lt", "less"), ("le", "less_or_equal"), ("gt", "greater"),
    ("ge", "greater_or_equal"),
):  # fmt: skip
    _operator(_method, _name, reflected=False)
Tracer.__rpow__ = lambda self, other: self.apply("pow", other, self)  # type: ignore[attr-defined]


def _untraced(value: Any) -> Any:
    match value:
        case Tracer():
            return value.value
        case list() | tuple():
            return [_untraced(v) for v in value]
        case np.generic():
            return value.item()
        case str() if value in dt._BY_NAME:
            return dt.by_name(value)
    return value


class _Functions:
    """`gaf.ops`: the functions of the op registry for traced bodies, by their `.gaf` names."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        plain = name.rstrip("_")  # and_, or_, not_: Python's keywords
        if registry.by_gaf(plain) is None:
            close = near(plain, self.__dir__())
            raise AttributeError(f"gaf.ops has no function '{name}'" + (f": {close}" if close else ""))

        def function(*args: Any, **named: Any) -> Any:
            values = [
                v for a in (*args, *named.values()) for v in (a if isinstance(a, list | tuple) else (a,))
            ]
            tracer = next((v for v in values if isinstance(v, Tracer)), None)
            if tracer is None:
                raise InvalidInputError(
                    f"gaf.ops.{name} works on tensors of a traced body",
                    hint="call it inside of a @gaf.custom_op function",
                )
            return tracer.apply(plain, *args, **named)

        function.__name__ = name
        return function

    def __dir__(self) -> list[str]:
        return sorted(n for e in (*registry.all_ops(), *registry.expansions()) for n in e.GAF)


ops = _Functions()
