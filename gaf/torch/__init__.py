# SPDX-License-Identifier: Apache-2.0
"""PyTorch around generated kernels: fused models as modules, and the torch.compile backend."""
