# SPDX-License-Identifier: Apache-2.0
"""What was fused, why and with what effect: as text, JSON, one HTML file, and log lines."""
