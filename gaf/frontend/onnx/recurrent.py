# SPDX-License-Identifier: Apache-2.0
"""RNN, GRU and LSTM as ONNX functions: one matmul for the inputs of all steps, and a Scan over the steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, helper, numpy_helper

from gaf.errors import InvalidInputError, UnsupportedError

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
"""Recurrent ops, with the blocks of `hidden_size` rows in their weights."""

OPSET = 18  # of the nodes in the functions

_DEFAULTS = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh")}

# Activation -> names and defaults of its parameters; they take values of activation_alpha and activation_beta in order
_PARAMETERS: Mapping[str, Mapping[str, float]] = {
    "affine": {"alpha": 1.0, "beta": 0.0},
    "elu": {"alpha": 1.0},
    "hardsigmoid": {"alpha": 0.2, "beta": 0.5},
    "leakyrelu": {"alpha": 0.01},
    "relu": {},
    "scaledtanh": {"alpha": 1.0, "beta": 1.0},
    "sigmoid": {},
    "softplus": {},
    "softsign": {},
    "tanh": {},
    "thresholdedrelu": {"alpha": 1.0},
}
_PLAIN = {
    "elu": "Elu", "hardsigmoid": "HardSigmoid", "leakyrelu": "LeakyRelu", "relu": "Relu", "sigmoid": "Sigmoid",
    "softplus": "Softplus", "softsign": "Softsign", "tanh": "Tanh", "thresholdedrelu": "ThresholdedRelu",
}  # fmt: skip

Activation = Callable[["_Nodes", str], str]


def function(
    op_type: str, given: Sequence[bool], attributes: Mapping[str, Any], dtype: np.dtype
) -> onnx.FunctionProto:
    """The function for a recurrent node; `given` says which inputs it has.

    `attributes` are plain values. X is `[T, B, I]` of `dtype` (`[B, T, I]` with layout 1). Raises
    InvalidInputError for attributes that don't fit, UnsupportedError for an unknown activation (without a place).
    """
    return _Recurrent(op_type, given, attributes, dtype).function()


class _Nodes:
    """A list of nodes being written; every name starts with `prefix`."""

    def __init__(self, prefix: str = "v") -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.prefix = prefix

    def name(self) -> str:
        return f"{self.prefix}{len(self.nodes)}"

    def op(self, op_type: str, *inputs: str, **attrs: Any) -> str:
        return self.ops(op_type, inputs, 1, **attrs)[0]

    def ops(self, op_type: str, inputs: Sequence[str], count: int, **attrs: Any) -> list[str]:
        stem = self.name()
        names = [stem] if count == 1 else [f"{stem}_{i}" for i in range(count)]
        self.nodes.append(helper.make_node(op_type, list(inputs), names, **attrs))
        return names

    def constant(self, value: Any, dtype: Any) -> str:
        return self.op("Constant", value=numpy_helper.from_array(np.asarray(value, dtype)))

    def ints(self, *values: int) -> str:
        return self.constant(values, np.int64)


@dataclass
class _Step:
    """One step of a direction: what the body of the Scan works on."""

    nodes: _Nodes
    x: str  # input times weights, with bias: [B, gates * H]
    h: str
    c: str
    recurrent: Sequence[str]  # transposed recurrent weights [H, n * H], from outside
    bias: str  # of the recurrent part of GRU's hidden gate; "" if there is none
    peepholes: Sequence[str]
    activations: Sequence[Activation]


class _Recurrent:
    def __init__(
        self, op_type: str, given: Sequence[bool], attributes: Mapping[str, Any], dtype: np.dtype
    ) -> None:
        self.op_type, self.attributes, self.dtype = op_type, attributes, dtype
        self.inputs = ["X", "W", "R", "B", "sequence_lens", "initial_h"]
        if op_type == "LSTM":
            self.inputs += ["initial_c", "P"]
        self.given = dict(zip(self.inputs, [*given, *([False] * len(self.inputs))]))
        direction = attributes.get("direction", "forward")
        if direction not in ("forward", "reverse", "bidirectional"):
            raise InvalidInputError(
                "unknown direction", expected="forward, reverse or bidirectional", got=direction
            )
        self.directions = {"forward": (0,), "reverse": (1,), "bidirectional": (0, 1)}[direction]
        self.layout = int(attributes.get("layout", 0))
        hidden = attributes.get("hidden_size")
        if not isinstance(hidden, int) or hidden < 1:
            raise InvalidInputError("attribute 'hidden_size' is missing", got=hidden)
        self.hidden = hidden
        clip = float(attributes.get("clip", 0.0))
        self.clip = clip if clip > 0 else None
        self.activations = self._activations()

    def function(self) -> onnx.FunctionProto:
        n = _Nodes()
        x = n.op("Transpose", "X", perm=[1, 0, 2]) if self.layout else "X"
        states = 2 if self.op_type == "LSTM" else 1
        ends: list[list[str]] = []
        for number, backward in enumerate(self.directions):
            ends.append(self._direction(n, x, number, bool(backward)))
        names = ["Y", "Y_h", "Y_c"][: 1 + states]
        for i, name in enumerate(names):
            axis = (2 if i == 0 else 1) if self.layout else (1 if i == 0 else 0)
            parts = []
            for end in ends:
                part = n.op("Transpose", end[i], perm=[1, 0, 2]) if self.layout and i == 0 else end[i]
                parts.append(n.op("Unsqueeze", part, n.ints(axis)))
            n.nodes.append(helper.make_node("Concat", parts, [name], axis=axis))
        return helper.make_function(
            "gaf.recurrent", self.op_type, self.inputs, names, n.nodes, [helper.make_opsetid("", OPSET)]
        )

    # -- one direction ------------------------------------------------------------------------------

    def _direction(self, n: _Nodes, x: str, number: int, backward: bool) -> list[str]:
        """Names of the outputs `[T, B, H]` and the last states `[B, H]` of a direction."""
        gates = GATES[self.op_type]
        size = gates * self.hidden

        def mine(name: str) -> str:
            """The part of a weight that belongs to the direction."""
            row = n.op("Slice", name, n.ints(number), n.ints(number + 1), n.ints(0))
            return n.op("Squeeze", row, n.ints(0))

        def part(name: str, start: int, stop: int, axis: int = 0) -> str:
            return n.op("Slice", name, n.ints(start), n.ints(stop), n.ints(axis))

        projected = n.op("MatMul", x, n.op("Transpose", mine("W"), perm=[1, 0]))
        recurrent = n.op("Transpose", mine("R"), perm=[1, 0])
        weights, bias = [recurrent], ""
        kept = self.op_type == "GRU" and bool(self.attributes.get("linear_before_reset", 0))
        if self.given["B"]:
            both = mine("B")
            of_x, of_h = part(both, 0, size), part(both, size, 2 * size)
            if kept:  # the hidden gate's recurrent bias is inside the reset gate's product
                z_r, bias = part(of_h, 0, 2 * self.hidden), part(of_h, 2 * self.hidden, size)
                of_h = n.op("Concat", z_r, n.constant(np.zeros(self.hidden), self.dtype), axis=0)
            projected = n.op("Add", projected, n.op("Add", of_x, of_h))
        if self.op_type == "GRU" and not kept:
            weights = [part(recurrent, 0, 2 * self.hidden, 1), part(recurrent, 2 * self.hidden, size, 1)]
        peepholes: list[str] = []
        if self.given.get("P"):
            peepholes = n.ops("Split", [mine("P")], 3, axis=0, num_outputs=3)
        names = ["initial_h", "initial_c"] if self.op_type == "LSTM" else ["initial_h"]
        states = [self._initial(n, x, name, number) for name in names]
        per = len(self.activations) // len(self.directions)
        activations = self.activations[number * per : (number + 1) * per]
        return self._scan(n, x, projected, states, weights, bias, peepholes, activations, backward)

    def _initial(self, n: _Nodes, x: str, name: str, number: int) -> str:
        """The state `[B, H]` to begin with."""
        if self.given[name]:
            axis = 1 if self.layout else 0
            row = n.op("Slice", name, n.ints(number), n.ints(number + 1), n.ints(axis))
            return n.op("Squeeze", row, n.ints(axis))
        shape = n.op("Concat", n.op("Shape", x, start=1, end=2), n.ints(self.hidden), axis=0)
        return n.op("Expand", n.constant(0, self.dtype), shape)

    def _scan(
        self,
        n: _Nodes,
        x: str,
        projected: str,
        states: Sequence[str],
        weights: Sequence[str],
        bias: str,
        peepholes: Sequence[str],
        activations: Sequence[Activation],
        backward: bool,
    ) -> list[str]:
        body = _Nodes(f"{n.name()}_step")
        inputs = [f"{body.prefix}_h", *([f"{body.prefix}_c"] if len(states) == 2 else [])]
        row = f"{body.prefix}_x"
        step = _Step(body, row, inputs[0], inputs[-1], weights, bias, peepholes, activations)
        new = {"RNN": self._rnn, "GRU": self._gru, "LSTM": self._lstm}[self.op_type](step)
        output, extra, initial = new[0], [], list(states)
        if self.given["sequence_lens"]:
            # steps beyond a sequence's end leave its state alone and give 0
            time = f"{body.prefix}_t"
            lens = n.op("Unsqueeze", n.op("Cast", "sequence_lens", to=onnx.TensorProto.INT64), n.ints(1))
            inside = body.op("Less", time, lens)
            new = [body.op("Where", inside, after, before) for after, before in zip(new, inputs)]
            output = body.op("Where", inside, output, body.constant(0, self.dtype))
            later = body.op("Add", time, body.constant(-1 if backward else 1, np.int64))
            first = n.ints(0)
            if backward:
                first = n.op("Sub", n.op("Shape", x, start=0, end=1), n.ints(1))
            initial.append(n.op("Squeeze", first, n.ints(0)))
            inputs.append(time)
            extra = [later]
        results = [body.op("Identity", v) for v in (*new, *extra, output)]
        graph = helper.make_graph(
            body.nodes,
            "step",
            [helper.make_empty_tensor_value_info(v) for v in (*inputs, row)],
            [helper.make_empty_tensor_value_info(v) for v in results],
        )
        directions = [1 if backward else 0]
        made = n.ops(
            "Scan", [*initial, projected], len(results), body=graph, num_scan_inputs=1,
            scan_input_directions=directions, scan_output_directions=directions,
        )  # fmt: skip
        return [made[-1], *made[: len(states)]]

    # -- cells: the new states, the first of which is the output -----------------------------------------

    def _rnn(self, s: _Step) -> list[str]:
        total = s.nodes.op("Add", s.x, s.nodes.op("MatMul", s.h, s.recurrent[0]))
        return [self._apply(s, 0, total)]

    def _gru(self, s: _Step) -> list[str]:
        n, size = s.nodes, self.hidden
        x_z_r, x_h = n.ops("Split", [s.x, n.ints(2 * size, size)], 2, axis=1)
        if len(s.recurrent) == 1:  # linear before reset
            product = n.op("MatMul", s.h, s.recurrent[0])
            h_z_r, h_h = n.ops("Split", [product, n.ints(2 * size, size)], 2, axis=1)
            h_h = n.op("Add", h_h, s.bias) if s.bias else h_h
        else:
            h_z_r, h_h = n.op("MatMul", s.h, s.recurrent[0]), ""
        z, r = n.ops("Split", [self._apply(s, 0, n.op("Add", x_z_r, h_z_r))], 2, axis=1, num_outputs=2)
        if h_h:
            hidden = n.op("Mul", r, h_h)
        else:
            hidden = n.op("MatMul", n.op("Mul", r, s.h), s.recurrent[1])
        new = self._apply(s, 1, n.op("Add", x_h, hidden))
        # (1 - z) * new + z * h
        return [n.op("Add", new, n.op("Mul", z, n.op("Sub", s.h, new)))]

    def _lstm(self, s: _Step) -> list[str]:
        n = s.nodes
        total = n.op("Add", s.x, n.op("MatMul", s.h, s.recurrent[0]))
        i, o, f, g = n.ops("Split", [total], 4, axis=1, num_outputs=4)
        if s.peepholes:
            i = n.op("Add", i, n.op("Mul", s.peepholes[0], s.c))
            f = n.op("Add", f, n.op("Mul", s.peepholes[2], s.c))
        i = self._apply(s, 0, i)
        if self.attributes.get("input_forget", 0):
            f = n.op("Sub", n.constant(1, self.dtype), i)
        else:
            f = self._apply(s, 0, f)
        c = n.op("Add", n.op("Mul", f, s.c), n.op("Mul", i, self._apply(s, 1, g)))
        if s.peepholes:
            o = n.op("Add", o, n.op("Mul", s.peepholes[1], c))
        o = self._apply(s, 0, o)
        return [n.op("Mul", o, s.activations[2](n, c)), c]

    def _apply(self, s: _Step, number: int, value: str) -> str:
        """Activation `number` on a clipped value."""
        if self.clip is not None:
            low, high = (s.nodes.constant(v, self.dtype) for v in (-self.clip, self.clip))
            value = s.nodes.op("Clip", value, low, high)
        return s.activations[number](s.nodes, value)

    # -- activations ----------------------------------------------------------------------------------

    def _activations(self) -> list[Activation]:
        """The functions of all directions, in order."""
        names = self.attributes.get("activations") or _DEFAULTS[self.op_type] * len(self.directions)
        wanted = len(_DEFAULTS[self.op_type]) * len(self.directions)
        if len(names) != wanted:
            raise InvalidInputError(
                "attribute 'activations' has the wrong length", expected=wanted, got=len(names)
            )
        values = {
            "alpha": list(self.attributes.get("activation_alpha", ())),
            "beta": list(self.attributes.get("activation_beta", ())),
        }
        found = []
        for name in names:
            key = name.lower()
            if key not in _PARAMETERS:
                raise UnsupportedError(
                    f"activation '{name}' is not known", expected=", ".join(sorted(_PARAMETERS))
                )
            given = {p: values[p].pop(0) if values[p] else default for p, default in _PARAMETERS[key].items()}
            found.append(self._activation(key, given))
        return found

    def _activation(self, key: str, given: Mapping[str, float]) -> Activation:
        if key in _PLAIN:
            return lambda n, x: n.op(_PLAIN[key], x, **given)

        def scaled(n: _Nodes, x: str) -> str:
            alpha, beta = (n.constant(given[p], self.dtype) for p in ("alpha", "beta"))
            if key == "affine":
                return n.op("Add", n.op("Mul", x, alpha), beta)
            return n.op("Mul", n.op("Tanh", n.op("Mul", x, beta)), alpha)

        return scaled


def plain_attributes(attributes: Mapping[str, AttributeProto]) -> dict[str, Any]:
    """Attributes as Python values, strings as text."""
    found = {name: helper.get_attribute_value(proto) for name, proto in attributes.items()}
    return {
        name: value.decode("utf-8", "replace")
        if isinstance(value, bytes)
        else [v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in value]
        if isinstance(value, Sequence)
        else value
        for name, value in found.items()
    }
