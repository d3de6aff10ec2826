# SPDX-License-Identifier: Apache-2.0
"""Hand-written Ascend C programs run on the twin: right results, no violations, faults found."""

from __future__ import annotations

from pathlib import Path

import pytest

from gaf.errors import CompileError, InvalidInputError
from gaf.runtime.samples import Program, ProgramResult, build_program

SAMPLES = Path(__file__).parent / "samples"

PROGRAMS = {
    "queue_add": ["queue_add.cpp", "queue_add_main.cpp"],  # CANN 8: kernel and host apart, ACLRT_LAUNCH_KERNEL
    "static_tensors": ["static_tensors.asc"],  # CANN 9: __vector__, <<<>>>, addresses and flags by hand
    "mix_sync": ["mix_sync.asc"],
    "matmul_high": ["matmul_high.cpp"],
    "matmul_tscm": ["matmul_tscm.cpp"],
    "atomic": ["atomic.asc"],
    "sort": ["sort.asc"],
    "high_level": ["high_level.asc"],
    "intercore": ["intercore.asc"],
    "publish": ["publish.asc"],
    "cache_lines": ["cache_lines.asc"],
    "pipes": ["pipes.asc"],
}


def build(folder: Path, name: str, mode: str, *defines: str) -> Program:
    sources = [SAMPLES / s for s in PROGRAMS.get(name, [f"{name}.asc"])]
    return build_program(sources, folder / name, mode, defines=defines)


def explain(result: ProgramResult) -> str:
    lines = [f"[{v['rule']}] {v['core']} {v['api']}: {v['message']}" for v in result.violations]
    return "\n".join([f"exit code {result.returncode}", result.stdout, result.stderr, *lines])


