"""Dropout under PyTorch's signatures."""

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.errors import ShapeError
from vkbackend.framework.nn import functional as F  # noqa: N812 - PyTorch's usual name


def test_alpha_dropout_keeps_mean_and_variance(place: Device) -> None:
    x = fw.randn(20000, device=place).requires_grad_()
    out = F.alpha_dropout(x, 0.3, training=True)
    assert abs(out.detach().numpy().mean()) < 0.03
    assert abs(out.detach().numpy().std() - 1) < 0.03
    values, counts = np.unique(out.detach().numpy(), return_counts=True)
    dropped = out.detach().numpy() == values[counts.argmax()]
    assert 0.27 < dropped.mean() < 0.33
    out.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy() == 0, dropped)
    assert F.alpha_dropout(x, 0.3) is x


def test_channels_together(place: Device) -> None:
    x = fw.ones((50, 20, 3, 2), device=place)
    values = F.feature_alpha_dropout(x, training=True).numpy().reshape(1000, -1)
    assert (values == values[:, :1]).all()
    assert len(np.unique(values)) == 2
    with pytest.warns(UserWarning, match="input is 3-D"):
        values = F.dropout2d(x.reshape(50, 20, 6)).numpy().reshape(1000, -1)
    assert (values == values[:, :1]).all()
    assert len(np.unique(values)) == 2
    flat = fw.ones((50, 20), device=place)
    with pytest.warns(UserWarning, match="dropout2d: input is 2-D"):
        assert set(np.unique(F.dropout2d(flat).numpy())) == {0, 2}
    with pytest.warns(UserWarning, match="dropout3d: input is 2-D"):
        values = F.dropout3d(flat, inplace=True).numpy()
    assert (values == values[:, :1]).all()
    np.testing.assert_array_equal(values, flat.numpy())


def test_in_place(place: Device) -> None:
    x = fw.ones(1000, device=place, requires_grad=True)
    changed = x * 1
    assert F.dropout(changed, 0.5, inplace=True) is changed
    changed.sum().backward()
    assert set(np.unique(changed.detach().numpy())) == {0, 2}
    np.testing.assert_array_equal(x.grad.numpy(), changed.detach().numpy())


def test_bad_arguments() -> None:
    with pytest.raises(ShapeError, match="alpha_dropout: p is 2; it must be from 0"):
        F.alpha_dropout(fw.ones(3), 2, True)
    with (
        pytest.warns(UserWarning, match="dropout2d: input is 1-D"),
        pytest.raises(ShapeError, match="dropout2d: input is"),
    ):
        F.dropout2d(fw.ones(3))
    with pytest.raises(ShapeError, match="feature_alpha_dropout: input is"):
        F.feature_alpha_dropout(fw.ones(3), 0.5, True)
