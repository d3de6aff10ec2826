# SPDX-License-Identifier: Apache-2.0
"""`graph.foreign`: an op of another framework that gaf has no class for; it runs on the host as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Self

import numpy as np
from xdsl.dialects.builtin import BoolAttr, IntegerAttr, NameLoc, NoneAttr, StringAttr, i64
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import traits_def, var_operand_def, var_result_def
from xdsl.traits import EffectInstance, MemoryEffect
from xdsl.utils.exceptions import VerifyException

from gaf.dialects.common import dtype as dt
from gaf.dialects.graph.contract import ExportContext, GraphOp, bool_prop, graph_op, int_prop, str_prop
from gaf.dialects.graph.meaning import Opaque, OpMeaning
from gaf.dialects.graph.ops import torch_call
from gaf.dialects.graph.types import TensorType
from gaf.errors import GafError, InternalError, InvalidInputError, UnsupportedError

FRAMEWORKS = ("onnx", "torch")


class ForeignEffects(MemoryEffect):
    """No effects if the op's `pure` property says so, else unknown ones: it is neither merged nor removed."""

    @classmethod
    def get_effects(cls, op: Operation) -> set[EffectInstance] | None:
        assert isinstance(op, ForeignOp)
        return set() if op.pure.value.data else None


@graph_op
class ForeignOp(GraphOp):
    """One op of `framework` (onnx, torch), with its reference there; never part of a kernel.

    `node` is the op in text form. ONNX: the framework's own, with operands named i0, i1, ... (empty: an
    optional operand left out) and results o0, o1, ... PyTorch: the arguments of the call (torch_call.py);
    `domain` and `op_type` name the overload (`aten`, `topk.default`). Result types are part of the op: gaf
    has no rule that infers them.
    """

    name = "graph.foreign"
    framework = str_prop()
    domain = str_prop()
    op_type = str_prop()
    opset = int_prop()
    node = str_prop()
    pure = bool_prop()
    args = var_operand_def(TensorType)
    outs = var_result_def(TensorType)
    traits = traits_def(ForeignEffects())

    @classmethod
    def of(
        cls,
        framework: str,
        domain: str,
        op_type: str,
        opset: int,
        node: str,
        operands: Sequence[SSAValue],
        types: Sequence[TensorType],
        *,
        pure: bool = True,
        location: str | None = None,
    ) -> Self:
        """The op with results of `types`; results of `node` that nobody uses may be left out at the end."""
        op = cls.create(
            operands=list(operands),
            result_types=list(types),
            properties={
                "framework": StringAttr(framework),
                "domain": StringAttr(domain),
                "op_type": StringAttr(op_type),
                "opset": IntegerAttr(opset, i64),
                "node": StringAttr(node),
                "pure": BoolAttr.from_bool(pure),
            },
        )
        if location:
            op.location = NameLoc(StringAttr(location), NoneAttr())
        return op

    @classmethod
    def infer(cls, operands: Sequence[TensorType], attrs: Mapping[str, Any]) -> Sequence[TensorType]:
        raise InternalError("the types of graph.foreign come from its framework; use ForeignOp.of")

    def verify_(self) -> None:
        if self.framework.data not in FRAMEWORKS:
            raise VerifyException(
                f"graph.foreign: expected framework {' or '.join(FRAMEWORKS)}, got '{self.framework.data}'"
            )
        try:
            if self.framework.data == "torch":
                return torch_call.check_text(self.node.data, len(self.operands))
            node = parse_node(self.node.data)
        except GafError as error:
            raise VerifyException(f"graph.foreign: {error}") from None
        given = sum(1 for name in node.input if name)
        if given != len(self.operands) or len(node.output) < len(self.results):
            raise VerifyException(
                f"graph.foreign: the node has {given} operands and {len(node.output)} results, "
                f"got {len(self.operands)} and {len(self.results)}"
            )

    @property
    def qualified_name(self) -> str:
        """`TopK`, or `com.acme.Gate` outside the framework's own domain."""
        return f"{self.domain.data}.{self.op_type.data}" if self.domain.data else self.op_type.data

    def reference(self, *args: np.ndarray, wide: bool = False) -> Sequence[np.ndarray]:
        return self.reference_with_symbols(*args, env={}, wide=wide)

    def reference_with_symbols(
        self, *args: np.ndarray, env: Mapping[str, int], wide: bool = False
    ) -> Sequence[np.ndarray]:
        """What `onnx.reference` or the PyTorch op computes.

        With `wide`, in float64 where the framework's implementation can, otherwise in the op's own dtypes.
        """
        kinds = [t.dtype for t in self.operand_tensor_types()]
        results: Sequence[Any] | None = None
        if self.framework.data == "torch":
            results = torch_call.run_call(self.qualified_name, self.node.data, args, kinds, env, wide)
            return self._rounded(results, wide)
        if wide:
            try:
                results = self._run(args, [a.dtype for a in args])
            except Exception:  # some implementations insist on the dtypes of the standard
                args = tuple(a.astype(k.numpy) if k.is_float else a for a, k in zip(args, kinds))
        if results is None:
            results = self._run(args, [k.numpy for k in kinds])
        return self._rounded(results, wide)

    def _rounded(self, results: Sequence[Any], wide: bool) -> list[np.ndarray]:
        outs: list[np.ndarray] = []
        for result, type_ in zip(results, self.result_tensor_types()):
            dtype = np.dtype(np.float64) if wide and type_.dtype.is_float else type_.dtype.numpy
            outs.append(np.asarray(result).astype(dtype, copy=False))
        return outs

    def _run(self, args: Sequence[np.ndarray], dtypes: Sequence[np.dtype]) -> Sequence[Any]:
        session = _evaluator(
            self.node.data,
            self.domain.data,
            self.opset.value.data,
            tuple(dt.of_numpy(d).onnx for d in dtypes),
        )
        names = (name for name in parse_node(self.node.data).input if name)
        return session.run(None, dict(zip(names, args)))

    def meaning(self) -> OpMeaning:
        return Opaque(f"{self.qualified_name} runs on the host: gaf has no op for it")

    def to_onnx(self, ctx: ExportContext, inputs: Sequence[str]) -> list[str]:
        if self.framework.data != "onnx":
            raise UnsupportedError(
                f"{self.qualified_name} of {self.framework.data} has no ONNX form",
                where=self.location_name(),
                hint="save as .mlir, or write the op with others",
            )
        node = parse_node(self.node.data)
        given = iter(inputs)
        operands = [next(given) if name else "" for name in node.input]
        attributes = {a.name: a for a in node.attribute}
        return ctx.node(self.op_type.data, operands, domain=self.domain.data, **attributes)


