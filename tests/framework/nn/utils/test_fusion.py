"""Fusion of batch norm: the copy does what both layers do."""

from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework import nn

PAIRS: dict[str, Any] = {
    "conv": (nn.Conv1d(3, 2, 3), nn.BatchNorm1d(2), (4, 3, 5)),
    "transposed": (
        nn.ConvTranspose1d(3, 2, 3, bias=False),
        nn.BatchNorm1d(2),
        (4, 3, 5),
    ),
    "linear": (nn.Linear(3, 2), nn.BatchNorm1d(2), (4, 3)),
}


@pytest.mark.parametrize("kind", PAIRS)
def test_is_as_both(kind: str, rng: np.random.Generator) -> None:
    layer, norm, shape = PAIRS[kind]
    x = fw.tensor(rng.normal(size=shape).astype("f4"))
    norm(layer(x))
    with pytest.raises(RuntimeError, match="is in training mode"):
        nn.utils.fuse_linear_bn_eval(layer, norm)
    both = nn.Sequential(layer, norm).eval()
    if kind == "linear":
        fused = nn.utils.fuse_linear_bn_eval(layer, norm)
    else:
        fused = nn.utils.fuse_conv_bn_eval(layer, norm, kind == "transposed")
    assert isinstance(fused.weight, nn.Parameter)
    assert fused is not layer
    assert fused.weight.requires_grad
    assert fused.bias.requires_grad is (layer.bias is not None)
    assert_close(fused(x), both(x).detach().numpy(), scale=20)
    both.train()
