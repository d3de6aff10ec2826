# SPDX-License-Identifier: Apache-2.0
"""Seconds to import and fuse an LSTM that its exporter unrolled: 16 nodes a step, 10,000 in all, one chain of states.

All steps share their weights, as unrolled recurrent layers do, and their kernels. `--inputs one`: step t reads row t
of one input, whose address its kernel gets (`address-slices`); `--inputs each`: every step has an input of its own.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.common import finish, parser, table

if TYPE_CHECKING:
    import onnx

NODES, GOAL_S = 10_000, 20.0
"""The size that the goal is about, and the goal in seconds."""


def unrolled_lstm(nodes: int, each: bool = False, size: int = 32, batch: int = 4) -> onnx.ModelProto:
    """An LSTM layer over as many steps as make up `nodes` nodes: outputs y (all states) and the last cell.

    Its input is x f32[steps, batch, size]; with `each`, x0, x1, ... f32[batch, size].
    """
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    made: list[onnx.NodeProto] = []

    def node(kind: str, inputs: Sequence[str], outputs: Sequence[str], **attrs: Any) -> None:
        made.append(helper.make_node(kind, list(inputs), list(outputs), name=f"{kind}_{len(made)}", **attrs))

    steps = max(1, (nodes - 1) // (15 if each else 16))
    h, c = "h0", "c0"
    for t in range(steps):
        if not each:
            node("Gather", ["x", f"at{t}"], [f"x{t}"], axis=0)
        node("MatMul", [f"x{t}", "w"], [f"xw{t}"])
        node("MatMul", [h, "r"], [f"hr{t}"])
        node("Add", [f"xw{t}", f"hr{t}"], [f"s{t}"])
        node("Add", [f"s{t}", "b"], [f"g{t}"])
        node("Split", [f"g{t}"], [f"i{t}", f"f{t}", f"o{t}", f"z{t}"], axis=1)
        for gate in "ifo":
            node("Sigmoid", [f"{gate}{t}"], [f"{gate}{t}_"])
        node("Tanh", [f"z{t}"], [f"z{t}_"])
        node("Mul", [f"f{t}_", c], [f"kept{t}"])
        node("Mul", [f"i{t}_", f"z{t}_"], [f"new{t}"])
        node("Add", [f"kept{t}", f"new{t}"], [f"c{t + 1}"])
        node("Tanh", [f"c{t + 1}"], [f"t{t}"])
        node("Mul", [f"o{t}_", f"t{t}"], [f"h{t + 1}"])
        node("Unsqueeze", [f"h{t + 1}", "first"], [f"y{t}"])
        h, c = f"h{t + 1}", f"c{t + 1}"
    node("Concat", [f"y{t}" for t in range(steps)], ["y"], axis=0)
    random = np.random.default_rng(0)
    weights = {
        "w": random.standard_normal((size, 4 * size)) / size**0.5,
        "r": random.standard_normal((size, 4 * size)) / size**0.5,
        "b": random.standard_normal(4 * size),
        "h0": np.zeros((batch, size)),
        "c0": np.zeros((batch, size)),
    }
    tensors = [numpy_helper.from_array(a.astype(np.float32), n) for n, a in weights.items()]
    indices = {"first": np.array([0]), **{f"at{t}": np.array(t) for t in range(0 if each else steps)}}
    tensors += [numpy_helper.from_array(a, n) for n, a in indices.items()]
    whole = {"x": [steps, batch, size]}
    inputs = {f"x{t}": [batch, size] for t in range(steps)} if each else whole
    graph = helper.make_graph(
        made,
        "lstm",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n, shape in inputs.items()],
        [helper.make_empty_tensor_value_info("y"), helper.make_empty_tensor_value_info(c)],
        tensors,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)


def measure(nodes: int, each: bool = False) -> dict[str, Any]:
    """Seconds of import and fusion, C++ printed."""
    import onnx

    import gaf

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lstm.onnx"
        onnx.save(unrolled_lstm(nodes, each), path)
        start = time.perf_counter()
        model = gaf.load_model(path)
        loaded = time.perf_counter()
        fused = gaf.fuse(model)
        end = time.perf_counter()
    phases = sorted(fused.seconds.items(), key=lambda item: -item[1])
    return {
        "ops": model.num_ops,
        "s": end - start,
        "import_s": loaded - start,
        "fuse_s": end - loaded,
        "kernels": len(fused.kernels),
        "launches": fused.num_ops,
        "fallbacks": len(fused.fallbacks),
        "slowest": ", ".join(f"{name} {seconds:.2g}" for name, seconds in phases[:3]),
    }


def main(argv: Sequence[str] | None = None) -> int:
    args = parser(__doc__)
    args.add_argument("--nodes", type=int, default=NODES, help="nodes of the unrolled LSTM")
    args.add_argument("--inputs", choices=["one", "each"], default="one", help="what the steps read")
    options = args.parse_args(argv)
    row = measure(options.nodes, options.inputs == "each")
    print(table([row]))
    if options.nodes == NODES:
        print(f"s = {row['s']:.3g} (goal < {GOAL_S:g}: {'reached' if row['s'] < GOAL_S else 'missed'})")
    return finish("import_lstm", row, options.json)


if __name__ == "__main__":
    sys.exit(main())
