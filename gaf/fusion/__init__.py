# SPDX-License-Identifier: Apache-2.0
"""How fusion is decided: regions (index maps of a group), schedules (how one kernel runs it), search."""
