# SPDX-License-Identifier: Apache-2.0
"""Mutation test of check mode: generated kernels with one mistake each, and how many of them check mode
catches.

A mutant is one deletion or change in the lowest level of a generated kernel: a barrier, a flag, a queue call,
an offset, a stride, a count (masks are counts of lanes at this level), a buffer size, a loop bound. It counts
if it is wrong without any help of check mode: it does something illegal (leaves memory, hangs, misuses a
queue or flag), or gives another result in one of eight executions by `benchmarks.adversary`. The others (a
barrier that was not needed, a count in the padding) are excluded. Caught: the same kernel, printed as C++ and
run in check mode with few cores, so that every core comes back to its buffers, shows a violation, a deadlock,
or results that differ by more than the tolerance of `verify`.
"""

from __future__ import annotations

import multiprocessing
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import Attribute, Operation

from benchmarks.adversary import Verdict, judge, same
from benchmarks.common import finish, parser, table
from benchmarks.npu import (
    BF16,
    F16,
    F32,
    Build,
    Case,
    add_rms_norm,
    attention,
    bias_gelu_tanh,
    embedding_norm,
    feeds,
    layer_norm,
    linear_relu,
    linear_residual_norm,
    multiply_add_relu,
    reduce,
    scaled_transpose,
    softmax,
    softmax_first,
)
from gaf.codegen.printer import print_kernel
from gaf.dialects.ascendc.attributes import Pipe, PipeAttr
from gaf.dialects.ascendc.interpreter import interpret
from gaf.dialects.ascendc.kernel import ForOp, IfOp, KernelOp, LetOp
from gaf.dialects.ascendc.queue import AllocOp, DequeOp, EnqueOp, FreeOp, InitBufOp, InitQueueOp
from gaf.dialects.ascendc.sync import (
    CrossCoreSetFlagOp,
    CrossCoreWaitFlagOp,
    PipeBarrierOp,
    SetFlagOp,
    SyncAllOp,
    WaitFlagOp,
)
from gaf.dialects.ascendc.types import QueueType
from gaf.dialects.common import dtype as dt
from gaf.dialects.common.attributes import ExprAttr
from gaf.errors import CompileError, GafError
from gaf.runtime.executor import kernel_args, kernel_names
from gaf.runtime.kernel import Kernel
from gaf.runtime.twin import TwinKernel, build_kernels

GOAL = 95.0
BLOCKS = 2
EXECUTIONS = 8
BATCH = 12
SECONDS = 20.0
"""Longest run of one mutant in check mode."""

SPECIMENS: tuple[tuple[Build, dt.DType, tuple[int, ...]], ...] = (
    (multiply_add_relu, F32, (7, 300)),
    (softmax, F32, (14, 100)),
    (layer_norm, F16, (14, 72)),
    (add_rms_norm, BF16, (14, 77)),
    (bias_gelu_tanh, F32, (14, 77)),
    (softmax_first, F32, (9, 700)),
    (reduce("mean", 1), F32, (3, 9, 130)),
    (scaled_transpose, F16, (40, 50)),
    (embedding_norm, F16, (20, 14, 40)),
    (linear_relu, F32, (70, 40, 50)),
    (linear_residual_norm, F16, (40, 40, 48)),
    (attention, F16, (1, 2, 40, 32)),
)


@dataclass
class Specimen:
    """A right kernel with everything to run it: the source of mutants."""

    title: str
    kernel: Kernel
    arrays: dict[str, np.ndarray]
    expected: dict[str, np.ndarray]
    steps: int = 0


@dataclass(frozen=True)
class Mutant:
    """One mistake: `apply` makes it in a copy of the kernel, whose op number `at` (in order of walk) it
    concerns.
    """

    specimen: int
    kind: str
    what: str
    at: int
    apply: Callable[[Operation], None]


# ---- making mutants ---------------------------------------------------------------------------------------


def _delete(op: Operation) -> None:
    op.detach()
    op.erase()


def _add(name: str, delta: int, op: Operation) -> None:
    attr = op.properties[name]
    assert isinstance(attr, ExprAttr)
    op.properties[name] = ExprAttr(attr.data + delta)


