# SPDX-License-Identifier: Apache-2.0
"""The folder that `gaf fuse` writes: everything about a fused model, enough to run it without fusing again."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.printer import Printer

from gaf.dialects.graph.ops.control import ops_of
from gaf.dialects.graph.ops.overlap import OverlapOp
from gaf.dialects.graph.ops.structure import FusedOp, WeightOp
from gaf.errors import InvalidInputError

if TYPE_CHECKING:
    from gaf.compiler import FusedModel
    from gaf.dialects.graph.model import Model
    from gaf.report.model import Report

MODEL, MANIFEST, OPERATORS = "optimized_model.onnx", "ir/bundle.json", "aclnn"
ENTRIES = frozenset(
    {
        MODEL,
        f"{MODEL}.data",
        "report.json",
        "report.html",
        "report.txt",
        "ir",
        "kernels",
        "host",
        "check",
        "torch",
        OPERATORS,
        "verify",
        "CMakeLists.txt",
        "README.md",
    }
)
"""What gaf writes at the top; anything else in the folder belongs to the user and stays."""

SCHEMA = 1


class Workspace:
    """A new folder beside `target` that takes its place when everything is written.

    Raises InvalidInputError at once if `target` can't be written or holds something that gaf didn't write.
    """

    def __init__(self, target: Path) -> None:
        self.target = target
        if target.exists() and not _replaceable(target):
            raise InvalidInputError(
                "this exists and is not a folder that gaf wrote",
                where=str(target),
                expected="a new or empty folder",
                hint="choose another folder with -o, or empty this one",
            )
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            self.folder = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent))
            self.folder.chmod(0o777 & ~_umask())
        except OSError as error:
            raise _cannot_write(target, error) from None

    def write(self, files: Mapping[str, str]) -> None:
        """Text files by path in the folder."""
        try:
            for name, text in files.items():
                path = self.folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise _cannot_write(self.target, error) from None

    def write_bytes(self, files: Mapping[str, bytes]) -> None:
        """Binary files by path in the folder."""
        try:
            for name, data in files.items():
                path = self.folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
        except OSError as error:
            raise _cannot_write(self.target, error) from None

    def write_arrays(self, name: str, arrays: Mapping[str, np.ndarray]) -> None:
        """An `.npz` file."""
        path = self.folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as stream:
                np.savez(stream, **arrays)  # type: ignore[arg-type]
        except OSError as error:
            raise _cannot_write(self.target, error) from None

    def publish(self) -> None:
        """Put the new folder in place of the old one; what the user had put there stays."""
        old = self.folder.with_suffix(".old")
        try:
            if self.target.exists():
                os.rename(self.target, old)
            try:
                os.rename(self.folder, self.target)
            except OSError:
                if old.exists():
                    os.rename(old, self.target)
                raise
            if old.exists():
                for entry in old.iterdir():
                    if entry.name not in ENTRIES:
                        os.rename(entry, self.target / entry.name)
                shutil.rmtree(old)
        except OSError as error:
            raise _cannot_write(self.target, error) from None

    def discard(self) -> None:
        """Remove what was written, if it is not published."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _replaceable(target: Path) -> bool:
    if not target.is_dir():
        return False
    names = {entry.name for entry in target.iterdir()}
    return not names or (target / MANIFEST).is_file()


def _umask() -> int:
    value = os.umask(0)
    os.umask(value)
    return value


def _cannot_write(target: Path, error: OSError) -> InvalidInputError:
    what = (
        "a parent of it is a file"
        if isinstance(error, FileExistsError | NotADirectoryError)
        else error.strerror
    )
    return InvalidInputError(
        f"can't write: {what}", where=str(target), hint="choose a folder that you may write with -o"
    )


# -- writing --------------------------------------------------------------------------------------


def write_model(fused: FusedModel, space: Workspace, operators: bool = False) -> None:
    """`optimized_model.onnx`, every level as text, kernels with host code and build files; `operators`: also `aclnn/`."""
    from gaf.codegen.project import project_files
    from gaf.frontend.onnx.exporter import export_model
    from gaf.target import chip

    export_model(fused.model, space.folder / MODEL)
    kernels = sorted(fused.kernels, key=lambda k: k.name)
    space.write(
        {
            "ir/graph.mlir": module_text(fused.source_model.module, locations=True),
            "ir/fused.mlir": module_text(fused.model.module, locations=True),
            "ir/tile.mlir": module_text(ModuleOp([k.tile.clone() for k in kernels])),
            "ir/ascendc.mlir": module_text(ModuleOp([k.ascendc.clone() for k in kernels])),
            MANIFEST: json_text(_manifest(fused, space.folder / MODEL)),
        }
    )
    super_kernels = {c.kernel.name: c.kernel for c in fused.chains}
    soc = chip(fused.config.target).soc_version
    overlaps = [op for op in ops_of(fused.model.block) if isinstance(op, OverlapOp)]
    files = project_files([k.ascendc for k in kernels], soc, list(super_kernels.values()), overlaps)
    files["README.md"] = _README.format(
        name=fused.source_model.name,
        operators=_OPERATORS_ROW if operators else "",
        kernels=files["README.md"].partition("\n")[2].strip(),
    )
    space.write(files)
    if operators:
        _write_operators(fused, space)


