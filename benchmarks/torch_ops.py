# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own op database through import, fusion and generated kernels, compared with PyTorch in float64.

The first samples of every OpInfo, in float32 (or int64, bool where an op has no float32). A case is `right` if
all its results agree with PyTorch in float64 or in the case's own type, `refused` if gaf says that it can't take
it, `crashed` for any other exception and for errors that call themselves bugs of gaf; `through_kernels` counts
right cases in which every op that computes ran in a generated kernel. Ops on random numbers are compared in
shape and type only.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from benchmarks.common import finish, parser, table
from benchmarks.isolated import Lost, run_isolated

KEYS = ("right", "wrong", "refused", "crashed")
UNSPECIFIED = ("empty", "new_empty")  # what is in the memory is not part of the result


@dataclass
class Outcome:
    """One case: what came of it, whether kernels did everything, and why not."""

    op: str
    sample: int
    kind: str
    kernels: bool = False
    reason: str = ""
    host: tuple[str, ...] = ()  # the ops that no kernel computes, with the reason


@cache
def database() -> dict[str, Any]:
    """Every OpInfo by name and variant: `div.floor_rounding`."""
    from torch.testing._internal.common_methods_invocations import op_db

    return {f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name: op for op in op_db}


@dataclass(frozen=True)
class OpCases:
    """The work of a child process: the cases of one op."""

    limit: int
    engine: str

    def __call__(self, name: str, first: int) -> Iterator[Outcome]:
        """The outcomes of the samples from number `first` on. A bug of the importer is a crash, not a call on the host."""
        from gaf.frontend.torch import importer

        importer.RAISE_BUGS = True
        warnings.filterwarnings("ignore")
        logging.disable(logging.ERROR)
        op = database()[name]
        for i, sample in enumerate(samples(op, self.limit)):
            if i >= first:
                yield run_case(name, i, op, sample, self.engine)


def samples(op: Any, limit: int) -> list[Any]:
    """The first sample inputs, in the first element type that the op has."""
    import torch

    kinds = [k for k in (torch.float32, torch.int64, torch.bool) if k in op.supported_dtypes("cpu")]
    if not kinds:
        return []
    torch.manual_seed(0)
    try:
        return list(op.sample_inputs("cpu", kinds[0]))[:limit]
    except Exception:  # the database needs a package that is not there
        return []


def run_case(name: str, index: int, op: Any, sample: Any, engine: str) -> Outcome:
    """Import, fuse, run and compare one sample."""
    import torch
    from torch.utils import _pytree as pytree

    import gaf
    from gaf.errors import InternalError

    leaves, spec = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def call(*tensors: Any) -> list[Any]:
        filled = list(leaves)
        for i, tensor in zip(places, tensors):
            filled[i] = tensor
        args, kwargs = pytree.tree_unflatten(filled, spec)
        return [r for r in pytree.tree_leaves(op.op(*args, **kwargs)) if isinstance(r, torch.Tensor)]

    tensors = [leaves[i].detach() for i in places]
    changed = [t.clone() for t in tensors]
    try:
        expected = call(*changed)
    except Exception:
        return Outcome(name, index, "refused", reason="PyTorch itself refuses the sample")
    if not expected:
        return Outcome(name, index, "refused", reason="the result is no tensor")
    try:
        model, mutated, is_random = capture(call, tensors, name)
        fused = gaf.fuse(model)
        got = list(fused.run(arrays(model, tensors), engine=engine).values())
    except InternalError as error:
        return Outcome(name, index, "crashed", reason=" ".join(str(error).split())[:200])
    except gaf.GafError as error:
        return Outcome(name, index, "refused", reason=" ".join(str(error).split())[:200])
    except Exception as error:
        return Outcome(
            name, index, "crashed", reason=f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        )
    values = not is_random and not name.startswith(UNSPECIFIED)
    wide = wide_results(call, tensors, mutated)
    reason = difference(got, [*expected, *(changed[i] for i in mutated)], wide, values)
    host = tuple(re.sub(r"^\d+ x (\S+) \(.*?\)", r"\1", text) for text in fused.fallbacks)
    return Outcome(
        name,
        index,
        "wrong" if reason else "right",
        not fused.host_ops and bool(fused.fused_ops),
        reason,
        host,
    )


def arrays(model: Any, tensors: Sequence[Any]) -> dict[str, np.ndarray]:
    """The model's inputs."""
    from gaf.dialects.graph.ops.torch_call import to_numpy

    return {n: to_numpy(t) for n, t in zip(model.input_names, tensors)}


def capture(call: Callable[..., list[Any]], tensors: Sequence[Any], name: str) -> tuple[Any, list[int], bool]:
    """The model of a function of tensors, the tensors it changes, and whether it draws random numbers.

    The model returns the results, then the new values of the tensors that the function changes. As torch.export does it, without its checks of modules and structures, which take ten times as long.
    """
    import torch
    from torch.fx.experimental.proxy_tensor import make_fx

    from gaf.errors import UnsupportedError
    from gaf.frontend.torch.importer import GraphImporter, Held

    options = {"decomposition_table": decomposition_table(), "tracing_mode": "fake"}
    try:
        module = make_fx(call, **options)(*tensors)
        if any(map(writes, module.graph.nodes)):  # decompositions may: functional in a second round
            module = make_fx(torch.func.functionalize(module, remove="mutations"), **options)(*tensors)
    except Exception as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
        raise UnsupportedError(f"PyTorch can't capture it: {reason}") from error
    inputs = [n for n in module.graph.nodes if n.op == "placeholder"]
    changed: dict[Any, Any] = {}
    for node in list(module.graph.nodes):
        if node.target is torch.ops.aten.copy_.default and node.args[0] in inputs:
            changed[node.args[0]] = node.args[1]
            node.replace_all_uses_with(node.args[1])
            module.graph.erase_node(node)
    nodes = list(module.graph.nodes)
    held = {n: Held(n.name, getattr(module, n.target)) for n in nodes if n.op == "get_attr"}
    (results,) = nodes[-1].args
    importer = GraphImporter(
        module.graph, {n: n.name for n in inputs}, held, name=name, source=name, num_source_ops=len(nodes)
    )
    outputs = [(f"y{i}", n) for i, n in enumerate([*results, *changed.values()])]
    return importer.run(outputs), [inputs.index(n) for n in changed], any(map(draws, nodes))


