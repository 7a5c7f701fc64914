"""Beta, Dirichlet and Kumaraswamy distributions."""

from typing import Any

import numpy as np
import pytest

import vkbackend
import vkbackend.framework as fw
from tests.framework.distributions.comparison import check, positive
from vkbackend.framework.distributions import Beta, Dirichlet, Kumaraswamy

PARAMETERS: dict[str, Any] = {
    "Beta": (positive(3, low=1.1), positive(3, low=1.2)),
    "Dirichlet": (positive(2, 3, low=1.1),),
    "Kumaraswamy": (positive(3), positive(3, seed=4)),
}
# PyTorch's mode of the last is NaN everywhere.
DIFFERS = {"Kumaraswamy": {"mode": "NaN"}}


@pytest.mark.parametrize("name", PARAMETERS)
def test_on_the_host(name: str) -> None:
    check(name, *PARAMETERS[name], differs=DIFFERS.get(name, {}))


@pytest.mark.wide
@pytest.mark.parametrize("name", PARAMETERS)
def test_on_a_device(name: str, device: vkbackend.Device) -> None:
    options = {"device": device.name, "differs": DIFFERS.get(name, {})}
    check(name, *PARAMETERS[name], **options)


def test_mode_of_kumaraswamy_has_the_largest_density() -> None:
    distribution = Kumaraswamy(fw.tensor(2.0), fw.tensor(3.0))
    density = distribution.log_prob(fw.linspace(0.01, 0.99, 99))
    assert density.max().item() <= distribution.log_prob(distribution.mode).item()


def test_gradient_of_draws_is_that_of_their_mean() -> None:
    first = fw.tensor([0.3, 1.0, 5.0], requires_grad=True)
    fw.manual_seed(1)
    Beta(first, 2.0).rsample((20_000,)).mean(0).sum().backward()
    expected = 2 / (first.detach().numpy() + 2) ** 2
    np.testing.assert_allclose(first.grad.numpy(), expected, atol=0.01)


def test_concentration_without_dimension() -> None:
    with pytest.raises(ValueError, match="must have at least one"):
        Dirichlet(fw.tensor(1.0))
