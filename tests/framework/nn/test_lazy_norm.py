"""Lazy normalisations become normalisations at the first call."""

from typing import Any

import pytest

import vkbackend.framework as fw
from tests.framework.nn.lazy_layers import check_first_call
from vkbackend.framework import nn

LAYERS: list[tuple[str, tuple[Any, ...], tuple[int, ...]]] = [
    ("LazyBatchNorm1d", (), (2, 3)),
    ("LazyBatchNorm2d", (), (2, 3, 2, 2)),
    ("LazyBatchNorm3d", (), (2, 3, 2, 2, 2)),
    ("LazyInstanceNorm1d", (1e-5, 0.1, True), (2, 3, 4)),
    ("LazyInstanceNorm2d", (1e-5, 0.1, True, True), (2, 3, 2, 2)),
    ("LazyInstanceNorm3d", (), (2, 3, 2, 2, 2)),
]


@pytest.mark.torch213
@pytest.mark.parametrize(("name", "args", "shape"), LAYERS)
def test_first_call(name: str, args: Any, shape: tuple[int, ...]) -> None:
    check_first_call(name, args, shape)


def test_statistics_start_at_the_first_call() -> None:
    layer = nn.LazyBatchNorm1d()
    layer(fw.ones((2, 3)))
    assert layer.num_batches_tracked.item() == 1
    assert layer.running_mean.shape == (3,)