@cache
def decomposition_table() -> dict[Any, Any]:
    """The table of the importer, which is slow to ask for each case."""
    from gaf.frontend.torch.program import decompositions

    return dict(decompositions().items())


def writes(node: Any) -> bool:
    """True for a call that changes one of its operands."""
    schema = getattr(node.target, "_schema", None)
    return schema is not None and any(
        a.alias_info is not None and a.alias_info.is_write for a in schema.arguments
    )


def draws(node: Any) -> bool:
    """True for a call that draws random numbers."""
    import torch

    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())


def wide_results(
    call: Callable[..., list[Any]], tensors: Sequence[Any], mutated: Sequence[int]
) -> list[Any] | None:
    """Results and changed tensors in float64, if the op can."""
    import torch

    wide = [t.double() if t.dtype == torch.float32 else t.clone() for t in tensors]
    try:
        return [*call(*wide), *(wide[i] for i in mutated)]
    except Exception:
        return None


def difference(
    got: Sequence[np.ndarray], expected: Sequence[Any], wide: Sequence[Any] | None, values: bool
) -> str:
    """ "" if the results agree, else what differs."""
    import torch

    from gaf.dialects.graph.ops.torch_call import to_torch

    if len(got) != len(expected):
        return f"{len(got)} results, expected {len(expected)}"
    for i, (array, exact) in enumerate(zip(got, expected)):
        result = to_torch(array)
        if result.shape != exact.shape or result.dtype != exact.dtype:
            return (
                f"result {i}: {result.dtype}{list(result.shape)}, expected {exact.dtype}{list(exact.shape)}"
            )
        if not values or agrees(result, exact):
            continue
        if wide is None or len(wide) <= i or not agrees(result.double(), wide[i].double()):
            error = (result.double() - exact.double()).abs().nan_to_num(torch.inf).max().item()
            return f"result {i}: off by up to {error:.2g}"
    return ""


def agrees(a: Any, b: Any) -> bool:
    """Equal up to the tolerance of a few dozen float32 operations; integers exactly."""
    import torch

    tolerance = 1e-4 if b.is_floating_point() else 0.0
    return bool(torch.allclose(a.double(), b.double(), rtol=tolerance, atol=tolerance, equal_nan=True))


def a_part(text: str) -> tuple[int, int]:
    """`2/5` as numbers. Raises ValueError."""
    part, parts = map(int, text.split("/"))
    if not 1 <= part <= parts:
        raise ValueError(text)
    return part, parts


def main(argv: list[str] | None = None) -> int:
    """Run all shards and print; returns the exit code."""
    options = parser(__doc__)
    options.add_argument("--samples", type=int, default=12, help="samples an op, at most (default 12)")
    options.add_argument("--only", nargs="+", default=[], metavar="OP", help="ops whose name starts so")
    options.add_argument("--engine", default="interpreter", help="interpreter, host or check")
    options.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options.add_argument("--seconds", type=float, default=60.0, help="time limit of a case (default 60)")
    options.add_argument(
        "--part", type=a_part, default=(1, 1), metavar="I/N", help="every N-th op from the I-th on"
    )
    options.add_argument("--list", action="store_true", help="print every case that is not right")
    args = options.parse_args(argv)
    start = time.perf_counter()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    ops = [n for n in database() if not args.only or any(n.startswith(p) for p in args.only)]
    part, parts = args.part
    found: list[Outcome] = []
    listed = ("wrong", "crashed", "refused") if args.list else ("wrong", "crashed")
    work = OpCases(args.samples, args.engine)
    for outcome in run_isolated(work, ops[part - 1 :: parts], jobs=args.jobs, seconds=args.seconds):
        if isinstance(outcome, Lost):
            outcome = Outcome(outcome.task, outcome.case, "crashed", reason=outcome.reason)
        found.append(outcome)
        if outcome.kind in listed:
            print(f"{outcome.kind}: {outcome.op} #{outcome.sample}: {outcome.reason}", flush=True)
        if len(found) % 250 == 0:
            print(f"{len(found)} cases, {time.perf_counter() - start:.0f} s", file=sys.stderr)
    counts = Counter(o.kind for o in found)
    through = sum(o.kind == "right" and o.kernels for o in found)
    figures = {"total": len(found), **{k: counts[k] for k in KEYS}, "through_kernels": through}
    hosts = Counter(h for o in found for h in set(o.host))
    print("\n".join(f"{count} cases with an op on the host: {text}" for text, count in hosts.most_common(20)))
    print(table([{**figures, "seconds": time.perf_counter() - start}]))
    return finish("torch_ops", figures, args.json)


if __name__ == "__main__":
    sys.exit(main())
