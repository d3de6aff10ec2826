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
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

import numpy as np

from benchmarks.common import finish, parser, table

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


def names(pattern: Sequence[str]) -> list[str]:
    """The ops of the database, in order; `pattern` keeps those that start with one of its words."""
    from torch.testing._internal.common_methods_invocations import op_db

    every = [full_name(op) for op in op_db]
    return [n for n in every if not pattern or any(n.startswith(p) for p in pattern)]


def full_name(op: Any) -> str:
    """Name and variant of an OpInfo: `div.floor_rounding`."""
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def run_shard(shard: int, shards: int, limit: int, pattern: Sequence[str], engine: str) -> list[Outcome]:
    """Every `shards`-th op from `shard` on."""
    from torch.testing._internal.common_methods_invocations import op_db

    warnings.filterwarnings("ignore")
    logging.disable(logging.ERROR)
    wanted = set(names(pattern)[shard::shards])
    found: list[Outcome] = []
    for op in op_db:
        name = full_name(op)
        if name in wanted:
            found += [run_case(name, i, op, sample, engine) for i, sample in enumerate(samples(op, limit))]
    return found


def samples(op: Any, limit: int) -> Iterator[Any]:
    """The first sample inputs that PyTorch itself computes without error."""
    import torch

    kinds = [k for k in (torch.float32, torch.int64, torch.bool) if k in op.supported_dtypes("cpu")]
    if not kinds:
        return
    torch.manual_seed(0)
    try:
        yield from list(op.sample_inputs("cpu", kinds[0]))[:limit]
    except Exception:  # the database needs a package that is not there
        return


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
    try:
        expected = call(*(t.clone() for t in tensors))
    except Exception:
        return Outcome(name, index, "refused", reason="PyTorch itself refuses the sample")
    try:
        model, is_random = capture(call, tensors, name)
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
    reason = difference(got, expected, wide_results(call, tensors), values)
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


def capture(call: Callable[..., list[Any]], tensors: Sequence[Any], name: str) -> tuple[Any, bool]:
    """The model of a function of tensors, and whether it draws random numbers.

    As torch.export does it, without its checks of modules and structures, which take ten times as long.
    """
    import torch
    from torch.fx.experimental.proxy_tensor import make_fx

    from gaf.errors import UnsupportedError
    from gaf.frontend.torch.importer import GraphImporter, Held
    from gaf.frontend.torch.program import decompositions

    options = {"decomposition_table": dict(decompositions().items()), "tracing_mode": "fake"}
    try:
        plain = make_fx(call, **options)(*tensors)
        # decompositions write in place too: functional in a second round
        module = make_fx(torch.func.functionalize(plain, remove="mutations"), **options)(*tensors)
    except Exception as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
        raise UnsupportedError(f"PyTorch can't capture it: {reason}") from error
    nodes = list(module.graph.nodes)
    inputs = {n: n.name for n in nodes if n.op == "placeholder"}
    held = {n: Held(n.name, getattr(module, n.target)) for n in nodes if n.op == "get_attr"}
    (results,) = nodes[-1].args
    importer = GraphImporter(module.graph, inputs, held, name=name, source=name, num_source_ops=len(nodes))
    outputs = [(f"y{i}", n) for i, n in enumerate(results)]
    return importer.run(outputs), any(map(draws, nodes))


def draws(node: Any) -> bool:
    """True for a call that draws random numbers."""
    import torch

    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())


def wide_results(call: Callable[..., list[Any]], tensors: Sequence[Any]) -> list[Any] | None:
    """The same in float64, if the op can."""
    import torch

    try:
        return call(*(t.double() if t.dtype == torch.float32 else t for t in tensors))
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


def main(argv: list[str] | None = None) -> int:
    """Run all shards and print; returns the exit code."""
    options = parser(__doc__)
    options.add_argument("--samples", type=int, default=12, help="samples an op, at most (default 12)")
    options.add_argument("--only", nargs="+", default=[], metavar="OP", help="ops whose name starts so")
    options.add_argument("--engine", default="interpreter", help="interpreter, host or check")
    options.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options.add_argument("--list", action="store_true", help="print every case that is not right")
    args = options.parse_args(argv)
    start = time.perf_counter()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    shards = max(args.jobs * 8, 1)
    found: list[Outcome] = []
    listed = ("wrong", "crashed", "refused") if args.list else ("wrong", "crashed")
    # torch has threads already: a fork would inherit their locks
    with ProcessPoolExecutor(args.jobs, get_context("spawn")) as pool:
        work = [
            pool.submit(run_shard, i, shards, args.samples, args.only, args.engine) for i in range(shards)
        ]
        for i, future in enumerate(work):
            for outcome in future.result():
                found.append(outcome)
                if outcome.kind in listed:
                    print(f"{outcome.kind}: {outcome.op} #{outcome.sample}: {outcome.reason}", flush=True)
            print(
                f"{i + 1}/{shards}: {len(found)} cases, {time.perf_counter() - start:.0f} s", file=sys.stderr
            )
    counts = Counter(o.kind for o in found)
    through = sum(o.kind == "right" and o.kernels for o in found)
    figures = {"total": len(found), **{k: counts[k] for k in KEYS}, "through_kernels": through}
    hosts = Counter(h for o in found for h in set(o.host))
    print("\n".join(f"{count} cases with an op on the host: {text}" for text, count in hosts.most_common(20)))
    print(table([{**figures, "seconds": time.perf_counter() - start}]))
    return finish("torch_ops", figures, args.json)


if __name__ == "__main__":
    sys.exit(main())
