# SPDX-License-Identifier: Apache-2.0
"""Runs a fused model: every `graph.fused` on an engine, the few other ops through their references.

Engines: "host" builds the printed C++ with the system compiler and runs it on the host twin in fast mode;
"check" does so in check mode and collects violations; "trace" makes a timeline of every launch as it would
run on the device; "interpreter" runs the ascendc level in Python;
"tile" and "graph" run the levels above (for bisecting).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, Operation, SSAValue

from gaf.dialects.graph.contract import location_name, tensor_type
from gaf.dialects.graph.interpreter import bind_results, body_symbols, check_inputs, last_uses, run_block, run_op
from gaf.dialects.graph.model import Model, bind_by_conditions, bind_symbols, check_conditions, conditions
from gaf.dialects.graph.ops.control import ControlOp
from gaf.dialects.graph.ops.structure import FusedOp, WeightOp, YieldOp
from gaf.errors import InternalError, InvalidInputError, UnsupportedError
from gaf.runtime.host_tiles import host_block_rows, host_blocks, host_limits
from gaf.runtime.indices import ScatterPlaces, check_indices, check_places, scatter_places
from gaf.runtime.memory import pool

if TYPE_CHECKING:
    from gaf.codegen.host import Launch as Tiling
    from gaf.runtime.chains import Chain
    from gaf.runtime.kernel import Kernel
    from gaf.runtime.timeline import Timeline
    from gaf.runtime.twin import LaunchResult, Packs

ENGINES = ("auto", "host", "check", "trace", "interpreter", "tile", "graph")
TWIN_MODES = {"host": "fast", "check": "check", "trace": "trace"}
MOST_PREPARED = 4096
"""Launches that an executor remembers what it prepared for."""

Observer = Callable[["Launch"], None]


@dataclass
class Launch:
    """One executed kernel: the operands of its fused op, its outputs, and what check or trace mode found.

    `violations` and `notes` are JSON objects of check mode; `timeline` is trace mode's.
    """

    fused: FusedOp
    kernel: Kernel
    operands: list[np.ndarray]
    outputs: list[np.ndarray]
    symbols: Mapping[str, int]
    violations: list[dict[str, Any]] = field(default_factory=list)
    notes: list[dict[str, Any]] = field(default_factory=list)
    timeline: Timeline | None = None


@dataclass(frozen=True)
class _Prepared:
    """A fused op for given sizes: its kernel, the operands that it takes, its results, its tiling.

    `constants` are the arguments that are weights, with the arrays as they lie in the model's store.
    """

    kernel: Kernel
    arguments: list[int]
    results: list[tuple[tuple[int, ...], np.dtype]]
    tiling: Tiling | None
    constants: list[tuple[int, np.ndarray]]


@dataclass(frozen=True)
class _Step:
    """An op of a block as a run needs it: reading it off the IR takes longer than a small kernel."""

    op: Operation
    operands: tuple[SSAValue, ...]
    results: tuple[SSAValue, ...]
    dead: tuple[SSAValue, ...]
    """Values that no later op uses."""
    weight: np.ndarray | None = None
    """What a weight of the model's store is."""