def _write_operators(fused: FusedModel, space: Workspace) -> None:
    """`aclnn/`: the kernels as an operator project, and the model as ATC reads it once that is installed."""
    from gaf.codegen.operator_project import ONNX_DOMAIN, operator_files, operators
    from gaf.frontend.onnx.exporter import Operator, export_model
    from gaf.runtime.executor import kernel_args, kernel_names

    kernels = {k.name: k.ascendc for k in fused.kernels}
    groups = sorted({tuple(n for n in kernel_names(op) if n in kernels) for op in fused.fused_ops} - {()})
    made, left_out = operators([[kernels[name] for name in group] for group in groups])
    types = {op.variants[0].sym_name.data: op.type for op in made}

    def operator(op: FusedOp) -> Operator | None:
        first = next(iter(kernel_names(op)), "")
        return Operator(ONNX_DOMAIN, types[first], kernel_args(op)) if first in types else None

    space.write({f"{OPERATORS}/{path}": text for path, text in operator_files(made, left_out).items()})
    export_model(fused.model, space.folder / OPERATORS / "model.onnx", functions=False, operators=operator)


def write_report(report: Report, sources: Mapping[str, str], space: Workspace) -> None:
    """`report.json`, `report.html` and `report.txt`."""
    from gaf.report.html import report_html

    space.write(
        {
            "report.json": json_text(report.to_json()),
            "report.html": report_html(report, sources),
            "report.txt": str(report),
        }
    )


def module_text(module: ModuleOp, locations: bool = False) -> str:
    """A module as MLIR text; with `locations` every op says which model node it comes from."""
    stream = StringIO()
    Printer(stream, print_debuginfo=locations).print_op(module)
    return stream.getvalue() + "\n"


def json_text(data: Any) -> str:
    """JSON as it is written to files: the same data gives the same bytes."""
    return json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _manifest(fused: FusedModel, onnx_file: Path) -> dict[str, Any]:
    from gaf import __version__

    model = fused.source_model
    return {
        "schema": SCHEMA,
        "gaf": __version__,
        "name": model.name,
        "source": Path(model.source).name,
        "opset": model.opset,
        "num_source_ops": model.num_source_ops,
        "target": fused.config.target,
        "numerics": fused.config.numerics,
        "kernels": [
            {"name": k.name, "kind": k.kind, "members": k.members, "uses": k.uses} for k in fused.kernels
        ],
        "weights": _initializers(fused.model, onnx_file),
    }


def _initializers(model: Model, onnx_file: Path) -> dict[str, str]:
    """Weight of the model -> initializer of the written file with the same contents."""
    from gaf.frontend.onnx.reader import read_model, tensor_array

    wanted = {op.weight.data for op in model.module.walk() if isinstance(op, WeightOp)}
    if not wanted:
        return {}
    by_contents: dict[tuple[Any, ...], str] = {}
    for tensor in read_model(onnx_file).graph.initializer:
        by_contents.setdefault(_contents(tensor_array(tensor, str(onnx_file), onnx_file.parent)), tensor.name)
    return {name: by_contents[_contents(model.weights[name])] for name in sorted(wanted)}


def _contents(array: np.ndarray) -> tuple[Any, ...]:
    data = np.ascontiguousarray(array)
    return str(array.dtype), array.shape, hashlib.sha256(data.reshape(-1).view(np.uint8)).digest()


_OPERATORS_ROW = "| `aclnn/` | the kernels as an operator project of CANN, with the ONNX parser plugin for ATC |\n"

_README = """\
# {name}: a fused model

Written by gaf. `optimized_model.onnx` is the model with every kernel as an ONNX local function: it runs in any ONNX
runtime. `gaf run THIS_FOLDER --inputs in.npz` runs the generated kernels.

| path | what |
|---|---|
| `report.html`, `report.txt`, `report.json` | what was fused, why and why not, bytes moved, errors against float64 |
| `ir/graph.mlir`, `ir/fused.mlir` | the model as imported; with its kernels |
| `ir/tile.mlir`, `ir/ascendc.mlir` | the kernels as tile programs; as Ascend C calls |
| `kernels/`, `host/`, `CMakeLists.txt` | the kernels in Ascend C, their host tiling and launch functions, and how to build them |
| `check/` | a program that runs every kernel on stored inputs and compares the results |
| `torch/` | the kernels as PyTorch operators |
{operators}| `verify/` | inputs, outputs and tolerances of the verification |

{kernels}
"""


