# SPDX-License-Identifier: Apache-2.0
"""Reports: the figures are those of the model, and text, JSON and HTML say the same."""

from __future__ import annotations

from dataclasses import replace

import json
import re
from html.parser import HTMLParser
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from gaf.compiler import FusedModel, fuse
from gaf.config import FusionConfig
from gaf.fusion.cost import OpView
from gaf.frontend.load import load_model
from gaf.report.html import highlight, report_html
from gaf.report.model import Report, build_report
from gaf.report.text import bytes_text, log_lines, log_stream

WIDTH, ROWS = 16, 7


APART = FusionConfig(max_fusion_depth=1)
"""Keeps two matmuls in kernels of their own, whatever fusion could do."""


def two_kernels(
    extra: list[onnx.NodeProto] | None = None, outputs: tuple[str, ...] = ("y",)
) -> onnx.ModelProto:
    """y = relu(x @ w + c) @ w with a name that HTML has to escape; c is computed from constants."""
    rng = np.random.default_rng(1)
    weights = {
        n: rng.normal(size=s).astype(np.float32) for n, s in (("w", (WIDTH, WIDTH)), ("c0", (WIDTH, 5)))
    }
    nodes = [
        helper.make_node("ReduceSum", ["c0", "one"], ["c"], name="constant", keepdims=0),
        helper.make_node("MatMul", ["x", "w"], ["m"], name="project"),
        helper.make_node("Add", ["m", "c"], ["s"], name="shift<script>&"),
        helper.make_node("Relu", ["s"], ["a"], name="act"),
        helper.make_node("MatMul", ["a", "w"], ["y"], name="second"),
        *(extra or []),
    ]
    tensors = [numpy_helper.from_array(a, n) for n, a in (weights | {"one": np.array([1])}).items()]
    graph = helper.make_graph(
        nodes,
        "two",
        [helper.make_tensor_value_info("x", 1, ["N", WIDTH])],
        [helper.make_empty_tensor_value_info(o) for o in outputs],
        tensors,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)


@pytest.fixture(scope="module")
def fused() -> FusedModel:
    return fuse(load_model(two_kernels()), APART)


@pytest.fixture(scope="module")
def report(fused: FusedModel) -> Report:
    return build_report(fused, fused.verify(engine="interpreter"), {"N": ROWS})


def test_bytes_are_counted_by_hand(report: Report) -> None:
    row, vector, weight = 4 * ROWS * WIDTH, 4 * WIDTH, 4 * WIDTH * WIDTH
    # c is computed when the model is loaded, whoever runs it
    first, second = 2 * row + weight + vector, 2 * row + weight
    assert report.bytes_before == (2 * row + weight) + (2 * row + vector) + 2 * row + second
    assert [s.bytes for s in report.steps] == [first, second]
    assert report.bytes_after == first + second
    assert report.memory_saved == 1 - report.bytes_after / report.bytes_before


def test_figures(report: Report) -> None:
    assert report.ops_before == 5
    assert (report.launches, report.kernels, report.float_ops_outside_kernels) == (1, 2, 0)
    assert report.symbols == {"N": ROWS}
    assert [s.pattern for s in report.steps] == ["MatMul+Add+Relu", "MatMul"]
    assert report.steps[0].inputs == ["x"] and report.steps[1].sources == [0]
    assert report.fusions == {"matmul": 1}
    assert [(c.pattern, c.applied) for c in report.candidates] == [("MatMul+Add+Relu", True)]
    refusals = [d for d in report.decisions if not d.fused]
    assert [(d.producer, d.consumer) for d in refusals] == [("project + shift<script>& + act", "second")]
    assert refusals[0].reason


