"""Uniform, Laplace, Cauchy and Gumbel distributions."""

from typing import Any

import pytest

import vkbackend
import vkbackend.framework as fw
from tests.framework.distributions.comparison import check, positive, real
from vkbackend.framework.distributions import Uniform

PARAMETERS: dict[str, Any] = {
    "Uniform": (real(3) - 3, real(3) + 3),
    "Laplace": (real(3, 1), positive(4)),
    "Cauchy": (real(3), positive(3)),
    "HalfCauchy": (positive(3),),
    "Gumbel": (real(3), positive(3)),
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_on_the_host(name: str) -> None:
    check(name, *PARAMETERS[name])


@pytest.mark.wide
@pytest.mark.parametrize("name", PARAMETERS)
def test_on_a_device(name: str, device: vkbackend.Device) -> None:
    check(name, *PARAMETERS[name], device=device.name)


def test_bounds_in_the_wrong_order() -> None:
    with pytest.raises(ValueError, match="low must be below high"):
        Uniform(fw.tensor([0.0, 2.0]), 1.0)
