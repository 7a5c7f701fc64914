"""Numbers on which functions are special, and what they are compared with."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.base.dtype import DType

INF, NAN = np.inf, np.nan
SPECIAL = np.array(
    [NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1e-30, 3.4e38, -3.4e38],
    np.float32,
)


def check_special(
    call: Callable[..., fw.Tensor],
    oracle: Callable[[np.ndarray], np.ndarray],
    make: Callable[..., fw.Tensor],
) -> None:
    """Compare a function with NumPy, which computes in float64 and rounds."""
    with np.errstate(all="ignore"):
        expected = oracle(SPECIAL.astype(np.float64)).astype(np.float32)
    assert_close(call(make(SPECIAL)), expected)


def check_special_pairs(
    call: Callable[..., fw.Tensor],
    oracle: Callable[..., Any],
    make: Callable[..., fw.Tensor],
) -> None:
    """Compare a function of two numbers with NumPy over all pairs."""
    x, y = SPECIAL[:, None], SPECIAL
    with np.errstate(all="ignore"):
        expected = oracle(x, y)
    assert_close(call(make(x), make(y)), expected)


def need(dtype: DType, place: Device) -> None:
    """Skip what the device has no arithmetic for, which `test_primitive` checks."""
    if dtype.feature and isinstance(place, GpuDevice):
        if not getattr(place.gpu.info, dtype.feature, False):
            pytest.skip(f"the device has no {dtype.feature}")
