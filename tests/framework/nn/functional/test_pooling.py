"""Pooling under PyTorch's signatures, with positions."""

from typing import Any

import pytest

from tests.framework.nn.functional.beside import beside, drawn
from vkbackend.framework.base.device import Device

SHAPE = (2, 3, 5, 6, 7)


@pytest.mark.int64
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_positions(dims: int, place: Device) -> None:
    x = drawn(*SHAPE[: 2 + dims])
    options: dict[str, Any] = {"return_indices": True}
    beside(f"max_pool{dims}d", place, x, 3, 2, 1, ceil_mode=True, **options)
    beside(f"adaptive_max_pool{dims}d", place, x, 2, **options)
    beside(f"max_pool{dims}d_with_indices", place, x[0], 2)
    beside(f"adaptive_max_pool{dims}d_with_indices", place, x, 3)


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_means(dims: int, place: Device) -> None:
    x = drawn(*SHAPE[: 2 + dims])
    beside(f"avg_pool{dims}d", place, x, 3, 2, 1, count_include_pad=False)
    beside(f"adaptive_avg_pool{dims}d", place, x, 3)
