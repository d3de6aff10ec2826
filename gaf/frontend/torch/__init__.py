# SPDX-License-Identifier: Apache-2.0
"""PyTorch programs as models; needs the extra `torch`."""

from gaf.errors import UnsupportedError

try:
    import torch as _torch  # noqa: F401
except ImportError:
    raise UnsupportedError("PyTorch is not installed", hint="pip install 'graph-autofusion[torch]'") from None

from gaf.frontend.torch.capture import torch_to_graph

__all__ = ["torch_to_graph"]
