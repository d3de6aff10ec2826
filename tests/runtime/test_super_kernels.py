# SPDX-License-Identifier: Apache-2.0
"""Super-kernels: the same bits as one launch a kernel, barriers where data flows and nowhere else, no violations."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

import gaf
from gaf.codegen.project import project_files
from gaf.codegen.super_kernel import Member, Scope, SuperKernel, plan_barriers, refusal, scalar_reads
from gaf.errors import UnsupportedError
from gaf.frontend.language.program import program_from_text
from gaf.runtime.chains import MOST_MEMBERS
from gaf.runtime.compiler import find_compiler
from gaf.runtime.executor import Launch
from gaf.runtime.inputs import random_inputs

needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="needs a C++ compiler")

APART = gaf.FusionConfig(strategy="none")
"""Every op its own kernel: something to chain."""

BLOCK = """
model block(x: f32[n, 48], w: f32[48, 32], v: f32[32, 48], b: f32[32]) {
    let h = sigmoid(matmul(x, w) + b);
    a = matmul(h, v), c = exp(x) * 0.5
}
"""


def fused(text: str, config: gaf.FusionConfig = APART) -> gaf.FusedModel:
    return gaf.fuse(program_from_text(text).model(), config)


def run(model: gaf.FusedModel, engine: str, chained: bool, n: int = 37) -> tuple[dict[str, np.ndarray], list[Launch]]:
    seen: list[Launch] = []
    inputs = random_inputs(model.model, size=n)
    outputs = model.executor(engine).run(inputs, seen.append, model.chains if chained else ())
    return outputs, seen


@needs_compiler
@pytest.mark.parametrize("n", [1, 37, 700])
def test_same_bits_and_no_violations(n: int) -> None:
    model = fused(BLOCK)
    (chain,) = model.chains
    assert {m.kernel.kind.data.value for m in chain.kernel.members} == {"aiv", "aic"}
    plain, _ = run(model, "check", chained=False, n=n)
    chained, seen = run(model, "check", chained=True, n=n)
    assert [launch.kernel.name for launch in seen] == [m.kernel.sym_name.data for m in chain.kernel.members]
    assert not [v for launch in seen for v in launch.violations]
    assert all(plain[name].tobytes() == chained[name].tobytes() for name in plain)
    assert model.verify(engine="check").ok


@needs_compiler
def test_check_mode_misses_lost_barriers() -> None:
    """The barriers are what keeps it right: without them check mode reports races between cores."""
    from gaf.runtime.twin import build_kernels

    model = fused(BLOCK)
    (chain,) = model.chains
    lost = "SyncAll<false>();"
    head, entry = chain.kernel.source.split('extern "C"', 1)
    assert lost in entry
    source = f'{head}extern "C"{entry.replace(lost, "")}'
    executor = model.executor("check")
    executor.build_chains([])
    executor.built_chains |= build_kernels([(chain.kernel.name, source)], mode="check")
    _, seen = run(model, "check", chained=True, n=300)
    assert [v for launch in seen for v in launch.violations]


@needs_compiler
def test_cores_of_independent_members_run_side_by_side() -> None:
    """The trace of a launch is shorter than its members one after another."""
    model = fused("model m(x: f32[16000, 64], w: f32[64, 64]) { a = matmul(x, w), b = tanh(exp(x)) }", gaf.FusionConfig())
    (chain,) = model.chains
    assert chain.kernel.barriers == [None, None]
    _, apart = run(model, "trace", chained=False)
    _, joined = run(model, "trace", chained=True)
    times = [launch.timeline.us for launch in apart if launch.timeline is not None]
    (one,) = [launch.timeline.us for launch in joined if launch.timeline is not None]
    assert max(times) <= one < sum(times)


def test_barriers_join_no_more_cores_than_needed() -> None:
    model = fused(BLOCK)
    kernels = {m.kernel.kind.data.value: m.kernel for m in model.chains[0].kernel.members}
    vector, cube = kernels["aiv"], kernels["aic"]

    def member(kernel: object, reads: int, writes: int) -> Member:
        roles = kernel.roles.data  # type: ignore[attr-defined]
        return Member(kernel, tuple(reads if r == "in" else writes for r in roles))  # type: ignore[arg-type]

    chains = {
        "independent": ([member(vector, 0, 1), member(cube, 2, 3)], [None, None]),
        "vector after vector": ([member(vector, 0, 1), member(vector, 1, 2)], [None, Scope.VECTOR]),
        "cube after cube": ([member(cube, 0, 1), member(cube, 1, 2)], [None, Scope.CUBE]),
        "cube after vector": ([member(vector, 0, 1), member(cube, 1, 2)], [None, Scope.ALL]),
        "known already": (
            [member(vector, 0, 1), member(vector, 1, 2), member(vector, 1, 3)],
            [None, Scope.VECTOR, None],
        ),
        "write after read": ([member(vector, 0, 1), member(vector, 2, 0)], [None, Scope.VECTOR]),
    }
    for name, (members, barriers) in chains.items():
        assert plan_barriers(members) == barriers, name


def test_layers_share_a_super_kernel() -> None:
    layer = "let {1} = matmul(sigmoid({0} * 1.5), w);"
    body = "\n".join(layer.format(f"h{i}" if i else "x", f"h{i + 1}") for i in range(6))
    model = fused(f"model m(x: f32[n, 32], w: f32[32, 32]) {{ {body} h6 }}")
    names = [c.kernel.name for c in model.chains]
    assert len(names) > len(set(names))
    figures = model.report.figures()
    assert figures["launches"] == len(model.fused_ops) - sum(len(c.ops) - 1 for c in model.chains)
    assert figures["kernels"] == len(model.fused_ops)
    assert "saved by" in str(model.report)


def test_chains_are_short_enough_for_the_instruction_cache() -> None:
    names = ["exp", "tanh", "sigmoid", "abs", "neg", "relu", "sqrt", "erf", "sin", "cos"]
    body = "\n".join(f"let h{i + 1} = {name}(h{i});" for i, name in enumerate(names)).replace("h0", "x")
    model = fused(f"model m(x: f32[n]) {{ {body} h{len(names)} }}")
    assert [len(c.ops) for c in model.chains] == [MOST_MEMBERS, len(names) - MOST_MEMBERS]


def test_positions_read_by_the_scalar_unit_are_not_written_in_the_same_launch() -> None:
    model = fused("model m(i: i32[n], t: f32[50, 24]) { exp(gather(t, abs(i), axis=0)) }")
    gathers = [k.ascendc for k in model.kernels if scalar_reads(k.ascendc)]
    assert gathers
    for chain in model.chains:
        written: set[int] = set()
        for member in chain.kernel.members:
            assert not {member.args[i] for i in scalar_reads(member.kernel)} & written
            written |= member.arguments("out")


def test_turned_off() -> None:
    model = fused(BLOCK, gaf.FusionConfig(strategy="none", enable_superkernel=False))
    assert model.chains == [] and model.report.figures()["launches"] == len(model.fused_ops)


def test_a_barrier_never_joins_more_cores_than_there_are() -> None:
    model = fused(BLOCK)
    (chain,) = model.chains
    kernel = SuperKernel("super_wide", chain.kernel.members)
    assert kernel.evaluate({"n": 5000}).blocks <= kernel.target.aic_cores
    kernel.target = type(kernel.target)(**{**vars(kernel.target), "aic_cores": 1})
    with pytest.raises(UnsupportedError, match="cores that never run"):
        kernel.evaluate({"n": 5000})


def test_source_calls_every_member_once_and_says_who_it_is() -> None:
    model = fused(BLOCK)
    (chain,) = model.chains
    source = chain.kernel.source
    for i, member in enumerate(chain.kernel.members):
        assert refusal(member.kernel) is None
        name = member.kernel.sym_name.data
        assert f"//   {i} {name}: " in source
        assert len(re.findall(rf"{name}_member\([^;]*t\.step{i}, core", source)) == 1
    assert chain.kernel.barrier_count == len(re.findall(r"SyncAll<|CrossCoreWaitFlag\(0\)", source.split('extern "C"')[1]))


@needs_compiler
def test_tiling_in_cpp_equals_python(tmp_path: Path) -> None:
    """Bytes of the tiling struct, launch width and workspace, and the files of a project."""
    model = fused(BLOCK)
    (chain,) = model.chains
    kernel = chain.kernel
    for path, text in project_files([k.ascendc for k in model.kernels], super_kernels=[kernel]).items():
        if path.startswith("host/"):
            (tmp_path / Path(path).name).write_text(text)
    sizes = (1, 37, 5000)
    calls = "\n".join(f"    show({kernel.name}_tiling({n}));" for n in sizes)
    (tmp_path / "main.cpp").write_text(
        f"""#include <cstdio>
#include "{kernel.name}_tiling.h"
template <class L> void show(const L &l)
{{
    auto *bytes = reinterpret_cast<const unsigned char *>(&l.tiling);
    for (size_t i = 0; i < sizeof(l.tiling); ++i) std::printf("%02x", bytes[i]);
    std::printf(" %u %llu\\n", l.blocks, static_cast<unsigned long long>(l.workspace));
}}
int main()
{{
{calls}
}}
"""
    )
    compiler = find_compiler()
    assert compiler is not None
    subprocess.run([*compiler.command, "-std=c++17", "main.cpp", "-o", "main"], cwd=tmp_path, check=True)
    shown = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout.splitlines()
    launches = [kernel.evaluate({"n": n}) for n in sizes]
    assert shown == [f"{x.packed.hex()} {x.blocks} {x.workspace}" for x in launches]
