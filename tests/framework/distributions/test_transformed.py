"""Distributions of transformed variables."""

from typing import Any

import numpy as np
import pytest

import vkbackend
from tests.framework.distributions.comparison import check, positive, real, shares

WEIGHTS = shares(2, 4)
PARAMETERS: dict[str, Any] = {
    "LogNormal": (real(3) / 4, positive(3) / 4),
    "Pareto": (positive(3), positive(3, low=4)),
    "GeneralizedPareto": (real(3), positive(3), shares(3) / 4),
    # PyTorch's mode is NaN for concentrations below 1.
    "Weibull": (positive(3), positive(3, low=1.1)),
    "RelaxedBernoulli": (np.full((), 0.7, np.float32), shares(3)),
    "RelaxedOneHotCategorical": (np.full((), 0.7, np.float32), WEIGHTS),
    "LogisticNormal": (real(3), positive(3)),
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_on_the_host(name: str) -> None:
    check(name, *PARAMETERS[name])


@pytest.mark.wide
@pytest.mark.parametrize("name", PARAMETERS)
def test_on_a_device(name: str, device: vkbackend.Device) -> None:
    check(name, *PARAMETERS[name], device=device.name)
