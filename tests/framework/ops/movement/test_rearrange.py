"""Flip, roll, pad and repeat."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

import vkbackend
import vkbackend.framework as fw
from tests.framework.ops.agree import Row, agree, need
from vkbackend.framework import ops
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.base.errors import DTypeError, ShapeError
from vkbackend.framework.ops.movement import transpose

FLOATS = ("float32", "float16")

ROWS = {
    "flip": Row(lambda x: ops.flip(x, (0, 2)), lambda x: x.flip((0, 2)), (3, 4, 5)),
    "roll": Row(
        lambda x: ops.roll(x, (5, -1), (0, 2)),
        lambda x: x.roll((5, -1), (0, 2)),
        (3, 4, 5),
    ),
    "rot90": Row(
        lambda x: ops.rot90(x, 1, (0, 2)), lambda x: x.rot90(1, (0, 2)), (3, 4, 5)
    ),
    "rot90 back": Row(lambda x: ops.rot90(x, -1), lambda x: x.rot90(-1), (3, 4, 5)),
    "rot90 twice": Row(lambda x: ops.rot90(x, 6), lambda x: x.rot90(6), (3, 4, 5)),
    "roll flat": Row(lambda x: ops.roll(x, 7), lambda x: x.roll(7), (3, 4, 5)),
    "pad": Row(
        lambda x: ops.pad(x, (1, 2, -1, 3), value=1),
        lambda x: torch.nn.functional.pad(x, (1, 2, -1, 3), value=1),
        (3, 4, 5),
    ),
    "repeat": Row(
        lambda x: ops.repeat(x, 2, 1, 3), lambda x: x.repeat(2, 1, 3), (4, 5)
    ),
    "tile": Row(lambda x: ops.tile(x, 2), lambda x: x.tile(2), (4, 5)),
}
for mode in ("reflect", "replicate", "circular"):
    ROWS[mode] = Row(
        lambda x, mode=mode: ops.pad(x, (2, 1, 0, 3), mode),
        lambda x, mode=mode: torch.nn.functional.pad(x, (2, 1, 0, 3), mode),
        (2, 3, 4, 5),
        dtypes=FLOATS,
    )


@pytest.mark.parametrize("name", ROWS)
def test_as_in_torch(name: str, place: Device) -> None:
    agree(ROWS[name], place)


def test_many_dimensions_take_several_passes(place: Device) -> None:
    data = np.arange(2 * 3**7).reshape(2, *[3] * 7)
    x = fw.tensor(data, device=place)
    assert np.array_equal(
        ops.flip(x, (0, 2, 4, 6)).numpy(), np.flip(data, (0, 2, 4, 6))
    )
    every = tuple(range(8))
    assert np.array_equal(ops.flip(x, every).numpy(), np.flip(data, every))
    rolled = ops.roll(x, (1, 2, 1, 1), (0, 2, 4, 6)).numpy()
    assert np.array_equal(rolled, np.roll(data, (1, 2, 1, 1), (0, 2, 4, 6)))


@pytest.mark.parametrize("dtype", ["float64", "uint64", "bfloat16", "int16"])
def test_fill_of_a_pad(dtype: str, place: Device) -> None:
    need(dtype, place)
    x = fw.ones((3, 5), dtype, place)
    found = ops.pad(x, (1, 0, 0, 2), value=3).numpy()
    assert np.array_equal(found, np.pad(x.numpy(), ((0, 2), (1, 0)), constant_values=3))


def test_fills_that_do_not_fit(place: Device) -> None:
    x = fw.zeros((2,), device=place)
    inf = float("inf")
    for dtype in (fw.float16, fw.bfloat16, fw.float32):
        padded = ops.pad(x.to(dtype), (1, 1), value=-1e300)
        assert padded.tolist() == [-inf, 0, 0, -inf]
    for value in (300, -1, inf, float("nan"), 1e300, 1 << 70):
        with pytest.raises(DTypeError, match=r"^pad: .* is no uint8, which holds"):
            ops.pad(x.to(fw.uint8), (1, 1), value=value)
    with pytest.raises(TypeError, match=r"^pad: '1' is no operand"):
        ops.pad(x, (1, 1), value="1")  # type: ignore[arg-type]  # on purpose


@pytest.mark.parametrize(
    "call",
    [
        lambda x: ops.flip(x, 1),
        lambda x: ops.roll(x, 3, 0),
        lambda x: ops.rot90(x, 4),
        lambda x: ops.pad(x, (0, 0)),
        lambda x: ops.repeat(x, 1, 1),
        lambda x: ops.tile(x),
    ],
)
def test_nothing_to_do(call: Callable[[fw.Tensor], fw.Tensor], gpu: GpuDevice) -> None:
    x = fw.ones((3, 1), device=gpu)
    fw.eval()
    same = call(x)
    assert not gpu.pending  # what is there is shared until it changes
    same[0] = 5
    assert x.tolist() == [[1], [1], [1]]
    assert same.tolist() == [[5], [1], [1]]


def test_repeated_elements_change_alone(place: Device) -> None:
    x = fw.tensor([1.0, 2.0], device=place)
    y = x.repeat(3, 1)
    y[0, 0] = 5
    x.mul_(10)
    assert y.add_(1).tolist() == [[6, 3], [2, 3], [2, 3]]
    assert x.tolist() == [10, 20]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda x: ops.roll(x, (1, 2), 0),
            "roll: 2 shifts for 1 dimensions; there must be one for each",
        ),
        (
            lambda x: ops.repeat(x, 2),
            "repeat: (2,) for a tensor of shape (2, 3); there must be a number of at"
            " least 0 for each dimension",
        ),
    ],
)
def test_bad_input(call: Callable[[fw.Tensor], object], text: str) -> None:
    with pytest.raises(ShapeError) as raised:
        call(fw.ones((2, 3)))
    assert str(raised.value) == text


@pytest.mark.parametrize("dims", [(0,), (0, -3), (0, 1, 2)])
def test_rot90_of_no_plane(dims: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError) as raised:
        ops.rot90(fw.ones((2, 3, 4)), 1, dims)
    assert str(raised.value) == (
        f"rot90: dims are {dims}; they must be two different dimensions"
    )


@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8", "int64"])
@pytest.mark.parametrize("shape", [(130, 66), (65, 37), (2, 34, 20)])
def test_rotations_are_one_transposed_copy(
    shape: tuple[int, ...],
    dtype: str,
    device: vkbackend.Device,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Which devices pass planes through shared memory only where loads coalesce."""
    monkeypatch.setattr(transpose, "reads_lines", lambda gpu: True)
    values = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    x = fw.tensor(values, device=fw.device(device.name))
    fw.eval(x)
    for turns in (1, 3):
        before = device.counters.snapshot()
        found = ops.rot90(x, turns, (-2, -1))
        fw.eval(found)
        assert (device.counters.snapshot() - before).dispatches == 1
        assert np.array_equal(found.numpy(), np.rot90(values, turns, (-2, -1)))
    both = ops.flip(x.transpose(-1, -2), (-2, -1))
    assert np.array_equal(both.numpy(), np.flip(values.swapaxes(-1, -2), (-2, -1)))


