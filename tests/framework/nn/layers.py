"""One layer of ours against PyTorch's, with the same state and input."""

from typing import Any

import numpy as np
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework import nn
from vkbackend.framework.base.device import Device


def compare(
    ours: nn.Module, theirs: torch.nn.Module, x: np.ndarray, place: Device
) -> None:
    """Check output and gradients of input and parameters, twice, and the state after.

    The second pass uses what the first left behind.
    """
    ours.load_state_dict(
        {name: fw.tensor(t.numpy()) for name, t in theirs.state_dict().items()}
    )
    ours.to(place)
    assert repr(ours) == repr(theirs)
    for factor in (1, 3):
        pass_through(ours, theirs, x * np.float32(factor), place)
    for name, tensor in theirs.state_dict().items():
        assert_close(ours.state_dict()[name], tensor.numpy(), scale=4)


def pass_through(
    ours: nn.Module, theirs: torch.nn.Module, x: np.ndarray, place: Device
) -> None:
    """Run both forward and backward and compare; gradients are sums of many terms."""
    expected_x = torch.tensor(x, requires_grad=True)
    found_x = fw.tensor(x, device=place, requires_grad=True)
    expected, found = theirs(expected_x), ours(found_x)
    assert_close(found, expected.detach().numpy(), scale=4)
    weights = np.linspace(-1, 1, expected.numel(), dtype=np.float32)
    weights = weights.reshape(tuple(expected.shape))
    (expected * torch.tensor(weights)).sum().backward()
    (found * fw.tensor(weights, device=place)).sum().backward()
    pairs: list[tuple[Any, Any]] = [(found_x, expected_x)]
    pairs += zip(ours.parameters(), theirs.parameters(), strict=True)
    for mine, other in pairs:
        assert other.grad is not None
        assert_close(mine.grad, other.grad.numpy(), scale=16)
