"""The functions behind the layers."""

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework import ops
from vkbackend.framework.base.device import Device
from vkbackend.framework.nn import functional


@pytest.mark.parametrize("bias", [True, False])
def test_linear(bias: bool, place: Device, rng: np.random.Generator) -> None:
    x, weight, shift = (
        rng.normal(size=size).astype(np.float32) for size in ((3, 7), (5, 7), 5)
    )
    arrays = (x, weight, shift) if bias else (x, weight)
    expected = torch.nn.functional.linear(*map(torch.tensor, arrays))
    found = functional.linear(*(fw.tensor(array, device=place) for array in arrays))
    assert_close(found, expected.numpy())


# What PyTorch has no function for.
OWN = {"rope", "swiglu"}


@pytest.mark.parametrize("name", functional.__all__)
def test_names_are_pytorchs(name: str) -> None:
    assert (name in OWN) != hasattr(torch.nn.functional, name)
    assert callable(getattr(functional, name))


def test_whatever_pytorch_has_there() -> None:
    # Of tensors, `unfold` is another function.
    both = {name for name in ops.NAMES if hasattr(torch.nn.functional, name)}
    assert both - {"unfold"} <= set(functional.__all__)


def test_patches(place: Device, rng: np.random.Generator) -> None:
    x = rng.normal(size=(2, 3, 5, 7)).astype(np.float32)
    patches = torch.nn.functional.unfold(torch.tensor(x), 3, padding=1, stride=2)
    found = functional.unfold(fw.tensor(x, device=place), 3, padding=1, stride=2)
    assert_close(found, patches.numpy())
    image = torch.nn.functional.fold(patches, (5, 7), 3, padding=1, stride=2)
    back = functional.fold(found, (5, 7), 3, padding=1, stride=2)
    assert_close(back, image.numpy())
