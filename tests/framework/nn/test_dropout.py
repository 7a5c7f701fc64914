"""Dropout layers."""

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework import nn
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.errors import ShapeError


def test_training_drops_and_scales(place: Device) -> None:
    x = fw.ones((100, 50), device=place, requires_grad=True)
    out = nn.Dropout(0.2)(x)
    values = out.detach().numpy()
    assert set(np.unique(values)) == {0.0, np.float32(1.25)}
    assert 0.77 < (values != 0).mean() < 0.83
    out.sum().backward()
    assert x.grad is not None
    assert np.array_equal(x.grad.numpy(), values)


def test_each_call_draws_anew() -> None:
    layer, x = nn.Dropout(), fw.ones(1000)
    assert layer(x).tolist() != layer(x).tolist()


def test_evaluation_changes_nothing() -> None:
    x = fw.ones(3)
    assert nn.Dropout().eval()(x) is x
    assert nn.Dropout(0.0)(x) is x


@pytest.mark.parametrize("p", [-0.1, 1.5])
def test_bad_probability(p: float) -> None:
    with pytest.raises(
        ShapeError, match=f"Dropout2d: p is {p}; it must be from 0 to 1"
    ):
        nn.Dropout2d(p)


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_channels(dims: int, place: Device) -> None:
    size = (50, 20, 3, 2, 2)[: 2 + dims]
    values = (
        getattr(nn, f"Dropout{dims}d")(0.5)(fw.ones(size, device=place))
        .numpy()
        .reshape(1000, -1)
    )
    assert (values == values[:, :1]).all()
    assert 0.4 < (values != 0).mean() < 0.6


def test_repr() -> None:
    assert repr(nn.Dropout(0.25)) == "Dropout(p=0.25, inplace=False)"
