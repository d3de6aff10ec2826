# SPDX-License-Identifier: Apache-2.0
"""Ascend C sources as plain C++: what is rewritten, and that lines stay where they are."""

from __future__ import annotations

import pytest

from gaf.errors import InvalidInputError
from gaf.runtime.ascend_source import rewrite_source


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("__forceinline__[host, aicore] int f();", "__forceinline__               int f();"),
        ("#define BOTH __forceinline__ [aicore,host]", "#define BOTH __forceinline__              "),
        ("inline [aicore] int f();", "inline          int f();"),
        ("__forceinline__ [host] int f();", "__forceinline__        int f();"),
        ("auto f = [host](int i) { return host + i; };", None),  # a capture
        ("a[host] = 1;  // [aicore]", None),
        ('puts("[host, aicore]");', None),
    ],
)
def test_sides_of_functions(text: str, wanted: str | None) -> None:
    found = rewrite_source(text, "a.asc")
    assert found.text.rstrip() == (wanted or text).rstrip()
    assert found.changed == (wanted is not None)


def test_launches_keep_their_lines() -> None:
    text = "void run()\n{\n    add<float,\n        2><<<8, nullptr,\n        stream>>>(x,\n        y);\n    after();\n}\n"
    found = rewrite_source(text, "a.asc").text
    assert 'Launcher("add", 8, nullptr, stream).Arguments(x, y)' in " ".join(found.split())
    assert found.splitlines().index("    after();") == 6


def test_the_type_of_a_kernel_becomes_its_first_statement() -> None:
    found = rewrite_source("__global__ __mix__(1, 2) void k(__gm__ float* x)\n{\n    f(x);\n}\n", "a.asc")
    (kernel,) = found.kernels
    assert kernel.name == "k" and kernel.type_name == "KERNEL_TYPE_MIX_AIC_1_2"
    assert "{ ::gaf_twin::DeclareKernelType(KERNEL_TYPE_MIX_AIC_1_2);" in found.text


def test_a_launch_that_doesn_t_end_is_named() -> None:
    with pytest.raises(InvalidInputError, match="a.asc, line 2"):
        rewrite_source("void run()\n{ k<<<1, nullptr, s>>>(x;\n", "a.asc")
