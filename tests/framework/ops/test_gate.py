"""Gated activations against PyTorch."""

from collections.abc import Callable

import pytest
import torch.nn.functional as F  # noqa: N812 - its own documentation's name

import vkbackend.framework as fw
from tests.framework.ops.twin import as_in_torch
from vkbackend.framework import ops


def test_swiglu(make: Callable[..., fw.Tensor]) -> None:
    twin = lambda gate, x: F.silu(gate) * x  # noqa: E731
    as_in_torch(make, ops.swiglu, twin, (3, 7), (3, 7))


@pytest.mark.parametrize("dim", [1, -1])
def test_glu(dim: int, make: Callable[..., fw.Tensor]) -> None:
    as_in_torch(make, lambda x: ops.glu(x, dim), lambda x: F.glu(x, dim), (3, 4, 6))
