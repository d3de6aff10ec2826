# SPDX-License-Identifier: Apache-2.0
"""Readers and writers of models: ONNX files in and out, all through one graph builder."""
