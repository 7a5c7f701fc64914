"""Max unpooling and fractional max pooling layers."""

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from tests.framework.nn.functional.beside import drawn
from vkbackend.framework import nn
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.errors import ShapeError


@pytest.mark.int64
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_there_and_back(dims: int, place: Device) -> None:
    x = drawn(2, 3, 4, 5, 7)[(..., *(0,) * (3 - dims))]
    results = []
    for library, given in (
        (torch.nn, torch.tensor(x)),
        (nn, fw.tensor(x, device=place)),
    ):
        pool = getattr(library, f"MaxPool{dims}d")(2, return_indices=True)
        back = getattr(library, f"MaxUnpool{dims}d")(2)
        values, places = pool(given)
        results.append(back(values, places, output_size=list(x.shape)))
    assert_close(results[1], results[0].numpy(), exact=True)


@pytest.mark.int64
def test_random_windows(place: Device) -> None:
    x, draws = drawn(2, 3, 7, 9), np.full((2, 3, 2), 0.3, np.float32)
    results = []
    for library, tensor in (
        (torch.nn, torch.tensor),
        (nn, lambda each: fw.tensor(each, device=place)),
    ):
        layer = library.FractionalMaxPool2d(
            2, output_ratio=(0.5, 0.7), _random_samples=tensor(draws)
        )
        results.append(layer(tensor(x)))
    assert_close(results[1], results[0].numpy(), exact=True)
    assert nn.FractionalMaxPool3d(2, 2)(fw.ones((1, 4, 5, 6))).shape == (1, 2, 2, 2)


def test_bad_arguments() -> None:
    with pytest.raises(ShapeError, match="one of them must be given"):
        nn.FractionalMaxPool2d(2)
    with pytest.raises(ShapeError, match="output_ratio is"):
        nn.FractionalMaxPool2d(2, output_ratio=2.0)
