# SPDX-License-Identifier: Apache-2.0
"""The long spelling of `gaf`: `import graph_autofusion as gaf` gives the same objects."""

from typing import Any

import gaf as _gaf


def __getattr__(name: str) -> Any:
    return getattr(_gaf, name)


def __dir__() -> list[str]:
    return dir(_gaf)
