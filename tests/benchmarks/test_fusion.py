# SPDX-License-Identifier: Apache-2.0
"""`benchmarks.fusion`: its JSON has all keys, and the figures of a known network hold."""

from __future__ import annotations

import json

import pytest

from benchmarks.fusion import cases, main

KEYS = {
    "kernels", "mb", "l2_mb", "compulsory_mb", "unfused_kernels", "unfused_mb", "us", "unfused_us", "gap_pct",
    "search_s", "unverified", "time_kernels", "time_mb", "time_us",
}  # fmt: skip


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--models", "ln_gate_linear_b1", "dlrm_b128", "--json"]) == 0
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
        "ln_gate_linear_b1", "ln_gate_linear_b16", "bert_base_b1_s128", "bert_base_b16_s512", "gpt2_b1_s128",
        "llama_block_s2048", "vit_b1", "resnet50_b1", "resnet50_b16", "dlrm_b128",
    ]  # fmt: skip
