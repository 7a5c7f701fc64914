"""Von Mises distribution."""

import numpy as np

import vkbackend
import vkbackend.framework as fw
from tests.framework.distributions.comparison import check, positive, real
from vkbackend.framework.distributions import VonMises


def test_on_the_host() -> None:
    # The mean of angles is that of a circle; its draws are tested below.
    made = VonMises(fw.tensor(real(3)), fw.tensor(positive(3)))
    assert ((made.sample((99,)).abs()) <= 3.1416).all().item()


def test_on_a_device(device: vkbackend.Device) -> None:
    location = np.zeros(3, np.float32)
    check("VonMises", location, positive(3), device=device.name)


def test_draws_are_around_the_mean_angle() -> None:
    fw.manual_seed(0)
    drawn = VonMises(3.0, 4.0).sample((20_000,)).numpy().astype(np.float64)
    mean = np.exp(1j * drawn).mean()
    assert abs(np.angle(mean) - 3.0) < 0.02
    expected = 1 - VonMises(3.0, 4.0).variance.item()
    assert abs(abs(mean) - expected) < 0.01
