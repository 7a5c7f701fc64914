"""Group norm as a layer."""

from typing import Any

import numpy as np
import pytest
import torch

from tests.framework.nn.layers import compare
from vkbackend.framework import nn
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.errors import ShapeError


@pytest.mark.parametrize("options", [{}, {"eps": 0.1}, {"affine": False}])
def test_is_as_in_torch(
    options: dict[str, Any], place: Device, rng: np.random.Generator
) -> None:
    ours, theirs = nn.GroupNorm(2, 6, **options), torch.nn.GroupNorm(2, 6, **options)
    theirs.extra_repr = ours.extra_repr  # type: ignore[method-assign]
    compare(ours, theirs, rng.normal(size=(3, 6, 5, 2)).astype(np.float32), place)


def test_groups_must_divide_the_channels() -> None:
    with pytest.raises(ShapeError, match="the groups must divide the channels"):
        nn.GroupNorm(4, 6)
