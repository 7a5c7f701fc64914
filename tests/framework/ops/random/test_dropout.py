"""Dropout: shares, scale, the same mask backward, repeatable."""

from collections.abc import Callable

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.ops.twin import draw
from vkbackend.framework import ops
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.errors import ShapeError
from vkbackend.framework.ops.random.dropout import _dropout

Make = Callable[..., fw.Tensor]


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_share_and_scale(p: float, make: Make) -> None:
    out = ops.dropout(make(np.ones((200, 200), np.float32)), p).numpy()
    # 40,000 draws have a deviation of 0.0025 at most.
    assert abs((out == 0).mean() - p) < 0.01
    np.testing.assert_allclose(out[out != 0], 1 / (1 - p), rtol=1e-6)


def test_gradient_has_the_mask_of_the_result(make: Make) -> None:
    x = make(np.ones((37, 11), np.float32), grad=True)
    out = ops.dropout(x, 0.5)
    out.sum().backward()
    assert np.array_equal(x.grad.numpy(), out.detach().numpy())


def test_each_call_draws_anew_and_seeds_repeat(make: Make) -> None:
    x = make(np.ones(100, np.float32))
    first, second = ops.dropout(x).numpy(), ops.dropout(x).numpy()
    assert not np.array_equal(first, second)
    fw.manual_seed(20)
    assert np.array_equal(ops.dropout(x).numpy(), first)


def test_nothing_to_drop(make: Make) -> None:
    x = make([1.0])
    assert ops.dropout(x, 0.5, training=False) is x
    assert ops.dropout(x, 0.0) is x
    for p in (-0.1, 1.5, float("nan")):
        with pytest.raises(ShapeError) as raised:
            ops.dropout(x, p)
        assert str(raised.value) == f"dropout: p is {p}; it must be from 0 to 1"


@pytest.mark.core
def test_mask_is_the_same_on_every_device(gpu: GpuDevice) -> None:
    results = []
    for device in ("cpu", gpu):
        fw.manual_seed(4)
        results.append(ops.dropout(fw.ones((7, 11), device=device), 0.3).numpy())
    assert np.array_equal(*results)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("dropout1d", (40, 50, 3)),
        ("dropout1d", (2000, 3)),
        ("dropout2d", (40, 50, 2, 3)),
        ("dropout2d", (2000, 2, 3)),
        ("dropout3d", (40, 50, 1, 2, 3)),
    ],
)
def test_whole_channels(name: str, shape: tuple[int, ...], make: Make) -> None:
    x = make(np.ones(shape, np.float32), grad=True)
    out = getattr(ops, name)(x, 0.25)
    out.sum().backward()
    assert np.array_equal(x.grad.numpy(), out.detach().numpy())
    channels = out.detach().numpy().reshape(2000, -1)
    assert (channels == channels[:, :1]).all()
    # 2,000 draws have a deviation of 0.01.
    assert abs((channels[:, 0] == 0).mean() - 0.25) < 0.04
    assert set(np.unique(channels)) == {0, np.float32(1 / 0.75)}


def test_channels_need_their_dimensions(make: Make) -> None:
    with pytest.raises(ShapeError) as raised:
        ops.dropout2d(make(np.ones((2, 3), np.float32)))
    assert str(raised.value) == (
        "dropout2d: x is (2, 3); it must have 4 dimensions, (batch, channels, ...), or"
        " 3 without the batch"
    )


def test_everything_dropped(make: Make) -> None:
    x = make([1.0, np.inf], grad=True)
    out = ops.dropout(x, 1.0)
    out.sum().backward()
    assert out.tolist() == x.grad.tolist() == [0, 0]


def test_calls_are_cached_though_their_draws_differ(gpu: GpuDevice) -> None:
    x = fw.ones(64, 64, device=gpu, requires_grad=True)
    before = len(_dropout.call_cache)
    masks = set()
    for _ in range(5):
        out = ops.dropout(x, 0.3)
        (grad,) = fw.autograd.grad(out.sum(), [x])
        assert np.array_equal(out.detach().numpy(), grad.numpy())
        masks.add(grad.numpy().tobytes())
    assert len(masks) == 5
    # Of the tensor, and of the gradient, which is expanded.
    assert len(_dropout.call_cache) <= before + 2


def test_a_call_that_is_replayed_draws_what_the_host_draws(gpu: GpuDevice) -> None:
    """Also where its graph runs at once, and where several are of one graph."""
    data = draw(16, 24)
    drawn = []
    for device in (gpu, "cpu"):
        fw.manual_seed(20)
        x = fw.tensor(data, device=device)
        first = ops.dropout(x, 0.3).numpy()
        others = [ops.dropout(x, 0.3) for _ in range(3)]
        drawn.append([first, *[each.numpy() for each in others]])
    for mine, wanted in zip(*drawn, strict=True):
        np.testing.assert_array_equal(mine, wanted)
    recorded = [
        call
        for cached in _dropout.call_cache.values()
        for call in cached.recorded_calls.values()
    ]
    assert any(call is not None and call.drawing for call in recorded)


def test_its_gradient_is_differentiated(make: Make) -> None:
    x, grad = make(draw(5, 7), grad=True), make(draw(5, 7, seed=1), grad=True)
    out = ops.dropout(x, 0.5)
    (first,) = fw.autograd.grad([out], [x], [grad], create_graph=True)
    (second,) = fw.autograd.grad([first.sum()], [grad])
    kept = (out.detach().numpy() != 0) * np.float32(2)
    np.testing.assert_array_equal(second.numpy(), kept)
