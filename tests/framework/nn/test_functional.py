"""The functions behind the layers."""

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework.device import Device
from vkbackend.framework.nn import functional


@pytest.mark.parametrize("bias", [True, False])
def test_linear(bias: bool, place: Device, rng: np.random.Generator) -> None:
    x, weight, shift = (
        rng.normal(size=size).astype(np.float32) for size in ((3, 7), (5, 7), 5)
    )
    arrays = (x, weight, shift) if bias else (x, weight)
    expected = torch.nn.functional.linear(*map(torch.tensor, arrays))
    found = functional.linear(*(fw.tensor(array, device=place) for array in arrays))
    assert_close(found, expected.numpy())


@pytest.mark.parametrize("name", functional.__all__)
def test_names_are_pytorchs(name: str) -> None:
    assert callable(getattr(torch.nn.functional, name))
    assert callable(getattr(functional, name))
