# SPDX-License-Identifier: Apache-2.0
"""The pipelines by name, and a runner that times every pass and checks the borders between levels."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from gaf.errors import GafError, InternalError, InvalidInputError, first_line
from gaf.fusion import online
from gaf.passes.boundary import check_level
from gaf.passes.registry import parse_passes

GRAPH_CLEANUP = "canonicalize,fold-constants,sink-views,canonicalize,narrow-integers,cse,dce"
"""What every model goes through before fusion; folding makes constants that more rules match."""


def packing_pipeline(fold_scales: bool) -> str:
    """Joins matmuls that read one operand, and cleans up behind; `fold_scales` rounds weights once more."""
    return f"pack-matmuls{{fold-scales={str(fold_scales).lower()}}},canonicalize,dce"


FOLD_BATCH_NORM = "fold-batch-norm"


def graph_pipeline(autofuse: bool, strict: bool, disabled: Collection[str] = ()) -> str:
    """What a model goes through before kernels are searched: clean-up, BatchNorm into weights, and packing, unless
    only rules may join ops. `disabled` are names of rewrites to leave out: "fold-batch-norm", "pack-matmuls",
    "online-reductions".
    """
    steps = [GRAPH_CLEANUP]
    if autofuse and not strict and FOLD_BATCH_NORM not in disabled:
        steps.append(f"{FOLD_BATCH_NORM},canonicalize,dce")
    if autofuse and "pack-matmuls" not in disabled:
        steps.append(packing_pipeline(fold_scales=not strict))
    steps.append("address-slices")
    if online.RULE in disabled:
        steps.append("several-passes")
    return ",".join(steps)


def tile_pipeline(target: str) -> str:
    """Tile kernels as `lower-graph` leaves them to planned ones: sizes, buffers, guards."""
    return f'tile-plan{{target="{target}"}}'


def ascendc_pipeline(target: str, hf32: bool = False) -> str:
    """Planned tile kernels to ascendc kernels that are ready to print."""
    return f'lower-tile{{target="{target}" hf32={str(hf32).lower()}}},insert-sync,verify-limits{{target="{target}"}}'


LOWERS_TO = "LOWERS_TO"
"""A pass that ends a level has a class constant of this name: the level of its result (`tile`, `ascendc`)."""


@dataclass(frozen=True)
class PassTime:
    """One step of a run: the pass with its options, or a check; and the seconds that it took."""

    name: str
    seconds: float


@dataclass(frozen=True)
class PipelineRun:
    """The steps of one run, in order. `level` is the level of the result."""

    steps: tuple[PassTime, ...]
    level: str | None

    @property
    def seconds(self) -> float:
        return sum(step.seconds for step in self.steps)

    def by_pass(self) -> dict[str, float]:
        """Seconds by the name of the step; those that ran more than once are added up."""
        total: dict[str, float] = {}
        for step in self.steps:
            name = step.name.partition("{")[0]
            total[name] = total.get(name, 0.0) + step.seconds
        return total


def run_pipeline(
    module: ModuleOp,
    pipeline: str | Sequence[ModulePass] = GRAPH_CLEANUP,
    *,
    level: str | None = "graph",
    check: bool = True,
    trusted: bool = False,
    context: Context | None = None,
) -> PipelineRun:
    """Runs passes on `module` in place.

    With `check`, the module is checked against `level` at the start (`InvalidInputError`; not when it is `trusted`,
    the checked result of another run), and at the end
    and wherever a pass with `LOWERS_TO` changes the level (`InternalError` that names the pass). Level None
    stands for verifiers and dominance only. A `GafError` of a pass goes through; any other exception
    becomes an `InternalError` that names the pass.
    """
    passes = parse_passes(pipeline) if isinstance(pipeline, str) else tuple(pipeline)
    context = context or Context()
    steps: list[PassTime] = []
    if check and not trusted:
        steps.append(_check(module, level, None))
    for number, one in enumerate(passes, start=1):
        start = time.perf_counter()
        try:
            one.apply(context, module)
        except GafError:
            raise
        except Exception as error:
            raise InternalError(f"pass '{one.name}' failed: {type(error).__name__}: {first_line(error)}") from error
        steps.append(PassTime(str(one.spec()), time.perf_counter() - start))
        above, level = level, getattr(one, LOWERS_TO, level)
        if check and (level != above or number == len(passes)):
            steps.append(_check(module, level, one))
    return PipelineRun(tuple(steps), level)


def _check(module: ModuleOp, level: str | None, after: ModulePass | None) -> PassTime:
    """Checks the module; a fault in the result of `after` is one of gaf."""
    start = time.perf_counter()
    try:
        check_level(module, level, error=InvalidInputError if after is None else InternalError)
    except GafError as error:
        if after is not None:
            error.hint = f"pass '{after.name}' or one before it left this behind"
        raise
    return PassTime(f"check {level}" if level else "check", time.perf_counter() - start)
