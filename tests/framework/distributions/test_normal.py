"""Normal and half-normal distributions."""

import numpy as np
import pytest
import torch

import vkbackend
import vkbackend.framework as fw
from tests.framework.distributions.comparison import check, positive, real
from vkbackend.framework.distributions import HalfNormal, Normal


def test_on_the_host() -> None:
    check("Normal", real(3, 1), positive(4))
    check("HalfNormal", positive(3))


def test_on_a_device(device: vkbackend.Device) -> None:
    check("Normal", real(3, 1), positive(4), device=device.name)
    check("HalfNormal", positive(3), device=device.name)


def test_gradients_flow_through_draws() -> None:
    loc = fw.tensor([1.0, 2.0], requires_grad=True)
    scale = fw.tensor([0.5, 3.0], requires_grad=True)
    drawn = Normal(loc, scale).rsample((7,))
    drawn.sum().backward()
    standard = (drawn.detach() - loc.detach()) / scale.detach()
    np.testing.assert_array_equal(loc.grad.numpy(), [7, 7])
    np.testing.assert_allclose(scale.grad.numpy(), standard.sum(0).numpy(), 1e-5)


def test_numbers_as_parameters() -> None:
    expected = torch.distributions.Normal(0.0, 2.0).log_prob(torch.tensor([1.0, 3.0]))
    found = Normal(0.0, 2.0).log_prob(fw.tensor([1.0, 3.0]))
    np.testing.assert_allclose(found.numpy(), expected.numpy(), 1e-6)


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan")])
def test_scale_that_is_not_positive(scale: float) -> None:
    with pytest.raises(ValueError, match="parameter scale"):
        Normal(0.0, scale)
    Normal(0.0, scale, validate_args=False)


def test_values_outside_the_support() -> None:
    with pytest.raises(ValueError, match="is not all in"):
        HalfNormal(1.0).log_prob(fw.tensor([-1.0]))
