# SPDX-License-Identifier: Apache-2.0
"""In these tests a bug of the importer fails the test, instead of leaving the call to the host."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def bugs_raise(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    from gaf.frontend.torch import importer

    monkeypatch.setattr(importer, "RAISE_BUGS", True)
