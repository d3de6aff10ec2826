# SPDX-License-Identifier: Apache-2.0
"""Pipelines: reading them, running them with times, checks between levels, and messages."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnregisteredOp
from xdsl.passes import ModulePass

from gaf.dialects.common import dtype as dt
from gaf.dialects.graph.model import Model, finish, new_model
from gaf.dialects.graph.ops.binary import AddOp
from gaf.dialects.graph.ops.structure import constant
from gaf.dialects.graph.ops.unary import NegOp
from gaf.dialects.graph.types import TensorType
from gaf.errors import GafError, InternalError, InvalidInputError, UnsupportedError
from gaf.passes.pipeline import GRAPH_CLEANUP, run_pipeline
from gaf.passes.registry import parse_passes


def small_model() -> Model:
    type_ = TensorType.of([3], dt.F32)
    model = new_model([("x", type_)])
    c = constant(np.float32(2.0))
    d = NegOp.make([c])
    y = AddOp.make([model.block.args[0], d])
    model.block.add_ops([c, d, y])
    return finish(model, [("y", y.result)])


def test_the_clean_up_of_graphs() -> None:
    model = small_model()
    run = run_pipeline(model.module)
    assert [op.name for op in model.block.ops] == ["graph.constant", "graph.add", "func.return"]
    assert [s.name for s in run.steps] == ["check graph", *GRAPH_CLEANUP.split(","), "check graph"]
    assert run.level == "graph"
    assert run.seconds == pytest.approx(sum(run.by_pass().values())) and run.seconds > 0
    assert list(run.by_pass()) == list(dict.fromkeys(["check graph", *GRAPH_CLEANUP.split(",")]))


def test_options_are_part_of_a_step() -> None:
    model = small_model()
    run = run_pipeline(model.module, parse_passes("fold-constants{max-bytes=12},dce"), check=False)
    assert [s.name for s in run.steps] == ["fold-constants{max_bytes=12}", "dce"]
    assert list(run.by_pass()) == ["fold-constants", "dce"]


def test_a_mistake_in_a_pipeline_is_found_before_anything_runs() -> None:
    model = small_model()
    with pytest.raises(InvalidInputError, match="canonicalise"):
        run_pipeline(model.module, "fold-constants,canonicalise")
    assert "graph.neg" in [op.name for op in model.block.ops]


@dataclass(frozen=True)
class Spoil(ModulePass):
    """Inserts an operation of a foreign dialect."""

    name = "spoil"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        op.body.block.add_op(UnregisteredOp.with_name("other.op").create())


@dataclass(frozen=True)
class Lower(ModulePass):
    """Claims to end the graph level."""

    name = "lower-all"
    LOWERS_TO: ClassVar[str] = "tile"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in list(op.body.block.ops):
            inner.detach()
            inner.erase()


@dataclass(frozen=True)
class Fail(ModulePass):
    """Fails with the given exception."""

    name = "fail"
    user: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        time.sleep(0.01)
        raise UnsupportedError("no such thing") if self.user else KeyError("lost")


def test_a_pass_that_leaves_another_dialect_is_named() -> None:
    with pytest.raises(InternalError, match="may not occur at the graph level") as caught:
        run_pipeline(small_model().module, [Spoil()])
    assert "pass 'spoil'" in str(caught.value)


def test_a_module_of_another_level_is_the_users_fault() -> None:
    module = small_model().module
    Spoil().apply(Context(), module)
    with pytest.raises(InvalidInputError, match="may not occur at the graph level"):
        run_pipeline(module, [])
    run_pipeline(module, [], level=None)
    run_pipeline(module, "dce", check=False)


def test_levels_are_checked_where_they_change() -> None:
    run = run_pipeline(small_model().module, [Lower(), *parse_passes("dce")])
    assert [s.name for s in run.steps] == ["check graph", "lower-all", "check tile", "dce", "check tile"]
    assert run.level == "tile"

    with pytest.raises(InternalError, match="may not occur at the tile level") as caught:
        run_pipeline(small_model().module, [Lower(), Spoil()])
    assert "pass 'spoil'" in str(caught.value)


def test_exceptions_of_passes() -> None:
    with pytest.raises(InternalError, match="pass 'fail' failed: KeyError: 'lost'"):
        run_pipeline(small_model().module, [Fail()])
    with pytest.raises(GafError, match="^no such thing$"):
        run_pipeline(small_model().module, [Fail(user=True)])
