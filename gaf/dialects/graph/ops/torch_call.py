# SPDX-License-Identifier: Apache-2.0
"""PyTorch calls as text, and their execution on numpy arrays: the reference of `graph.foreign` for torch.

The text is JSON: `{"args": [..], "kwargs": {..}}`. A tensor is `{"t": operand number}`, a symbolic size
`{"s": expression}`, a number that JSON lacks `{"f": "inf"}`, an object of torch `{"torch": "float32"}`,
another op `{"op": "acme.write.default"}`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from gaf.dialects.common import dtype as dt
from gaf.dialects.common.attributes import parse_expr
from gaf.dialects.common.index import Expr
from gaf.errors import InvalidInputError, UnsupportedError


def to_numpy(tensor: Any) -> np.ndarray:
    """A dense CPU tensor as an array that shares its memory. Raises UnsupportedError for dtypes gaf lacks."""
    import torch

    tensor = tensor.detach().resolve_conj().resolve_neg()
    if tensor.dtype == torch.bfloat16:
        # numpy has no bfloat16 of its own: the bits travel
        return tensor.view(torch.int16).numpy().view(dt.BF16.numpy)
    try:
        array = tensor.numpy()
    except (TypeError, RuntimeError):
        raise UnsupportedError(f"tensors of type {tensor.dtype} are not supported") from None
    dt.of_numpy(array.dtype)
    return array


def to_torch(array: np.ndarray) -> Any:
    """An array as a tensor; shares its memory if it is writable and in row-major order."""
    import torch

    if not array.flags.writeable or not array.flags.c_contiguous:
        array = np.array(array, order="C", copy=True)
    if not array.size:  # numpy gives it strides of 0
        return torch.empty(array.shape, dtype=getattr(torch, torch_name(dt.of_numpy(array.dtype))))
    if array.dtype == dt.BF16.numpy:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def encode(value: Any, tensor: Callable[[Any], int | None]) -> Any:
    """A call argument in JSON form; `tensor` gives the operand number of what stands for a tensor, else None.

    Raises UnsupportedError for arguments without a text form.
    """
    number = tensor(value)
    if number is not None:
        return {"t": number}
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else {"f": repr(value)}
        case Expr():
            known = value.as_int()
            return {"s": str(value)} if known is None else known
        case list() | tuple():
            return [encode(v, tensor) for v in value]
        case dt.DType():
            return {"torch": torch_name(value)}
    text = str(value)
    if text.startswith("torch.") and text[6:].isidentifier():
        return {"torch": text[6:]}
    if type(value).__name__ == "OpOverload":
        return {"op": text}
    if type(value).__name__ == "device":  # everything on the host runs on the CPU
        return {"device": "cpu"}
    raise UnsupportedError(f"an argument of type {type(value).__name__} has no text form")


def torch_name(dtype: dt.DType) -> str:
    """The name of an element type in torch: `float32`, `bfloat16`, `bool`."""
    return "bool" if dtype.is_bool else str(dtype.numpy)


def call_text(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """The text of a call whose arguments are encoded."""
    return json.dumps({"args": list(args), "kwargs": dict(kwargs)}, sort_keys=True)


def check_text(text: str, operands: int) -> None:
    """Raises InvalidInputError unless the text is a call on `operands` tensors."""
    try:
        call = json.loads(text)
        numbers = sorted(set(_tensors([call["args"], list(call["kwargs"].values())])))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InvalidInputError(
            "the text is not a torch call", expected='{"args": [..], "kwargs": {..}}'
        ) from None
    if numbers != list(range(operands)):
        raise InvalidInputError(
            "the call doesn't fit its operands", expected=f"{operands} tensors", got=numbers
        )


def _tensors(value: Any) -> list[int]:
    match value:
        case {"t": int(number)}:
            return [number]
        case list():
            return [n for v in value for n in _tensors(v)]
    return []


def find_op(name: str) -> Any:
    """The overload called e.g. `aten.topk.default`. Raises UnsupportedError if this process doesn't know it."""
    try:
        import torch
    except ImportError:
        raise UnsupportedError(
            f"'{name}' is a PyTorch op, and PyTorch is not installed",
            hint="pip install 'graph-autofusion[torch]'",
        ) from None
    found = torch.ops
    try:
        for part in name.split("."):
            found = getattr(found, part)
    except AttributeError:
        raise UnsupportedError(
            f"the PyTorch op '{name}' is not registered in this process",
            hint="import the module that registers it (torch.library) first",
        ) from None
    return found


def run_call(
    name: str,
    text: str,
    arrays: Sequence[np.ndarray],
    dtypes: Sequence[dt.DType],
    env: Mapping[str, int],
    wide: bool,
) -> list[np.ndarray]:
    """Run a call on the CPU; with `wide` in float64 where the op can, otherwise in its own `dtypes`."""
    if wide:
        try:
            return _run(name, text, arrays, env)
        except Exception:  # an op without float64, or operands whose types have to agree
            arrays = [a.astype(d.numpy) if d.is_float else a for a, d in zip(arrays, dtypes)]
    return _run(name, text, arrays, env)


def _run(name: str, text: str, arrays: Sequence[np.ndarray], env: Mapping[str, int]) -> list[np.ndarray]:
    import torch

    call = json.loads(text)
    tensors = [to_torch(a) for a in arrays]
    with torch.no_grad():
        args = [_decode(a, tensors, env) for a in call["args"]]
        kwargs = {k: _decode(v, tensors, env) for k, v in call["kwargs"].items()}
        results = find_op(name)(*args, **kwargs)
    return [to_numpy(r if isinstance(r, torch.Tensor) else torch.tensor(r)) for r in _flat(results)]


def _flat(value: Any) -> list[Any]:
    if value is None:
        return []
    if isinstance(value, list | tuple):
        return [v for item in value for v in _flat(item)]
    return [value]


def _decode(value: Any, tensors: Sequence[Any], env: Mapping[str, int]) -> Any:
    import torch

    match value:
        case {"t": number}:
            return tensors[number]
        case {"s": text}:
            return _expression(text).evaluate(env)
        case {"f": text}:
            return float(text)
        case {"op": name}:
            return find_op(name)
        case {"torch": name}:
            return getattr(torch, name)
        case {"device": name}:
            return torch.device(name)
        case list():
            return [_decode(v, tensors, env) for v in value]
    return value


@lru_cache(maxsize=4096)
def _expression(text: str) -> Expr:
    from xdsl.context import Context
    from xdsl.parser import Parser

    return parse_expr(Parser(Context(), text))
