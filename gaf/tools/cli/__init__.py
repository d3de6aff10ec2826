# SPDX-License-Identifier: Apache-2.0
"""The subcommands of `gaf`, one a file: each has `add_arguments(parser)` and `run(args, out) -> exit code`."""
