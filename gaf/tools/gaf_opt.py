# SPDX-License-Identifier: Apache-2.0
"""`gaf-opt`: opens `.mlir`, `.onnx` and `.gaf`, runs passes by name, and prints MLIR or Ascend C."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import importlib.util
import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from io import StringIO
from pathlib import Path
from typing import IO, Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Dialect
from xdsl.passes import ModulePass, PassPipeline
from xdsl.printer import Printer
from xdsl.utils.arg_spec import ArgSpec, parse_pipeline
from xdsl.utils.diagnostic import Diagnostic
from xdsl.utils.exceptions import ArgSpecParseError, DiagnosticException, ShrinkException
from xdsl.utils.frontend import Frontend
from xdsl.utils.target import Target
from xdsl.xdsl_opt_main import xDSLOptMain

from gaf.errors import (
    EXIT_MISMATCH,
    EXIT_OK,
    GafError,
    InternalError,
    InvalidInputError,
    UnsupportedError,
    first_line,
)
from gaf.passes import registry
from gaf.passes.boundary import check_level
from gaf.passes.driver import RewriteLog, record_rewrites

DIALECTS = {
    "builtin": "xdsl.dialects.builtin:Builtin",
    "func": "xdsl.dialects.func:Func",
    "graph": "gaf.dialects.graph:Graph",
    "tile": "gaf.dialects.tile:Tile",
    "ascendc": "gaf.dialects.ascendc:AscendC",
}
"""The dialects that `gaf-opt` reads, each imported when a file uses it."""

FRONTENDS = {
    "mlir": "gaf.tools.mlir_frontend:MlirFrontend",
    "onnx": "gaf.tools.onnx_frontend:OnnxFrontend",
    "gaf": "gaf.tools.gaf_frontend:GafFrontend",
}
"""File extensions, and the `Frontend` that reads them."""

TARGETS = {
    "mlir": "xdsl.targets.mlir:MLIRTarget",
    "ascendc": "gaf.codegen.target:AscendCTarget",
}
"""Outputs for `--target`."""


MADE_BY = {
    "tile": "'fuse,lower-graph' or 'to-tile'",
    "ascendc": "'lower-tile' or 'to-ascendc'",
}
"""Levels, and the passes whose results they are."""


class GafOptMain(xDSLOptMain):
    """The pass driver on gaf's dialects and passes, with short errors and nothing half-written."""

    version_format = "gaf-opt on xdsl {xdsl_version}"

    def __init__(self, args: Sequence[str] | None = None) -> None:
        self.current_pass: str | None = None
        self.rewrites = RewriteLog()
        super().__init__("Run gaf's passes on .mlir, .onnx and .gaf files", args)

    def register_all_dialects(self) -> None:
        for name, target in DIALECTS.items():
            self.ctx.register_dialect(name, partial(_load_dialect, name, target))

    def register_all_frontends(self) -> None:
        for name, target in FRONTENDS.items():
            self.available_frontends[name] = _factory("reading", f".{name} files", target)

    def register_all_targets(self) -> None:
        for name, target in TARGETS.items():
            self.available_targets[name] = _factory("the target", name, target)

    def register_all_passes(self) -> None:
        self.available_passes.update(registry.available_passes())

    def register_all_arguments(self, arg_parser: argparse.ArgumentParser) -> None:
        super().register_all_arguments(arg_parser)
        arg_parser.prog = "gaf-opt"
        arg_parser.usage = "gaf-opt [FILE] [-p PASSES] [-t TARGET] [-o FILE] [options]; see gaf-opt --help"
        add = arg_parser.add_argument
        add(
            "--load",
            metavar="FILE.py",
            action="append",
            default=[],
            help="import passes and rules from a file",
        )
        add("--list-passes", action="store_true", help="print every pass with its options and exit")
        add(
            "--print-after",
            metavar="PASS",
            action="append",
            default=[],
            help="print the program to stderr after each run of a pass",
        )
        add("--explain", action="store_true", help="print to stderr which rewrite rules fired and how often")
        add("--debug", action="store_true", help="show tracebacks; verify after every single rewrite")

    def setup_pipeline(self) -> None:
        for path in self.args.load:
            load_file(path)
        self.register_all_passes()
        for name in self.args.print_after:
            if name not in self.available_passes:
                raise registry.unknown_pass(name, self.available_passes)
        passes = registry.parse_passes(self.args.passes, self.available_passes)
        self.pipeline = PassPipeline(passes, self._between_passes)

    def run(self) -> None:
        """Reads, transforms and prints every chunk of the input, then writes the whole output at once."""
        try:
            chunks, extension = self.prepare_input()
        except OSError as error:
            raise InvalidInputError(
                f"can't read the input: {error.strerror}", where=self.args.input_file
            ) from error
        output = StringIO()
        with record_rewrites(verify_touched=self.args.debug) as self.rewrites:
            for index, (chunk, line_offset) in enumerate(chunks):
                if index:
                    output.write("// -----\n")
                with chunk:
                    self._process(chunk, extension, line_offset, output)
        _write(self.args.output_file, output.getvalue())

    def parse_chunk(self, chunk: IO[bytes], file_extension: str, start_offset: int = 0) -> ModuleOp:
        spec = _one_spec(self.args.frontend or file_extension)
        frontend = registry.with_options(self.available_frontends[spec.name](), spec)
        if spec.name == "mlir":
            frontend = dataclasses.replace(
                frontend, no_implicit_module=self.args.no_implicit_module, line_offset=start_offset
            )
        return frontend.parse(self.ctx, chunk, self.get_input_name())

    def prepare_input(self) -> tuple[list[tuple[IO[bytes], int]], str]:
        extension = Path(self.args.input_file).suffix[1:] if self.args.input_file else "mlir"
        if not self.args.frontend and extension not in self.available_frontends:
            raise InvalidInputError(
                f"files with the extension '.{extension}' are not known",
                where=self.args.input_file,
                expected=" or ".join(f".{name}" for name in self.available_frontends),
                hint="--frontend=mlir reads any file as MLIR text",
            )
        return super().prepare_input()

    def get_input_stream(self) -> tuple[IO[bytes], str]:
        stream, extension = super().get_input_stream()
        return stream, _one_spec(self.args.frontend).name if self.args.frontend else extension

    def explain(self) -> str:
        """The rules that fired, by pass, most frequent first."""
        lines = []
        for pass_name, fired in self.rewrites.fired.items():
            lines.append(f"{pass_name}: {sum(fired.values())} rewrites")
            lines.extend(f"  {count:7d}  {rule}" for rule, count in fired.most_common())
        return "\n".join(lines) or "no rewrite rule fired"

    def _process(self, chunk: IO[bytes], extension: str, line_offset: int, output: StringIO) -> None:
        """One chunk. With `--verify-diagnostics` or `--parsing-diagnostics` an error is the output."""
        parsed, self.current_pass = False, None
        try:
            module = self.parse_chunk(chunk, extension, line_offset)
            parsed = True
            self.apply_passes(module)
            output.write(self.output_resulting_program(module))
        except (GafError, DiagnosticException) as error:
            expected = self.args.verify_diagnostics if parsed else self.args.parsing_diagnostics
            if not expected or isinstance(error, InternalError):
                raise
            output.write(f"{user_error(error, self.current_pass)}\n")

    def _between_passes(self, before: ModulePass | None, module: ModuleOp, after: ModulePass | None) -> None:
        if before is not None and self.args.time_passes:
            print(f"{before.name}: {time.perf_counter() - self._started:.4f} s", file=sys.stderr)
        if not self.args.disable_verify:
            self._verify(before, module)
        if before is not None and (self.args.print_between_passes or before.name in self.args.print_after):
            stream = StringIO()
            print_generic = self.args.print_op_generic
            Printer(
                stream, print_generic_format=print_generic, print_debuginfo=self.args.print_debuginfo
            ).print_op(module)
            print(f"// IR after {before}\n{stream.getvalue()}", file=sys.stderr)
        self.current_pass = after.name if after is not None else None
        if after is not None and (note := nothing_to_do(after, module)) is not None:
            print(f"gaf-opt: note: {note}", file=sys.stderr)
        self._started = time.perf_counter()

    def _verify(self, before: ModulePass | None, module: ModuleOp) -> None:
        try:
            check_level(module)
        except InvalidInputError as error:
            if before is None:
                raise
            raise InternalError(
                f"pass '{before.name}' left an invalid program: {error.what}",
                where=error.where,
                expected=error.expected,
                got=error.got,
            ) from error


