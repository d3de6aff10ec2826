# SPDX-License-Identifier: Apache-2.0
"""The page of the twin's calls says what the headers hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from gaf.runtime.compiler import find_compiler
from gaf.tools import twin_api

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "twin-api.md"

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")


def test_page_is_what_the_headers_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == twin_api.page(), "run python -m gaf.tools.twin_api"


def test_forms_of_calls_and_members_of_classes() -> None:
    text = """
namespace AscendC {
template <class T, bool flag = (1 > 0)>
inline void Call(const LocalTensor<T>& dst, const Params& p = {1, 2}) { if (flag) { dst.Other(); } }
inline void Call(int count);
class Shown {
    void Hidden(int a);
public:
    Shown(int size);
    void Member(int a, float) { Inner(a); }
};
enum class Mode { A, B };
}
namespace gaf_twin { void NotPublic(int); }
"""
    assert twin_api._calls(text) == {"Call": ["dst, p", "count"]}
    assert twin_api._types(text) == {"Mode": {}, "Shown": {"Member": ["a, float"]}}
