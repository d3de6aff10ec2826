# SPDX-License-Identifier: Apache-2.0
"""Rules of users: patterns match by name and macro, illegal groups are refused, faults are named."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

import gaf
from gaf.config import REWRITES
from gaf.dialects.common import dtype as dt
from gaf.dialects.graph.model import Model
from gaf.dialects.graph.ops.activation import GeluOp
from gaf.dialects.graph.ops.binary import AddOp, DivOp, MulOp
from gaf.dialects.graph.ops.foreign import ForeignOp
from gaf.dialects.graph.ops.matmul import MatMulOp
from gaf.dialects.graph.ops.norm import LayerNormOp
from gaf.dialects.graph.ops.softmax import SoftmaxOp
from gaf.dialects.graph.ops.unary import ErfOp, ExpOp, ReluOp, SigmoidOp, TanhOp
from gaf.errors import InvalidInputError
from gaf.fusion.rules import FusionRule, registered_rules
from tests.fusion.helpers import Net, members, plan


@pytest.fixture(autouse=True)
def clean_registry() -> Iterator[None]:
    with gaf.fusion_rules(only=True):
        yield


def chain() -> Model:
    """exp -> relu -> tanh -> exp on one tensor."""
    n = Net(x=[64, 128])
    y = n["x"]
    for op, name in ((ExpOp, "a"), (ReluOp, "b"), (TanhOp, "c"), (ExpOp, "d")):
        y = n.op(op, y, name=name)
    return n.finish(y)


def joined(p: Any) -> list[list[str]]:
    return [g for g in members(p) if len(g) > 1]


def test_without_autofuse_only_rules_join() -> None:
    assert joined(plan(chain(), enable_autofuse=False)) == []
    with gaf.fusion_rules(FusionRule("ab", [("first", ["Exp"]), ("second", ["ReLU"])])):
        p = plan(chain(), enable_autofuse=False)
    assert joined(p) == [["a", "b"]]
    (c,) = p.candidates
    assert c.rule == "ab" and str(c.subgraph) == "Exp + Relu" and c.gain > 0
    assert joined(plan(chain(), enable_autofuse=False)) == []


def test_a_slot_takes_a_connected_group_of_its_names() -> None:
    with gaf.fusion_rules(FusionRule("abc", [("first", ["Exp"]), ("more", ["Relu", "Tanh"])])):
        assert joined(plan(chain(), enable_autofuse=False)) == [["a", "b", "c"]]


def gated(spelled: bool) -> Model:
    n = Net(x=[64, 48], g=[48], b=[48], r=[64, 48])
    x = n.op(AddOp, n["x"], n["r"], name="residual")
    y = (
        n.layer_norm(x, 48)
        if spelled
        else n.op(LayerNormOp, x, n["g"], n["b"], axis=-1, epsilon=1e-5, stash=False, name="norm")
    )
    y = n.op(MulOp, y, n.op(SigmoidOp, y, name="sigmoid"), name="mul")
    return n.finish(y)


class NormGate(gaf.FusionRule):
    name = "norm_gate"
    pattern = [("norm", ["LayerNorm", "RMSNorm"]), ("gate", ["Mul", "Sigmoid", "Gelu"])]

    def evaluate_gain(self, subgraph: Any) -> float:
        return 0.7 * self.estimate_memory_reduction(subgraph) + 0.3


@pytest.mark.parametrize("spelled", [False, True])
def test_a_macro_matches_as_one_node_or_spelled_out(spelled: bool) -> None:
    with gaf.fusion_rules(NormGate()):
        p = plan(gated(spelled), enable_autofuse=False)
    (group,) = joined(p)
    assert len(group) == (11 if spelled else 3) and {"sigmoid", "mul"} <= set(group)
    (c,) = p.candidates
    assert str(c.subgraph) == "LayerNorm + Silu"  # n * sigmoid(n)


def test_names_of_scale_and_softmax() -> None:
    n = Net(x=[4, 8, 64], w=[4, 64, 32])
    y = n.op(DivOp, n.op(MatMulOp, n["x"], n["w"]), n.constant(8.0))
    model = n.finish(n.op(SoftmaxOp, y, axes=(-1,)))
    (c,) = gaf.Autofuse().find_fusion_opportunities(model)
    assert str(c.subgraph) == "MatMul + Scale + Softmax"


def test_an_illegal_match_is_refused_with_the_reason() -> None:
    n = Net(a=[24, 24], b=[24, 24])
    y = n["a"]
    for name in "wxyz":
        y = n.op(MatMulOp, y, n["b"], name=name)
    with gaf.fusion_rules(FusionRule("no", [(slot, ["MatMul"]) for slot in "abcd"], lambda s: 1.0)):
        p = plan(n.finish(y), enable_autofuse=False)
    assert joined(p) == []
    (refused,) = [d for d in p.decisions if d.rule == "no"]
    assert not refused.fused and "4 matmuls in a row" in refused.reason and refused.members == ["w", "x", "y", "z"]


def test_a_match_that_is_not_convex_is_refused() -> None:
    n = Net(x=[32, 64])
    a = n.op(ExpOp, n["x"], name="a")
    b = n.op(TanhOp, a, name="b")
    c = n.op(AddOp, a, b, name="c")
    with gaf.fusion_rules(FusionRule("skip", [("a", ["Exp"]), ("c", ["Add"])])):
        p = plan(n.finish(c), enable_autofuse=False)
    assert joined(p) == []
    assert any(d.rule == "skip" and "leaves and re-enters" in d.reason for d in p.decisions)


def test_the_threshold_holds_for_rules() -> None:
    with gaf.fusion_rules(FusionRule("weak", [("a", ["Exp"]), ("b", ["Relu"])], lambda s: 0.2)):
        p = plan(chain(), enable_autofuse=False, cost_threshold=0.25)
        assert joined(p) == [] and any("gain 20.0 % < cost_threshold 25 %" in d.reason for d in p.decisions)
        assert joined(plan(chain(), enable_autofuse=False, cost_threshold=0.15)) == [["a", "b"]]
        assert joined(plan(chain(), enable_autofuse=False, disabled_rules=("weak",))) == []


def test_the_rule_with_the_higher_gain_wins() -> None:
    low = FusionRule("low", [("a", ["Exp"]), ("b", ["Relu"])], lambda s: 0.3)
    high = FusionRule("high", [("b", ["Relu"]), ("c", ["Tanh"])], lambda s: 0.6)
    with gaf.fusion_rules(low, high):
        p = plan(chain(), enable_autofuse=False)
    assert joined(p) == [["b", "c"]]
    assert any(d.rule == "low" and "belongs to a match of rule 'high'" in d.reason for d in p.decisions)


# -- faults -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gain", "text"),
    [
        (lambda s: float("nan"), "bad gain"), (lambda s: -0.5, "bad gain"), (lambda s: "much", "ValueError"),
        (lambda s: 1 / 0, "ZeroDivisionError"), (lambda s: None, "TypeError"),
    ],
)  # fmt: skip
def test_a_faulty_gain_is_reported_and_the_rest_goes_on(gain: Any, text: str) -> None:
    with gaf.fusion_rules(FusionRule("faulty", [("a", ["Exp"]), ("b", ["Relu"])], gain)):
        with pytest.warns(gaf.RuleWarning, match="rule 'faulty' at node 'a'"):
            p = plan(chain())
        assert joined(p) == [["a", "b", "c", "d"]]
        assert any(text in note for note in p.notes)
        with pytest.raises(gaf.InvalidInputError, match="rule 'faulty' at node 'a'"):
            plan(chain(), rule_errors="raise")


def test_a_gain_above_one_is_clamped_with_a_warning() -> None:
    with gaf.fusion_rules(FusionRule("greedy", [("a", ["Exp"]), ("b", ["Relu"])], lambda s: 3.0)):
        with pytest.warns(gaf.RuleWarning, match="taken as 1"):
            assert joined(plan(chain(), enable_autofuse=False)) == [["a", "b"]]


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ([], "names nothing"),
        ([("a", [])], "names nothing"),
        ("Exp", "list of slots"),
        ([("a",)], "a pair"),
        ([("a", [""])], "names nothing"),
        ([("a", ["LayrNorm"])], "did you mean 'LayerNorm'"),
        (None, "list of slots"),
        ([("a", ["Exp"], "optional")], "names nothing"),
    ],
)
def test_a_bad_pattern_is_an_error_that_names_the_rule(pattern: Any, text: str) -> None:
    rule = FusionRule("bad")
    rule.pattern = pattern
    with pytest.raises(gaf.InvalidInputError, match=text) as error:
        gaf.register_fusion_rule(rule)
    assert "bad" in str(error.value) and registered_rules() == ()


def test_a_pattern_of_unknown_ops_says_that_nothing_matched() -> None:
    with gaf.fusion_rules(FusionRule("mine", [("a", ["AcmeGate"]), ("b", ["Relu"])])):
        p = plan(chain())
    assert p.notes == ["rule 'mine': the model has no AcmeGate"]


def test_registration_is_scoped_and_unique() -> None:
    rule = FusionRule("r", [("a", ["Exp"])])
    assert gaf.register_fusion_rule(rule) is rule and gaf.register_fusion_rule(rule) is rule
    with pytest.raises(gaf.InvalidInputError, match="'r' already"):
        gaf.register_fusion_rule(FusionRule("r", [("a", ["Exp"])]))
    with gaf.fusion_rules(FusionRule("inner", [("a", ["Exp"])])):
        assert [r.title for r in registered_rules()] == ["r", "inner"]
    assert [r.title for r in registered_rules()] == ["r"]
    gaf.unregister_fusion_rule("r")
    with pytest.raises(gaf.InvalidInputError, match="no fusion rule 'r'"):
        gaf.unregister_fusion_rule(rule)
    with pytest.raises(gaf.InvalidInputError, match=r"NormGate\(\)"):
        gaf.register_fusion_rule(NormGate)  # type: ignore[arg-type]


# -- register_fusion ----------------------------------------------------------------------------------


def test_register_fusion_names_the_kernel() -> None:
    @gaf.register_fusion("Exp", "ReLU")
    class ExpRelu:
        def pattern(self) -> gaf.Pattern:
            return gaf.Pattern("Exp") >> gaf.Pattern("ReLU")

        def generate(self, nodes: list[Any]) -> gaf.FusedNode:
            assert [n.type for n in nodes] == ["Exp", "Relu"]
            return gaf.FusedNode("FusedExpRelu", inputs=nodes[0].inputs)

    fused = gaf.fuse(chain(), gaf.FusionConfig(enable_autofuse=False))
    assert [k.name for k in fused.kernels][0] == "FusedExpRelu"
    assert fused.verify(engine="interpreter").ok
    gaf.unregister_fusion(ExpRelu)
    assert registered_rules() == ()


def test_alternatives_and_faults_of_register_fusion() -> None:
    either = gaf.Pattern("Relu") | gaf.Pattern("Tanh")
    assert repr(gaf.Pattern("Exp") >> either) == "Exp >> Relu|Tanh"
    with pytest.raises(gaf.InvalidInputError, match="needs the name"):
        gaf.Pattern("")
    with pytest.raises(gaf.InvalidInputError, match="lacks"):

        @gaf.register_fusion("Softmax")
        class Wrong:
            def pattern(self) -> gaf.Pattern:
                return gaf.Pattern("Exp")

    @gaf.register_fusion("Exp", "ReLU")
    class NoNode:
        def generate(self, nodes: list[Any]) -> Any:
            return "kernel"

    with pytest.warns(gaf.RuleWarning, match="'NoNode' at node 'a': generate must return a FusedNode"):
        plan(chain())


def test_an_opaque_op_has_no_kernel_whatever_a_rule_says() -> None:
    n = Net(x=[4, 8])
    node = 'op_type: "CustomOp" domain: "acme" input: "i0" output: "o0"'
    op = ForeignOp.of("onnx", "acme", "CustomOp", 1, node, [n["x"]], [n["x"].type], location="custom")  # type: ignore[list-item]
    n.model.block.add_op(op)
    model = n.finish(n.op(ReluOp, op.results[0], name="relu"))

    @gaf.register_fusion("CustomOp", "ReLU")
    class CustomOpReLU:
        def pattern(self) -> gaf.Pattern:
            return gaf.Pattern("CustomOp") >> gaf.Pattern("ReLU")

        def generate(self, nodes: list[Any]) -> gaf.FusedNode:
            return gaf.FusedNode("FusedCustomOpReLU", inputs=nodes[0].inputs)

    p = plan(model)
    (refused,) = [d for d in p.decisions if d.rule == "CustomOpReLU"]
    assert not refused.fused and "custom has no kernel" in refused.reason


# -- ATB ----------------------------------------------------------------------------------------------


def transformer_layer() -> Model:
    n = Net(q=[2, 8, 16], k=[2, 16, 8], v=[2, 8, 16], r=[2, 8, 16], g=[16], b=[16])
    scores = n.op(DivOp, n.op(MatMulOp, n["q"], n["k"], name="qk"), n.constant(4.0), name="scale")
    context = n.op(MatMulOp, n.op(SoftmaxOp, scores, axes=(-1,), name="softmax"), n["v"], name="pv")
    x = n.op(AddOp, context, n["r"], name="residual")
    x = n.op(LayerNormOp, x, n["g"], n["b"], axis=-1, epsilon=1e-5, stash=False, name="norm")
    y = n.linear(x, 16, 32, "up")
    half = n.op(AddOp, n.op(ErfOp, n.op(DivOp, y, n.constant(2.0**0.5))), n.constant(1.0))
    y = n.op(MulOp, n.op(MulOp, y, half), n.constant(0.5))
    return n.finish(n.op(TanhOp, y, name="tail"))


def test_atb_leaves_whole_patterns_alone_and_says_so() -> None:
    p = plan(transformer_layer(), atb="prefer")
    assert [name for name, _ in p.left_alone] == [
        "SelfAttention",
        "LayerNorm with residual",
        "Linear with activation",
    ]
    assert members(p) == [["tail"]]
    assert set(p.host.values()) == {f"left to ATB: {name}" for name, _ in p.left_alone}
    assert plan(transformer_layer()).host == {}


def test_single_ops_are_no_reason_to_leave_them_to_atb() -> None:
    n = Net(x=[16, 64])
    model = n.finish(n.op(GeluOp, n.op(SoftmaxOp, n["x"], axes=(-1,)), approximate="none"))
    assert plan(model, atb="prefer").left_alone == []


def test_values(dtype: dt.DType = dt.F32) -> None:
    """Rules change which ops share a kernel, never what they compute."""
    with gaf.fusion_rules(NormGate()):
        fused = gaf.fuse(gated(True), gaf.FusionConfig(enable_autofuse=False))
    assert fused.verify(engine="tile").ok


class Broken(gaf.CostModel):
    """A price that is no number, deep inside the model."""

    def price(self, work, *args, **kwargs):
        return replace(super().price(work, *args, **kwargs), us=float("nan"))


def test_a_price_that_is_no_number_names_model_and_node() -> None:
    with pytest.raises(InvalidInputError, match="cost model 'Broken' returned a bad time from price") as found:
        gaf.fuse(chain(), gaf.FusionConfig(cost_model=Broken()))
    assert found.value.where


def test_a_name_that_no_op_has_is_noted_with_the_nearest() -> None:
    with gaf.fusion_rules(gaf.FusionRule("typo", [("product", ["Matmool"])], lambda s: 1.0)):
        notes = plan(chain()).notes
    assert notes == ["rule 'typo': the model has no Matmool; did you mean MatMul?"]


def test_switching_off_what_isnt_there_is_an_error() -> None:
    with pytest.raises(InvalidInputError, match="no rule or rewrite is called 'pack-matmul'") as found:
        gaf.fuse(chain(), gaf.FusionConfig(disabled_rules=("pack-matmul",)))
    assert "did you mean 'pack-matmuls'" in str(found.value)
    for name in REWRITES:
        assert gaf.fuse(chain(), gaf.FusionConfig(disabled_rules=(name,))).kernels