def main(argv: Sequence[str] | None = None) -> int:
    """Runs `gaf-opt` and returns its exit code (see `gaf.errors`); messages go to stderr.

    Leaves no trace in this process: what `--load` registered and what flags changed globally is undone.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in arguments
    tool: GafOptMain | None = None
    colored, post_init = Diagnostic.colored, Attribute.__post_init__
    with registry.scoped_registry():
        try:
            tool = GafOptMain(arguments)
            if tool.args.list_passes:
                print(list_passes(tool.available_passes))
                return EXIT_OK
            tool.run()
            if tool.args.explain:
                print(tool.explain(), file=sys.stderr)
            # a reducer (shrinkray) runs us with --shrink and keeps what still raises ShrinkException
            return EXIT_MISMATCH if tool.args.shrink else EXIT_OK
        except ShrinkException:
            return EXIT_OK
        except BrokenPipeError:
            # the reader of our output (head, less) has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return EXIT_OK
        except (Exception, ArgSpecParseError) as error:
            if debug:
                traceback.print_exc()
            shown = user_error(error, getattr(tool, "current_pass", None))
            print(f"gaf-opt: {shown}", file=sys.stderr)
            return shown.exit_code
        finally:
            Diagnostic.colored, Attribute.__post_init__ = colored, post_init


def nothing_to_do(one: ModulePass, module: ModuleOp) -> str | None:
    """Why a pass of gaf finds no operation of its level, and what makes some; None if there are any."""
    level = registry.pass_level(type(one))
    if level not in MADE_BY or any(op.name.startswith(f"{level}.") for op in module.walk()):
        return None
    return f"pass '{one.name}' works on {level} operations and there are none: run {MADE_BY[level]} before it"


def user_error(error: BaseException, current_pass: str | None) -> GafError:
    """Any exception as an error that a user can read: without traceback and module dump."""
    match error:
        case GafError():
            return error
        case ArgSpecParseError():
            return InvalidInputError(str(error).strip())
        case DiagnosticException():
            place = f"pass '{current_pass}'" if current_pass else None
            return UnsupportedError(first_line(error), where=place)
        case _:
            during = f" in pass '{current_pass}'" if current_pass else ""
            return InternalError(
                f"internal error{during}: {type(error).__name__}: {first_line(error)}",
                hint="run again with --debug for a traceback, and report it",
            )


def list_passes(factories: dict[str, Callable[[], type[ModulePass]]]) -> str:
    """Every pass with its summary and options, as text."""
    lines = []
    for name, factory in factories.items():
        cls = factory()
        lines.append(f"{name}\n    {registry.pass_summary(cls)}".rstrip())
        for o in registry.pass_options(cls):
            default = "required" if o.default is None else f"default {o.default}"
            lines.append(f"      {o.name}: {o.type} ({default})  {o.doc}".rstrip())
    return "\n".join(lines)


def load_file(path: str) -> None:
    """Imports a Python file of the user, whose decorators register passes and rules."""
    spec = importlib.util.spec_from_file_location(f"gaf_loaded_{Path(path).stem}", path)
    if spec is None or spec.loader is None or not Path(path).is_file():
        raise InvalidInputError("can't load this file", where=path, expected="a Python file that exists")
    module = importlib.util.module_from_spec(spec)
    # dataclasses look their module up while they are made
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except GafError:
        raise
    except Exception as error:
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == path]
        line = error.lineno if isinstance(error, SyntaxError) else (lines[-1] if lines else None)
        raise InvalidInputError(
            f"can't be loaded: {type(error).__name__}: {first_line(error)}",
            where=f"{path}:{line}" if line else path,
            hint="--debug shows the whole traceback",
        ) from error


def _load(what: str, name: str, target: str) -> Any:
    """Imports `module:attribute`; a part of gaf that isn't there is an `UnsupportedError`."""
    module, _, attribute = target.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ModuleNotFoundError, AttributeError) as error:
        if isinstance(error, ModuleNotFoundError) and not module.startswith(error.name or "\0"):
            raise
        raise UnsupportedError(f"this version of gaf lacks {what} {name} ({target})") from error


def _load_dialect(name: str, target: str) -> Dialect:
    return _load("the dialect", name, target)


def _factory(what: str, name: str, target: str) -> Callable[[], type[Frontend] | type[Target]]:
    # a parameterless function: xDSL takes one with parameters for an old-style target
    return lambda: _load(what, name, target)


def _one_spec(text: str) -> ArgSpec:
    return next(parse_pipeline(text))


def _write(path: str | None, text: str) -> None:
    """Writes all of `text` to stdout or, by way of a temporary file, to `path`."""
    if path is None:
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    part = f"{path}.{os.getpid()}.part"
    try:
        with open(part, "w", encoding="utf-8") as stream:
            stream.write(text)
        os.replace(part, path)
    except OSError as error:
        Path(part).unlink(missing_ok=True)
        raise InvalidInputError(f"can't write the output: {error.strerror}", where=path) from error


if __name__ == "__main__":
    sys.exit(main())
