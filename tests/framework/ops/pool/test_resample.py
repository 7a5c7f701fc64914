"""The primitive behind average pooling and interpolation."""

import dataclasses

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.compare import assert_close
from tests.framework.ops.agree import need
from tests.framework.ops.twin import Make, draw
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.errors import ShapeError
from vkbackend.framework.ops.pool import resample
from vkbackend.framework.ops.pool.filter_weights import Averages, Shares
from vkbackend.framework.ops.pool.resample import (
    MOST_ELEMENTS,
    _resample,
    _resample2d,
    resampled,
    resampled_rows,
)
from vkbackend.framework.ops.reduce.common import in_storage


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


def known_calls() -> int:
    return len(_resample.call_cache) + len(_resample2d.call_cache)


def test_a_known_call_uploads_nothing(gpu: GpuDevice) -> None:
    x = fw.rand(2, 3, 9, 9, device=gpu)
    calls = (
        lambda: fw.nn.functional.avg_pool2d(x, 3, 2, 1),
        lambda: fw.nn.functional.interpolate(x, size=(7, 11), mode="bilinear"),
        lambda: fw.nn.functional.adaptive_avg_pool2d(x, 4),
    )
    for call in calls:
        before = known_calls()
        fw.eval(call())
        known, uploads = known_calls(), gpu.gpu.counters.uploads
        assert known > before
        fw.eval(call())
        assert (known_calls(), gpu.gpu.counters.uploads) == (known, uploads)


def test_sizes_are_checked() -> None:
    with pytest.raises(ShapeError) as raised:
        resampled("op", fw.ones((1, 1, 3)), {2: Shares(3, MOST_ELEMENTS + 1)})
    assert str(raised.value) == (
        "op: dimension 2 goes from 3 to 16777217 elements; both must be from 1 to"
        " 16777216"
    )


@pytest.mark.parametrize("hides_latency", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_both_dimensions_at_once(
    dtype: str, hides_latency: bool, gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one launch with the roundings of two, where loads are few."""
    need(dtype, gpu)
    info = gpu.gpu.info
    target = dataclasses.replace(info.target, hides_latency=hides_latency)
    monkeypatch.setitem(info.__dict__, "target", target)
    gpu.begin_generation()
    data = np.random.default_rng(0).standard_normal((2, 3, 8, 12)).astype("f4")
    functional = fw.nn.functional
    calls = {
        "averages": (lambda x: functional.avg_pool2d(x, 2), True),
        "overlapping": (lambda x: functional.avg_pool2d(x, 3, 2, 1), True),
        "bilinear": (
            lambda x: functional.interpolate(x, scale_factor=2, mode="bilinear"),
            hides_latency,
        ),
        "bicubic": (
            lambda x: functional.interpolate(x, scale_factor=2, mode="bicubic"),
            False,
        ),
    }
    for name, (call, at_once) in calls.items():
        x = fw.tensor(data, device=gpu).to(dtype).requires_grad_()
        y = fw.tensor(data).to(dtype).requires_grad_()
        fw.eval(call(x))
        before = gpu.gpu.counters.snapshot()
        found = call(x)
        fw.eval(found)
        launches = (gpu.gpu.counters.snapshot() - before).dispatches
        assert (launches == 1) is (at_once and in_storage(x) is x), name
        assert_near(found.detach(), call(y).detach(), dtype)
        found.sum().backward()
        call(y).sum().backward()
        assert x.grad is not None
        assert y.grad is not None
        assert_near(x.grad, y.grad, dtype)


def assert_near(found: fw.Tensor, wanted: fw.Tensor, dtype: str) -> None:
    """Check what differs by a rounding to the dtype."""
    step = {"float32": 2.0**-20, "float16": 2.0**-10, "bfloat16": 2.0**-7}[dtype]
    both = (each.cpu().float().numpy() for each in (found, wanted))
    np.testing.assert_allclose(*both, rtol=step, atol=step)


@pytest.mark.parametrize("several_rows", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_three_dimensions_at_once(
    dtype: str, several_rows: bool, gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one launch, and their gradient in another, where loads are few."""
    need(dtype, gpu)
    if several_rows:
        monkeypatch.setattr(resample, "MANY_ELEMENTS", 1)
        gpu.plans.clear()
    info = gpu.gpu.info
    target = dataclasses.replace(info.target, hides_latency=True)
    monkeypatch.setitem(info.__dict__, "target", target)
    data = np.random.default_rng(0).standard_normal((2, 3, 4, 9, 10)).astype("f4")
    functional = fw.nn.functional
    calls = {
        "averages": (lambda x: functional.avg_pool3d(x, 2), True),
        "parts": (lambda x: functional.adaptive_avg_pool3d(x, 5), True),
        "some padding": (lambda x: functional.avg_pool3d(x, 2, 2, 1), True),
        "overlapping": (lambda x: functional.avg_pool3d(x, 3, 1, 1), False),
        "trilinear": (
            lambda x: functional.interpolate(x, scale_factor=2, mode="trilinear"),
            False,
        ),
    }
    for name, (call, at_once) in calls.items():
        x = fw.tensor(data, device=gpu).to(dtype).requires_grad_()
        y = fw.tensor(data).to(dtype).requires_grad_()
        fw.eval(call(x))
        before = gpu.gpu.counters.snapshot()
        found = call(x)
        fw.eval(found)
        launches = (gpu.gpu.counters.snapshot() - before).dispatches
        assert (launches == 1) is (at_once and in_storage(x) is x), name
        assert_near(found.detach(), call(y).detach(), dtype)
        found.sum().backward()
        call(y).sum().backward()
        assert x.grad is not None
        assert y.grad is not None
        assert_near(x.grad, y.grad, dtype)
    fw.eval()
    gpu.plans.clear()


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize(
    ("shape", "sizes"),
    [
        ((3, 211), (4,)),
        ((3, 997), (1,)),
        ((3, 3, 400), (1, 1)),
        ((3, 23, 31), (3, 4)),
        ((2, 5, 13, 11), (4, 2, 3)),
        ((2, 40, 2, 3), (1, 2, 2)),
    ],
)
def test_long_sums_by_groups(
    shape: tuple[int, ...], sizes: tuple[int, ...], back: bool, quads: GpuDevice
) -> None:
    """As hardware sums them; gradients have few taps and an invocation each."""
    x = draw(*shape)
    rules = dict(enumerate(map(Shares, shape[1:], sizes), 1))
    place = fw.tensor(x, device=quads, requires_grad=True)
    twin = fw.tensor(x, device="cpu", requires_grad=True)
    found, wanted = (resampled("sums", each, rules) for each in (place, twin))
    assert_close(found.detach(), wanted.detach().numpy())
    if back:
        (found**2).sum().backward()
        (wanted**2).sum().backward()
        assert_close(place.grad, twin.grad.numpy())
