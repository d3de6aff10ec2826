# SPDX-License-Identifier: Apache-2.0
"""Reads ONNX files: protobuf, sanity checks, and weights (inline or external) as numpy arrays."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import numpy_helper

from gaf.dialects.common import dtype as dt
from gaf.errors import InvalidInputError, UnsupportedError

MIN_OPSET = 7

# First bytes of files that people open by mistake
_SIGNATURES: tuple[tuple[bytes, str, str | None], ...] = (
    (
        b"version https://git-lfs",
        "a Git LFS pointer, not the model itself",
        "fetch the file with `git lfs pull`",
    ),
    (b"PK\x03\x04", "a zip archive", "PyTorch files are not ONNX: export with torch.onnx.export first"),
    (b"\x89HDF", "an HDF5 file (Keras)", "export the model to ONNX first"),
    (b"\x1f\x8b", "a gzip archive", "unpack it first"),
    (b"\x80\x02", "a Python pickle", "gaf never loads pickles: export the model to ONNX"),
    (b"\x80\x04", "a Python pickle", "gaf never loads pickles: export the model to ONNX"),
    (b"TFL3", "a TensorFlow Lite model", None),
    (b"<", "an XML or HTML page", "the download may have failed"),
    (b"{", "a JSON file", None),
)


def read_model(path: str | os.PathLike[str]) -> onnx.ModelProto:
    """The protobuf of an ONNX file; external weights stay on disk.

    Raises InvalidInputError if the file can't be read or isn't an ONNX model.
    """
    where = os.fspath(path)
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError:
        raise InvalidInputError("there is no such file", where=where) from None
    except IsADirectoryError:
        raise InvalidInputError("this is a folder", where=where, expected="an .onnx file") from None
    except OSError as error:
        raise InvalidInputError(f"can't read the file: {error.strerror}", where=where) from None
    return parse_model(data, where)


def parse_model(data: bytes, where: str) -> onnx.ModelProto:
    """The protobuf in `data`. Raises InvalidInputError if it isn't an ONNX model."""
    if not data:
        raise InvalidInputError("the file is empty", where=where, expected="an ONNX model")
    try:
        model = onnx.ModelProto.FromString(data)
    except DecodeError:
        raise _not_onnx(data, where) from None
    check_model(model, where, data)
    return model


def check_model(model: onnx.ModelProto, where: str, data: bytes = b"") -> None:
    """Raises InvalidInputError unless the protobuf holds an ONNX model, UnsupportedError for its features."""
    if not model.HasField("graph") or (not model.ir_version and not model.opset_import):
        raise _not_onnx(data, where)
    if not model.opset_import:
        raise InvalidInputError(
            "the model names no opset",
            where=where,
            expected="at least one opset_import",
            hint="the file may be truncated, or older than ONNX 1.0",
        )
    if not model.graph.node and not model.graph.output:
        raise InvalidInputError("the model has no nodes and no outputs", where=where)


def _not_onnx(data: bytes, where: str) -> InvalidInputError:
    for signature, what, hint in _SIGNATURES:
        if data.startswith(signature):
            return InvalidInputError("this is not an ONNX model", where=where, got=what, hint=hint)
    return InvalidInputError(
        "this is not an ONNX model, or the file is truncated or damaged",
        where=where,
        expected="a protobuf message onnx.ModelProto",
        got=f"{len(data)} bytes that don't parse as one",
        hint="compare the file's size with the original, or fetch it again",
    )


def invalid_text(message: Any) -> str | None:
    """The name of a string field that isn't UTF-8 (protobuf then gives bytes), or None if all are."""
    work = [message]
    while work:
        for field, value in work.pop().ListFields():
            values = value if isinstance(value, Sequence) and not isinstance(value, str | bytes) else [value]
            if field.type == field.TYPE_MESSAGE:
                work.extend(values)
            elif field.type == field.TYPE_STRING and any(isinstance(v, bytes) for v in values):
                return field.full_name
    return None


