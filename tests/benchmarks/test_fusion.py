# SPDX-License-Identifier: Apache-2.0
"""`benchmarks.fusion`: its JSON has all keys, and the figures of a known network hold."""

from __future__ import annotations

import json

import pytest

from benchmarks import fusion
from benchmarks.fusion import cases, groups_of_small, main
from gaf.runtime.compiler import find_compiler

KEYS = {
    "kernels", "mb", "l2_mb", "compulsory_mb", "unfused_kernels", "unfused_mb", "us", "unfused_us", "gap_pct",
    "search_s", "unverified", "time_kernels", "time_mb", "time_us",
}  # fmt: skip


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--models", "ln_gate_linear_b1", "dlrm_b128", "--json", "--no-verify"]) == 0
    data = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert data["name"] == "fusion" and set(data["figures"]) == {"ln_gate_linear_b1", "dlrm_b128"}
    for found in data["figures"].values():
        assert KEYS <= found.keys()
        assert found["compulsory_mb"] <= found["mb"] * 1.001 <= found["unfused_mb"] * 1.001
        assert found["kernels"] <= found["unfused_kernels"] and found["us"] <= found["unfused_us"]
    norm = data["figures"]["ln_gate_linear_b1"]
    assert norm["unfused_kernels"] == 4 and norm["unfused_mb"] == pytest.approx(16.5, abs=0.1)
    assert norm["compulsory_mb"] == pytest.approx(5.5, abs=0.1)


def test_all_networks_are_there() -> None:
    assert list(cases()) == [
        "ln_gate_linear_b1", "ln_gate_linear_b16", "bert_base_b1_s128", "bert_base_b16_s512",
        "bert_base_tp2_b16_s512", "gpt2_b1_s128", "llama_block_s2048", "vit_b1", "resnet50_b1", "resnet50_b16", "dlrm_b128",
    ]  # fmt: skip


def test_last_layers_correspond() -> None:
    groups = [("x",), ("h.0/a", "h.0/b"), ("h.1/a", "h.1/b"), ("h.2/a", "h.2/b"), ("h.11/b", "out")]
    small = groups_of_small(groups, ["x", "h.0/a", "h.0/b", "h.1/a", "h.1/b", "h.2/a", "h.2/b", "out"])
    assert small == [("x",), ("h.0/a", "h.0/b"), ("h.1/a", "h.1/b"), ("h.2/b", "out")]


@pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")
def test_a_kernel_counts_only_when_it_verifies(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One whose pattern the small network doesn't have, or gets wrong, is listed and counted op by op."""

    def figures() -> dict[str, object]:
        assert main(["--models", "ln_gate_linear_b1", "--json"]) == 0
        return json.loads(capsys.readouterr().out.strip().splitlines()[-1])["figures"]["ln_gate_linear_b1"]

    proven = figures()
    assert proven["unverified"] == [] and proven["kernels"] == 1
    monkeypatch.setattr(fusion, "verified_patterns", lambda *_: {})
    apart = figures()
    assert len(apart["unverified"]) == 1 and apart["kernels"] == apart["unfused_kernels"]  # type: ignore[arg-type]