def test_gradients_of_rotations(
    device: vkbackend.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transpose, "reads_lines", lambda gpu: True)
    x = fw.zeros((20, 30), device=fw.device(device.name), requires_grad=True)
    seed = np.arange(600, dtype=np.float32).reshape(30, 20)
    ops.rot90(x, 1).backward(fw.tensor(seed, device=x.device))
    assert x.grad is not None
    assert np.array_equal(x.grad.numpy(), np.rot90(seed, -1))


@pytest.mark.parametrize("dims", [[0], [1], [0, 1], [0, 2]], ids=str)
def test_repeated_elements_are_read_once(dims: list[int], place: Device) -> None:
    data = np.arange(6, dtype=np.float32).reshape(2, 1, 3)
    wide, theirs = (
        make(data).expand(2, 4, 3)
        for make in (lambda each: fw.tensor(each, device=place), torch.tensor)
    )
    np.testing.assert_array_equal(fw.flip(wide, dims).numpy(), theirs.flip(dims))
    rolled = fw.roll(wide, 1, dims[0]).numpy()
    np.testing.assert_array_equal(rolled, theirs.roll(1, dims[0]))
    # Each place of a tensor has a gradient of its own, also where elements repeat.
    leaf = wide.detach().requires_grad_()
    weights = np.arange(24, dtype=np.float32).reshape(2, 4, 3)
    (fw.flip(leaf, dims) * fw.tensor(weights, device=place)).sum().backward()
    np.testing.assert_array_equal(leaf.grad.numpy(), np.flip(weights, dims))
