"""Sampling at the places of a grid."""

from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.nn.functional.beside import Fixed, beside, drawn
from vkbackend.framework.base.device import Device
from vkbackend.framework.nn import functional as F  # noqa: N812 - PyTorch's usual name


def grid(*shape: int) -> np.ndarray:
    """Return places, a third of which are outside."""
    return drawn(*shape, seed=3) * 0.9


MODES = [
    pytest.param(
        mode, padding, aligned, marks=() if mode == tried else pytest.mark.wide
    )
    for padding, tried in (
        ("zeros", "bilinear"), ("border", "nearest"), ("reflection", "bicubic"),
    )
    for mode in ("bilinear", "nearest", "bicubic")
    for aligned in (True, False)
]  # fmt: skip


@pytest.mark.parametrize(("mode", "padding", "aligned"), MODES)
def test_images(mode: str, padding: str, aligned: bool, place: Device) -> None:
    beside(
        "grid_sample",
        place,
        drawn(2, 3, 4, 5),
        grid(2, 3, 4, 2),
        mode=mode,
        padding_mode=padding,
        align_corners=aligned,
        scale=8,  # sums of 16 products, each of two cubic weights
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("mode", "padding", "aligned"),
    [("bilinear", "zeros", False), ("nearest", "border", True),
     ("bilinear", "reflection", True)],
)  # fmt: skip
def test_volumes(mode: str, padding: str, aligned: bool, place: Device) -> None:
    beside(
        "grid_sample",
        place,
        drawn(2, 2, 3, 4, 5),
        grid(2, 2, 3, 2, 3),
        mode=mode,
        padding_mode=padding,
        align_corners=aligned,
        scale=8,
    )


@pytest.mark.parametrize("size", [(4, 5), (3, 4, 5)])
def test_nearest_elements_have_a_slope_of_zero(
    size: tuple[int, ...], place: Device
) -> None:
    x = fw.tensor(drawn(2, 2, *size), device=place)
    for shape in ((2, *size, len(size)), (2, *size[1:], 0, len(size))):
        where = fw.tensor(grid(*shape), device=place, requires_grad=True)
        for needed in (False, True):
            image = x.clone().requires_grad_(needed)
            F.grid_sample(image, where, "nearest", align_corners=False).sum().backward()
            assert where.grad is not None
            assert where.grad.shape == shape
            assert not where.grad.any()
            where.grad = None


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("size", [(2, 3, 4, 5), (2, 3, 2, 2, 3)])
def test_affine_grid(size: tuple[int, ...], aligned: bool, place: Device) -> None:
    dims = len(size) - 2
    theta = drawn(2, dims, dims + 1)
    beside("affine_grid", place, theta, list(size), align_corners=aligned)


def test_nan_is_the_first_element(place: Device) -> None:
    nowhere = np.full((1, 1, 2, 2), np.nan, np.float32)
    for padding in ("border", "reflection"):
        beside(
            "grid_sample", place, Fixed(drawn(1, 2, 3, 3)), Fixed(nowhere),
            padding_mode=padding, align_corners=False,
        )  # fmt: skip


def test_default_is_said() -> None:
    with pytest.warns(UserWarning, match="align_corners is None, which means False"):
        F.grid_sample(fw.ones((1, 1, 2, 2)), fw.zeros((1, 1, 1, 2)))


@pytest.mark.parametrize(
    ("shapes", "options", "text"),
    [
        (((1, 1, 2, 2), (1, 1, 1, 2)), {"mode": "cubic"}, "mode is 'cubic'"),
        (((1, 1, 2, 2), (1, 1, 1, 2)), {"padding_mode": "no"}, "padding_mode is 'no'"),
        (((1, 1, 2, 2), (2, 1, 1, 2)), {}, r"input is \(1, 1, 2, 2\)"),
        (((1, 1, 2, 2, 2), (1, 1, 1, 1, 3)), {"mode": "bicubic"}, "for 4-D input"),
    ],
)
def test_bad_arguments(shapes: Any, options: dict[str, str], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        F.grid_sample(*map(fw.ones, shapes), align_corners=False, **options)
