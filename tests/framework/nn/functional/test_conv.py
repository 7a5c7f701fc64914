"""Products and convolutions under PyTorch's signatures, and the names there are."""

import numpy as np
import pytest
import torch

from tests.framework.nn.functional.beside import beside, drawn
from vkbackend.framework import ops
from vkbackend.framework.base.device import Device
from vkbackend.framework.nn import functional


@pytest.mark.parametrize("bias", [True, False])
def test_linear(bias: bool, place: Device) -> None:
    beside("linear", place, drawn(3, 7), drawn(5, 7), drawn(5) if bias else None)


def test_channels_last_of_all(place: Device) -> None:
    x, weight, bias = drawn(9, 2, 3), drawn(3, 3, 4), drawn(4)
    beside("conv_tbc", place, x, weight, bias, pad=1)


# What PyTorch has no function for.
OWN = {"rope", "swiglu"}


@pytest.mark.torch213
@pytest.mark.parametrize("name", functional.__all__)
def test_names_are_pytorchs(name: str) -> None:
    assert (name in OWN) != hasattr(torch.nn.functional, name)
    ours = getattr(functional, name)
    assert callable(ours) or ours == getattr(torch.nn.functional, name)


def test_whatever_pytorch_has_there() -> None:
    # Of tensors, `unfold` is another function.
    both = {name for name in ops.NAMES if hasattr(torch.nn.functional, name)}
    assert both - {"unfold"} <= set(functional.__all__)


def test_patches(place: Device) -> None:
    beside("unfold", place, drawn(2, 3, 5, 7), 3, padding=1, stride=2)
    patches = torch.nn.functional.unfold(
        torch.tensor(drawn(2, 3, 5, 7)), 3, padding=1, stride=2
    )
    beside("fold", place, np.asarray(patches), (5, 7), 3, padding=1, stride=2)
