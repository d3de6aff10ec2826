# SPDX-License-Identifier: Apache-2.0
"""An `ExportedProgram` as a `Model`: decomposition, parameters as weights, outputs, mutations and aliases."""

from __future__ import annotations

import logging
import re
import warnings
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind, TensorArgument
from torch.utils import _pytree as pytree

from gaf.dialects.graph import registry
from gaf.dialects.graph.model import Model
from gaf.errors import InvalidInputError, UnsupportedError
from gaf.frontend import custom
from gaf.frontend.builder import unique_name
from gaf.frontend.torch.importer import GraphImporter, Held
from gaf.frontend.torch.locations import count_ops
from gaf.frontend.torch.origin import Aliased, Computed, Known, Mutation, TorchOrigin
from gaf.frontend.torch.types import size_of, strides_of, type_of
from gaf.frontend.torch.views import Step, view_chain


def decompositions() -> Any:
    """PyTorch's own table without the ops that gaf knows, or that a custom op is bound to: these stay whole."""
    table = _base_decompositions().copy()
    for op in list(table.keys()):
        if custom.by_torch(str(op)) is not None:
            table.pop(op)
    return table


@lru_cache(maxsize=1)
def _base_decompositions() -> Any:
    table = torch.export.default_decompositions()
    for op in list(table.keys()):
        if registry.by_aten(str(op)) is not None:
            table.pop(op)
    return table


def import_program(
    program: ExportedProgram,
    *,
    eager: Any = None,
    training: bool | None = None,
    name: str = "model",
    source: str = "torch",
    input_names: Sequence[str] | None = None,
) -> Model:
    """The model of a program; `eager` runs the original (default: the program itself).

    `input_names` replaces the names of the tensor inputs. Raises UnsupportedError.
    """
    num_source_ops = count_ops(program.graph.nodes)
    with quiet():
        lowered = program.run_decompositions(decompositions())
    if eager is None:
        eager = program_module(program)

    def build() -> Model:
        model = _Program(lowered, eager, name, source, num_source_ops, input_names).run(training)
        model.origin.recapture = build
        return model

    return build()


def program_module(program: ExportedProgram) -> Any:
    """The program as an nn.Module that PyTorch runs."""
    with quiet():
        return program.module(check_guards=False)