@pytest.mark.parametrize("mode", ["fast", "check"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_program_computes_what_its_host_expects(name: str, mode: str, tmp_path: Path) -> None:
    result = build(tmp_path, name, mode).run(timeout=60)
    assert result.returncode == 0 and not result.violations, explain(result)
    assert len(result.launches) == (2 if name == "atomic" else 1)


def test_threads_change_nothing(tmp_path: Path) -> None:
    program = build(tmp_path, "intercore", "fast")
    for threads in (1, 2):
        result = program.run(timeout=60, threads=threads)
        assert result.returncode == 0, explain(result)


def test_kernel_output_reaches_the_program_s(tmp_path: Path) -> None:
    result = build(tmp_path, "high_level", "fast").run(timeout=60)
    assert "softmax of 8 rows, first 0.00" in result.stdout
    assert "DumpTensor: desc=7, position=VECCALC, core=AIV 0, elements=8" in result.stdout


# ---- faults -----------------------------------------------------------------------------------------------

FAULTS = {
    # FAULT: rules with the device compiler's automatic ordering, and those that come with it off
    0: ([], []),
    1: (["out-of-bounds", "uninitialised-read"], ["out-of-bounds", "uninitialised-read"]),
    2: (["missing-sync"], ["missing-sync"]),
    3: ([], ["missing-barrier"]),
    4: ([], ["missing-sync"]),
    5: (["assert"], ["assert"]),
}


RULES = [
    "broadcast-shape", "slice-limits", "sort-valid-bit", "sort-repeat", "sort-length", "copy-mode", "pool-share",
    "workspace-size", "group-index",
]  # fmt: skip
"""What the faults 1, 2, ... of `rules.asc` break."""


def test_every_rule_is_told_apart(tmp_path: Path) -> None:
    program = build(tmp_path, "rules", "check")
    assert not program.run(timeout=60).violations
    for fault, rule in enumerate(RULES, 1):
        result = program.run([str(fault)], timeout=60)
        assert rule in {v["rule"] for v in result.violations}, f"{rule}: {explain(result)}"


def test_pipes_that_can_not_be_named_do_not_compile(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="PIPE_S is not allowed(.|\n)*may be neither S nor ALL"):
        build(tmp_path, "rules", "check", "NO_SUCH_PIPE")


@pytest.mark.parametrize(("fault", "rule"), [(1, "matmul-order"), (2, "matmul-operand"), (3, "matmul-iterate")])
def test_faults_of_the_matmul_object(fault: int, rule: str, tmp_path: Path) -> None:
    result = build(tmp_path, "matmul_high", "check", f"FAULT={fault}").run(timeout=60)
    assert rule in {v["rule"] for v in result.violations}, explain(result)


@pytest.mark.parametrize("fault", FAULTS)
def test_check_mode_finds_the_fault(fault: int, tmp_path: Path) -> None:
    program = build(tmp_path, "faults", "check", f"FAULT={fault}")
    for auto_sync, wanted in zip((True, False), FAULTS[fault], strict=True):
        result = program.run(timeout=60, auto_sync=auto_sync)
        assert sorted({v["rule"] for v in result.violations}) == wanted, explain(result)


@pytest.mark.parametrize("name", ["publish", "cache_lines"])
def test_a_message_does_not_overtake_the_copy_it_announces(name: str, tmp_path: Path) -> None:
    program = build(tmp_path, name, "check", "FAULT=1")
    # without the device compiler's ordering of scalar access behind copies
    result = program.run(timeout=60, auto_sync=False)
    assert {v["rule"] for v in result.violations} == {"race-between-cores"}, explain(result)


def test_a_message_stays_in_the_cache_until_its_line_is_cleaned(tmp_path: Path) -> None:
    result = build(tmp_path, "cache_lines", "check", "FAULT=3").run(timeout=60)
    assert {v["rule"] for v in result.violations} == {"cache-not-cleaned", "race-between-cores"}, explain(result)


@pytest.mark.parametrize("mode", ["fast", "check"])
@pytest.mark.parametrize("name", ["publish", "cache_lines"])
def test_polling_for_a_word_that_nobody_writes_is_a_deadlock(name: str, mode: str, tmp_path: Path) -> None:
    result = build(tmp_path, name, mode, "FAULT=2").run(timeout=60)
    assert result.returncode == 1 and result.launches[0].stuck, explain(result)
    assert "polls global memory" in explain(result)


@pytest.mark.parametrize(("fault", "rule"), [(1, "event-id"), (2, "buffer-number")])
def test_limits_of_a_tpipe(fault: int, rule: str, tmp_path: Path) -> None:
    result = build(tmp_path, "pipes", "check", f"FAULT={fault}").run(timeout=60)
    assert rule in {v["rule"] for v in result.violations}, explain(result)


def test_vector_cores_have_of_l1_only_what_matmul_objects_read(tmp_path: Path) -> None:
    result = build(tmp_path, "matmul_tscm", "check", "FAULT=1").run(timeout=60)
    assert result.returncode == 1 and [v["rule"] for v in result.violations] == ["wrong-position"], explain(result)


@pytest.mark.parametrize("mode", ["fast", "check"])
def test_a_stuck_kernel_is_an_error_of_the_stream(mode: str, tmp_path: Path) -> None:
    result = build(tmp_path, "faults", mode, "FAULT=6").run(timeout=60)
    assert result.returncode == 1 and "synchronize: 507014" in result.stdout, explain(result)
    assert result.launches[0].stuck
    if mode == "check":
        assert [v["rule"] for v in result.violations] == ["deadlock"]


def test_an_assertion_stops_the_kernel_not_the_program(tmp_path: Path) -> None:
    result = build(tmp_path, "faults", "fast", "FAULT=5").run(timeout=60)
    assert "one block is too few" in result.stdout and "synchronize: " in result.stdout, explain(result)
    assert result.returncode == 1


def test_fresh_memory_holds_what_was_asked_for(tmp_path: Path) -> None:
    source = tmp_path / "fresh.cpp"
    source.write_text(
        '#include <cstdio>\n#include "acl/acl.h"\n'
        "int main() { unsigned char* p; unsigned char v = 1;\n"
        "  aclrtMalloc((void**)&p, 64, ACL_MEM_MALLOC_HUGE_FIRST);\n"
        "  aclrtMemcpy(&v, 1, p + 63, 1, ACL_MEMCPY_DEVICE_TO_HOST);\n"
        '  printf("%d\\n", v); return aclrtFree(p); }\n'
    )
    program = build_program([source], tmp_path / "fresh")
    assert program.run(timeout=20).stdout == "255\n"
    assert program.run(timeout=20, fill=0).stdout == "0\n"


# ---- bad input --------------------------------------------------------------------------------------------


def test_a_missing_source_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="no such source"):
        build_program([tmp_path / "nothing.asc"], tmp_path / "out")
    with pytest.raises(InvalidInputError, match="no sources"):
        build_program([], tmp_path / "out")
    with pytest.raises(InvalidInputError, match="unknown mode"):
        build_program([SAMPLES / "atomic.asc"], tmp_path / "out", "slow")


def test_a_launch_of_a_kernel_that_is_not_among_the_sources_is_told(tmp_path: Path) -> None:
    source = tmp_path / "main.cpp"
    source.write_text('#ifdef USED\n#include "aclrtlaunch_lost.h"\n#endif\nint main() { return 0; }\n')
    build_program([source], tmp_path / "out")
    with pytest.raises(CompileError, match="no source defines the kernel 'lost'"):
        build_program([source], tmp_path / "out", defines=["USED"])


def test_the_compiler_s_message_names_the_line_of_the_source(tmp_path: Path) -> None:
    source = tmp_path / "wrong.asc"
    source.write_text(
        '#include "kernel_operator.h"\n\n__global__ __vector__ void k(GM_ADDR x)\n{\n    Missing(x);\n}\n'
        "int main() { k<<<1, nullptr, nullptr>>>(nullptr); }\n"
    )
    with pytest.raises(CompileError, match=r"wrong\.asc:5:.*Missing"):
        build_program([source], tmp_path / "out")


def test_a_program_that_does_not_end_is_given_up(tmp_path: Path) -> None:
    source = tmp_path / "loop.cpp"
    source.write_text("int main() { for (volatile int i = 0;; i = i + 1) {} }\n")
    program = build_program([source], tmp_path / "loop")
    with pytest.raises(InvalidInputError, match="did not end within 0.5 seconds"):
        program.run(timeout=0.5)
