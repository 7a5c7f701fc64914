import warnings

import pytest

import vkbackend.framework as fw
from vkbackend.framework.autograd import engine, tape
from vkbackend.framework.base.errors import GradError


def test_the_op_that_made_nan_is_named() -> None:
    numbers = tape._sequence
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with fw.autograd.detect_anomaly():
            x = fw.tensor([-1.0], requires_grad=True)
            y = x.sqrt().sum()
            with pytest.raises(GradError, match="SqrtBackward0"):
                y.backward()
    assert "debugging" in str(told[0].message)
    assert "x.sqrt()" in str(told[1].message)
    assert not fw.is_anomaly_enabled()
    assert tape._sequence is numbers
    assert not engine.check_gradients


def test_it_can_be_switched_without_the_check() -> None:
    with fw.autograd.set_detect_anomaly(True, check_nan=False):
        assert fw.is_anomaly_enabled()
        assert not fw.is_anomaly_check_nan_enabled()
        x = fw.tensor([-1.0], requires_grad=True)
        x.sqrt().sum().backward()
    assert fw.is_anomaly_check_nan_enabled()
