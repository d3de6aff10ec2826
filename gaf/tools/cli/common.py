# SPDX-License-Identifier: Apache-2.0
"""What the subcommands of `gaf` share: where text goes, progress, common options, inputs."""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gaf.config import REWRITES, FusionConfig
from gaf.dialects.common import dtype as dt
from gaf.errors import InvalidInputError, first_line

if TYPE_CHECKING:
    from gaf.compiler import FusedModel
    from gaf.dialects.graph.model import Model

ENGINE_HELP = (
    "auto: compiled kernels, or the interpreter without a C++ compiler; host: compiled, fast; "
    "check: compiled, every access checked; interpreter: Python, needs no compiler"
)
JOBS = "GAF_JOBS"
"""Environment variable that the builder of kernels reads."""

Progress = Callable[[str, int, int], None]


class Output:
    """Results go to stdout (with `--json` one JSON object and nothing else), progress to stderr.

    On a terminal progress is a bar; otherwise plain lines without escape sequences.
    """

    def __init__(self, as_json: bool, quiet: bool = False) -> None:
        self.as_json, self.quiet = as_json, quiet

    def result(self, text: str, data: Mapping[str, Any]) -> None:
        """The result of the command, for people or for programs."""
        if self.as_json:
            print(json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False))
        else:
            print(text.rstrip("\n"))
        sys.stdout.flush()

    def note(self, text: str) -> None:
        """A line about what is going on."""
        if not self.quiet:
            print(text, file=sys.stderr, flush=True)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Times one step and says how long it took."""
        start = time.perf_counter()
        yield
        self.note(f"gaf: {name}: {time.perf_counter() - start:.1f} s")

    @contextmanager
    def progress(self, name: str) -> Iterator[Progress]:
        """A function `(item, done, total)` that shows how far a long step is."""
        if self.quiet:
            yield lambda item, done, total: None
        elif sys.stderr.isatty():
            with _bar(name) as show:
                yield show
        else:
            yield _lines(self, name)


@contextmanager
def _bar(name: str) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as RichProgress

    columns = (
        TextColumn("gaf: {task.description}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[item]}", markup=False),
    )
    with RichProgress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(name, total=None, item="")

        def show(item: str, done: int, total: int) -> None:
            bar.update(task, completed=done, total=total, item=item)

        yield show


def _lines(out: Output, name: str) -> Progress:
    """A line for every quarter of the work."""
    lock, shown = threading.Lock(), -1

    def show(item: str, done: int, total: int) -> None:
        nonlocal shown
        with lock:
            quarter = 4 * done // max(total, 1)
            if quarter != shown or done == total:
                shown = quarter
                out.note(f"gaf: {name}: {done}/{total} {item}")

    return show


# -- options --------------------------------------------------------------------------------------


def add_output_options(parser: argparse.ArgumentParser) -> None:
    """`--json`, `--debug`, `--quiet`."""
    parser.add_argument("--json", action="store_true", help="print one JSON object on stdout")
    parser.add_argument("--debug", action="store_true", help="show tracebacks of errors")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress on stderr")


def add_fused_model_options(parser: argparse.ArgumentParser) -> None:
    """A fused model, and inputs to run it on."""
    parser.add_argument("model", metavar="FOLDER", help="a folder that `gaf fuse` wrote, or a model file")
    parser.add_argument("--inputs", metavar="FILE.npz", help="an array for each input (default: random ones)")
    add_ops_option(parser)


def add_ops_option(parser: argparse.ArgumentParser) -> None:
    """`--ops`."""
    parser.add_argument(
        "--ops",
        metavar="FILE",
        action="append",
        default=[],
        help="a .gaf file with custom operators of the model, or a .py file, which is run; repeatable",
    )


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """The model and how it is fused."""
    parser.add_argument("model", help="the model: an .onnx file, or .mlir of the graph level")
    parser.add_argument(
        "--input-shape",
        metavar="NAME:DIM,...",
        action="append",
        default=[],
        help="fix dims of an input, e.g. x:1,S,768: numbers, names for variable dims, ? for the model's own; repeatable",
    )
    add_ops_option(parser)
    parser.add_argument("--target", default=FusionConfig.target, help="chip (default %(default)s)")
    parser.add_argument(
        "--numerics",
        default=FusionConfig.numerics,
        choices=("fast", "strict"),
        help="fast: fp16 and bf16 chains compute in fp32; strict: rounded after every op, as unfused (default %(default)s)",
    )
    parser.add_argument(
        "--max-fusion-depth", type=int, metavar="N", help="most matmuls and reductions in a row in one kernel"
    )
    parser.add_argument(
        "--matmul-precision",
        default=FusionConfig.matmul_precision,
        choices=("fp32", "hf32"),
        help="hf32: the cube rounds f32 operands to 11 bits of mantissa, at twice the speed (default %(default)s)",
    )
    parser.add_argument(
        "--objective",
        default=FusionConfig.objective,
        choices=("traffic", "time"),
        help="fewest HBM bytes unless that is clearly slower, or least modelled time (default %(default)s)",
    )
    parser.add_argument(
        "--strategy",
        default=FusionConfig.strategy,
        choices=("greedy", "optimal", "none"),
        help="how groups are searched; optimal is exact on small clusters (default %(default)s)",
    )
    parser.add_argument(
        "--disable",
        action="append",
        default=[],
        metavar="NAME",
        help=f"leave out a fusion rule or one of the rewrites {', '.join(REWRITES)}; repeatable",
    )
    parser.add_argument(
        "--cost-threshold",
        type=float,
        default=FusionConfig.cost_threshold,
        metavar="PART",
        help="part of its members' time, 0 to 1, that a kernel has to save (default %(default)s)",
    )
    parser.add_argument(
        "--atb",
        default=FusionConfig.atb,
        choices=("off", "prefer"),
        help="prefer: leave whole patterns that ATB has operators for alone (default %(default)s)",
    )
    parser.add_argument("--no-superkernel", action="store_true", help="launch kernels one by one")
    parser.add_argument("--tuning", metavar="FILE", help="tile sizes that `gaf tune` found")
    parser.add_argument("--no-autofuse", action="store_true", help="every op its own kernel, to compare with")


def add_engine_options(parser: argparse.ArgumentParser) -> None:
    """`--engine` and `--jobs`."""
    parser.add_argument(
        "--engine", default="auto", choices=("auto", "host", "check", "interpreter"), help=ENGINE_HELP
    )
    add_jobs_option(parser)


def add_jobs_option(parser: argparse.ArgumentParser) -> None:
    """`--jobs`."""
    parser.add_argument(
        "--jobs", type=positive, metavar="N", help="kernels built at a time (default: one a processor)"
    )


def positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError
    return value


positive.__name__ = "positive number"  # what argparse calls it in its message


def config_of(args: argparse.Namespace) -> FusionConfig:
    """Fusion options from the command line. Raises InvalidInputError, UnsupportedError for an unknown target."""
    from gaf.target import chip
    from gaf.tuning import read_tuning

    chip(args.target)
    return FusionConfig(
        tuning=read_tuning(args.tuning, args.target) if args.tuning is not None else None,
        target=args.target,
        numerics=args.numerics,
        matmul_precision=args.matmul_precision,
        objective=args.objective,
        strategy=args.strategy,
        cost_threshold=args.cost_threshold,
        disabled_rules=tuple(args.disable),
        atb=args.atb,
        enable_superkernel=not args.no_superkernel,
        max_fusion_depth=args.max_fusion_depth,
        enable_autofuse=not args.no_autofuse,
    )


def load_ops(args: argparse.Namespace) -> None:
    """Registers the operators of `--ops`, each file once. Raises InvalidInputError."""
    from gaf.frontend.custom import load_custom_ops

    files = {Path(name).resolve(): name for name in reversed(args.ops)}
    for name in reversed(files.values()):
        load_custom_ops(name)


def load(args: argparse.Namespace) -> Model:
    """The model that the command line names. Raises InvalidInputError or UnsupportedError."""
    from gaf.frontend.load import load_model
    from gaf.frontend.onnx.shapes import parse_input_shape

    load_ops(args)
    shapes = dict(parse_input_shape(text) for text in args.input_shape)
    return load_model(args.model, shapes or None)


@contextmanager
def jobs_of(args: argparse.Namespace) -> Iterator[None]:
    """`--jobs` for everything that is built inside."""
    before = os.environ.get(JOBS)
    if args.jobs is not None:
        os.environ[JOBS] = str(args.jobs)
    try:
        yield
    finally:
        if args.jobs is not None:
            if before is None:
                del os.environ[JOBS]
            else:
                os.environ[JOBS] = before


def resolve_engine(name: str, out: Output) -> str:
    """The engine for `auto`; says so in one line if there is no compiler."""
    if name != "auto":
        return name
    from gaf.runtime.compiler import compiler_reason, find_compiler

    if find_compiler() is not None:
        return "host"
    out.note(f"gaf: {compiler_reason()}: kernels run on the Python engine, which is slower")
    return "interpreter"


def fused_model(args: argparse.Namespace, out: Output) -> FusedModel:
    """A folder of `gaf fuse` as it is, or a model file that is fused now. Raises GafError."""
    from gaf.tools.cli.bundle import read_bundle

    load_ops(args)
    path = args.model
    if not Path(path).is_file() and not (Path(path) / "saved_model.pb").is_file():
        return read_bundle(path)
    from gaf.compiler import fuse
    from gaf.frontend.load import load_model

    with out.phase("fuse and generate"):
        return fuse(load_model(path))


def inputs_or_random(fused: FusedModel, path: str | None, out: Output) -> dict[str, np.ndarray]:
    """Inputs from a file, or random ones with a line that says so. Raises InvalidInputError."""
    from gaf.runtime.inputs import random_inputs

    inputs = model_inputs(fused.model, path)
    if inputs is None:
        inputs = random_inputs(fused.model)
        out.note("gaf: no --inputs: running on random ones")
    return inputs


def build(fused: FusedModel, engine: str, out: Output) -> None:
    """Compile the kernels for an engine (cached on disk). Raises CompileError."""
    from gaf.runtime.executor import TWIN_MODES

    executor = fused.executor(engine)
    if engine in TWIN_MODES:
        name = "building kernels" + ("" if engine == "host" else f" for {engine} mode")
        with out.phase(name), out.progress(name) as show:
            executor.build(show)


# -- inputs ---------------------------------------------------------------------------------------


def load_arrays(path: str) -> dict[str, np.ndarray]:
    """The arrays of an `.npz` file. Raises InvalidInputError."""
    import ml_dtypes

    try:
        file = np.load(path, allow_pickle=False)
        if isinstance(file, np.ndarray):
            raise InvalidInputError(
                "this is one array, without a name",
                where=path,
                expected="an .npz file with an array for each input",
                hint="numpy.savez(path, name=array)",
            )
        with file:
            arrays = {name: file[name] for name in file.files}
    except InvalidInputError:
        raise
    except FileNotFoundError:
        raise InvalidInputError(
            "there is no such file", where=path, expected="an .npz file with the inputs"
        ) from None
    except (OSError, ValueError, EOFError, KeyError) as error:
        raise InvalidInputError(
            f"this is not an .npz file of plain arrays: {first_line(error)}",
            where=path,
            hint="write it with numpy.savez(path, name=array, ...)",
        ) from None
    except Exception as error:  # zipfile.BadZipFile, zlib.error
        raise InvalidInputError(f"the file is damaged: {first_line(error)}", where=path) from None
    # .npz has no bfloat16: numpy writes it as two raw bytes
    return {n: a.view(ml_dtypes.bfloat16) if a.dtype == "V2" else a for n, a in arrays.items()}


def model_inputs(model: Model, path: str | None) -> dict[str, np.ndarray] | None:
    """Inputs from a file, checked against the model; None without a file. Raises InvalidInputError."""
    if path is None:
        return None
    from gaf.dialects.graph.interpreter import check_inputs
    from gaf.dialects.graph.model import bind_symbols

    arrays = load_arrays(path)
    for name, type_ in zip(model.input_names, model.input_types):
        array = arrays.get(name)
        # a numpy default: int64 or float64 where the model has a narrower kind that holds the values
        if array is not None and array.dtype in (np.float64, np.int64) and array.dtype != type_.dtype.numpy:
            arrays[name] = _narrowed(array, type_.dtype, name, path)
    try:
        checked = check_inputs(model, arrays)
        bind_symbols(model.input_names, model.input_types, checked)
    except InvalidInputError as error:
        error.where = path
        raise
    return arrays


def _narrowed(array: np.ndarray, dtype: dt.DType, name: str, path: str) -> np.ndarray:
    if dtype.is_float and array.dtype == np.float64:
        return array.astype(dtype.numpy)
    narrow = array.astype(dtype.numpy) if dtype.is_int else array
    if dtype.is_int and array.dtype == np.int64 and np.array_equal(narrow, array):
        return narrow
    raise InvalidInputError(
        f"input '{name}' has the wrong element type", where=path, expected=str(dtype), got=str(array.dtype)
    )


def describe_array(name: str, array: np.ndarray) -> dict[str, Any]:
    """Name, type, shape and range of an array as plain data; non-finite figures are text."""
    found: dict[str, Any] = {"name": name, "dtype": str(array.dtype), "shape": list(array.shape)}
    if array.size:
        wide = array.astype(np.float64)
        for key, value in (("min", wide.min()), ("max", wide.max()), ("mean", wide.mean())):
            found[key] = float(value) if np.isfinite(value) else str(value)
    return found


def output_lines(described: list[dict[str, Any]]) -> list[str]:
    """Arrays as lines for people."""
    lines = []
    for d in described:
        text = f"{d['name']}: {d['dtype']}{d['shape']}"
        if "min" in d:
            figures = (d[k] if isinstance(d[k], str) else f"{d[k]:.6g}" for k in ("min", "max", "mean"))
            text += "  min {}  max {}  mean {}".format(*figures)
        lines.append(text)
    return lines


def relative(path: Path) -> str:
    """A path for messages: relative to the current folder if it is inside."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except (ValueError, OSError):
        return str(path)
