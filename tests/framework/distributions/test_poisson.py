"""Poisson distribution."""

import numpy as np
import pytest

import vkbackend
import vkbackend.framework as fw
from tests.framework.distributions.comparison import check
from vkbackend.framework.distributions import Poisson

RATES = np.array([0.0, 0.5, 9.5, 12.0, 300.0], np.float32)


def test_on_the_host() -> None:
    check("Poisson", RATES)


def test_on_a_device(device: vkbackend.Device) -> None:
    check("Poisson", RATES, device=device.name)


@pytest.mark.parametrize("rate", [0.7, 30.0])
def test_draws_have_the_probabilities(rate: float) -> None:
    fw.manual_seed(2)
    drawn = Poisson(rate).sample((20_000,)).numpy().astype(int)
    counts = np.arange(drawn.max() + 1)
    expected = Poisson(rate).log_prob(fw.tensor(counts.astype(np.float32))).exp()
    shares = np.bincount(drawn) / len(drawn)
    np.testing.assert_allclose(shares, expected.numpy(), atol=0.015)
