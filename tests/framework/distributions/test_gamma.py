"""Gamma distribution and those of what is made of its variables."""

from typing import Any

import numpy as np
import pytest

import vkbackend
import vkbackend.framework as fw
from tests.framework.distributions.comparison import check, positive, real
from vkbackend.framework.distributions import Gamma

PARAMETERS: dict[str, Any] = {
    "Gamma": (positive(3), positive(3)),
    "Chi2": (positive(3),),
    "InverseGamma": (positive(3, low=4.5), positive(3)),
    "Exponential": (positive(3),),
    "StudentT": (positive(3, low=2.5), real(3), positive(3)),
    "FisherSnedecor": (positive(3, low=4.5), positive(3, low=8)),
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_on_the_host(name: str) -> None:
    check(name, *PARAMETERS[name])


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name == "Gamma" else pytest.mark.wide)
        for name in PARAMETERS
    ],
)
def test_on_a_device(name: str, device: vkbackend.Device) -> None:
    check(name, *PARAMETERS[name], device=device.name)


def test_gradient_of_draws_is_that_of_their_mean() -> None:
    concentration = fw.tensor([0.3, 1.0, 5.0], requires_grad=True)
    fw.manual_seed(1)
    Gamma(concentration, 1.0).rsample((20_000,)).mean(0).sum().backward()
    np.testing.assert_allclose(concentration.grad.numpy(), [1, 1, 1], atol=0.03)
