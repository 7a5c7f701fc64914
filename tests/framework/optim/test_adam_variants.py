"""Relatives of Adam: formulas of those that PyTorch has not, and options."""

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework import optim
from vkbackend.framework.base.device import Device


def run(kind: type[optim.Optimizer], place: Device, **options: float) -> np.ndarray:
    """Return a parameter after three steps along fixed gradients."""
    x = fw.tensor([1.0, -2.0, 0.5], device=place, requires_grad=True)
    optimizer = kind([x], **options)  # type: ignore[call-arg]
    for grad in GRADS:
        x.grad = fw.tensor(grad, device=place)
        optimizer.step()
    found: np.ndarray = x.detach().numpy()
    return found


GRADS = np.float32([[0.5, 1, -1], [0.2, -1, 0], [-0.3, 0.5, 2]])


def test_lamb(place: Device) -> None:
    x, first, second = np.array([1.0, -2.0, 0.5]), np.zeros(3), np.zeros(3)
    for step, grad in enumerate(GRADS.astype(float), 1):
        first = 0.9 * first + 0.1 * grad
        second = 0.999 * second + 0.001 * grad**2
        scale = np.sqrt(second / (1 - 0.999**step)) + 1e-6
        update = first / (1 - 0.9**step) / scale + 0.1 * x
        x = x - 0.01 * np.linalg.norm(x) / np.linalg.norm(update) * update
    found = run(optim.LAMB, place, lr=0.01, weight_decay=0.1)
    np.testing.assert_allclose(found, x, 1e-5)


def test_lamb_of_a_parameter_of_zeros() -> None:
    x = fw.zeros(2, requires_grad=True)
    optimizer = optim.LAMB([x], lr=0.5)
    x.grad = fw.ones(2)
    optimizer.step()
    np.testing.assert_allclose(x.detach().numpy(), -0.5, 1e-5)


def test_lion(place: Device) -> None:
    x, moment = np.array([1.0, -2.0, 0.5]), np.zeros(3)
    for grad in GRADS.astype(float):
        x = x * (1 - 0.01 * 0.1) - 0.01 * np.sign(0.9 * moment + 0.1 * grad)
        moment = 0.99 * moment + 0.01 * grad
    found = run(optim.Lion, place, lr=0.01, weight_decay=0.1)
    np.testing.assert_allclose(found, x, 1e-6)


def test_bad_options_are_named() -> None:
    x = fw.ones(2, requires_grad=True)
    with pytest.raises(ValueError, match=r"Lion: betas are \(0.9, 1\)"):
        optim.Lion([x], betas=(0.9, 1))
    with pytest.raises(ValueError, match="NAdam: momentum_decay is -1"):
        optim.NAdam([x], momentum_decay=-1)
