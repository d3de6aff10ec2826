# SPDX-License-Identifier: Apache-2.0
"""The element types of gaf: one table that joins MLIR, numpy, ONNX and C++ names."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    Signedness,
)
from xdsl.ir import Attribute

from gaf.errors import UnsupportedError


@dataclass(frozen=True)
class DType:
    """One element type. `onnx` is the TensorProto.DataType code; `cpp` the Ascend C type name."""

    name: str
    mlir: Attribute
    numpy: np.dtype
    onnx: int
    cpp: str
    bits: int
    kind: str  # "float", "int", "uint" or "bool"

    @property
    def bytes(self) -> int:
        return (self.bits + 7) // 8

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_int(self) -> bool:
        return self.kind in ("int", "uint")

    @property
    def is_bool(self) -> bool:
        return self.kind == "bool"

    @property
    def bits_dtype(self) -> np.dtype:
        """The unsigned integer type with the same number of bits."""
        return np.dtype(f"u{self.bytes}")

    @property
    def eps(self) -> float:
        """Unit roundoff spacing of a float type (2^-(p-1)); 0 for other types."""
        return float(ml_dtypes.finfo(self.numpy).eps) if self.is_float else 0.0

    def __str__(self) -> str:
        return self.name


def _int(bits: int) -> Attribute:
    return IntegerType(bits)


def _uint(bits: int) -> Attribute:
    return IntegerType(bits, Signedness.UNSIGNED)


F32 = DType("f32", Float32Type(), np.dtype(np.float32), 1, "float", 32, "float")
F16 = DType("f16", Float16Type(), np.dtype(np.float16), 10, "half", 16, "float")
BF16 = DType("bf16", BFloat16Type(), np.dtype(ml_dtypes.bfloat16), 16, "bfloat16_t", 16, "float")
F64 = DType("f64", Float64Type(), np.dtype(np.float64), 11, "double", 64, "float")
I8 = DType("i8", _int(8), np.dtype(np.int8), 3, "int8_t", 8, "int")
I16 = DType("i16", _int(16), np.dtype(np.int16), 5, "int16_t", 16, "int")
I32 = DType("i32", _int(32), np.dtype(np.int32), 6, "int32_t", 32, "int")
I64 = DType("i64", _int(64), np.dtype(np.int64), 7, "int64_t", 64, "int")
U8 = DType("ui8", _uint(8), np.dtype(np.uint8), 2, "uint8_t", 8, "uint")
U16 = DType("ui16", _uint(16), np.dtype(np.uint16), 4, "uint16_t", 16, "uint")
U32 = DType("ui32", _uint(32), np.dtype(np.uint32), 12, "uint32_t", 32, "uint")
U64 = DType("ui64", _uint(64), np.dtype(np.uint64), 13, "uint64_t", 64, "uint")
# One byte per element in memory, as in ONNX and PyTorch; only the values 0 and 1 are valid.
BOOL = DType("i1", _int(1), np.dtype(np.bool_), 9, "uint8_t", 8, "bool")

ALL = (F32, F16, BF16, F64, I8, I16, I32, I64, U8, U16, U32, U64, BOOL)
_BY_NAME = {d.name: d for d in ALL}
_BY_MLIR = {d.mlir: d for d in ALL}
_BY_NUMPY = {d.numpy: d for d in ALL}
_BY_ONNX = {d.onnx: d for d in ALL}
_ONNX_NAMES = {8: "string", 14: "complex64", 15: "complex128", 17: "float8e4m3fn", 18: "float8e4m3fnuz",
               19: "float8e5m2", 20: "float8e5m2fnuz", 21: "uint4", 22: "int4", 23: "float4e2m1"}


def by_name(name: str) -> DType:
    """The type called `name` in IR text. Raises UnsupportedError."""
    if name in _BY_NAME:
        return _BY_NAME[name]
    raise UnsupportedError(f"unknown element type '{name}'", expected=", ".join(_BY_NAME), got=name)


def of(mlir: Attribute) -> DType:
    """The type of an MLIR element type attribute. Raises UnsupportedError."""
    found = _BY_MLIR.get(mlir)
    if found is None:
        raise UnsupportedError(f"element type {mlir} is not supported", expected=", ".join(_BY_NAME))
    return found


def of_numpy(dtype: np.dtype | type) -> DType:
    """The type of a numpy dtype. Raises UnsupportedError for complex, string and object types."""
    found = _BY_NUMPY.get(np.dtype(dtype))
    if found is None:
        raise UnsupportedError(f"numpy dtype {np.dtype(dtype)} is not supported", expected=", ".join(_BY_NAME))
    return found


def of_onnx(code: int, where: str | None = None) -> DType:
    """The type of an ONNX TensorProto.DataType code. Raises UnsupportedError."""
    found = _BY_ONNX.get(code)
    if found is None:
        raise UnsupportedError(
            f"ONNX element type {_ONNX_NAMES.get(code, code)} is not supported",
            where=where,
            expected="one of " + ", ".join(_BY_NAME),
        )
    return found
