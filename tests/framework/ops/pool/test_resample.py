"""The primitive behind average pooling and interpolation."""

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.compare import assert_close
from tests.framework.ops.twin import Make, draw
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.errors import ShapeError
from vkbackend.framework.ops.pool.filter_weights import Averages, Shares
from vkbackend.framework.ops.pool.resample import (
    MOST_ELEMENTS,
    _resample,
    resampled,
    resampled_rows,
)


def test_one_element_for_all(make: Make) -> None:
    x = draw(2, 1009, 3)
    found = resampled_rows(make(x), Averages(1009, 1, 1009, 1, 0, "padded"))
    assert_close(found, x.mean(axis=1, keepdims=True, dtype=np.float64).astype("f4"))


def test_gradient_of_gradient_is_the_sum_again(make: Make) -> None:
    x = make(draw(2, 7, 3), grad=True)
    (resampled_rows(x, Shares(7, 4)) ** 2).sum().backward(create_graph=True)
    first, x.grad = x.grad, None
    first.sum().backward()
    # Of the quadratic form x' A' A x: 2 A' A applied to ones.
    ones = make(np.ones((2, 7, 3), np.float32))
    back = resampled_rows(resampled_rows(ones, Shares(7, 4)), Shares(7, 4), back=True)
    assert_close(x.grad, 2 * back.numpy())


def test_a_known_call_uploads_nothing(gpu: GpuDevice) -> None:
    x = fw.rand(2, 3, 9, 9, device=gpu)
    calls = (
        lambda: fw.nn.functional.avg_pool2d(x, 3, 2, 1),
        lambda: fw.nn.functional.interpolate(x, size=(7, 11), mode="bilinear"),
        lambda: fw.nn.functional.adaptive_avg_pool2d(x, 4),
    )
    for call in calls:
        before = len(_resample.call_cache)
        fw.eval(call())
        known, uploads = len(_resample.call_cache), gpu.gpu.counters.uploads
        assert known > before
        fw.eval(call())
        assert (len(_resample.call_cache), gpu.gpu.counters.uploads) == (known, uploads)


def test_sizes_are_checked() -> None:
    with pytest.raises(ShapeError) as raised:
        resampled("op", fw.ones((1, 1, 3)), {2: Shares(3, MOST_ELEMENTS + 1)})
    assert str(raised.value) == (
        "op: dimension 2 goes from 3 to 16777217 elements; both must be from 1 to"
        " 16777216"
    )
