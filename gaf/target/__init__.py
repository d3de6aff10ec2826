# SPDX-License-Identifier: Apache-2.0
"""What the compiler knows about hardware: one frozen description per chip."""

from __future__ import annotations

from gaf.target.chips import CHIPS, DEFAULT, Chip, chip
from gaf.target.rates import RATES, Rates, rates

__all__ = ["CHIPS", "DEFAULT", "RATES", "Chip", "Rates", "chip", "rates"]
