# SPDX-License-Identifier: Apache-2.0
"""Kernels with one seeded mistake each: check mode must name it, and must be silent on the correct kernel."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import numpy as np
import pytest

from gaf.runtime.compiler import find_compiler
from gaf.runtime.twin import LaunchResult, TwinKernel, build_kernels

KERNELS = Path(__file__).parent / "check_kernels"
pytestmark = pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")

# Rule of the first violation that each fault must give.
VECTOR_FAULTS = {
    "MISSING_BARRIER": "missing-barrier",
    "MISSING_MTE2_V": "missing-sync",
    "MISSING_V_MTE3": "missing-sync",
    "MISSING_V_MTE2": "missing-sync",
    "MISSING_MTE3_MTE2": "missing-sync",
    "GET_VALUE_TOO_EARLY": "missing-sync",
    "SET_VALUE_THEN_VECTOR": "missing-sync",
    "FLAG_NEVER_WAITED": "flag-left-set",
    "FLAG_NEVER_SET": "wait-without-set",
    "FLAG_SET_TWICE": "flag-set-twice",
    "EVENT_ID_7": "event-id",
    "STORE_PAST_END": "out-of-bounds",
    "LOAD_PAST_END": "out-of-bounds",
    "UNALIGNED_OPERAND": "unaligned",
    "COUNT_TOO_LARGE": "tensor-bounds",
    "UNINITIALISED_TAIL": "uninitialised-read",
    "UNINITIALISED_TBUF": "uninitialised-read",
    "WORKSPACE_NOT_WRITTEN": "uninitialised-read",
    "OUTPUT_ROW_NOT_WRITTEN": "output-not-written",
    "OUTPUT_WRITTEN_TWICE": "missing-barrier",
    "WRITE_TO_INPUT": "write-to-input",
    "GM_VIEW_TOO_SMALL": "tensor-bounds",
    "DOUBLE_FREE": "double-free",
    "USE_AFTER_FREE": "use-after-free",
    "USE_BEFORE_DEQUE": "not-dequeued",
    "ENQUE_FORGOTTEN": "queue-deque",
    "FREE_FORGOTTEN": "queue-leak",
    "ALLOC_WITHOUT_FREE": "queue-alloc",
    "FOREIGN_TENSOR": "queue-owner",
    "UB_OVERFLOW": "memory-overflow",
    "UB_TOP_USED": "memory-overflow",
    "TOO_MANY_BUFFERS": "buffer-number",
    "TOO_MANY_TENSORS": "event-ids",
    "COMPARE_TAIL": "compare-count",
    "REPEAT_256": "narrowing",
    "REPEAT_STRIDE_256": "narrowing",
    "MASK_TOO_WIDE": "mask",
    "SECOND_MASK_WORD": "mask",
    "OPERANDS_OVERLAP": "operand-overlap",
    "ROWS_OVERLAP": "operand-overlap",
    "ACCUMULATOR_FIRST": "repeat-overlap",
    "TANH_IN_PLACE": "operand-overlap",
    "SELECT_NEEDS_RESERVED_UB": "reserved-ub",
    "COPY_COUNT": "copy-count",
    "PADDING_TOO_LONG": "copy-padding",
    "CAST_MODE": "cast-mode",
    "ATOMIC_LEFT_ON": "atomic-left-on",
    "CROSS_FLAG_IN_VECTOR_KERNEL": "cross-flag-kernel-type",
    "GATHER_OFFSET": "gather-offset",
    "MASK_MODE_LEFT": "counter-mode-left-on",
    "BLOCK_COUNT_5000": "copy-limits",
    "REDUCE_REPEAT_300": "repeat",
    "DST_BLOCK_STRIDE_0": "stride",
    "GM_SET_VALUE_NOT_CLEANED": "cache-not-cleaned",
    "ADDRESS_OF_NOBODY": "not-allocated",
    "SUB_TENSOR_PAST_END": "tensor-offset",
    "TENSOR_SIZE_STRETCHED": "buffer-overflow",
    "TBUF_PART_TOO_LARGE": "buffer-size",
    "TABLE_INDEX_TOO_LARGE": "gather-index",
    "ENQUE_TWICE": "queue-state",
    "ENQUE_BEYOND_DEPTH": "queue-depth",
    "BUFFER_NOT_INITIALISED": "buffer-init",
    "BUFFER_OF_CUBE_CORE": "wrong-position",
    "SECOND_TPIPE": "pipe-twice",
    "EVENT_OF_CUBE_CORE": "event-kind",
    "COMPARE_INT_LT": "compare-dtype",
    "SELECT_MODE": "select-mode",
    "TMP_TOO_SMALL": "tmp-size",
    "GATHER_PATTERN_9": "gather-mask-pattern",
    "TRAP": "trap",
}

MIX_FAULTS = {
    "FULL_FORGOTTEN": "race-between-cores",
    "FREE_FORGOTTEN": "race-between-cores",
    "FULL_FROM_PIPE_MTE1": "race-between-cores",
    "FULL_FROM_TWO_PIPES": "cross-flag-two-pipes",
    "FULL_ID_12": "cross-flag-id",
    "DRAIN_FORGOTTEN": "cross-flag-left-set",
    "FULL_NEVER_SET": "deadlock",
    "FREE_FROM_ONE_CORE": "deadlock",
    "MODE_MIXED": "cross-flag-mode",
    "HALVES_OVERLAP": "race-between-cores",
    "COUNTER_OVERFLOW": "cross-flag-overflow",
    "SYNC_ALL_FORGOTTEN": "race-between-cores",
    "SYNC_ALL_SKIPPED_BY_ONE": "deadlock",
    "MISSING_MTE2_MTE1": "missing-sync",
    "MISSING_MTE1_M": "missing-sync",
    "MISSING_M_FIX": "missing-sync",
    "MISSING_MTE1_MTE2": "missing-sync",
    "MISSING_M_MTE1": "missing-sync",
    "MISSING_FIX_M": "missing-sync",
    "MISSING_M_BARRIER": "missing-barrier",
    "SCALAR_EVENT_ON_CUBE": "event-kind",
    "K_NOT_FILLED": "uninitialised-read",
    "FIXPIPE_N_30": "uninitialised-read",  # row-major output takes any n: two columns stay unwritten
    "FIXPIPE_QUANT": "fixpipe-quant",
    "ND2NZ_STRIDE_70000": "narrowing",
    "ND2NZ_C0_STRIDE_0": "nd2nz-limits",
    "MMAD_K_5000": "mmad-limits",
    "L0A_OVERFLOW": "mmad-capacity",
    "OPERANDS_SWAPPED": "position",
    "TRANSPOSE_OF_FLOAT": "load-transpose",
    "FILL_TOO_LARGE": "fill-limits",
    "LOAD3D_WINDOW": "load3d-window",
    "COPY_L1_TO_L0": "copy-path",
    "VECTOR_CALL_ON_CUBE": "pipe-of-other-core",
    "TOO_MANY_BLOCKS": "too-many-blocks",
}


def faults(source: str) -> dict[str, int]:
    """Names of `enum Fault` in a kernel source and their numbers."""
    body = re.search(r"enum Fault : uint32_t \{(.*?)\};", (KERNELS / source).read_text(), re.S)
    assert body is not None
    text = re.sub(r"//.*", "", body.group(1)).replace("= 0", "")
    return {name: i for i, name in enumerate(re.findall(r"\w+", text))}


VECTOR = faults("vector_faults.cpp")
MIX = faults("mix_faults.cpp")


@pytest.fixture(scope="session")
def kernels() -> dict[str, TwinKernel]:
    names = ("vector_faults", "mix_faults")
    return build_kernels([(name, (KERNELS / f"{name}.cpp").read_text()) for name in names], mode="check")


def run_vector(kernel: TwinKernel, fault: str, lanes: int = 20) -> LaunchResult:
    """Run the vector kernel; the correct one must also compute the right values."""
    blocks, rows = 2, 4
    x = np.arange(blocks * rows * lanes, dtype=np.float32).reshape(-1, lanes)
    y = np.empty_like(x)
    result = kernel.launch([x, y], 1 << 16, struct.pack("<3I", VECTOR[fault], rows, lanes), blocks, outputs=1)
    if fault == "NONE":
        np.testing.assert_array_equal(y, 2 * (x + 1))
    return result


def run_mix(kernel: TwinKernel, fault: str, blocks: int = 2, tiles: int = 5) -> LaunchResult:
    rng = np.random.default_rng(0)
    a = rng.integers(-4, 5, (blocks * tiles * 32, 32)).astype(np.float16)
    b = rng.integers(-4, 5, (32, 32)).astype(np.float16)
    y = np.empty((len(a), 32), np.float32)
    z = np.empty((blocks * 2 * 16, 32), np.float32)
    if fault == "TOO_MANY_BLOCKS":
        blocks, tiles = 25, 1
        a = np.zeros((800, 32), np.float16)
        y, z = np.empty((800, 32), np.float32), np.empty((800, 32), np.float32)
    if fault == "COUNTER_OVERFLOW":
        tiles = 18
        a, y = np.tile(a, (4, 1))[: blocks * tiles * 32], np.empty((blocks * tiles * 32, 32), np.float32)
    result = kernel.launch([a, b, y, z], 1 << 18, struct.pack("<2I", MIX[fault], tiles), blocks, outputs=2)
    if fault == "NONE":
        np.testing.assert_array_equal(y, np.maximum(a.astype(np.float32) @ b.astype(np.float32).T, 0))
        halves = y.reshape(blocks, tiles, 2, 16, 32)[:, 0].reshape(-1, 16, 32)
        np.testing.assert_array_equal(z.reshape(-1, 16, 32), np.roll(halves, -1, axis=0))
    return result


def test_every_fault_is_expected() -> None:
    assert set(VECTOR) == {"NONE", *VECTOR_FAULTS, "FAULT_COUNT"}
    assert set(MIX) == {"NONE", "FULL_FROM_PIPES_IN_ORDER", *MIX_FAULTS, "FAULT_COUNT"}


def test_correct_kernels_pass(kernels: dict[str, TwinKernel]) -> None:
    for lanes in (8, 20, 64, 1):
        assert run_vector(kernels["vector_faults"], "NONE", lanes=lanes).violations == []
    for tiles in (1, 2, 3, 20):
        assert run_mix(kernels["mix_faults"], "NONE", tiles=tiles).violations == []


@pytest.mark.parametrize("fault", VECTOR_FAULTS)
def test_vector_fault(kernels: dict[str, TwinKernel], fault: str) -> None:
    violations = run_vector(kernels["vector_faults"], fault).violations
    assert violations and violations[0]["rule"] == VECTOR_FAULTS[fault], violations


def test_facts_of_the_first_violation(kernels: dict[str, TwinKernel]) -> None:
    violation = run_vector(kernels["vector_faults"], "MISSING_BARRIER").violations[0]
    assert violation["kernel"] == "vector_faults"
    assert violation["api"] == "Muls" and violation["operand"] == "src"
    assert violation["core"] == "AIV 0" and violation["pipe"] == "V" and violation["node"] == "model/double"
    assert violation["buffer"] == "VECOUT queue 0" and violation["offset"] == 0
    assert "Adds (pipe V, node model/double) wrote without order: PipeBarrier<PIPE_V>" in violation["message"]
    # 2 cores, 4 rows each; of each row the read and the write of Muls, in two buffers
    assert violation["rule_count"] == 2 * 4 * 2


def test_no_write_outside_of_an_output(kernels: dict[str, TwinKernel]) -> None:
    x = np.ones((8, 20), np.float32)
    memory = np.full((9, 20), 7, np.float32)
    tiling = struct.pack("<3I", VECTOR["STORE_PAST_END"], 4, 20)
    result = kernels["vector_faults"].launch([x, memory[:8]], 1 << 16, tiling, 2, outputs=1)
    assert [v["rule"] for v in result.violations] == ["out-of-bounds", "output-not-written"]
    assert (memory[8] == 7).all() and (memory[:7] == 4).all()


def test_pipes_may_take_turns_with_a_flag(kernels: dict[str, TwinKernel]) -> None:
    assert run_mix(kernels["mix_faults"], "FULL_FROM_PIPES_IN_ORDER").violations == []


@pytest.mark.parametrize("fault", MIX_FAULTS)
def test_mix_fault(kernels: dict[str, TwinKernel], fault: str) -> None:
    result = run_mix(kernels["mix_faults"], fault)
    rules = [v["rule"] for v in result.violations]
    assert MIX_FAULTS[fault] in rules, result.violations
    assert result.deadlock == (MIX_FAULTS[fault] == "deadlock")
