# SPDX-License-Identifier: Apache-2.0
"""`TorchOrigin`: what a model keeps of the PyTorch program it came from, to go back to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree as pytree

from gaf.dialects.common.index import Expr
from gaf.frontend.torch.views import Step


@dataclass(frozen=True)
class Computed:
    """An output made from the model's output `index`: itself, or a view of it that `steps` make.

    `strides` are those of the eager result if it is not in row-major order. Outputs that share memory in
    PyTorch have the same `index`.
    """

    index: int
    strides: tuple[Expr, ...] | None = None
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True)
class Aliased:
    """An output that is an input, parameter or buffer, or a view of one."""

    base: int | str  # a flat input, or the name of a parameter or buffer
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True)
class Known:
    """An output that is a plain value: None, a number, or a size of the inputs."""

    value: Any


@dataclass(frozen=True)
class Mutation:
    """An input (by flat number), parameter or buffer (by name) that gets the model's output `index`."""

    target: int | str
    index: int


@dataclass
class TorchOrigin:
    """The calling convention of a PyTorch program, and the program itself.

    `inputs` says for each flat input its name in the model, or the value (None, a number, a flag) that the
    capture took for granted. `state` are further inputs: (name, buffer that the program changes).
    `outputs` describe the flat results, in the order of `out_spec`. `ranges` are
    the sizes for which the capture holds. `held` are the parameters, buffers and constants whose values
    became weights; `recapture` makes the model anew from their values now.
    """

    eager: Callable[..., Any]
    in_spec: pytree.TreeSpec | None
    out_spec: pytree.TreeSpec | None
    inputs: list[str | Known]
    outputs: list[Computed | Aliased | Known]
    mutations: list[Mutation] = field(default_factory=list)
    state: list[tuple[str, str]] = field(default_factory=list)
    held: list[torch.Tensor] = field(default_factory=list)
    ranges: dict[str, tuple[int, int | None]] = field(default_factory=dict)
    training: bool | None = None
    effects: bool = False  # random numbers, checks, other calls that are more than a function
    recapture: Callable[[], Any] | None = None

    hidden: int | None = None  # the first model output that is only the common base of several results

    @property
    def has_effects(self) -> bool:
        """True if calling twice is not the same as calling once."""
        return bool(self.mutations) or self.effects
