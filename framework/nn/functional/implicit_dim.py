"""The dimension that softmax functions take where none is given."""

from __future__ import annotations

import warnings

from ...dispatch.diagnosis import need_tensor
from ...tensor.tensor import Tensor


def implicit_dim(name: str, dim: int | None, input: Tensor) -> int:
    """Return a dimension, or what PyTorch takes where none is given."""
    need_tensor(name, "input", input)
    if dim is not None:
        return dim
    ndim = len(input.layout.shape)
    chosen = 0 if ndim in (0, 1, 3) else 1
    warnings.warn(
        f"{name}: dim is None, which means {chosen} for {ndim} dimensions; give it,"
        " for this choice is deprecated",
        stacklevel=3,
    )
    return chosen
