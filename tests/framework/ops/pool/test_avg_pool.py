"""Average pooling against PyTorch."""

from typing import Any

import pytest
import torch.nn.functional as F  # noqa: N812 - its own documentation's name

from tests.framework.ops.twin import Make, as_in_torch
from vkbackend.framework import ops

WINDOWS: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((2, 3, 7, 11), {"kernel_size": 2}),
    ((2, 3, 8, 8), {"kernel_size": 3, "stride": 2, "padding": 1}),
    (
        (2, 3, 8, 8),
        {"kernel_size": 3, "stride": 2, "padding": 1, "count_include_pad": False},
    ),
    (
        (2, 3, 8, 9),
        {"kernel_size": (3, 2), "stride": 2, "padding": (1, 0), "ceil_mode": True},
    ),
    (
        (3, 8, 9),
        {
            "kernel_size": (3, 2),
            "stride": (2, 4),
            "padding": 1,
            "ceil_mode": True,
            "count_include_pad": False,
        },
    ),
    ((1, 1, 6, 6), {"kernel_size": 2, "stride": 3}),
    ((3, 9, 9), {"kernel_size": 3, "divisor_override": 5}),
]


@pytest.mark.parametrize(("shape", "options"), WINDOWS)
def test_images(shape: tuple[int, ...], options: dict[str, Any], make: Make) -> None:
    as_in_torch(make, ops.avg_pool2d, F.avg_pool2d, shape, **options)


@pytest.mark.parametrize("shape", [(2, 3, 11), (3, 11)])
@pytest.mark.parametrize("counted", [True, False])
def test_signals(shape: tuple[int, ...], counted: bool, make: Make) -> None:
    options: dict[str, Any] = {"kernel_size": 4, "stride": 3, "padding": 2}
    options |= {"ceil_mode": True, "count_include_pad": counted}
    as_in_torch(make, ops.avg_pool1d, F.avg_pool1d, shape, **options)


@pytest.mark.parametrize("size", [1, (3, 4), (None, 5), (7, 11), (9, 13)])
def test_parts(size: Any, make: Make) -> None:
    options = {"output_size": size}
    as_in_torch(
        make, ops.adaptive_avg_pool2d, F.adaptive_avg_pool2d, (2, 3, 7, 11), **options
    )


def test_parts_of_signals(make: Make) -> None:
    as_in_torch(
        make,
        ops.adaptive_avg_pool1d,
        F.adaptive_avg_pool1d,
        (2, 3, 11),
        output_size=4,
    )
