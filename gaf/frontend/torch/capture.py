# SPDX-License-Identifier: Apache-2.0
"""`torch_to_graph`: modules, traces and exported programs as a `Model`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from gaf.dialects.graph.model import Model
from gaf.errors import GafError, InvalidInputError, UnsupportedError
from gaf.frontend.torch import torchscript
from gaf.frontend.torch.program import import_program, load_program, quiet

_WAYS = "an nn.Module with example inputs, a torch.jit.trace result, or a torch.export program"


def torch_to_graph(
    source: Any,
    example_inputs: Any = None,
    *,
    dynamic_shapes: Any = None,
    name: str | None = None,
) -> Model:
    """The graph of a PyTorch program.

    `source` is a torch.export.ExportedProgram (dynamic dims stay symbols), a torch.jit.trace or script
    result, an nn.Module or function, or the path of a `.pt2` or TorchScript `.pt` file. `example_inputs` (a
    tensor, a tuple of arguments, or a dict of keyword arguments) are needed for modules, and for scripts that
    don't remember theirs. `dynamic_shapes` is what torch.export.export takes.

    Raises InvalidInputError, or UnsupportedError that lists every op without a way once.
    """
    where = name or _name_of(source)
    if isinstance(source, str | os.PathLike):
        source = _load(Path(source))
    if isinstance(source, ExportedProgram):
        return import_program(source, name=where, source=where)
    if isinstance(source, torch.jit.ScriptModule | torch.jit.ScriptFunction):
        return _from_script(source, example_inputs, dynamic_shapes, where)
    if not callable(source):
        raise InvalidInputError("this is no PyTorch program", expected=_WAYS, got=type(source).__name__)
    if example_inputs is None:
        raise InvalidInputError(
            "a module alone says nothing about its inputs",
            where=where,
            expected=_WAYS,
            hint="gaf.load_model(module, example_inputs=(x,)), or torch.export.export(module, (x,)) first",
        )
    module = source if isinstance(source, nn.Module) else _Wrapped(source)
    args, kwargs = split_inputs(example_inputs)
    program = export(module, args, kwargs, dynamic_shapes, where)
    training = source.training if isinstance(source, nn.Module) else None
    return import_program(program, eager=source, training=training, name=where, source=where)


class _Wrapped(nn.Module):
    """A function as a module."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.forward = function


def _name_of(source: Any) -> str:
    if isinstance(source, str | os.PathLike):
        return Path(source).stem
    if isinstance(source, ExportedProgram):
        return "program"
    return (
        getattr(source, "original_name", None) or getattr(source, "__name__", None) or type(source).__name__
    )


def split_inputs(example_inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Example inputs as positional and keyword arguments."""
    match example_inputs:
        case dict():
            return (), dict(example_inputs)
        case tuple() | list():
            return tuple(example_inputs), {}
    return (example_inputs,), {}


def export(
    module: nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    dynamic_shapes: Any,
    where: str,
) -> ExportedProgram:
    """torch.export on copies of the inputs. Raises UnsupportedError with PyTorch's own reason."""
    # in-place ops would change the user's tensors, and shared storage would be taken for aliasing
    args, kwargs = pytree.tree_map_only(
        torch.Tensor, lambda t: t.detach().clone(), (tuple(args), dict(kwargs))
    )
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # one opaque call instead of the layer's ops
    try:
        with quiet(), torch.no_grad():
            return torch.export.export(
                module, tuple(args), dict(kwargs), dynamic_shapes=dynamic_shapes, strict=False
            )
    except GafError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split())
        raise UnsupportedError(
            f"PyTorch can't export this module: {type(error).__name__}: {reason[:400]}",
            where=where,
            hint="torch.compile(module, backend='gaf') leaves such parts in PyTorch; control flow on tensor "
            "values can be written with torch.cond",
        ) from error
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


def _from_script(script: Any, example_inputs: Any, dynamic_shapes: Any, where: str) -> Model:
    torchscript.refuse_python(script, where)
    args, kwargs = split_inputs(example_inputs) if example_inputs is not None else ((), {})
    names = torchscript.input_names(script)
    if kwargs:  # a graph has positions only
        unknown = [k for k in kwargs if k not in names]
        if unknown:
            raise InvalidInputError(
                f"the script has no input '{unknown[0]}'", where=where, expected=", ".join(names)
            )
        args = (*args, *(kwargs[n] for n in names[len(args) :] if n in kwargs))
    if example_inputs is None:
        found = torchscript.traced_inputs(script)
        if found is None:
            raise InvalidInputError(
                "this script doesn't remember the inputs of its trace",
                where=where,
                hint="give some: gaf.load_model(script, example_inputs=(x,))",
            )
        args = found
    module = torchscript.script_module(script, where)
    if isinstance(dynamic_shapes, Mapping):
        dynamic_shapes = tuple(dynamic_shapes.get(n) for n in names)
    if dynamic_shapes is not None:
        dynamic_shapes = (tuple(dynamic_shapes),)  # forward takes *inputs: one tuple
    program = export(module, args, {}, dynamic_shapes, where)
    plain = all(isinstance(a, torch.Tensor) for a in args)
    return import_program(
        program, eager=script, name=where, source=where, input_names=names[: len(args)] if plain else None
    )


def _load(path: Path) -> Any:
    if not path.is_file():
        raise InvalidInputError("no such file", where=str(path))
    return load_program(str(path)) if path.suffix == ".pt2" else torchscript.load_script(str(path))