def test_kernels_name_members_and_buffers(report: Report, fused: FusedModel) -> None:
    by_pattern = {k.pattern: k for k in report.kernel_list if k.launches}
    kernel = by_pattern["MatMul+Add+Relu"]
    assert kernel.members == ["project", "shift<script>&", "act"]
    assert kernel.source == f"kernels/{kernel.name}.cpp"
    assert kernel.error is not None and kernel.tolerance is not None and 0 < kernel.error < kernel.tolerance
    assert kernel.on_chip and all(
        sum(b.bytes for b in kernel.buffers if b.space == space) == used
        for space, used in kernel.on_chip.items()
    )
    launch = next(k for k in fused.kernels if k.name == kernel.name).host.evaluate({"N": ROWS})
    assert (kernel.blocks, kernel.workspace) == (launch.blocks, launch.workspace)


def test_every_op_on_its_own_moves_more(report: Report) -> None:
    apart = build_report(
        fuse(load_model(two_kernels()), FusionConfig(enable_autofuse=False)), symbols={"N": ROWS}
    )
    assert apart.kernels == 4 and apart.launches < 4 and apart.fusions == {} and apart.candidates == []
    assert apart.bytes_before == apart.bytes_after == report.bytes_before


def test_host_ops_count_as_kernels() -> None:
    unique = helper.make_node("NonZero", ["y"], ["where"], name="find")
    report = build_report(fuse(load_model(two_kernels([unique], ("where",))), APART))
    assert [(h.op, h.count, h.nodes) for h in report.host] == [("NonZero", 1, ["find"])]
    assert report.kernels == 3 and report.launches == 1
    assert report.steps[-1].kernel is None and report.steps[-1].sources == [1]
    assert report.float_ops_outside_kernels == 0
    assert "on the host" in str(report)


def test_json_is_complete_and_stable(report: Report, fused: FusedModel) -> None:
    text = json.dumps(report.to_json(), allow_nan=False)
    again = build_report(
        fuse(load_model(two_kernels()), APART), fused.verify(engine="interpreter"), {"N": ROWS}
    )
    assert json.dumps(again.to_json(), allow_nan=False) == text
    data = json.loads(text)
    assert data["schema"] == 1
    assert data["figures"]["kernels"] == 2
    assert data["verification"]["ok"] is True
    assert not re.search(r"\d{4}-\d\d-\d\d|seconds|/home|/tmp", text)


def test_infinite_errors_are_text(fused: FusedModel) -> None:
    result = fused.verify(engine="interpreter")
    result.outputs[0].error = float("inf")
    report = build_report(fused, result)
    data = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert data["verification"]["outputs"][0]["error"] == "inf" and data["verification"]["ok"] is False
    assert "differs: output 'y': error inf" in str(report)
    assert "FAILED" in report_html(report, {})


def test_text(report: Report) -> None:
    text = str(report)
    assert re.search(r"^ops in the model +5$", text, re.MULTILINE)
    assert re.search(rf"^bytes moved after +{re.escape(bytes_text(report.bytes_after))} ", text, re.MULTILINE)
    assert re.search(r"^matmul_add_relu +1 +matmul ", text, re.MULTILINE)
    assert f"1  {next(d.reason for d in report.decisions if not d.fused)}" in text
    assert all(line == line.rstrip() for line in text.splitlines())


# -- HTML -----------------------------------------------------------------------------------------


