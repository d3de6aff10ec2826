# SPDX-License-Identifier: Apache-2.0
"""Writes `torch/overlap.py` of a project: kernels beside collectives in parts that run while other parts
travel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.ir import Block, SSAValue

from gaf.codegen.torch_binding import word
from gaf.dialects.ascendc.kernel import KernelOp
from gaf.dialects.graph.contract import location_name, tensor_type
from gaf.dialects.graph.ops.collective import AllReduceOp
from gaf.dialects.graph.ops.overlap import WHOLE, OverlapOp
from gaf.dialects.graph.ops.structure import FusedOp, YieldOp
from gaf.dialects.graph.ops.torch_call import torch_name
from gaf.dialects.graph.types import TensorType

REDUCE = {"sum": "SUM", "mean": "SUM", "max": "MAX", "min": "MIN", "prod": "PRODUCT"}
"""What torch.distributed calls a reduction; HCCL has no mean, so the sum is divided."""

HEAD = """\
# Kernels in parts around collectives: while one part is on its way between the ranks, the next is computed.
# torch.ops.load_library("libgaf_torch.so") and torch.distributed.init_process_group("hccl") come first.
import torch
import torch.distributed as dist
"""


def overlapped_kernels(ops: Sequence[OverlapOp], kernels: Mapping[str, KernelOp]) -> set[str]:
    """Names of the kernels that the module of `overlap_module` calls."""
    return {
        _kernel(f, kernels).sym_name.data for op in ops if _refusal(op, kernels) == "" for f in _fused(op)
    }


def overlap_module(ops: Sequence[OverlapOp], kernels: Mapping[str, KernelOp]) -> str:
    """A Python function for every overlap; "" if there is none. What can't be written is named in a comment.
    """
    lines = HEAD.splitlines()
    for number, op in enumerate(ops):
        refusal = _refusal(op, kernels)
        if refusal:
            lines += ["", "", f"# {location_name(op)}: no function here: {refusal}"]
        else:
            lines += ["", "", *_Function(op, kernels, f"overlap_{number}").lines()]
    return "\n".join(lines) + "\n" if ops else ""


def _fused(op: OverlapOp) -> list[FusedOp]:
    return [f for body in (op.produce.block, op.consume.block) for f in body.ops if isinstance(f, FusedOp)]


def _kernel(fused: FusedOp, kernels: Mapping[str, KernelOp]) -> KernelOp:
    names = [n.data for n in fused.attributes["kernels"].data]  # type: ignore[attr-defined]
    return next(kernels[n] for n in names if n in kernels)


def _refusal(op: OverlapOp, kernels: Mapping[str, KernelOp]) -> str:
    """Why an overlap has no function; "" if it has."""
    if not isinstance(op.collective, AllReduceOp):
        return f"{op.collective.name} between its parts"
    for body in (op.produce.block, op.consume.block):
        if any(not isinstance(o, FusedOp | YieldOp) for o in body.ops):
            return "an op of it runs on the host"
    if any(_kernel(f, kernels).symbols.data for f in _fused(op)):
        return "sizes that only a run knows"
    return ""


class _Function:
    """The text of one function; `names` says what stands for a value of the bodies."""

    def __init__(self, op: OverlapOp, kernels: Mapping[str, KernelOp], name: str) -> None:
        self.op, self.kernels, self.name = op, kernels, name
        self.names: dict[SSAValue, str] = {}
        self.count = 0
        self.parts = op.attrs()["parts"]

    def lines(self) -> list[str]:
        op, attrs = self.op, self.op.attrs()
        produce, consume = op.produce.block, op.consume.block
        operands = [f"x{i}" for i in range(len(op.operands))]
        nodes = [
            location_name(o) or o.name for f in _fused(op) for o in f.members if o.name != "graph.constant"
        ]
        shown = ", ".join(dict.fromkeys([*nodes, location_name(op.collective) or "AllReduce"]))
        found = [f"def {self.name}({', '.join(operands)}, group=None):", f'    """{shown}."""']
        pieces = []
        for name, axis in zip(operands, attrs["axes"]):
            if axis != WHOLE:
                found.append(f"    {name} = {name}.contiguous().chunk({self.parts}, {axis})")
            pieces.append(name if axis == WHOLE else f"{name}[i]")
        results = [f"y{i}" for i in range(len(op.results))]
        for name, value, axis in zip(results, op.results, attrs["result_axes"]):
            type_ = tensor_type(value)
            shape = ", ".join(map(str, type_.shape))
            found.append(
                f"    {name} = torch.empty([{shape}], dtype={_dtype(type_)}, device={operands[0]}{_first(attrs)}.device)"
            )
            found.append(f"    {name}_parts = {name}.chunk({self.parts}, {axis})")
        # what is sent or kept and also a result is made in its place
        made_in: dict[SSAValue, str] = {}
        assert produce.last_op is not None and consume.last_op is not None
        sent, *kept = produce.last_op.operands
        handed = dict(zip(consume.args, (sent, *kept)))
        for name, value in zip(results, consume.last_op.operands):
            made_in[handed.get(value, value)] = f"{name}_parts[i]"
        self.names.update(zip(produce.args, pieces))
        before, names_of_kept = self._body(produce, made_in, "        "), []
        for value in kept:
            names_of_kept.append(self.names[value])
        mine = self.names[sent]
        if sent in produce.args:  # a part of an operand: it must not change
            target = made_in.get(sent)
            before.append(
                f"        sent = {target}.copy_({mine})" if target else f"        sent = {mine}.clone()"
            )
        elif mine != "sent":
            before.append(f"        sent = {mine}")
        reduce = op.collective.attrs()["reduce"]
        later = [f"kept{i}" for i in range(len(kept))]
        self.names.update(zip(consume.args, ["sent", *later, *pieces]))
        after = self._body(consume, made_in, "        ")
        found += [
            "", f"    def finish({', '.join(['i', 'work', 'sent', *later])}):", "        work.wait()",
            *(["        sent.div_(dist.get_world_size(group))"] if reduce == "mean" else []), *after, "",
            "    waiting = None", f"    for i in range({self.parts}):", *before,
            f"        work = dist.all_reduce(sent, op=dist.ReduceOp.{REDUCE[reduce]}, group=group, async_op=True)",
            "        if waiting is not None:", "            finish(*waiting)",
            f"        waiting = ({', '.join(['i', 'work', 'sent', *names_of_kept])})",
            "    finish(*waiting)", f"    return {', '.join(results)}",
        ]  # fmt: skip
        return found

    def _body(self, body: Block, made_in: Mapping[SSAValue, str], indent: str) -> list[str]:
        """The calls of a body, each result in its place or in a fresh tensor."""
        found = []
        for op in body.ops:
            if not isinstance(op, FusedOp):
                continue
            kernel = _kernel(op, self.kernels)
            numbers = op.attributes["kernel_args"].get_values()  # type: ignore[attr-defined]
            arguments = [self.names[op.operands[i]] for i in numbers]
            outputs = [word(n) for n, _, role, _ in kernel.args if role == "out"]
            given = []
            for output, result in zip(outputs, op.results, strict=True):
                place = made_in.get(result)
                if place is None:
                    place, type_ = f"t{self.count}", tensor_type(result)
                    self.count += 1
                    shape = ", ".join(map(str, type_.shape))
                    found.append(
                        f"{indent}{place} = torch.empty([{shape}], dtype={_dtype(type_)}, device={arguments[0]}.device)"
                    )
                self.names[result] = place
                given.append(f"{output}={place}")
            found.append(
                f"{indent}torch.ops.gaf.{kernel.sym_name.data}.out({', '.join([*arguments, *given])})"
            )
        return found or [f"{indent}pass"]


def _first(attrs: Mapping[str, Sequence[int]]) -> str:
    """Operand 0 is a list of parts by now if it is cut."""
    return "" if attrs["axes"][0] == WHOLE else "[0]"


def _dtype(type_: TensorType) -> str:
    return f"torch.{torch_name(type_.dtype)}"
