"""Dense layers."""

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from tests.framework.nn.layers import compare
from vkbackend.framework import nn
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.errors import ShapeError


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("batch", [(5,), (2, 3), ()])
def test_linear(
    bias: bool, batch: tuple[int, ...], place: Device, rng: np.random.Generator
) -> None:
    x = rng.normal(size=(*batch, 7)).astype(np.float32)
    compare(nn.Linear(7, 3, bias), torch.nn.Linear(7, 3, bias), x, place)


def test_initial_values_are_uniform_within_the_bound() -> None:
    layer = nn.Linear(100, 50)
    assert layer.bias is not None
    for parameter in (layer.weight, layer.bias):
        values = np.abs(parameter.detach().numpy())
        assert 0.09 < values.max() <= 0.1
    before = layer.weight.tolist()
    layer.reset_parameters()
    assert layer.weight.tolist() != before


def test_no_features() -> None:
    assert nn.Linear(0, 2, bias=False)(fw.zeros((3, 0))).tolist() == [[0.0, 0.0]] * 3


def test_wrong_size() -> None:
    with pytest.raises(ShapeError, match=r"linear: x is \(5, 4\), weight \(3, 7\)"):
        nn.Linear(7, 3)(fw.zeros((5, 4)))


def test_identity() -> None:
    x = fw.ones(3)
    assert nn.Identity()(x) is x
    assert nn.Identity(54, unused=True)(x) is x


def test_bilinear(place: Device, rng: np.random.Generator) -> None:
    ours, theirs = nn.Bilinear(5, 3, 4), torch.nn.Bilinear(5, 3, 4)
    state = {key: fw.tensor(each.numpy()) for key, each in theirs.state_dict().items()}
    ours.load_state_dict(state)
    pair = [rng.normal(size=(2, n)).astype(np.float32) for n in (5, 3)]
    expected = theirs(*map(torch.tensor, pair)).detach().numpy()
    found = ours.to(place)(*(fw.tensor(each, device=place) for each in pair))
    assert_close(found, expected, scale=4)
    with pytest.raises(ValueError, match="in1_features is 0"):
        nn.Bilinear(0, 3, 4)