@contextmanager
def quiet() -> Iterator[None]:
    """PyTorch warns about its own internals while it exports; the user can't act on that."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=FutureWarning)
        warnings.filterwarnings("ignore", category=UserWarning, module="torch")
        warnings.filterwarnings("ignore", category=DeprecationWarning, module="torch")
        yield


class _Program:
    def __init__(
        self,
        program: ExportedProgram,
        eager: Any,
        name: str,
        source: str,
        num_source_ops: int,
        input_names: Sequence[str] | None,
    ) -> None:
        self.program = program
        self.eager = eager
        self.name, self.source, self.num_source_ops = name, source, num_source_ops
        self.nodes = {n.name: n for n in program.graph.nodes}
        self.inputs: dict[fx.Node, str] = {}
        self.held: dict[fx.Node, Held] = {}
        self.state: list[tuple[str, str]] = []
        self.flat: list[str | Known] = []  # per flat user input
        self.places: dict[str, int | str] = {}  # placeholder -> flat input, or name of a parameter or buffer
        self._read_inputs(input_names)

    def _read_inputs(self, input_names: Sequence[str] | None) -> None:
        given = iter(input_names or ())
        taken: set[str] = set()
        state: dict[fx.Node, str] = {}
        changed = {
            spec.target
            for spec in self.program.graph_signature.output_specs
            if spec.kind in (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION)
        }
        for spec in self.program.graph_signature.input_specs:
            if spec.kind is InputKind.USER_INPUT:
                if isinstance(spec.arg, TensorArgument):
                    node = self.nodes[spec.arg.name]
                    name = unique_name(next(given, spec.arg.name), taken)
                    taken.add(name)
                    self.inputs[node] = name
                    self.places[node.name] = len(self.flat)
                    self.flat.append(name)
                elif isinstance(spec.arg, ConstantArgument):
                    self.flat.append(Known(spec.arg.value))
                else:
                    raise UnsupportedError(
                        f"input '{spec.arg.name}' is a number that varies",
                        where=self.source,
                        expected="tensors, and numbers that are the same in each call",
                        hint="pass it as a tensor of rank 0, or export without a dynamic shape for it",
                    )
                continue
            if not isinstance(spec.arg, TensorArgument) or spec.target is None:
                raise UnsupportedError(
                    f"'{spec.target}' is held by the module and is no tensor",
                    where=self.source,
                    got=spec.kind.name.lower(),
                )
            if spec.kind in (InputKind.PARAMETER, InputKind.BUFFER):
                self.places[spec.arg.name] = spec.target
            node = self.nodes[spec.arg.name]
            if spec.target in changed:  # its value is another one in each call: an input
                name = unique_name(spec.target, taken)
                taken.add(name)
                state[node] = name
                self.state.append((name, spec.target))
            else:
                self.held[node] = Held(spec.target, self._held(spec.target, spec.kind))
        self.inputs.update(state)  # behind the user's own

    def _held(self, target: str, kind: InputKind) -> torch.Tensor:
        """The tensor that the original holds now, or what the program keeps."""
        if kind is not InputKind.CONSTANT_TENSOR:
            try:
                owner = self.eager
                for part in target.split("."):
                    owner = getattr(owner, part)
                if isinstance(owner, torch.Tensor):
                    return owner
            except AttributeError:
                pass
        store: Mapping[str, Any] = self.program.state_dict
        return store[target] if target in store else self.program.constants[target]

    def run(self, training: bool | None) -> Model:
        outputs, computed, mutations, hidden = self._read_outputs()
        importer = GraphImporter(
            self.program.graph,
            self.inputs,
            self.held,
            name=self.name,
            source=self.source,
            num_source_ops=self.num_source_ops,
        )
        model = importer.run(computed)
        model.origin = TorchOrigin(
            eager=self.eager,
            in_spec=self.program.call_spec.in_spec,
            out_spec=self.program.call_spec.out_spec,
            inputs=self.flat,
            state=self.state,
            outputs=outputs,
            mutations=mutations,
            held=[h.tensor for h in self.held.values()],
            ranges=self._ranges(),
            training=training,
            effects=importer.effects,
            hidden=hidden,
        )
        return model

    # -- outputs ---------------------------------------------------------------------------------------

    def _read_outputs(
        self,
    ) -> tuple[list[Computed | Aliased | Known], list[tuple[str, fx.Node]], list[Mutation], int | None]:
        specs = self.program.graph_signature.output_specs
        arguments = next(n for n in self.program.graph.nodes if n.op == "output").args[0]
        names = iter(self._output_names(sum(s.kind is OutputKind.USER_OUTPUT for s in specs)))
        mutated: dict[fx.Node, int | str] = {}
        mutations: list[Mutation] = []
        computed: list[tuple[str, fx.Node]] = []
        results: list[Computed | Aliased | Known] = []
        places: dict[fx.Node, int] = {}
        taken: set[str] = set()

        def compute(name: str, node: fx.Node) -> int:
            computed.append((unique_name(name, taken), node))
            taken.add(computed[-1][0])
            return len(computed) - 1

        users: list[tuple[str, Any]] = []
        changes: list[tuple[int | str, fx.Node, str]] = []
        for spec, node in zip(specs, arguments, strict=True):
            if spec.kind is OutputKind.USER_OUTPUT:
                users.append((next(names), node))
                continue
            kinds = (
                OutputKind.BUFFER_MUTATION,
                OutputKind.USER_INPUT_MUTATION,
                OutputKind.PARAMETER_MUTATION,
            )
            if spec.kind not in kinds:
                raise UnsupportedError(f"outputs of kind {spec.kind.name.lower()}", where=self.source)
            target: int | str = spec.target or ""
            if spec.kind is OutputKind.USER_INPUT_MUTATION:
                target = self.places[str(target)]
            mutated[node] = target
            changes.append((target, node, f"{spec.target}_mutated"))
        chains = {node: view_chain(node) for _, node in users if isinstance(node, fx.Node)}
        aliases = {node: self._alias(chain, mutated) for node, chain in chains.items()}
        bases = Counter(chain[-1][0] for node, chain in chains.items() if aliases[node] is None)
        shared: list[tuple[int, fx.Node, fx.Node]] = []
        for name, node in users:
            if not isinstance(node, fx.Node):
                results.append(Known(node))
                continue
            if not isinstance(node.meta["val"], torch.Tensor):
                results.append(Known(self._size(name, node.meta["val"])))
                continue
            if node not in places:
                places[node] = compute(name, node)
            base = chains[node][-1][0]
            if aliases[node] is None and base is not node and bases[base] > 1:
                shared.append((len(results), node, base))
            strides = strides_of(node.meta["val"])
            results.append(aliases[node] or Computed(places[node], strides))
        for target, node, name in changes:
            if node not in places:
                places[node] = compute(name, node)
            mutations.append(Mutation(target, places[node]))
        hidden = len(computed)
        for position, node, base in shared:  # several results are views of one tensor
            if base not in places:
                places[base] = compute(f"{base.name}_base", base)
            steps = chains[node][-1][1]
            results[position] = Computed(places[base], strides_of(base.meta["val"]), steps)
        return results, computed, mutations, hidden if len(computed) > hidden else None

    def _size(self, name: str, value: Any) -> Any:
        """An output that is a size of the inputs. Raises UnsupportedError for numbers read from tensors."""
        size = size_of(value) if isinstance(value, torch.SymInt | int) else None
        symbols = {s for node in self.inputs for s in type_of(node.meta["val"]).symbols()}
        if size is None or not size.names() <= symbols:
            raise UnsupportedError(
                "an output is a number read from a tensor",
                where=f"{self.source}: output '{name}'",
                hint="return the tensor, without .item() or .tolist()",
            )
        return size

    def _output_names(self, count: int) -> list[str]:
        """A name for each flat result, from its place in the structure: `logits`, `output_1`."""
        spec = self.program.call_spec.out_spec
        names: list[str] = []
        if spec is not None:
            tree = pytree.tree_unflatten(list(range(spec.num_leaves)), spec)
            for path, _ in pytree.tree_flatten_with_path(tree)[0]:
                parts = [str(getattr(k, "key", getattr(k, "idx", getattr(k, "name", k)))) for k in path]
                named = bool(parts) and not parts[0].isdigit()
                names.append("_".join(parts if named else ["output", *parts]))
        return names if len(names) == count else [f"output_{i}" for i in range(count)]

    def _alias(
        self, chain: Sequence[tuple[fx.Node, tuple[Step, ...]]], mutated: Mapping[fx.Node, int | str]
    ) -> Aliased | None:
        """The views that lead from an input or parameter to a result, if nothing is computed between."""
        for node, steps in chain:
            if node in mutated:
                return Aliased(mutated[node], steps)
            if node.op == "placeholder" and node.name in self.places:
                return Aliased(self.places[node.name], steps)
        return None

    def _ranges(self) -> dict[str, tuple[int, int | None]]:
        result: dict[str, tuple[int, int | None]] = {}
        for symbol, bounds in self.program.range_constraints.items():
            # 2 as the least size is PyTorch's own guess that 0 and 1 are special; sizes of 1 are right here
            low = int(bounds.lower) if bounds.lower.is_Integer and bounds.lower > 2 else 0
            high = int(bounds.upper) if bounds.upper.is_Integer else None
            if low or high is not None:
                result[str(symbol)] = (low, high)
        return result


def load_program(path: str) -> ExportedProgram:
    """Open a `.pt2` file. Raises InvalidInputError; UnsupportedError for unregistered ops."""
    if not zipfile.is_zipfile(path):
        raise InvalidInputError(
            "this is no torch.export archive", where=path, expected="a file written by torch.export.save"
        )
    load = torch.load
    # torch.export.load would unpickle whatever an archive claims to be a weight; only tensors may come in
    torch.load = lambda *args, **options: load(*args, **{**options, "weights_only": True})
    try:
        with quiet(), _collected("torch.export") as messages:
            return torch.export.load(path)
    except Exception as error:
        text = " ".join(f"{error} {' '.join(messages)}".split())
        missing = re.search(r"resolve torch\.ops\.([\w.]+) to an operator", text)
        if missing:
            raise UnsupportedError(
                f"the program calls '{missing[1]}', which is not registered in this process",
                where=path,
                hint="import the module that registers it (torch.library) first",
            ) from None
        what = " ".join(str(error).split())[:300]
        raise InvalidInputError(
            f"can't read the program: {type(error).__name__}: {what}", where=path
        ) from None
    finally:
        torch.load = load


@contextmanager
def _collected(name: str) -> Iterator[list[str]]:
    """The messages of a logger, instead of on the terminal."""
    messages: list[str] = []
    logger = logging.getLogger(name)

    def keep(record: logging.LogRecord) -> bool:
        messages.append(f"{record.getMessage()} {record.exc_info[1] if record.exc_info else ''}")
        return False

    logger.addFilter(keep)
    try:
        yield messages
    finally:
        logger.removeFilter(keep)
