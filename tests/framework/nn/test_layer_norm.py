"""Layer norm and RMS norm as layers."""

from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.framework.nn.layers import compare
from vkbackend.framework import nn
from vkbackend.framework.base.device import Device


@pytest.mark.parametrize(
    ("name", "shape", "options"),
    [
        ("LayerNorm", 7, {}),
        ("LayerNorm", (5, 7), {"eps": 0.1, "bias": False}),
        ("LayerNorm", [7], {"elementwise_affine": False}),
        ("RMSNorm", 7, {}),
        ("RMSNorm", (5, 7), {"eps": 0.1}),
        ("RMSNorm", [7], {"elementwise_affine": False}),
    ],
)
def test_is_as_in_torch(
    name: str,
    shape: Any,
    options: dict[str, Any],
    place: Device,
    rng: np.random.Generator,
) -> None:
    ours: nn.Module = getattr(nn, name)(shape, **options)
    theirs: torch.nn.Module = getattr(torch.nn, name)(shape, **options)
    theirs.extra_repr = ours.extra_repr  # type: ignore[method-assign]
    compare(ours, theirs, rng.normal(size=(3, 5, 7)).astype(np.float32), place)


def test_reset() -> None:
    layer = nn.LayerNorm(3)
    with fw.no_grad():
        for parameter in layer.parameters():
            parameter.fill_(5)
    layer.reset_parameters()
    assert layer.state_dict()["weight"].tolist() == [1, 1, 1]
    assert layer.state_dict()["bias"].tolist() == [0, 0, 0]
