"""Stochastic gradient descent."""

from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.framework.optim.against_torch import compare
from vkbackend.framework import optim
from vkbackend.framework.base.device import Device


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"lr": 0.1, "weight_decay": 0.1},
        {"lr": 0.1, "momentum": 0.9},
        {"lr": 0.1, "momentum": 0.9, "dampening": 0.5, "weight_decay": 0.01},
        {"lr": 0.1, "momentum": 0.9, "nesterov": True},
    ],
)
def test_steps_are_pytorchs(
    options: dict[str, Any], place: Device, rng: np.random.Generator
) -> None:
    compare(optim.SGD, torch.optim.SGD, options, place, rng)


def test_the_first_direction_is_a_copy_of_the_gradient() -> None:
    x = fw.ones(1, requires_grad=True)
    optimizer = optim.SGD([x], 1.0, momentum=0.5)
    x.grad = fw.ones(1)
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)
    optimizer.step()
    assert x.tolist() == [-0.5]


def test_nesterov_needs_momentum() -> None:
    with pytest.raises(ValueError, match="it needs momentum above 0 and dampening 0"):
        optim.SGD([fw.ones(1, requires_grad=True)], nesterov=True)