def opset_versions(model: onnx.ModelProto, where: str) -> dict[str, int]:
    """Domain -> version, with "" for the standard domain.

    Raises UnsupportedError for standard opsets before 7 or after what the installed `onnx` knows.
    """
    versions: dict[str, int] = {}
    for entry in model.opset_import:
        versions[_domain(entry.domain)] = entry.version
    version = versions.get("")
    newest = onnx.defs.onnx_opset_version()
    if version is not None and not MIN_OPSET <= version <= newest:
        hint = "convert the model with onnx.version_converter"
        if version > newest:
            hint = "install a newer onnx package, or export the model with an older opset"
        raise UnsupportedError(
            "the opset is not supported",
            where=where,
            expected=f"{MIN_OPSET}..{newest}",
            got=version,
            hint=hint,
        )
    return versions


def _domain(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def tensor_array(
    tensor: onnx.TensorProto, where: str, folder: Path | None = None, name: str | None = None
) -> np.ndarray:
    """The array of a TensorProto without copying where possible; external data is memory-mapped.

    `folder` is where the model file lies (None: it was not read from a file). Raises UnsupportedError for
    strings and complex numbers, InvalidInputError for missing, short or misplaced data.
    """
    label = f"{where}: tensor '{name or tensor.name}'"
    dtype = dt.of_onnx(tensor.data_type, where=label)
    shape = tuple(tensor.dims)
    if any(d < 0 for d in shape):
        raise InvalidInputError("negative dim", where=label, got=list(shape))
    count = 1
    for d in shape:
        count *= d
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        return _external(tensor, dtype, shape, count, label, folder)
    if tensor.HasField("raw_data"):
        raw = tensor.raw_data
        if len(raw) != count * dtype.bytes:
            raise InvalidInputError(
                "the data doesn't fit the shape",
                where=label,
                expected=f"{count * dtype.bytes} bytes for {dtype}{list(shape)}",
                got=f"{len(raw)} bytes",
            )
        return np.frombuffer(raw, dtype.numpy).reshape(shape)
    try:
        array = numpy_helper.to_array(tensor)
    except Exception as error:  # onnx raises several kinds for inconsistent data
        raise InvalidInputError(f"the data can't be read: {error}", where=label) from None
    return array.astype(dtype.numpy, copy=False)


def _external(
    tensor: onnx.TensorProto,
    dtype: dt.DType,
    shape: tuple[int, ...],
    count: int,
    label: str,
    folder: Path | None,
) -> np.ndarray:
    info = {entry.key: entry.value for entry in tensor.external_data}
    location = info.get("location", "")
    if folder is None:
        raise InvalidInputError(
            f"its data is in the file '{location}', but the model was not read from a file",
            where=label,
            hint="give the path of the .onnx file instead of the protobuf",
        )
    base = folder.resolve()
    path = (base / location).resolve()
    if not location or Path(location).is_absolute() or not path.is_relative_to(base):
        raise InvalidInputError(
            "external data must lie in the model's folder",
            where=label,
            got=f"'{location}'",
            hint="paths that lead outside are refused for safety",
        )
    if not path.is_file():
        raise InvalidInputError(
            f"the external data file '{location}' is missing",
            where=label,
            expected=f"a file in {folder}",
            hint="copy it beside the .onnx file",
        )
    try:
        offset = int(info.get("offset", 0))
        length = int(info.get("length", count * dtype.bytes))
    except ValueError:
        raise InvalidInputError("offset and length must be integers", where=label, got=info) from None
    size = path.stat().st_size
    if length != count * dtype.bytes or offset < 0 or offset + length > size:
        raise InvalidInputError(
            f"the external data in '{location}' doesn't fit",
            where=label,
            expected=f"{count * dtype.bytes} bytes for {dtype}{list(shape)} inside the file's {size} bytes",
            got=f"{length} bytes at offset {offset}",
        )
    if count == 0:
        return np.zeros(shape, dtype.numpy)
    mapped = np.memmap(path, dtype=np.uint8, mode="r", offset=offset, shape=(length,))
    return mapped.view(dtype.numpy).reshape(shape)
