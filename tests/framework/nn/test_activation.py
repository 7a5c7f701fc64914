"""Activation layers."""

import numpy as np
import pytest
import torch

from tests.framework.nn.layers import compare
from vkbackend.framework import nn
from vkbackend.framework.device import Device


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (nn.ReLU(), torch.nn.ReLU()),
        (nn.LeakyReLU(), torch.nn.LeakyReLU()),
        (nn.LeakyReLU(0.3), torch.nn.LeakyReLU(0.3)),
        (nn.Sigmoid(), torch.nn.Sigmoid()),
        (nn.Tanh(), torch.nn.Tanh()),
        (nn.SiLU(), torch.nn.SiLU()),
        (nn.GELU(), torch.nn.GELU()),
        (nn.GELU("tanh"), torch.nn.GELU("tanh")),
    ],
)
def test_activation(
    ours: nn.Module, theirs: torch.nn.Module, place: Device, rng: np.random.Generator
) -> None:
    compare(ours, theirs, rng.normal(size=(5, 7)).astype(np.float32), place)
