"""Distributions over classes."""

from typing import Any

import numpy as np
import pytest

import vkbackend
import vkbackend.framework as fw
from tests.framework.distributions.comparison import check, real, shares
from vkbackend.framework.distributions import (
    Categorical,
    Multinomial,
    OneHotCategoricalStraightThrough,
)

PARAMETERS: dict[str, Any] = {
    "Categorical": (shares(2, 4),),
    "OneHotCategorical": (shares(2, 4),),
    "OneHotCategoricalStraightThrough": (shares(2, 4),),
    "Multinomial": (5, shares(2, 4)),
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_on_the_host(name: str) -> None:
    check(name, *PARAMETERS[name])


def test_log_weights() -> None:
    check("Categorical", logits=real(2, 4))


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name == "Categorical" else pytest.mark.wide)
        for name in PARAMETERS
    ],
)
def test_on_a_device(name: str, device: vkbackend.Device) -> None:
    check(name, *PARAMETERS[name], device=device.name)


def test_draws_have_the_probabilities() -> None:
    fw.manual_seed(0)
    weights = np.array([1.0, 2.0, 0.0, 5.0], np.float32)
    drawn = Categorical(fw.tensor(weights)).sample((8000,))
    shares = np.bincount(drawn.numpy(), minlength=4) / 8000
    np.testing.assert_allclose(shares, weights / 8, atol=0.03)
    assert shares[2] == 0


def test_straight_through_draws_pass_gradients_on() -> None:
    logits = fw.tensor([0.1, 0.2, 0.3], requires_grad=True)
    drawn = OneHotCategoricalStraightThrough(logits=logits).rsample()
    (drawn * fw.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert logits.grad.abs().sum().item() > 0.1


def test_counts_of_the_wrong_kind() -> None:
    with pytest.raises(NotImplementedError, match="must be one int"):
        Multinomial(fw.tensor([2]), fw.ones(3))  # type: ignore[arg-type]


def test_class_that_is_not_there() -> None:
    with pytest.raises(ValueError, match="is not all in"):
        Categorical(fw.ones(3)).log_prob(fw.tensor(3))
