"""Pooling layers."""

from typing import Any

import numpy as np
import pytest
import torch

from tests.framework.nn.layers import compare
from vkbackend.framework import nn
from vkbackend.framework.base.device import Device

WINDOWS: list[dict[str, Any]] = [
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 3, "stride": 2, "ceil_mode": True},
]
SHAPE = (3, 2, 7, 9, 5)


@pytest.mark.parametrize("options", WINDOWS)
@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("kind", ["Max", "Avg"])
def test_pool(
    kind: str,
    dims: int,
    options: dict[str, Any],
    place: Device,
    rng: np.random.Generator,
) -> None:
    x = rng.normal(size=SHAPE[: 2 + dims]).astype(np.float32)
    name = f"{kind}Pool{dims}d"
    ours, theirs = (getattr(lib, name)(**options) for lib in (nn, torch.nn))
    compare(ours, theirs, x, place)


def test_sizes_by_dimension(place: Device, rng: np.random.Generator) -> None:
    x = rng.normal(size=SHAPE[:4]).astype(np.float32)
    options: dict[str, Any] = {"kernel_size": (2, 3), "stride": (1, 2)}
    compare(
        nn.MaxPool2d(**options, dilation=2),
        torch.nn.MaxPool2d(**options, dilation=2),
        x,
        place,
    )
    options |= {"padding": 1, "count_include_pad": False}
    compare(nn.AvgPool2d(**options), torch.nn.AvgPool2d(**options), x, place)
    divided = {**options, "divisor_override": 5}
    compare(nn.AvgPool2d(**divided), torch.nn.AvgPool2d(**divided), x, place)


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("AdaptiveAvgPool1d", 4),
        ("AdaptiveMaxPool1d", 4),
        ("AdaptiveAvgPool2d", (3, None)),
        ("AdaptiveAvgPool2d", 1),
        ("AdaptiveMaxPool2d", (3, 4)),
        ("AdaptiveAvgPool3d", (3, None, 2)),
        ("AdaptiveMaxPool3d", 2),
    ],
)
def test_adaptive(
    name: str, size: Any, place: Device, rng: np.random.Generator
) -> None:
    x = rng.normal(size=SHAPE[: 2 + int(name[-2])]).astype(np.float32)
    compare(getattr(nn, name)(size), getattr(torch.nn, name)(size), x, place)


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_power_averages(dims: int, place: Device, rng: np.random.Generator) -> None:
    x = rng.uniform(0.1, 1, SHAPE[: 2 + dims]).astype(np.float32)
    ours, theirs = (getattr(lib, f"LPPool{dims}d")(2, 3, 2) for lib in (nn, torch.nn))
    compare(ours, theirs, x, place)
