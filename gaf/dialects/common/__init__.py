# SPDX-License-Identifier: Apache-2.0
"""What all dialects share: index expressions, element types, scalar functions and reduction monoids."""
