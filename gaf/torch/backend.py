# SPDX-License-Identifier: Apache-2.0
"""The torch.compile backend: ATen graphs of AOTAutograd become fused models; what can't stays in PyTorch."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx, nn
from torch._dynamo.backends.common import aot_autograd

from gaf.compiler import fuse
from gaf.config import FusionConfig
from gaf.errors import CompileError, GafError, InternalError, InvalidInputError
from gaf.frontend.torch.importer import GraphImporter, Held
from gaf.frontend.torch.locations import count_ops
from gaf.frontend.torch.program import decompositions, quiet
from gaf.frontend.torch.types import strides_of
from gaf.frontend.torch.views import Step, numbers, replay, view_chain
from gaf.torch.runner import Runner, is_plain, restrided

log = logging.getLogger("gaf.torch")

Call = Callable[..., Any]


def optimize(module: Any, **options: Any) -> Any:
    """`torch.compile(module, backend="gaf")` as one call; `options` are torch.compile's, and `config`.

    Returns what torch.compile returns: for a module an optimised module with the same parameters.
    """
    from gaf.torch.registration import install

    install()
    config = options.pop("config", None)
    if config is not None:
        options["options"] = {**options.get("options", {}), "config": config}
    return torch.compile(module, backend="gaf", **options)


def compile_graph(
    graph: fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: dict[str, Any] | None = None,
    config: FusionConfig | None = None,
    engine: str = "auto",
    **unknown: Any,
) -> Call:
    """The backend: compiles a graph that TorchDynamo captured.

    AOTAutograd makes it functional and, under autograd, splits it into a forward and a backward graph;
    each becomes a fused model. A graph with something gaf can't do runs in PyTorch, and the log says why.
    `options` are those of torch.compile: `config` (a FusionConfig) and `engine`.
    """
    given = {"config": config, "engine": engine, **unknown, **(options or {})}
    config, engine = given.pop("config"), given.pop("engine")
    if given:
        raise InvalidInputError(
            f"the backend has no option '{next(iter(given))}'",
            expected="config, engine",
            where='backend="gaf"',
        )

    def compiler(kind: str) -> Call:
        return lambda module, inputs: CompiledGraph(module, kind, config, engine).call

    with quiet():
        return aot_autograd(
            fw_compiler=compiler("forward"),
            bw_compiler=compiler("backward"),
            inference_compiler=compiler("inference"),
            decompositions=decompositions(),
        )(graph, example_inputs)


class CompiledGraph:
    """One ATen graph: a fused model, or the graph itself in PyTorch with the reason in `reason`."""

    def __init__(self, module: fx.GraphModule, kind: str, config: FusionConfig | None, engine: str) -> None:
        self.module, self.kind = module, kind
        self.runner: Runner | None = None
        self.reason: str | None = None
        try:
            self._build(config, engine)
        except InternalError as error:  # worth a report, but no reason to stop the user's program
            log.error("please report this: %s", error)
            self._refuse("an internal error of gaf")
        except GafError as error:
            self._refuse(error.what)

        def call(arguments: list[Any]) -> Any:
            values = list(arguments)
            arguments.clear()
            return self.run(values)

        call._boxed_call = True  # type: ignore[attr-defined]
        self.call = call

    def _refuse(self, reason: str) -> None:
        if reason != self.reason:
            log.warning("the %s graph runs in PyTorch: %s", self.kind, reason)
        self.reason = reason

    def _build(self, config: FusionConfig | None, engine: str) -> None:
        graph = self.module.graph
        self.places = [n for n in graph.nodes if n.op == "placeholder"]
        tensors = {n: n.name for n in self.places if isinstance(n.meta.get("val"), torch.Tensor)}
        held = {
            n: Held(n.name, value)
            for n in graph.nodes
            if n.op == "get_attr" and isinstance(value := _attribute(self.module, n.target), torch.Tensor)
        }
        importer = GraphImporter(
            graph,
            tensors,
            held,
            name=f"torch_{self.kind}",
            source=f"torch.compile ({self.kind} graph)",
            num_source_ops=count_ops(graph.nodes),
        )
        (returned,) = next(n for n in graph.nodes if n.op == "output").args
        nodes = [
            r for r in returned if isinstance(r, fx.Node) and isinstance(r.meta.get("val"), torch.Tensor)
        ]
        # views of inputs and of one another are views again: AOTAutograd counts on it
        chains = {n: view_chain(n)[-1] for n in nodes}
        bases = list(dict.fromkeys(base for base, _ in chains.values() if base.op != "placeholder"))
        model = importer.run([(n.name, n) for n in bases])
        fused = fuse(model, config)
        if not fused.kernels:
            self.reason = "nothing in it becomes a kernel"
            log.info("the %s graph runs in PyTorch: %s", self.kind, self.reason)
            return
        self.outputs: list[_View | Any] = []
        for node in returned:
            if node in chains:
                base, steps = chains[node]
                if base.op == "placeholder":
                    self.outputs.append(_View(None, self.places.index(base), None, steps))
                else:
                    strides = strides_of(base.meta["val"])
                    self.outputs.append(_View(bases.index(base), None, strides, steps))
            else:
                self.outputs.append(importer.values[node] if isinstance(node, fx.Node) else node)
        self.names = [tensors.get(n) for n in self.places]
        self.runner = Runner(fused, engine)

    def run(self, values: list[Any]) -> Any:
        """The graph's results for one call."""
        if self.runner is None:
            return self.module(*values)
        inputs = {name: value for name, value in zip(self.names, values) if name is not None}
        if not all(map(is_plain, inputs.values())):
            return self.module(*values)
        try:
            with torch.no_grad():
                made, arrays = self.runner.run(inputs)
                env = self.runner.sizes(arrays)
        except InternalError:
            raise
        except GafError as error:
            self._refuse(error.what.splitlines()[0])
            if isinstance(error, CompileError):  # the same the next time
                self.runner = None
            return self.module(*values)
        bases: dict[int, torch.Tensor] = {}
        results: list[Any] = []
        for output in self.outputs:
            if isinstance(output, _View):
                if output.input is not None:
                    base = values[output.input]
                else:
                    index = output.index
                    if index not in bases:
                        bases[index] = restrided(made[index], output.strides, env)
                    base = bases[index]
                results.append(replay(base, output.steps, env))
            else:
                results.append(numbers(output, env))
        return results


@dataclass(frozen=True)
class _View:
    """A result: a view (of no steps: itself) of the model's output `index`, or of an argument."""

    index: Any
    input: int | None
    strides: Any
    steps: tuple[Step, ...]


def _attribute(module: nn.Module, target: Any) -> Any:
    value: Any = module
    for part in str(target).split("."):
        value = getattr(value, part)
    return value
