# SPDX-License-Identifier: Apache-2.0
"""`graph_to_torch`: a fused model as an nn.Module with the original's parameters and output structure."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from gaf.compiler import FusedModel, fuse
from gaf.dialects.graph.model import Model
from gaf.dialects.graph.ops.torch_call import to_numpy
from gaf.errors import CompileError, GafError, InternalError, InvalidInputError, UnsupportedError
from gaf.frontend.torch.origin import Aliased, Computed, Known, TorchOrigin
from gaf.frontend.torch.views import numbers, replay
from gaf.torch.runner import Runner, is_plain, restrided

log = logging.getLogger("gaf.torch")


def graph_to_torch(model: Model | FusedModel, *, engine: str = "auto") -> nn.Module:
    """A module that runs the generated kernels.

    A Model is fused first, with the default configuration. For models that came from PyTorch the module has
    the original's parameters (the same objects) and output structure; for others it takes the model's inputs
    in order and returns its outputs: one tensor, or a tuple.
    """
    if not isinstance(model, Model | FusedModel):
        raise InvalidInputError(
            "only models can become modules", expected="a Model or FusedModel", got=type(model).__name__
        )
    fused = model if isinstance(model, FusedModel) else fuse(model)
    origin = fused.source_model.origin
    if isinstance(origin, TorchOrigin):
        return FusedModule(fused, origin, engine)
    return PlainModule(fused, engine)


class PlainModule(nn.Module):
    """A fused model from another format: no eager original, no gradients."""

    def __init__(self, fused: FusedModel, engine: str = "auto") -> None:
        super().__init__()
        self.fused = fused
        self._runner = Runner(fused, engine)

    def forward(self, *inputs: torch.Tensor, **named: torch.Tensor) -> Any:
        """The outputs for inputs in the model's order, or by name. Raises GafError for what doesn't fit."""
        tensors = {**dict(zip(self._runner.names, inputs)), **named}
        if len(inputs) + len(named) != len(self._runner.names) or set(tensors) != set(self._runner.names):
            raise InvalidInputError(
                "wrong inputs",
                expected=", ".join(self._runner.names),
                got=f"{len(inputs)} and {sorted(named)}",
            )
        if torch.is_grad_enabled() and any(t.requires_grad for t in tensors.values()):
            raise UnsupportedError(
                "this model has no gradients: it does not come from PyTorch",
                hint="call it under torch.no_grad(), or with tensors that don't require gradients",
            )
        outputs, _ = self._runner.run(tensors)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)


class Eager(Exception):
    """Why a call goes to the original module."""


class FusedModule(nn.Module):
    """A fused model in place of the module it was captured from.

    Without gradients the kernels run. With gradients they run too, and the backward pass recomputes the
    original module. Whatever the kernels can't do right (other structure or mode than captured, other
    devices, in-place changes under autograd, ...) runs the original module; each reason is logged once, and
    `fallbacks_taken` counts the calls by reason.
    """

    def __init__(self, fused: FusedModel, origin: TorchOrigin, engine: str = "auto") -> None:
        super().__init__()
        self.fused = fused
        self.fallbacks_taken: dict[str, int] = {}
        self._broken: str | None = None
        self._origin = origin
        self._engine = engine
        self._runner = Runner(fused, engine)
        self._versions = _versions(origin.held)
        object.__setattr__(self, "_eager", origin.eager)  # not a child: its own children are
        _share(origin.eager, self)

    # -- calling ------------------------------------------------------------------------------------

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return self._eager(*args, **kwargs)
        try:
            flat = self._flatten(args, kwargs)
            inputs = self._inputs(flat)
            if torch.is_grad_enabled():
                wanted = [t for t in inputs.values() if t.requires_grad]
                parameters = [t for t in self._origin.held if t.requires_grad]
                if wanted or parameters:
                    return self._with_gradients(flat, inputs, parameters)
            return self._assemble(*self._run(inputs), flat)
        except Eager as reason:
            return self._fall_back(str(reason), args, kwargs)

    def _fall_back(self, reason: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        if reason not in self.fallbacks_taken:
            log.warning("%s runs in PyTorch: %s (said once)", self.fused.model.name, reason)
        self.fallbacks_taken[reason] = self.fallbacks_taken.get(reason, 0) + 1
        return self._eager(*args, **kwargs)

    def _run(self, inputs: Mapping[str, torch.Tensor]) -> tuple[list[torch.Tensor], dict[str, int]]:
        """The model's outputs and the values of its symbols."""
        if self._broken:
            raise Eager(self._broken)
        self._refresh()
        try:
            outputs, arrays = self._runner.run(inputs)
            return outputs, self._runner.sizes(arrays)
        except InternalError:
            raise
        except CompileError as error:  # the same the next time
            self._broken = error.what.splitlines()[0]
            raise Eager(self._broken) from None
        except GafError as error:
            raise Eager(error.what) from None

    def _flatten(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        flat, spec = pytree.tree_flatten((args, kwargs))
        if spec == self._origin.in_spec:
            return flat
        flat, spec = pytree.tree_flatten(self._reordered(args, kwargs))
        if spec != self._origin.in_spec:
            raise Eager("the arguments have another structure than those of the capture")
        return flat

    def _reordered(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The same arguments, positional and by keyword as in the capture."""
        expected = self._origin.in_spec
        assert expected is not None
        positional, named = expected.child(0), expected.child(1)
        forward = getattr(self._eager, "forward", self._eager)
        try:
            bound = inspect.signature(forward).bind(*args, **kwargs).arguments
        except (TypeError, ValueError):
            return args, kwargs
        values: list[Any] = []
        by_name: dict[str, Any] = {}
        for name, value in bound.items():
            kind = inspect.signature(forward).parameters[name].kind
            if kind is inspect.Parameter.VAR_POSITIONAL:
                values += value
            elif kind is inspect.Parameter.VAR_KEYWORD:
                by_name.update(value)
            elif len(values) < positional.num_children and len(values) == len(by_name) + len(values):
                values.append(value)
            else:
                by_name[name] = value
        keys = list(named.context or [])
        if set(by_name) != set(keys):
            return args, kwargs
        return tuple(values), {k: by_name[k] for k in keys}

    def _inputs(self, flat: Sequence[Any]) -> dict[str, torch.Tensor]:
        """The model's inputs. Raises Eager for everything that the capture does not stand for."""
        origin = self._origin
        if origin.training is not None and self.training != origin.training:
            mode = "training" if self.training else "evaluation"
            raise Eager(f"the module is in {mode} mode and was captured in the other one")
        inputs: dict[str, torch.Tensor] = {}
        for value, spec in zip(flat, origin.inputs, strict=True):
            if isinstance(spec, str):
                inputs[spec] = value
            elif isinstance(value, torch.Tensor) or value != spec.value:
                raise Eager(f"an argument is {_shown(value)} and was {_shown(spec.value)} in the capture")
        for name, target in origin.state:
            inputs[name] = _find(self, target)
        for name, type_ in zip(self._runner.names, self._runner.types):
            tensor = inputs[name]
            if not isinstance(tensor, torch.Tensor):
                raise Eager(f"argument '{name}' is no tensor")
            if not is_plain(tensor):
                raise Eager(f"'{name}' is on {tensor.device} or not a plain tensor")
            self._check_ranges(name, tensor, type_)
        self._check_aliases(flat)
        return inputs

    def _check_aliases(self, flat: Sequence[Any]) -> None:
        """The capture takes the arguments for separate memory: a change of one must not show in another."""
        if not self._origin.mutations:
            return
        place = self._place_finder(flat)
        changed = [place(m.target) for m in self._origin.mutations]
        others = [v for v in flat if isinstance(v, torch.Tensor)]
        others += [_find(self, target) for _, target in self._origin.state]
        others += self._origin.held
        for tensor in changed:
            if any(t is not tensor and _overlap(t, tensor) for t in others):
                raise Eager("a tensor that the module changes shares memory with another one")
            if sum(t is tensor for t in others) > 1:
                raise Eager("a tensor that the module changes is given twice")

    def _check_ranges(self, name: str, tensor: torch.Tensor, type_: Any) -> None:
        for dim, size in zip(type_.shape, tensor.shape):
            low, high = self._origin.ranges.get(dim.as_name() or "", (0, None))
            if size < low or (high is not None and size > high):
                raise Eager(f"size {size} of '{name}' is outside the captured range {low}..{high or ''}")

    def _refresh(self) -> None:
        """Import the weights anew if somebody changed them since: kernels hold values derived from them."""
        if _versions(self._origin.held) == self._versions:
            return
        assert self._origin.recapture is not None
        try:
            fused = fuse(self._origin.recapture(), self.fused.config)
        except InternalError:
            raise
        except GafError as error:
            raise Eager(f"changed parameters: {error.what}") from None
        self.fused, self._origin = fused, fused.source_model.origin
        self._runner = Runner(fused, self._engine)
        self._versions = _versions(self._origin.held)

    # -- results ------------------------------------------------------------------------------------

    def _assemble(self, outputs: list[torch.Tensor], env: dict[str, int], flat: Sequence[Any]) -> Any:
        """The module's own output structure; in-place changes are carried out first."""
        origin = self._origin
        place = self._place_finder(flat)
        with torch.no_grad():
            for mutation in origin.mutations:
                place(mutation.target).copy_(outputs[mutation.index])
        made: dict[int, torch.Tensor] = {}
        results: list[Any] = []
        for spec in origin.outputs:
            match spec:
                case Computed(index, strides, steps):
                    if index not in made:
                        made[index] = restrided(outputs[index], strides, env)
                    results.append(replay(made[index], steps, env))
                case Aliased(base, steps):
                    results.append(replay(place(base), steps, env))
                case Known(value):
                    results.append(numbers(value, env))
        return self._unflatten(results)

    def _unflatten(self, results: Sequence[Any]) -> Any:
        spec = self._origin.out_spec
        return pytree.tree_unflatten(list(results), spec) if spec is not None else results[0]

    def _place_finder(self, flat: Sequence[Any]) -> Any:
        return lambda target: flat[target] if isinstance(target, int) else _find(self, target)

    # -- gradients ------------------------------------------------------------------------------------

    def _with_gradients(
        self,
        flat_inputs: Sequence[Any],
        inputs: Mapping[str, torch.Tensor],
        parameters: Sequence[torch.Tensor],
    ) -> Any:
        origin = self._origin
        if origin.has_effects:
            raise Eager("gradients of a module that changes tensors in place or draws random numbers")
        if any(isinstance(o, Aliased) for o in origin.outputs):
            raise Eager("gradients of a module that returns its inputs or views of them")
        if origin.hidden is not None:
            raise Eager("gradients of a module whose results are views of one tensor")
        if any(p.device.type != "cpu" for p in parameters):
            raise Eager("parameters are not on the CPU")
        results = _Recompute.apply(self, list(inputs), flat_inputs, *inputs.values(), *parameters)
        computed = iter(results)
        made: dict[int, torch.Tensor] = {}
        flat: list[Any] = []
        env = self._runner.sizes({n: to_numpy(t) for n, t in inputs.items()})
        for spec in origin.outputs:
            if isinstance(spec, Computed):
                if spec.index not in made:
                    made[spec.index] = next(computed)
                flat.append(replay(made[spec.index], spec.steps, env))
            else:
                assert isinstance(spec, Known)
                flat.append(numbers(spec.value, env))
        return self._unflatten(flat)


class _Recompute(torch.autograd.Function):
    """Kernels forward; backward runs the original module once more and differentiates it."""

    @staticmethod
    def forward(
        ctx: Any, module: FusedModule, names: list[str], flat: Sequence[Any], *tensors: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        outputs, env = module._run(dict(zip(names, tensors)))
        made: dict[int, torch.Tensor] = {}
        for spec in module._origin.outputs:
            if isinstance(spec, Computed) and spec.index not in made:
                made[spec.index] = restrided(outputs[spec.index], spec.strides, env)
        ctx.module, ctx.origin, ctx.names, ctx.order = module, module._origin, names, list(made)
        ctx.flat = [None if isinstance(s, str) else v for s, v in zip(module._origin.inputs, flat)]
        ctx.parameters = [t for t in module._origin.held if t.requires_grad]
        ctx.save_for_backward(*tensors)
        results = tuple(made.values())
        ctx.mark_non_differentiable(*(r for r in results if not r.is_floating_point()))
        return results

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor | None) -> tuple[Any, ...]:
        saved = ctx.saved_tensors  # raises if one was changed in place since
        again = torch.is_grad_enabled()  # with create_graph: the gradients depend on the inputs themselves
        fresh = dict(zip(ctx.names, saved))
        if not again:
            fresh = {n: t.detach().requires_grad_(t.requires_grad) for n, t in fresh.items()}
        flat = [fresh[s] if isinstance(s, str) else v for s, v in zip(ctx.origin.inputs, ctx.flat)]
        args, kwargs = pytree.tree_unflatten(flat, ctx.origin.in_spec)
        with torch.enable_grad():
            results, _ = pytree.tree_flatten(ctx.module._eager(*args, **kwargs))
        outputs: dict[int, torch.Tensor] = {}
        for value, spec in zip(results, ctx.origin.outputs, strict=True):
            if isinstance(spec, Computed) and not spec.steps:
                outputs.setdefault(spec.index, value)
        pairs = [
            (outputs[index], grad)
            for index, grad in zip(ctx.order, grads)
            if grad is not None and outputs[index].requires_grad
        ]
        sources = [*fresh.values(), *ctx.parameters]
        wanted = [t for t in sources if t.requires_grad]
        found: list[Any] = []
        if pairs:
            ends, cotangents = zip(*pairs)
            found = list(torch.autograd.grad(ends, wanted, cotangents, create_graph=again, allow_unused=True))
        found += [None] * (len(wanted) - len(found))
        given = iter(found)
        return (None, None, None, *(next(given) if t.requires_grad else None for t in sources))


def _versions(tensors: Sequence[torch.Tensor]) -> list[tuple[int, int]]:
    """What changes when somebody writes to a tensor or gives it other memory."""
    return [(0 if t.is_inference() else t._version, t.data_ptr()) for t in tensors]


def _find(module: nn.Module, target: str) -> torch.Tensor:
    owner: Any = module
    for part in target.split("."):
        owner = getattr(owner, part)
    return owner


def _share(eager: Any, module: FusedModule) -> None:
    """Give `module` the original's parameters, buffers and children: the same objects and names."""
    if not isinstance(eager, nn.Module):
        return
    if isinstance(eager, torch.jit.ScriptModule):
        for name, parameter in eager.named_parameters(recurse=False):
            module.register_parameter(name, parameter)
        for name, buffer in eager.named_buffers(recurse=False):
            module.register_buffer(name, buffer)
        for name, child in eager.named_children():
            module.add_module(name, child)
    else:
        for kind in ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"):
            module.__dict__[kind] = eager.__dict__[kind]
    module.training = eager.training


def _overlap(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether the address ranges of two tensors meet; tensors between one another's rows count too."""
    if not a.numel() or not b.numel() or a.is_meta or b.is_meta:
        return False
    first, last = zip(*map(_range, (a, b)))
    return max(first) < min(last)


def _range(tensor: torch.Tensor) -> tuple[int, int]:
    reach = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride()))
    return tensor.data_ptr(), tensor.data_ptr() + (reach + 1) * tensor.element_size()


def _shown(value: Any) -> str:
    return "a tensor" if isinstance(value, torch.Tensor) else repr(value)