class Executor:
    """Executes a fused `Model` whose kernels are `kernels` (name -> Kernel)."""

    def __init__(self, model: Model, kernels: Mapping[str, Kernel], engine: str) -> None:
        if engine not in ENGINES[1:]:
            raise InvalidInputError(f"unknown engine '{engine}'", expected=", ".join(ENGINES))
        self.model, self.kernels, self.engine = model, kernels, engine
        self.built: Mapping[str, Any] = {}
        self.built_chains: dict[str, Any] = {}
        self.notes: list[str] = []
        self._lock = threading.Lock()
        self._block, self._conditions = model.block, bool(conditions(model))
        self._names, self._types, self._outputs = model.input_names, model.input_types, model.output_names
        self._steps: dict[Block, list[_Step]] = {}
        self._sizes: dict[tuple, dict[str, int]] = {}
        self._symbols: dict[FusedOp, frozenset[str]] = {}
        self._constants = {
            op.results[0]: model.weights[op.weight.data]
            for op in model.block.ops
            if isinstance(op, WeightOp) and op.weight.data in model.weights
        }
        self._packs: Packs | None = None
        self._places: dict[FusedOp, list[ScatterPlaces]] = {}
        self._prepared: dict[tuple[FusedOp, tuple[tuple[str, int], ...]], _Prepared] = {}

    def build(self, on_progress: Callable[[str, int, int], None] | None = None) -> None:
        """Compile all kernels for the engine (cached on disk); nothing to do for the Python engines."""
        if self.engine not in TWIN_MODES:
            return
        from gaf.runtime.twin import Packs, build_kernels

        with self._lock:
            if not self.built:
                sources = [(k.name, k.source) for k in self.kernels.values()]
                self.built = build_kernels(sources, mode=TWIN_MODES[self.engine], on_progress=on_progress)
                if self.engine == "host":
                    self._packs = Packs()

    def build_chains(self, chains: Sequence[Chain]) -> None:
        """Compile the super-kernels of `chains` for the engine (cached on disk)."""
        from gaf.runtime.twin import build_kernels

        kernels = {c.kernel.name: c.kernel for c in chains}
        missing = [(name, k.source) for name, k in kernels.items() if name not in self.built_chains]
        if missing and self.engine in TWIN_MODES:
            self.built_chains |= build_kernels(missing, mode=TWIN_MODES[self.engine])

    def run(
        self, inputs: Mapping[str, np.ndarray], observe: Observer | None = None, chains: Sequence[Chain] = ()
    ) -> dict[str, np.ndarray]:
        """The model's outputs; `observe` sees every kernel launch.

        `chains` are launched as super-kernels where sizes allow it, on the engines that run C++; `observe` then
        sees a launch per member, with the violations and the timeline of the whole at the first one.
        """
        self.build()
        if self.engine not in TWIN_MODES:
            chains = ()
        if chains:
            self.build_chains(chains)
        starts = {c.ops[0]: c for c in chains}
        arrays = check_inputs(self.model, inputs, self._names)
        results = self._run_block(self._block, arrays, dict(self.symbols(arrays)), observe, starts)
        return dict(zip(self._outputs, map(contiguous, results)))

    def symbols(self, arrays: Sequence[np.ndarray]) -> Mapping[str, int]:
        """The values of the model's symbols for these inputs. Raises InvalidInputError for inputs it doesn't take."""
        key = tuple((a.shape, a.dtype) for a in arrays)
        found = self._sizes.get(key)
        if found is None:
            found = dict(bind_symbols(self._names, self._types, arrays, self.model.source))
            self._meet_conditions(found)
            if len(self._sizes) < MOST_PREPARED:
                self._sizes[key] = found
        return found

    def _meet_conditions(self, env: dict[str, int]) -> None:
        """Check sizes against the conditions of the model, and add those that follow from others."""
        if self._conditions:
            check_conditions(self.model, env)
            bind_by_conditions(self.model, env)

    def _program(self, block: Block) -> list[_Step]:
        """The ops of a block in order."""
        found = self._steps.get(block)
        if found is None:
            dead = last_uses(block) if block is self._block else {}
            found = []
            for op in block.ops:
                weight = self._constants.get(op.results[0]) if isinstance(op, WeightOp) else None
                found.append(_Step(op, tuple(op.operands), tuple(op.results), tuple(dead.get(op, ())), weight))
            self._steps[block] = found
        return found

    def _run_block(
        self,
        block: Block,
        args: Sequence[np.ndarray],
        env: dict[str, int],
        observe: Observer | None,
        starts: Mapping[Operation, Chain],
    ) -> list[np.ndarray]:
        """What the block returns or yields. `env` gets the sizes that the run shows; `starts`: first op -> chain."""
        model = self.model
        values: dict[SSAValue, np.ndarray] = dict(zip(block.args, args))
        skip_to: Operation | None = None
        for step in self._program(block):
            op = step.op
            if step.weight is not None and skip_to is None:
                values[step.results[0]] = step.weight
                continue
            if skip_to is not None:
                skip_to = None if op is skip_to else skip_to
                continue
            if op in starts and self._launch_chain(starts[op], values, env, observe):
                skip_to = starts[op].ops[-1]
                continue
            operands = [values[o] for o in step.operands]
            if isinstance(op, ReturnOp | YieldOp):
                return operands
            if isinstance(op, FusedOp):
                results = self.launch(op, operands, env, observe)
            else:
                if isinstance(op, ControlOp):

                    def run_body(body: Block, args: Sequence[np.ndarray], op: ControlOp = op) -> list[np.ndarray]:
                        inner = body_symbols(body, args, env, op)
                        self._meet_conditions(inner)
                        return self._run_block(body, args, inner, observe, starts)

                    results = op.run(operands, run_body)
                else:
                    results = run_op(op, operands, model.weights, env)
                if bind_results(op, results, env):
                    self._meet_conditions(env)
            values.update(zip(step.results, results))
            for value in step.dead:
                values.pop(value, None)
        raise InternalError("a block has no terminator")

    def launch(
        self, fused: FusedOp, operands: Sequence[np.ndarray], env: Mapping[str, int], observe: Observer | None
    ) -> list[np.ndarray]:
        """Run one fused op on the engine."""
        if self.engine == "graph":
            return run_block(fused.block, operands, self.model.weights, env)
        env = self._local_symbols(fused, operands, env)
        if any(a.size == 0 for a in operands):  # a reduction over nothing: no kernel iterates zero times
            kinds = [tensor_type(r) for r in fused.results]
            shapes = [t.concrete(dict(env)) for t in kinds]
            if all(0 in shape for shape in shapes):
                return [np.empty(shape, kind.dtype.numpy) for shape, kind in zip(shapes, kinds)]
            return run_block(fused.block, operands, self.model.weights, env)
        try:
            prepared = self._prepare(fused, env)
        except UnsupportedError as error:
            self._note(str(error).partition("\n")[0] + "; it ran on the host instead")
            return run_block(fused.block, operands, self.model.weights, env)
        kernel = prepared.kernel
        outputs = [pool.empty(shape, dtype) for shape, dtype in prepared.results]
        inputs = [contiguous(operands[i]) for i in prepared.arguments]
        if kernel.index_reads:
            check_indices(kernel.index_reads, dict(zip(kernel.arg_names, inputs)), env)
        check_places(self._scatters(fused), operands, env)
        constants = [i for i, array in prepared.constants if inputs[i] is array]
        found = self._run_kernel(prepared, inputs, outputs, env, constants)
        if observe is not None:
            seen = (found.violations, found.notes, found.timeline) if found is not None else ()
            observe(Launch(fused, kernel, list(operands), outputs, env, *seen))
        return outputs

    def _prepare(self, fused: FusedOp, env: Mapping[str, int]) -> _Prepared:
        """What launches of a fused op with these sizes share. Raises UnsupportedError if no variant fits."""
        key = fused, tuple(env.items())
        found = self._prepared.get(key)
        if found is None:
            kernel = self.select(fused, env)
            tiling = kernel.host.evaluate(env) if self.engine in TWIN_MODES else None
            if tiling is not None and self.engine == "host":  # for the caches and threads of this machine
                small = kernel.host.evaluate(env, host_limits(kernel, env), host_block_rows(kernel, env))
                tiling = replace(small, blocks=host_blocks(min(tiling.blocks, small.blocks)))
            types = [tensor_type(r) for r in fused.results]
            arguments, stored = kernel_args(fused), [self._constants.get(v) for v in fused.operands]
            found = _Prepared(
                kernel, arguments, [(t.concrete(dict(env)), t.dtype.numpy) for t in types], tiling,
                [(i, array) for i, number in enumerate(arguments) if (array := stored[number]) is not None],
            )  # fmt: skip
            if len(self._prepared) < MOST_PREPARED:
                self._prepared[key] = found
        return found

    def _launch_chain(
        self, chain: Chain, values: dict[SSAValue, np.ndarray], env: Mapping[str, int], observe: Observer | None
    ) -> bool:
        """Run a chain as one launch and add its results to `values`; False if these sizes need something else."""
        arrays = dict(values)
        for op in chain.span:
            if not isinstance(op, FusedOp):
                arrays.update(zip(op.results, run_op(op, [arrays[o] for o in op.operands], self.model.weights, dict(env))))
                continue
            operands = [arrays[o] for o in op.operands]
            if self._local_symbols(op, operands, env) is not env or any(a.size == 0 for a in operands):
                return False
            for result in op.results:
                kind = tensor_type(result)
                arrays[result] = pool.empty(kind.concrete(dict(env)), kind.dtype.numpy)
                if arrays[result].size == 0:
                    return False
        steps = [(op, member.kernel.sym_name.data) for op, member in zip(chain.ops, chain.kernel.members)]
        if any(self._first_fitting(op, env) != name for op, name in steps):
            return False
        made = {r for op in chain.span for r in op.results}
        for op, name in steps:
            reads, given = self.kernels[name].index_reads, dict(zip(self.kernels[name].arg_names, _kernel_operands(op)))
            if any(given[read.ids] in made for read in reads) or self._scatters(op):
                return False  # positions that the chain itself makes are checked launch by launch
            check_indices(reads, {read.ids: arrays[given[read.ids]] for read in reads}, env)
        launch = chain.kernel.evaluate(env)
        given = [contiguous(arrays[v]) for v in chain.values]
        found: LaunchResult = self.built_chains[chain.kernel.name].launch(
            given, launch.workspace, launch.packed, launch.blocks, outputs=chain.kernel.num_outputs
        )
        if found.deadlock:
            members = ", ".join(name for _, name in steps)
            raise InternalError(
                f"super-kernel '{chain.kernel.name}' deadlocks on the host twin", where=members, got=found.message
            )
        values.update(arrays)
        if observe is not None:
            for number, (op, name) in enumerate(steps):
                seen = (found.violations, found.notes, found.timeline) if number == 0 else ()
                operands, results = [arrays[o] for o in op.operands], [arrays[r] for r in op.results]
                observe(Launch(op, self.kernels[name], operands, results, env, *seen))
        return True

    def _local_symbols(
        self, fused: FusedOp, operands: Sequence[np.ndarray], env: Mapping[str, int]
    ) -> Mapping[str, int]:
        """Model symbols plus those that only appear here (data-dependent sizes), read off actual shapes."""
        known = self._symbols.get(fused)
        if known is None:
            known = frozenset(s for a in fused.block.args for s in tensor_type(a).symbols())
            self._symbols[fused] = known
        if known <= env.keys():
            return env
        types = [tensor_type(a) for a in fused.block.args]
        names = [f"operand {i}" for i in range(len(types))]
        return {**env, **bind_symbols(names, types, list(operands), fused.label.data)}

    def _first_fitting(self, fused: FusedOp, env: Mapping[str, int]) -> str | None:
        try:
            return self.select(fused, env).name
        except UnsupportedError:
            return None

    def _note(self, text: str) -> None:
        """Say once what happened that is slower than it should be."""
        if text not in self.notes:
            self.notes.append(text)
            logging.getLogger("gaf").warning(text)

    def select(self, fused: FusedOp, env: Mapping[str, int]) -> Kernel:
        """The first variant whose guards hold for these sizes. Raises UnsupportedError if none does."""
        reasons: list[str] = []
        for name in kernel_names(fused):
            kernel = self.kernels.get(name)
            if kernel is None:
                continue
            failed = kernel.host.failed_guard(env)
            if failed is None:
                return kernel
            reasons.append(f"{name}: {failed}")
        sizes = ", ".join(f"{k} = {v}" for k, v in sorted(env.items()))
        raise UnsupportedError(
            f"no kernel variant of '{fused.label.data}' fits these sizes ({sizes})",
            where=location_name(fused.members[0]),
            got="; ".join(reasons) or "no kernel",
            hint="smaller sizes, or fix the dims with --input-shape so that another schedule is chosen",
        )

    def _scatters(self, fused: FusedOp) -> list[ScatterPlaces]:
        found = self._places.get(fused)
        if found is None:
            found = self._places[fused] = scatter_places(fused)
        return found

    def _run_kernel(
        self, prepared: _Prepared, inputs: list[np.ndarray], outputs: list[np.ndarray], env: Mapping[str, int],
        constants: Sequence[int],
    ) -> LaunchResult | None:  # fmt: skip
        kernel, launch = prepared.kernel, prepared.tiling
        if self.engine in ("interpreter", "tile"):
            arrays = dict(zip(kernel.arg_names, [*inputs, *outputs]))
            results = kernel.interpret(arrays, env, level="tile" if self.engine == "tile" else "ascendc")
            for name, out in zip(kernel.arg_names[len(inputs):], outputs):
                out[...] = results[name]
            return None
        assert launch is not None
        built = self.built[kernel.name]
        result: LaunchResult = built.launch(
            [*inputs, *outputs], launch.workspace, launch.packed, launch.blocks, outputs=len(outputs),
            constants=constants, packs=self._packs,
        )  # fmt: skip
        if self.engine == "check" and launch.blocks > 1 and not result.violations and not result.deadlock:
            # All tiles on one core as well: it comes back to every buffer of its rings.
            scratch = [*inputs, *(np.empty_like(o) for o in outputs)]
            result = built.launch(scratch, launch.workspace, launch.packed, 1, outputs=len(outputs), again=False)
        if result.deadlock:
            raise InternalError(
                f"kernel '{kernel.name}' deadlocks on the host twin", where=", ".join(kernel.members), got=result.message
            )
        return result


def contiguous(array: np.ndarray) -> np.ndarray:
    """The array in row-major order; numpy's own function would give a scalar a dimension."""
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def kernel_names(fused: FusedOp) -> list[str]:
    """The kernel variants of a fused op, best first."""
    attribute = fused.attributes.get("kernels")
    return [a.data for a in attribute.data] if attribute is not None else []  # type: ignore[attr-defined]


def kernel_args(fused: FusedOp) -> list[int]:
    """The operand numbers that the kernels of a fused op take, in order."""
    attribute = fused.attributes.get("kernel_args")
    return list(attribute.get_values()) if attribute is not None else list(range(len(fused.operands)))  # type: ignore[attr-defined]


def _kernel_operands(fused: FusedOp) -> list[SSAValue]:
    """The operands that the kernels of a fused op take, in order."""
    return [fused.operands[i] for i in kernel_args(fused)]
