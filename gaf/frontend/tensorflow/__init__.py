# SPDX-License-Identifier: Apache-2.0
"""TensorFlow programs as models; converting them needs the extra `tf`."""

from typing import Any

from gaf.errors import UnsupportedError

__all__ = ["tensorflow_to_graph"]


def __getattr__(name: str) -> Any:
    if name != "tensorflow_to_graph":
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    try:
        import tensorflow as _  # noqa: F401
        import tf2onnx as _  # noqa: F401, F811
    except ImportError:
        raise UnsupportedError(
            "TensorFlow or tf2onnx is not installed", hint="pip install 'graph-autofusion[tf]'"
        ) from None
    from gaf.frontend.tensorflow.convert import tensorflow_to_graph

    return tensorflow_to_graph