def parse_node(text: str) -> Any:
    """The onnx.NodeProto of a `node` property. Raises InvalidInputError."""
    from google.protobuf import text_format
    from onnx import NodeProto

    try:
        return text_format.Parse(text, NodeProto())
    except text_format.ParseError as error:
        raise InvalidInputError(f"the node's text is not an onnx.NodeProto: {error}") from None


@lru_cache(maxsize=256)
def _evaluator(text: str, domain: str, opset: int, dtypes: tuple[int, ...]) -> Any:
    """An onnx.reference session for one node. Raises UnsupportedError if onnx has no reference."""
    from onnx import helper
    from onnx.reference import ReferenceEvaluator

    node = parse_node(text)
    names = [name for name in node.input if name]
    inputs = [helper.make_tensor_value_info(n, d, None) for n, d in zip(names, dtypes)]
    outputs = [helper.make_empty_tensor_value_info(n) for n in node.output]
    opsets = [helper.make_opsetid(domain, opset)]
    model = helper.make_model(helper.make_graph([node], "foreign", inputs, outputs), opset_imports=opsets)
    try:
        return ReferenceEvaluator(model)
    except Exception as error:
        raise UnsupportedError(
            f"onnx has no reference for {domain or 'ai.onnx'}.{node.op_type}: {error}"
        ) from None
