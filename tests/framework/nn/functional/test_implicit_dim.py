"""Softmax functions without a dimension take PyTorch's, and say so."""

from typing import Any

import pytest
import torch

import vkbackend.framework as fw


@pytest.mark.parametrize("name", ["softmax", "softmin", "log_softmax"])
def test_dimension_by_the_number_of_dimensions(name: str) -> None:
    for shape in ((), (2,), (2, 3), (2, 3, 2), (1, 2, 3, 2)):
        found: Any = []
        for library in (torch, fw):
            x: Any = library.arange(torch.Size(shape).numel()).reshape(shape) * 0.5
            with pytest.warns(UserWarning, match="dim"):
                found.append(getattr(library.nn.functional, name)(x).tolist())
        assert torch.allclose(*map(torch.tensor, found))
