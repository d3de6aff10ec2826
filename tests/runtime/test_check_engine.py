# SPDX-License-Identifier: Apache-2.0
"""The check engine by itself: sequences of accesses and flags, and the violations that they must give."""

from __future__ import annotations

import ctypes
import json
import re
import subprocess
from pathlib import Path

import pytest

from gaf.runtime.compiler import DEVICE, INCLUDE, NATIVE, find_compiler
from gaf.runtime.twin import load_runtime

KERNELS = Path(__file__).parent / "check_kernels"

# What each faulty scenario must report, in order of first occurrence. clean_* must report nothing.
EXPECTED: dict[str, list[str]] = {
    "read_before_load_is_done": ["missing-sync"],
    "overwrite_before_read_is_done": ["missing-sync"],
    "vector_raw_without_barrier": ["missing-barrier"],
    "vector_war_without_barrier": ["missing-barrier"],
    "vector_waw_without_barrier": ["missing-barrier"],
    "scalar_read_without_flag": ["missing-sync"],
    "scalar_write_without_flag": ["missing-sync"],
    "uninitialised_tail": ["uninitialised-read"],
    "uninitialised_column": ["uninitialised-read"],
    "race_with_one_run_of_many": ["missing-barrier"],
    "unaligned_operand": ["unaligned"],
    "buffer_end": ["buffer-overflow"],
    "no_buffer": ["not-allocated"],
    "tensor_end": ["tensor-bounds"],
    "end_of_ub": ["out-of-bounds"],
    "gm_end": ["out-of-bounds"],
    "gm_end_seen_by_view": ["out-of-bounds"],
    "wrong_pipe_for_memory": ["wrong-position"],
    "cube_pipe_on_vector_core": ["pipe-of-other-core"],
    "write_to_input": ["write-to-input"],
    "overlapping_operands": ["operand-overlap"],
    "forbidden_alias": ["operand-overlap"],
    "flag_set_twice": ["flag-set-twice"],
    "wait_without_set": ["wait-without-set"],
    "flag_left_set": ["flag-left-set"],
    "event_of_tpipe": ["event-id"],
    "event_id_range": ["event-id"],
    "event_of_cube_core": ["event-kind"],
    "flag_of_other_id_does_not_order": ["missing-sync"],
    "too_many_buffers": ["buffer-number"],
    "ub_overflow": ["memory-overflow"],
    "buffers_overlap": ["buffer-overlap"],
    "reserved_ub": ["reserved-ub"],
    "stale_content_of_new_tensor": ["uninitialised-read"],
    "use_after_free": ["use-after-free"],
    "use_between_enque_and_deque": ["not-dequeued"],
    "double_free": ["double-free"],
    "deque_without_enque": ["queue-state"],
    "tensor_never_freed": ["queue-leak"],
    "free_of_part_of_a_tensor": ["foreign-tensor"],
    "cross_flag_in_vector_kernel": ["cross-flag-kernel-type"],
    "uninitialised_workspace": ["uninitialised-read"],
    "gm_round_trip_without_flag": ["missing-sync"],
    "atomic_left_on": ["atomic-left-on"],
    "counter_mode_left_on": ["counter-mode-left-on"],
    "cache_not_cleaned": ["cache-not-cleaned"],
    "too_many_blocks_for_sync_all": ["too-many-blocks"],
    "many_violations": ["buffer-overflow", "wait-without-set"],
    "two_cores_write_one_byte": ["race-between-cores"],
    "two_cores_write_read": ["race-between-cores"],
    "atomic_and_plain_write": ["race-between-cores"],
    "output_not_written": ["output-not-written"],
    "ring_without_full": ["race-between-cores"],
    "ring_without_free": ["race-between-cores"],
    "ring_full_from_wrong_pipe": ["race-between-cores"],
    "ring_overflows_counter": ["race-between-cores", "cross-flag-overflow"],
    "ring_reserved_id": ["cross-flag-id"],
    "cross_flag_left_set": ["cross-flag-left-set"],
    "cross_flag_half_set": ["cross-flag-left-set"],
    "cross_flag_two_pipes": ["cross-flag-two-pipes"],
    "cross_wait_without_set": ["cross-wait-without-set"],
    "deadlock_report": ["deadlock"],
    "grid_without_sync": ["race-between-cores"],
    "small_mmads_without_barrier": ["missing-barrier"],
}


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The scenarios, linked with the engine of the runtime library."""
    compiler = find_compiler()
    if compiler is None:
        pytest.skip("no C++ compiler")
    load_runtime()
    library = tmp_path_factory.mktemp("check") / "scenarios.so"
    command = [*compiler.command, "-std=c++17", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-DGAF_TWIN=2"]
    command += [f"-I{INCLUDE}", "-o", str(library), *map(str, sorted(KERNELS.glob("engine_*.cpp")))]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    loaded = ctypes.CDLL(str(library))
    loaded.run_scenario.restype = ctypes.c_int64
    return loaded


def run(engine: ctypes.CDLL, name: str) -> tuple[int, list[dict[str, object]]]:
    """Number of violations of a scenario and the reported ones."""
    text = ctypes.create_string_buffer(1 << 18)
    total = engine.run_scenario(name.encode(), text, ctypes.c_uint64(len(text)))
    return total, [json.loads(line) for line in text.value.decode().splitlines()]


def test_every_scenario_has_an_expectation(engine: ctypes.CDLL) -> None:
    text = ctypes.create_string_buffer(1 << 16)
    engine.scenario_names(text, ctypes.c_uint64(len(text)))
    names = text.value.decode().split()
    assert sorted(n for n in names if not n.startswith("clean_")) == sorted(EXPECTED)
    for name in names:
        if name.startswith("clean_"):
            total, found = run(engine, name)
            assert (total, found) == (0, []), name


@pytest.mark.parametrize("name", EXPECTED)
def test_fault_is_reported(engine: ctypes.CDLL, name: str) -> None:
    total, found = run(engine, name)
    rules = list(dict.fromkeys(v["rule"] for v in found))
    assert rules == EXPECTED[name], found
    assert total == sum({v["rule"]: v["rule_count"] for v in found}.values())


def test_facts_of_a_violation(engine: ctypes.CDLL) -> None:
    _, (violation,) = run(engine, "overwrite_before_read_is_done")
    assert violation["api"] == "DataCopy" and violation["operand"] == "dst" and violation["pipe"] == "MTE2"
    assert violation["kernel"] == "scenario" and violation["core"] == "AIV 0"
    assert violation["buffer"] == "buffer 0" and violation["offset"] == 128
    assert "HardEvent::V_MTE2" in violation["message"]


def test_first_offending_byte_is_exact(engine: ctypes.CDLL) -> None:
    offsets = {
        "uninitialised_tail": 40,
        "uninitialised_column": 32,
        "two_cores_write_one_byte": 36,
        "race_with_one_run_of_many": 3 * 512 + 3 * 64,
        "vector_waw_without_barrier": 224,
        "output_not_written": 65532,
    }
    for name, offset in offsets.items():
        assert run(engine, name)[1][0]["offset"] == offset, name


def test_number_of_kept_violations_is_bounded(engine: ctypes.CDLL) -> None:
    total, found = run(engine, "many_violations")
    assert total == 3 * 80 + 1
    assert len(found) == 50 + 1 and found[-1]["rule"] == "wait-without-set"
    assert found[0]["count"] == 3 and found[0]["rule_count"] == 240 and found[0]["node"] == 'node "0"'


def test_deadlock_names_every_waiting_core(engine: ctypes.CDLL) -> None:
    _, (violation,) = run(engine, "deadlock_report")
    assert "AIV 1 waits for flag 2 at node layer/MatMul" in violation["message"]
    assert "AIC 0 waits for SyncAll" in violation["message"]


def test_engine_agrees_with_a_naive_model(engine: ctypes.CDLL) -> None:
    found = ctypes.c_uint64()
    for seed in range(300):
        step = engine.run_fuzz(ctypes.c_uint32(seed), ctypes.byref(found))
        assert step == 0, f"seed {seed}: engine and model disagree at step {step}"
        assert 0 < found.value < 700, "every run should see both faulty and clean accesses"


def test_rules_are_documented() -> None:
    readme = (NATIVE / "check" / "README.md").read_text()
    rows = re.findall(r"^\| ([a-z0-9, -]+) \|", readme, re.M)
    documented = {name for row in rows for name in row.split(", ")}
    sources = [*INCLUDE.rglob("*.h"), *NATIVE.rglob("*.cpp"), *DEVICE.glob("*.h")]
    used = set()
    for source in sources:
        text = source.read_text()
        used |= set(re.findall(r'violate\(\s*"([a-z0-9-]+)"', text))
        used |= set(re.findall(r'\brule\(\s*[^;"]*?,\s*"([a-z0-9-]+)",', text))
        used |= set(re.findall(r'GAF_REPORT\([^;"]*"([a-z0-9-]+)"', text))
        used |= set(re.findall(r'\brule = [^;"]*"([a-z-]+)"', text))
    assert len(used) > 60
    assert used <= documented, used - documented
