"""Distributions of trials."""

from typing import Any

import pytest

import vkbackend
import vkbackend.framework as fw
from tests.framework.distributions.comparison import check, positive, real, shares
from vkbackend.framework.distributions import Bernoulli, Binomial

PARAMETERS: dict[str, Any] = {
    "Bernoulli": (shares(3),),
    "ContinuousBernoulli": (shares(3),),
    "Binomial": (5, shares(3)),
    "Geometric": (shares(3),),
    "NegativeBinomial": (positive(3) * 4, shares(3)),
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_on_the_host(name: str) -> None:
    check(name, *PARAMETERS[name])


def test_log_odds() -> None:
    check("Bernoulli", logits=real(3))
    check("Geometric", logits=real(3))


@pytest.mark.wide
@pytest.mark.parametrize("name", PARAMETERS)
def test_on_a_device(name: str, device: vkbackend.Device) -> None:
    check(name, *PARAMETERS[name], device=device.name)


def test_both_parametrisations_or_none() -> None:
    with pytest.raises(ValueError, match="neither were given"):
        Bernoulli()
    with pytest.raises(ValueError, match="both were given"):
        Bernoulli(fw.tensor(0.5), fw.tensor(0.0))


def test_lazy_parameters_have_gradients() -> None:
    logits = fw.tensor([0.5, -1.0], requires_grad=True)
    distribution = Bernoulli(logits=logits)
    with fw.no_grad():
        distribution.sample()
    assert distribution.probs.requires_grad


def test_numbers_of_trials_that_differ_are_not_listed() -> None:
    with pytest.raises(NotImplementedError, match="they must be one"):
        Binomial(fw.tensor([2.0, 3.0]), fw.tensor(0.5)).enumerate_support()
