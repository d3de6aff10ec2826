# SPDX-License-Identifier: Apache-2.0
"""ONNX's node tests with something changed in them load, or are refused in words: they never end in another exception."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import onnx
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import AttributeProto

import gaf
from benchmarks.onnx_nodes import cases, with_parameters
from gaf.errors import GafError, InternalError
from gaf.frontend.onnx import load_onnx

NUMBERS = (-1, 0, 1, 2, 3, 7, -100, 1 << 31, 1 << 62, -(1 << 63))
WORDS = (b"", b"\xff\xfe", b"linear", b"nearest", b"SAME_UPPER", b"xyz")
DIMS = ("N", "?", "-1", "", "a b", "N+1", "d0", "r1")


@lru_cache(maxsize=1)
def small_cases() -> list[Any]:
    return [c for c in cases() if c.model.ByteSize() < 20_000]


def change_attribute(model: onnx.ModelProto, draw: random.Random) -> None:
    attributes = [a for n in model.graph.node for a in n.attribute]
    if not attributes:
        return
    a = draw.choice(attributes)
    match a.type:
        case AttributeProto.INT:
            a.i = draw.choice(NUMBERS)
        case AttributeProto.INTS if a.ints and draw.random() < 0.6:
            a.ints[draw.randrange(len(a.ints))] = draw.choice(NUMBERS)
        case AttributeProto.INTS:
            a.ints.append(draw.choice(NUMBERS))
        case AttributeProto.FLOAT:
            a.f = draw.choice((float("nan"), float("inf"), -1.0, 0.0, 1e30))
        case AttributeProto.STRING:
            a.s = draw.choice(WORDS)
        case _:
            a.type = draw.randrange(15)


def drop_attribute(model: onnx.ModelProto, draw: random.Random) -> None:
    node = draw.choice(model.graph.node)
    if node.attribute:
        del node.attribute[draw.randrange(len(node.attribute))]


def change_names(model: onnx.ModelProto, draw: random.Random) -> None:
    node = draw.choice(model.graph.node)
    names = [name for n in model.graph.node for name in (*n.input, *n.output)] + ["", "nowhere"]
    side = draw.choice((node.input, node.output))
    if side and draw.random() < 0.7:
        side[draw.randrange(len(side))] = draw.choice(names)
    else:
        side.append(draw.choice(names))


def change_type(model: onnx.ModelProto, draw: random.Random) -> None:
    values = [*model.graph.input, *model.graph.output]
    if not values:
        return
    tensor = draw.choice(values).type.tensor_type
    if draw.random() < 0.4 or not tensor.shape.dim:
        tensor.elem_type = draw.choice((*range(23), 99))
    elif draw.random() < 0.5:
        draw.choice(tensor.shape.dim).dim_value = draw.choice(NUMBERS)
    else:
        draw.choice(tensor.shape.dim).dim_param = draw.choice(DIMS)


def change_operator(model: onnx.ModelProto, draw: random.Random) -> None:
    node, other = draw.choice(model.graph.node), draw.choice(small_cases()).model
    node.op_type = draw.choice([*(n.op_type for n in other.graph.node), "Nope", ""])


def change_version(model: onnx.ModelProto, draw: random.Random) -> None:
    for entry in model.opset_import:
        entry.version = draw.choice((-1, 0, 1, 5, 7, 9, 10, 11, 13, 17, 18, 21, 23, 26, 99))


def repeat_node(model: onnx.ModelProto, draw: random.Random) -> None:
    model.graph.node.add().CopyFrom(draw.choice(model.graph.node))


CHANGES: tuple[Callable[[onnx.ModelProto, random.Random], None], ...] = (
    change_attribute, drop_attribute, change_names, change_type, change_operator, change_version, repeat_node,
)  # fmt: skip


def mutant(seed: int) -> onnx.ModelProto | None:
    """A node test after one to three changes, and sometimes a few other bytes; None if that is no protobuf."""
    draw = random.Random(seed)
    case = draw.choice(small_cases())
    model = onnx.ModelProto()
    model.CopyFrom(with_parameters(case) if draw.random() < 0.5 else case.model)
    for _ in range(draw.choice((1, 1, 2, 3))):
        draw.choice(CHANGES)(model, draw)
    if draw.random() > 0.15:
        return model
    data = bytearray(model.SerializeToString())
    for _ in range(draw.choice((1, 2, 5))):
        data[draw.randrange(len(data))] = draw.randrange(256)
    try:
        return onnx.ModelProto.FromString(bytes(data))
    except DecodeError:
        return None


def survives(seed: int, fuse: bool) -> None:
    """Fails for any exception but a refusal; what it says is not for this test."""
    model = mutant(seed)
    if model is None:
        return
    try:
        loaded = load_onnx(model)
        if fuse:
            gaf.fuse(loaded)
    except InternalError:
        raise
    except GafError:
        pass


@pytest.mark.parametrize("seed", [500678, 900976, 901343])
def test_sizes_beyond_64_bits(seed: int) -> None:
    """Of Size, of a recurrent layer's loop, and of a Split."""
    survives(seed, fuse=True)


@given(st.integers(0, 1 << 32))
@settings(max_examples=60, deadline=None)
def test_changed_models_are_refused_in_words(seed: int) -> None:
    survives(seed, fuse=False)


@pytest.mark.slow
@given(st.integers(0, 1 << 32))
@settings(max_examples=1500, deadline=None)
def test_changed_models_compile_or_are_refused(seed: int) -> None:
    survives(seed, fuse=True)
