# SPDX-License-Identifier: Apache-2.0
"""`save`: writes a model or a fused model to a file, whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from gaf.dialects.graph.model import Model
from gaf.errors import InvalidInputError


def save(model: Any, path: str | os.PathLike[str]) -> Path:
    """Write `model` (a Model, or an object whose `model` is one, e.g. a fused model) to `path`.

    The ending decides: `.onnx` (each fused op a local function, runs anywhere) or `.mlir` (graph-level text,
    with the weights in a `.npz` beside it). Missing folders are made. Returns the path.
    Raises InvalidInputError.
    """
    graph = model if isinstance(model, Model) else getattr(model, "model", None)
    if not isinstance(graph, Model):
        raise InvalidInputError(
            "only models can be saved", expected="a Model or fused model", got=type(model).__name__
        )
    target = Path(path)
    match target.suffix.lower():
        case ".onnx":
            from gaf.frontend.onnx.exporter import export_model

            export_model(graph, target)
        case ".mlir":
            _save_mlir(graph, target)
        case _:
            raise InvalidInputError(
                "the file's ending says how to save",
                where=str(target),
                expected=".onnx or .mlir",
                got=target.suffix or "no ending",
            )
    return target


def _save_mlir(model: Model, path: Path) -> None:
    import numpy as np

    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    weights = part.with_suffix(".npz")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(str(model.module) + "\n", "utf-8")
        if len(model.weights):
            with weights.open("wb") as stream:
                np.savez(stream, **{name: model.weights[name] for name in model.weights})
            os.replace(weights, path.with_suffix(".npz"))
        os.replace(part, path)
    except OSError as error:
        raise InvalidInputError(f"can't write: {error.strerror}", where=str(path)) from None
    finally:
        part.unlink(missing_ok=True)
        weights.unlink(missing_ok=True)