class Page(HTMLParser):
    """Collects what a page refers to, its text, and whether every tag is closed."""

    VOID = {"meta", "input", "br", "path", "rect", "wbr"}

    def __init__(self, html: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: list[str] = []
        self.tags: list[str] = []
        self.open: list[str] = []
        self.text: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name in ("src", "href", "action", "data"):
                self.links.append(value or "")
            if name == "id":
                self.ids.append(value or "")
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.fixture(scope="module")
def page(report: Report, fused: FusedModel) -> Page:
    return Page(report_html(report, {k.name: k.source for k in fused.kernels}))


def test_html_needs_no_network(report: Report, fused: FusedModel) -> None:
    html = report_html(report, {k.name: k.source for k in fused.kernels})
    assert not re.search(
        r"https?:|//\w+\.\w+/|url\(|@import|<link|<img|<iframe|\bfetch\(|XMLHttpRequest", html
    )


def test_html_is_well_formed_and_links_resolve(page: Page, report: Report) -> None:
    assert page.open == []
    assert page.links and all(link.startswith("#") and link[1:] in page.ids for link in page.links)
    assert len(page.ids) == len(set(page.ids))
    for kernel in report.kernel_list:
        assert f"kernel-{kernel.name}" in page.ids


def test_html_shows_everything_and_escapes_names(page: Page, report: Report, fused: FusedModel) -> None:
    text = "".join(page.text)
    assert page.tags.count("script") == 1
    assert "shift<script>&" in text
    for kernel in fused.kernels:
        assert kernel.source in text
    for decision in report.decisions:
        assert decision.reason in text
    assert "5 → 2" in text and bytes_text(report.bytes_after) in text
    assert "算子" in text


def test_html_is_stable(report: Report, fused: FusedModel) -> None:
    sources = {k.name: k.source for k in fused.kernels}
    assert report_html(report, sources) == report_html(report, sources)


def test_highlight_keeps_the_text() -> None:
    source = '// a < b\n#include "x.h"\nfor (int32_t i = 0; i < 3; ++i) {\n    Add(a[i], "q\\"<", 1.5f);  /* & */\n}\n'
    marked = highlight(source)
    assert "".join(Page(marked).text) == source
    assert '<span class="k">for</span>' in marked and '<span class="f">Add</span>' in marked
    assert '<span class="c">// a &lt; b</span>' in marked and '<span class="d">1.5f</span>' in marked


# -- log lines --------------------------------------------------------------------------------------


def test_every_candidate_is_in_one_log_line(report: Report) -> None:
    lines = log_lines(report)
    detected = [
        re.fullmatch(r"\[GRAPH_AUTOFUSION\] Detected (\d+) (\S+) fusion opportunities", line)
        for line in lines[:-1]
    ]
    assert all(detected)
    assert sum(int(m[1]) for m in detected if m) == len(report.candidates)
    assert lines[-1] == "[GRAPH_AUTOFUSION] Applied 1/1 fusions successfully"


def test_candidates_that_were_given_up_are_counted(fused: FusedModel) -> None:
    (joined,) = fused.candidates[:1]
    views = tuple(OpView(op) for op in fused.source_model.block.ops if not op.regions)[:2]
    gone = replace(joined, subgraph=replace(joined.subgraph, ops=views))
    other = replace(fused, candidates=[*fused.candidates, gone])
    for view, name in zip(views, ("first", "second")):
        vars(view)["name"] = name
    report = build_report(other)
    assert [(c.members, c.applied) for c in report.candidates][-1] == (["first", "second"], False)
    assert log_lines(report)[-1] == "[GRAPH_AUTOFUSION] Applied 1/2 fusions successfully"


@pytest.mark.parametrize(
    ("environ", "stream"),
    [
        ({}, None),
        ({"ASCEND_GLOBAL_LOG_LEVEL": "3"}, None),
        ({"ASCEND_GLOBAL_LOG_LEVEL": "1"}, "stderr"),
        ({"ASCEND_GLOBAL_LOG_LEVEL": "0"}, "stderr"),
        ({"ASCEND_GLOBAL_LOG_LEVEL": "nonsense"}, None),
        ({"ASCEND_GLOBAL_LOG_LEVEL": "1", "ASCEND_SLOG_PRINT_TO_STDOUT": "1"}, "stdout"),
        ({"ASCEND_SLOG_PRINT_TO_STDOUT": "0"}, None),
    ],
)
def test_log_stream(environ: dict[str, str], stream: str | None) -> None:
    import sys

    expected: Any = None if stream is None else getattr(sys, stream)
    assert log_stream(environ) is expected
