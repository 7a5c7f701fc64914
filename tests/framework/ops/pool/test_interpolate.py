"""Resizing against PyTorch."""

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its own documentation's name

from tests.compare import assert_close
from tests.framework.ops.twin import Make, as_in_torch, draw
from vkbackend.framework import ops

SIZES: list[dict[str, Any]] = [
    {"size": 9},
    {"size": 3},
    {"size": 1},
    {"scale_factor": 2},
    {"scale_factor": 0.6},
    {"scale_factor": 1.7},
    {"scale_factor": 1.7, "recompute_scale_factor": True},
]
MODES = [
    ("nearest", (2, 3, 7), None),
    ("nearest", (2, 3, 7, 5), None),
    ("nearest-exact", (2, 3, 7, 5), None),
    ("area", (2, 3, 7, 5), None),
    ("linear", (2, 3, 7), None),
    ("bilinear", (2, 3, 7, 5), None),
    ("bilinear", (2, 3, 7, 5), True),
    ("bicubic", (2, 3, 7, 5), False),
    ("bicubic", (2, 3, 7, 5), True),
    ("trilinear", (1, 2, 4, 3, 5), None),
]


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize(("mode", "shape", "aligned"), MODES)
def test_result_and_gradient(
    mode: str,
    shape: tuple[int, ...],
    aligned: bool | None,
    size: dict[str, Any],
    make: Make,
) -> None:
    as_in_torch(
        make,
        ops.interpolate,
        F.interpolate,
        shape,
        mode=mode,
        align_corners=aligned,
        **size,
    )


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("aligned", [None, True])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_antialias(
    mode: str, aligned: bool | None, size: dict[str, Any], make: Make
) -> None:
    as_in_torch(
        make,
        ops.interpolate,
        F.interpolate,
        (2, 3, 17, 13),
        mode=mode,
        align_corners=aligned,
        antialias=True,
        **size,
    )


def test_nearest_is_exact_at_many_sizes(make: Make) -> None:
    x = draw(1, 1, 17)
    for size in range(1, 60):
        wanted = F.interpolate(torch.from_numpy(x), size)
        assert_close(ops.interpolate(make(x), size), wanted.numpy(), exact=True)


def test_infinity_stays_where_it_is(make: Make) -> None:
    x = np.zeros((1, 1, 4), np.float32)
    x[0, 0, 3] = np.inf
    found = ops.interpolate(make(x), 8).tolist()
    assert found == [[[0, 0, 0, 0, 0, 0, np.inf, np.inf]]]
