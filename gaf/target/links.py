# SPDX-License-Identifier: Apache-2.0
"""Times of collectives between chips of one server: two straight lines, for short and for long messages.

Source [mc2]: the vendor's tuning guide of a fused MatMul + AllReduce (asc-devkit, best practices, "MC2
operators"), which fits measured AllReduce times of 8 Atlas A2 chips by `13.585 x + 61.51` µs from 8 MiB on,
and below by a parabola that begins with `27.06 x + 14.77` (x in MiB). Everything else is [derived] from that
or [estimated].
"""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1 << 20
FITTED_RANKS = 8
"""Ranks of the machine that was measured [mc2]."""

ASSUMED_RANKS = 8
"""Size of a group that the model doesn't state: one server [estimated]."""


@dataclass(frozen=True)
class Links:
    """Between every two ranks there is a link of their own [estimated: a full mesh], so a rank sends to all
    others at once.

    A collective that reduces or gathers sends one share, the larger tensor over `ranks`, through each link;
    an AllReduce does both. Latencies in µs, bandwidths in bytes per second of one link in one direction.
    """

    short_latency_us: float = 14.769
    """Fixed part for short messages [mc2]."""
    short_bytes_per_s: float = 2 * MIB / FITTED_RANKS / 27.0622573e-6
    """9.7e9, for short messages [derived from mc2: an AllReduce sends two shares of 1/8 through each link].
    """
    long_latency_us: float = 61.508333
    """Fixed part for long messages [mc2]."""
    long_bytes_per_s: float = 2 * MIB / FITTED_RANKS / 13.58491263e-6
    """19.3e9, for long messages [derived, as above]."""

    def collective_us(self, larger_bytes: int, ranks: int, moves: int) -> float:
        """µs of a collective; `larger_bytes` is the larger of what it takes and gives, `moves` 2 for an
        AllReduce, else 1.

        One rank alone still starts it. Within 12 % of the source's two curves at 8 ranks.
        """
        share = moves * larger_bytes / ranks if ranks > 1 else 0.0
        return min(
            self.short_latency_us + 1e6 * share / self.short_bytes_per_s,
            self.long_latency_us + 1e6 * share / self.long_bytes_per_s,
        )


LINKS = Links()
"""The links of servers with chips of the 910B family."""