# -- reading --------------------------------------------------------------------------------------


def read_bundle(folder: str | Path) -> FusedModel:
    """The fused model in a folder of `gaf fuse`, with the very kernels that lie there.

    Kernel sources come from `kernels/`, so edits of them take effect. Raises InvalidInputError if the folder was
    not written by gaf, or is damaged.
    """
    root = Path(folder)
    if not root.is_dir():
        what = "there is no such folder" if not root.exists() else "this is not a folder"
        raise InvalidInputError(what, where=str(folder), expected="a folder that `gaf fuse` wrote")
    try:
        manifest = json.loads((root / MANIFEST).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InvalidInputError(
            "this is not a folder that `gaf fuse` wrote", where=str(root), got=f"no {MANIFEST}"
        ) from None
    except (OSError, ValueError) as error:
        raise _damaged(root / MANIFEST, error) from None
    if manifest.get("schema") != SCHEMA:
        raise InvalidInputError(
            "the folder was written by another version of gaf",
            where=str(root),
            expected=f"schema {SCHEMA}",
            got=manifest.get("schema"),
            hint="run `gaf fuse` again",
        )
    try:
        return _read(root, manifest)
    except KeyError as error:
        raise _damaged(root, error) from None
    except OSError as error:
        raise InvalidInputError(
            f"can't be read: {error.strerror}", where=str(error.filename or root), hint="run `gaf fuse` again"
        ) from None


def _read(root: Path, manifest: dict[str, Any]) -> FusedModel:
    from gaf.codegen.host import HostTiling
    from gaf.compiler import FusedModel
    from gaf.config import FusionConfig
    from gaf.dialects.graph.model import Model, WeightStore
    from gaf.frontend.onnx.reader import read_model, tensor_array
    from gaf.runtime.kernel import Kernel

    proto = read_model(root / MODEL)
    tensors = {t.name: t for t in proto.graph.initializer}
    weights = {
        name: tensor_array(tensors[initializer], str(root / MODEL), root)
        for name, initializer in manifest["weights"].items()
    }
    module = _parse(root / "ir/fused.mlir")
    tiles = {op.sym_name.data: op for op in _parse(root / "ir/tile.mlir").body.block.ops}  # type: ignore[attr-defined]
    programs = {op.sym_name.data: op for op in _parse(root / "ir/ascendc.mlir").body.block.ops}  # type: ignore[attr-defined]
    kernels = []
    for entry in manifest["kernels"]:
        name = entry["name"]
        source = (root / "kernels" / f"{name}.cpp").read_text(encoding="utf-8")
        kernels.append(
            Kernel(
                name,
                entry["kind"],
                source,
                entry["members"],
                HostTiling(programs[name]),
                tiles[name],
                programs[name],
                entry["uses"],
            )
        )
    model = Model(
        module,
        WeightStore(weights),
        manifest["name"],
        manifest["source"],
        manifest["opset"],
        manifest["num_source_ops"],
    )
    config = FusionConfig(target=manifest["target"], numerics=manifest["numerics"])
    return FusedModel(model, model, config, kernels, [])


def _parse(path: Path) -> ModuleOp:
    from xdsl.context import Context
    from xdsl.dialects.builtin import Builtin
    from xdsl.dialects.func import Func
    from xdsl.parser import Parser
    from xdsl.utils.exceptions import ParseError, VerifyException

    from gaf.dialects.ascendc import AscendC
    from gaf.dialects.graph import Graph
    from gaf.dialects.tile import Tile

    context = Context()
    for dialect in (Builtin, Func, Graph, Tile, AscendC):
        context.load_dialect(dialect)
    try:
        module = Parser(context, path.read_text(encoding="utf-8"), str(path)).parse_module()
        module.verify()
    except (ParseError, VerifyException, UnicodeDecodeError) as error:
        raise _damaged(path, error) from None
    return module


def _damaged(path: Path, error: BaseException) -> InvalidInputError:
    what = (getattr(error, "msg", None) or str(error)).strip().splitlines()
    return InvalidInputError(
        f"the folder of the fused model is damaged: {what[0] if what else type(error).__name__}",
        where=str(path),
        hint="run `gaf fuse` again",
    )
