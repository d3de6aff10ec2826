# SPDX-License-Identifier: Apache-2.0
"""Measurements: `python -m benchmarks.NAME` prints a table, with `--json` also one JSON object at the end."""