def _halve(name: str, op: Operation) -> None:
    attr = op.properties[name]
    assert isinstance(attr, ExprAttr)
    op.properties[name] = ExprAttr(attr.data // 64 * 32)


def _pipe(pipe: Pipe, op: Operation) -> None:
    op.properties["pipe"] = PipeAttr(pipe)


def _one_buffer(op: Operation) -> None:
    kind = op.results[0].type
    assert isinstance(kind, QueueType)
    parameters: list[Attribute] = [IntAttr(1) if isinstance(p, IntAttr) else p for p in kind.parameters]
    op.results[0]._type = type(kind).new(parameters)  # the type of a result in place: only this copy uses it


def _use_without_queue(op: Operation) -> None:
    """Takes the allocated tensor itself instead of what comes out of the queue."""
    assert isinstance(op, EnqueOp)
    taken = _dequeue_after(op)
    assert taken is not None
    taken.tensor.replace_all_uses_with(op.tensor)
    _delete(taken)
    _delete(op)


def _dequeue_after(op: EnqueOp) -> DequeOp | None:
    later = op.next_op
    while later is not None:
        if isinstance(later, DequeOp) and later.queue is op.queue:
            return later
        later = later.next_op
    return None


def _earlier(op: Operation) -> None:
    """Moves a queue call in front of the call before it that uses the same tensor."""
    user = _user_before(op)
    assert user is not None and user.parent is not None
    op.detach()
    user.parent.insert_op_before(op, user)


def _user_before(op: Operation) -> Operation | None:
    tensor = op.operands[1]
    before = op.prev_op
    while before is not None and before is not tensor.owner:
        if tensor in before.operands and not isinstance(before, EnqueOp | FreeOp):
            return before
        before = before.prev_op
    return None


COUNTS = ("rows", "lanes", "count", "m", "n", "k", "bursts", "length", "nrows", "ncols", "table_rows")
STRIDES = ("stride", "table_stride", "id_stride", "lda", "ldb", "ldc", "gm_gap", "ub_gap")


def mistakes(op: Operation) -> Iterator[tuple[str, str, Callable[[Operation], None]]]:
    """Every mistake that can be made at one op: kind, text, how."""
    name = op.name.removeprefix("ascendc.")
    match op:
        case PipeBarrierOp():
            yield "barrier", "deleted", _delete
        case SyncAllOp():
            yield "flag", "SyncAll deleted", _delete
        case SetFlagOp() | WaitFlagOp():
            yield "flag", f"{name} deleted", _delete
            yield "flag", f"{name} with another id", partial(_add, "id", 1)
        case CrossCoreSetFlagOp() | CrossCoreWaitFlagOp():
            yield "flag", f"{name} deleted", _delete
            yield "flag", f"{name} of another flag", partial(_add, "flag", 1)
            if isinstance(op, CrossCoreSetFlagOp):
                for pipe in (Pipe.V, Pipe.MTE1, Pipe.MTE2, Pipe.MTE3):
                    if pipe is not op.pipe.data:
                        yield "flag", f"{name} from pipe {pipe.value}", partial(_pipe, pipe)
        case EnqueOp():
            yield "queue", "EnQue deleted", _delete
            if _dequeue_after(op) is not None:
                yield "queue", "used without EnQue and DeQue", _use_without_queue
            if _user_before(op) is not None:
                yield "queue", "EnQue too early", _earlier
        case FreeOp():
            yield "queue", "FreeTensor deleted", _delete
            if _user_before(op) is not None:
                yield "queue", "FreeTensor too early", _earlier
        case AllocOp() | DequeOp():
            pass
        case InitQueueOp():
            yield "size", "queue buffers 32 bytes smaller", partial(_add, "bytes", -32)
            yield "size", "queue buffers half as large", partial(_halve, "bytes")
            if op.queue.type.buffers.data > 1:
                yield "size", "one buffer instead of several", _one_buffer
        case InitBufOp():
            yield "size", "buffer 32 bytes smaller", partial(_add, "bytes", -32)
        case ForOp():
            yield "loop", "one iteration less", partial(_add, "hi", -1)
            yield "loop", "bound one higher", partial(_add, "hi", 1)
            yield "loop", "starts one later", partial(_add, "lo", 1)
        case IfOp():
            yield "loop", "condition off by one", partial(_add, "rhs", 1)
        case LetOp():
            yield "offset", f"{op.var.data} one more", partial(_add, "value", 1)
            yield "offset", f"{op.var.data} one less", partial(_add, "value", -1)
        case _:
            for param, attr in op.properties.items():
                if not isinstance(attr, ExprAttr):
                    continue
                if param.endswith("_at") or param in ("offset", "row0", "col0"):
                    size = 32 if op.name in ("ascendc.buf_get", "ascendc.workspace") else 1
                    yield "offset", f"{name}: {param} + {size}", partial(_add, param, size)
                    yield "offset", f"{name}: {param} + {8 * size}", partial(_add, param, 8 * size)
                elif param in STRIDES:
                    yield "stride", f"{name}: {param} + 1", partial(_add, param, 1)
                    yield "stride", f"{name}: {param} + 32", partial(_add, param, 32)
                elif param in COUNTS:
                    yield "count", f"{name}: {param} - 1", partial(_add, param, -1)
                    yield "count", f"{name}: {param} + 1", partial(_add, param, 1)


def enumerate_mutants(number: int, kernel: KernelOp, most: int, rng: random.Random) -> list[Mutant]:
    """At most `most` mutants of a kernel; kinds with few take all, the others are drawn evenly."""
    by_kind: dict[str, list[Mutant]] = {}
    for at, op in enumerate(kernel.walk()):
        if op is kernel:
            continue
        for kind, what, apply in mistakes(op):
            by_kind.setdefault(kind, []).append(Mutant(number, kind, what, at, apply))
    chosen: list[Mutant] = []
    left = most
    for i, (_, found) in enumerate(sorted(by_kind.items(), key=lambda item: len(item[1]))):
        take = min(len(found), left // (len(by_kind) - i))
        chosen += [found[j] for j in sorted(rng.sample(range(len(found)), take))]
        left -= take
    return chosen


def mutated(specimen: Specimen, mutant: Mutant, name: str) -> KernelOp:
    """A copy of the kernel with the mistake."""
    kernel = specimen.kernel.ascendc.clone()
    for old, new in zip(specimen.kernel.ascendc.walk(), kernel.walk(), strict=True):
        for a, b in zip(old.results, new.results, strict=True):
            b.name_hint = a.name_hint
    kernel.sym_name = StringAttr(name)
    mutant.apply(list(kernel.walk())[mutant.at])
    return kernel


# ---- judging them -----------------------------------------------------------------------------------------

SPECIMENS_MADE: list[Specimen] = []
MUTANTS: list[Mutant] = []
"""Made before the workers are forked, which inherit them."""


def make_specimens(only: str | None) -> list[Specimen]:
    """Fuse every specimen; kernels that the adversary finds wrong without a mistake are a bug and end the
    run.
    """
    import gaf

    made: list[Specimen] = []
    for build, kind, sizes in SPECIMENS:
        title = f"{getattr(build, '__name__', 'reduce')} {kind.name} {'x'.join(map(str, sizes))}"
        if only and only not in title:
            continue
        model, graph = Case(title, kind, build, sizes, sizes).graph(sizes)
        fused = gaf.fuse(model)
        inputs = list(feeds(model, graph).values())
        for op in fused.fused_ops[:1]:
            kernel = next(k for k in fused.kernels if k.name == kernel_names(op)[0])
            arrays = {n: inputs[i] for n, i in zip(kernel.arg_names, kernel_args(op))}
            expected = interpret(kernel.ascendc, arrays, {}, blocks=BLOCKS)
            made.append(Specimen(title, kernel, arrays, expected))
    return made


def judge_original(number: int) -> Verdict:
    s = SPECIMENS_MADE[number]
    return judge(s.kernel.ascendc, s.arrays, {}, BLOCKS, s.expected, EXECUTIONS)


def judge_mutant(number: int) -> Verdict:
    """The verdict of the adversary; a mistake that makes no kernel at all is none."""
    mutant = MUTANTS[number]
    s = SPECIMENS_MADE[mutant.specimen]
    try:
        kernel = mutated(s, mutant, s.kernel.name)
    except GafError as e:
        return Verdict(illegal=f"no kernel: {e.what}")
    return judge(kernel, s.arrays, {}, BLOCKS, s.expected, EXECUTIONS, limit=20 * s.steps)


@dataclass
class Caught:
    """How check mode took one mutant."""

    how: str = ""
    """"rule", "value", "compiler", "crash", "timeout", or "" for a miss."""
    rules: tuple[str, ...] = ()


def build_batch(numbers: Sequence[int]) -> dict[int, TwinKernel | None]:
    """Build mutants in one unit; None for one that the compiler refuses."""
    texts: dict[int, str] = {}
    for i in numbers:
        s = SPECIMENS_MADE[MUTANTS[i].specimen]
        texts[i] = print_kernel(mutated(s, MUTANTS[i], f"{s.kernel.name}_m{i}"))
    names = {i: f"{SPECIMENS_MADE[MUTANTS[i].specimen].kernel.name}_m{i}" for i in numbers}
    first, *rest = numbers
    source = "\n".join(texts[i] for i in numbers) + '\n#include "gaf_twin_launch.h"\n'
    source += "".join(f"GAF_TWIN_ENTRY({names[i]})\n" for i in rest)
    try:
        built = build_kernels([(names[first], source)], mode="check", jobs=1)[names[first]]
    except CompileError:
        if not rest:
            return {first: None}
        middle = len(numbers) // 2
        return {**build_batch(numbers[:middle]), **build_batch(numbers[middle:])}
    return {first: built, **{i: TwinKernel(built.path, names[i], "check") for i in rest}}


def run_check(specimen: Specimen, kernel: TwinKernel) -> Caught:
    """Check mode on the mutant: with few cores, and on one core if that shows nothing."""
    launch = specimen.kernel.host.evaluate({})
    names = specimen.kernel.arg_names
    for blocks in (BLOCKS, 1):
        outputs = [np.empty_like(specimen.expected[n]) for n in names if n in specimen.expected]
        inputs = [np.ascontiguousarray(specimen.arrays[n]) for n in names if n not in specimen.expected]
        found = kernel.launch(
            [*inputs, *outputs], launch.workspace, launch.packed, blocks, outputs=len(outputs), again=False
        )
        if found.violations or found.deadlock:
            return Caught("rule", tuple(dict.fromkeys(v["rule"] for v in found.violations)))
        for name, got in zip([n for n in names if n in specimen.expected], outputs):
            if not same(name, got, specimen.expected[name]):
                return Caught("value")
    return Caught()


def _check_in_child(numbers: Sequence[int], pipe: Any) -> None:
    for i, kernel in build_batch(numbers).items():
        pipe.send((i, None))
        caught = (
            Caught("compiler") if kernel is None else run_check(SPECIMENS_MADE[MUTANTS[i].specimen], kernel)
        )
        pipe.send((i, caught))
    pipe.close()


def check_batch(numbers: Sequence[int]) -> dict[int, Caught]:
    """Check mutants in a process of their own: one that crashes or hangs is reported, the others go on."""
    done: dict[int, Caught] = {}
    left = list(numbers)
    context = multiprocessing.get_context("fork")
    while left:
        mine, theirs = context.Pipe(duplex=False)
        child = context.Process(target=_check_in_child, args=(left, theirs))
        child.start()
        theirs.close()
        running: int | None = None
        how = "crash"
        try:
            while mine.poll(SECONDS if running is not None else 300.0):
                i, caught = mine.recv()
                running = i if caught is None else None
                if caught is not None:
                    done[i] = caught
            how = "timeout"
        except EOFError:
            pass
        child.kill()
        child.join()
        left = [i for i in left if i not in done]
        if left and running is None:
            running = left[0]
        if running is not None:
            done[running] = Caught(how)
            left.remove(running)
    return done


def run(only: str | None, most: int, jobs: int) -> dict[str, Any]:
    """All figures."""
    started = time.perf_counter()
    rng = random.Random(0)
    SPECIMENS_MADE[:] = make_specimens(only)
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        for s, verdict in zip(SPECIMENS_MADE, pool.map(judge_original, range(len(SPECIMENS_MADE)))):
            s.steps = max(verdict.steps, 100)
            if verdict.wrong:
                raise SystemExit(f"{s.title} is wrong without a mistake: {verdict}")
    MUTANTS[:] = [
        m for i, s in enumerate(SPECIMENS_MADE) for m in enumerate_mutants(i, s.kernel.ascendc, most, rng)
    ]
    print(f"{len(MUTANTS)} mutants of {len(SPECIMENS_MADE)} kernels", file=sys.stderr, flush=True)
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        verdicts = list(pool.map(judge_mutant, range(len(MUTANTS)), chunksize=4))
    counted = [i for i, v in enumerate(verdicts) if v.wrong and not v.illegal.startswith("no kernel")]
    print(f"{len(counted)} are wrong, {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)
    batches = [counted[i : i + BATCH] for i in range(0, len(counted), BATCH)]
    caught: dict[int, Caught] = {}
    with ThreadPoolExecutor(jobs) as threads:
        for found in threads.map(check_batch, batches):
            caught.update(found)
    return _figures(verdicts, counted, caught) | {"seconds": time.perf_counter() - started}


def _figures(
    verdicts: Sequence[Verdict], counted: Sequence[int], caught: dict[int, Caught]
) -> dict[str, Any]:
    taken = [i for i in counted if caught[i].how != "compiler"]
    hit = [i for i in taken if caught[i].how in ("rule", "value")]
    kinds: dict[str, dict[str, Any]] = {}
    for i, m in enumerate(MUTANTS):
        k = kinds.setdefault(m.kind, Counter())
        k["made"] += 1
        if i in caught:
            k["compiler" if caught[i].how == "compiler" else "counted"] += 1
            k[caught[i].how or "missed"] += 1
    misses = [
        {
            "kernel": SPECIMENS_MADE[MUTANTS[i].specimen].title, "kind": MUTANTS[i].kind,
            "what": MUTANTS[i].what, "at": MUTANTS[i].at,
            "wrong": verdicts[i].illegal or "another result", "check mode": caught[i].how or "silent",
        }
        for i in taken if i not in hit
    ]  # fmt: skip
    return {
        "mutants": len(taken),
        "excluded": len(MUTANTS) - len(taken),
        "caught_pct": 100 * len(hit) / len(taken) if taken else float("nan"),
        "caught_by_rules_pct": 100 * sum(caught[i].how == "rule" for i in taken) / len(taken)
        if taken
        else float("nan"),
        "illegal": sum(bool(verdicts[i].illegal) for i in taken),
        "refused_by_compiler": len(counted) - len(taken),
        "crashes": sum(caught[i].how in ("crash", "timeout") for i in taken),
        "kinds": {k: dict(v) for k, v in sorted(kinds.items())},
        "rules": dict(Counter(c.rules[0] for c in caught.values() if c.rules)),
        "misses": misses,
    }


def main(argv: Sequence[str] | None = None) -> int:
    args = parser(__doc__)
    args.add_argument("--only", help="kernels whose title contains this text")
    args.add_argument("--most", type=int, default=55, help="mutants of one kernel (default 55)")
    args.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    options = args.parse_args(argv)
    figures = run(options.only, options.most, options.jobs)
    columns = ("made", "counted", "rule", "value", "missed", "crash", "timeout", "compiler")
    print(table([{"kind": k, **{c: v.get(c, 0) for c in columns}} for k, v in figures["kinds"].items()]))
    for miss in figures["misses"]:
        print("missed: " + ", ".join(f"{k}: {v}" for k, v in miss.items()))
    verdict = "reached" if figures["caught_pct"] >= GOAL else "missed"
    print(
        f"caught_pct = {figures['caught_pct']:.1f} of {figures['mutants']} (goal >= {GOAL:g}: {verdict}), "
        f"by rules alone {figures['caught_by_rules_pct']:.1f}; {figures['excluded']} excluded, "
        f"{figures['seconds']:.0f} s"
    )
    return finish("mutants", figures, options.json)


if __name__ == "__main__":
    sys.exit(main())
