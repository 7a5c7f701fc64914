"""Activation layers."""

import numpy as np
import pytest
import torch

from tests.framework.nn.layers import compare
from vkbackend.framework import nn
from vkbackend.framework.base.device import Device


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
        (nn.GLU(0), torch.nn.GLU(0)),
        (nn.PReLU(), torch.nn.PReLU()),
        (nn.PReLU(7, 0.1), torch.nn.PReLU(7, 0.1)),
        (nn.ReLU6(), torch.nn.ReLU6()),
        (nn.ELU(0.7), torch.nn.ELU(0.7)),
        (nn.CELU(0.7), torch.nn.CELU(0.7)),
        (nn.SELU(), torch.nn.SELU()),
        (nn.Mish(), torch.nn.Mish()),
        (nn.Softplus(2.0, 3.0), torch.nn.Softplus(2.0, 3.0)),
        (nn.Softsign(), torch.nn.Softsign()),
        (nn.Hardswish(), torch.nn.Hardswish()),
        (nn.Hardsigmoid(), torch.nn.Hardsigmoid()),
        (nn.Hardtanh(-0.5, 0.75), torch.nn.Hardtanh(-0.5, 0.75)),
        (nn.LogSigmoid(), torch.nn.LogSigmoid()),
        (nn.Softmax(1), torch.nn.Softmax(1)),
        (nn.LogSoftmax(0), torch.nn.LogSoftmax(0)),
    ],
)
def test_activation(
    ours: nn.Module, theirs: torch.nn.Module, place: Device, rng: np.random.Generator
) -> None:
    compare(ours, theirs, rng.normal(size=(6, 7)).astype(np.float32), place)
