"""Padding, resizing and rearranging of images."""

from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.nn.functional.beside import Fixed, beside, drawn
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.errors import ShapeError
from vkbackend.framework.nn import functional as F  # noqa: N812 - PyTorch's usual name


def test_rearranged(place: Device) -> None:
    x = drawn(2, 12, 4, 6)
    beside("pixel_shuffle", place, x, 2)
    beside("pixel_unshuffle", place, x, 2)
    beside("pixel_shuffle", place, x[0], 2)
    beside("channel_shuffle", place, x, 3)
    beside("native_channel_shuffle", place, Fixed(x), 4)
    beside("pad", place, x, (1, 2, 0, 1), mode="circular")
    beside("pad", place, x, (-1, 2, 1, -2), mode="reflect")
    beside("pad", place, x, (-1, 2, 0, -1), mode="replicate")


def test_resized(place: Device) -> None:
    beside("interpolate", place, drawn(1, 2, 3, 4), scale_factor=2.0, mode="bilinear")
    pixels = np.arange(24, dtype=np.uint8).reshape(1, 2, 3, 4) * 10
    beside("interpolate", place, pixels, scale_factor=2)
    x = fw.tensor(drawn(1, 2, 3, 4), device=place)
    for call, mode in (
        (lambda: F.upsample(x, scale_factor=2.0), {"mode": "nearest"}),
        (lambda: F.upsample_nearest(x, scale_factor=2.0), {"mode": "nearest"}),
        (
            lambda: F.upsample_bilinear(x, scale_factor=2.0),
            {"mode": "bilinear", "align_corners": True},
        ),
    ):
        options: Any = mode
        with pytest.warns(UserWarning, match="is deprecated; use interpolate"):
            found = call()
        expected = F.interpolate(x, scale_factor=2.0, **options)
        np.testing.assert_array_equal(found.numpy(), expected.numpy())


@pytest.mark.int64
def test_one_hot(place: Device) -> None:
    beside("one_hot", place, np.array([[0, 2], [1, 1]]), num_classes=4)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: F.pixel_shuffle(x, 2), "a multiple of 4 channels"),
        (lambda x: F.pixel_shuffle(x, 0), "upscale_factor is 0"),
        (lambda x: F.pixel_unshuffle(x, 2), "multiples of 2"),
        (lambda x: F.channel_shuffle(x, 2), "a multiple of 2 channels"),
    ],
)
def test_bad_arguments(call: Any, text: str) -> None:
    with pytest.raises(ShapeError, match=text):
        call(fw.ones((1, 3, 3, 3)))
