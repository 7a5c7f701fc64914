"""Element-wise ops: what a call leaves for the next one like it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.framework.ops.special import need
from tests.mixtures import check
from vkbackend.framework import ops
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.base.dtype import DType
from vkbackend.framework.base.errors import DeviceMismatchError, DTypeError
from vkbackend.framework.dispatch.call_cache import MOST_CACHED_CALLS, CallCache
from vkbackend.framework.dispatch.elementwise import (
    Elementwise,
)
from vkbackend.framework.dispatch.op import REGISTRY


def test_a_shortcut_does_not_outlive_what_it_was_for(gpu: GpuDevice) -> None:
    """The second call of each pair differs in one thing that the first one settled."""
    base = np.arange(12, dtype=np.int32).reshape(3, 4)
    x = fw.tensor(base, device=gpu)
    for step in range(40):
        view = x[step % 3 :, step % 2 :]
        assert (view + 1).tolist() == (base[step % 3 :, step % 2 :] + 1).tolist()
        del view
    assert (x * 2).dtype is fw.int32
    assert (x * 2.0).dtype is fw.float32
    assert (x * True).dtype is fw.int32
    y = x.float()
    for factor in (2.0, 3.5, 3, np.float32(0.5), 2.0):
        assert (y * factor).tolist() == (base * np.float32(factor)).tolist()
    with pytest.raises(DTypeError, match="holds"):
        x * 2**40
    with pytest.raises(TypeError, match=r"^mul: the argument `y` is a str"):
        REGISTRY["mul"](x, "2")
    with pytest.raises(DeviceMismatchError):
        REGISTRY["mul"](x, fw.ones(4))
    assert REGISTRY["cast"](x, fw.float16).dtype is fw.float16
    assert REGISTRY["cast"](x, fw.float32).dtype is fw.float32


def test_any_number_but_0_is_true(place: Device) -> None:
    x = fw.zeros(5, dtype=fw.bool_, device=place)
    for at, number in enumerate((0.25, 2, float("nan"), -1, 0.0)):
        x[at] = number
    assert x.tolist() == [True, True, True, True, False]
    assert x.fill_(0.5).tolist() == [True] * 5
    assert fw.full((2,), 0.5, fw.bool_, place).tolist() == [True] * 2
    assert fw.full_like(x, -3).tolist() == [True] * 5
    index = fw.tensor([1], device=place)
    x.zero_()
    assert x.index_fill_(0, index, 0.5).tolist()[:2] == [False, True]
    assert x.masked_fill(x, 0.1).tolist()[:2] == [False, True]


def test_numbers_beyond_floats(place: Device) -> None:
    x = fw.tensor([1.0], device=place)
    for _ in range(2):
        x * 2
        with pytest.raises(DTypeError) as raised:
            x * 10**400
        assert str(raised.value) == (
            "mul: an integer of 1329 bits is beyond every float; they hold less than"
            " 2^1024"
        )


def test_numbers_beyond_float32_are_infinite(place: Device) -> None:
    x = fw.tensor([1.0, -2.0, 0.5], device=place)
    inf = float("inf")
    for _ in range(2):
        assert (x * 1e39).tolist() == [inf, -inf, inf]
        assert x.clamp(max=1e300).tolist() == x.tolist()
        assert x.masked_fill(x < 0, -1e300).tolist() == [1.0, -inf, 0.5]
        assert (x.sum() + 3.5e38).item() == inf
        assert (x.half() - 1e300).tolist() == [-inf] * 3
        # Half a step beyond the largest float32 still rounds to it.
        assert (x * 3.4028235e38)[2].item() == np.float32(0.5 * 3.4028235e38)
    assert fw.full((2,), -1e39, device=place).tolist() == [-inf] * 2
    assert ops.pad(x, (1, 0), value=1e39).tolist() == [inf, 1.0, -2.0, 0.5]
    eight = [fw.zeros((3,), device=place) for _ in range(8)]
    assert [each.add(1e39).tolist() for each in eight] == [[inf] * 3] * 8


@pytest.mark.parametrize("name", ["uint8", "int8", "uint16", "int16"])
@pytest.mark.parametrize("value", [256, -1, 200, 70_000, (1 << 33) + 5])
def test_wider_tensors_without_dimensions_wrap(
    name: str, value: int, place: Device
) -> None:
    """They are taken in the dtype of those with dimensions, as in PyTorch."""
    need(fw.int64, place)
    data = np.array([0, 1, 3, 100], name)
    x, wide = fw.tensor(data, device=place), fw.tensor(value, fw.int64, place)
    other = np.array(value).astype(name)
    with np.errstate(all="ignore"):
        assert ops.maximum(x, wide).tolist() == np.maximum(data, other).tolist()
        assert (x < wide).tolist() == (data < other).tolist()
        assert (x + 1 == wide * 2).tolist() == (data + 1 == other * 2).tolist()
        assert ops.fmod(x, wide | 1).tolist() == np.fmod(data, other | 1).tolist()
        assert ops.where(x > 1, x, wide).tolist() == [*(int(other), int(other), 3, 100)]
    assert x.amax().maximum(wide).item() == np.maximum(100, value)


# The dtypes and operations that went wrong on some driver; `tests.mixtures` has all.
MIXED = [
    (fw.int64, fw.int32), (fw.int8, fw.int64), (fw.int32, fw.float16),
]  # fmt: skip


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("pair", MIXED, ids=str)
def test_mixed_dtypes_are_as_in_torch(
    pair: tuple[DType, DType], fused: bool, place: Device
) -> None:
    need(pair[0], place)
    need(pair[1], place)
    wrong, _, compared = check(pair, place, MIXED_NAMES, fused, brief=place.is_gpu)
    assert not wrong
    assert compared >= 6


MIXED_NAMES = (
    "div", "floor_divide", "remainder", "pow", "bitwise_left_shift", "lt", "maximum",
    "where",
)  # fmt: skip


def test_what_a_compiler_knows_to_be_0(place: Device) -> None:
    """Drivers left results of x / 0 unwritten, and took 0 * infinity for 0."""
    x = fw.tensor([1, 2, 3, 4], dtype=fw.int32, device=place)
    values = np.array([np.inf, -np.inf, np.nan, 0.0], np.float32)
    y = fw.tensor(values, device=place)
    zeros = np.zeros(4, np.float32)
    pending: list[tuple[fw.Tensor, np.ndarray]] = []
    with np.errstate(all="ignore"):
        for nothing in (x.isnan(), x ^ x):
            # Pending still, so what divides by it is one kernel with it.
            pending += [
                (3 / nothing, 3 / zeros),
                (y / nothing, values / zeros),
                (nothing / y, zeros / values),
                (nothing * y, zeros * values),
                (y // nothing, values // zeros),
                (y % nothing, values % zeros),
                (ops.floor_divide(x, nothing.int()), zeros),
                (ops.remainder(x, nothing.int()), zeros),
                (ops.fmod(x, nothing.int()), zeros),
                (ops.div(x, nothing.int(), rounding_mode="trunc"), zeros),
            ]
    for found, expected in pending:
        np.testing.assert_array_equal(found.numpy(), expected)


def test_a_shortcut_leaves_the_same_tape(gpu: GpuDevice) -> None:
    x = fw.tensor([1.0, 2.0], device=gpu, requires_grad=True)
    for _ in range(2):
        x.grad = None
        (x * x * 3.0).sum().backward()
        assert x.grad is not None
        assert x.grad.tolist() == [6.0, 12.0]
        with fw.no_grad():
            assert not (x * x).requires_grad
        assert not (x > x).requires_grad
        assert not (x.detach() * x.detach()).requires_grad


def test_shortcuts_are_bounded(gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    op = REGISTRY["add"]
    assert isinstance(op, Elementwise)
    cache: CallCache[Any] = CallCache()
    for k in range(MOST_CACHED_CALLS):
        cache.add((k,), None)
    monkeypatch.setattr(op, "call_cache", cache)
    monkeypatch.setattr(op, "_known", cache.get)
    x = fw.ones(3, device=gpu)
    assert (x + x).tolist() == [2.0, 2.0, 2.0]
    assert len(op.call_cache) == 1
    assert (x + x).tolist() == [2.0, 2.0, 2.0]
    assert len(op.call_cache) == 1


def test_zero_dimensional_operands_of_the_host(gpu: GpuDevice) -> None:
    x = fw.tensor([1.0, -2.0], device=gpu, requires_grad=True)
    two = fw.tensor(2.0, requires_grad=True)
    y = two * x
    y.sum().backward()
    assert y.is_gpu
    assert x.grad.tolist() == [2.0, 2.0]
    assert two.grad.tolist() == -1.0
    assert not two.grad.is_gpu
    z, wide = x.detach(), fw.tensor(1.0, dtype=fw.float64)
    assert (z - wide).dtype is fw.float32
    assert (z < wide).tolist() == [False, True]
    assert fw.where(z > 0, z, wide).tolist() == [1.0, 1.0]
    assert fw.where(fw.tensor(True), z, 0.0).tolist() == [1.0, -2.0]
    z += wide
    assert z.tolist() == [2.0, -1.0]
    with pytest.raises(DeviceMismatchError, match="in place: the result is on"):
        fw.tensor(1.0).add_(z)
    captured = fw.tensor(3.0)
    scaled = fw.jit(lambda x: x * captured)
    assert [scaled(z).tolist() for _ in range(2)] == [[6.0, -3.0]] * 2
    captured.fill_(4.0)
    assert scaled(z).tolist() == [8.0, -4.0]


@pytest.mark.core
def test_a_cached_call_on_the_host_checks_what_its_key_leaves_open() -> None:
    x, y = fw.ones(3), fw.ones(3, requires_grad=True)
    for scale in (2, 0.5, -0.0, True, fw.ones(3)):
        for each in (x, y, x):
            out = ops.mul(each, scale)
            factor = 1.0 if isinstance(scale, fw.Tensor) else float(scale)
            assert out.tolist() == [factor] * 3
            assert out.requires_grad is each.requires_grad
    for _ in range(2):
        assert (x + np.float64(0.1)).dtype is fw.float32
        assert (x + 1j).dtype is fw.complex64
        with pytest.raises(TypeError, match="`y` is a list"):
            ops.add(x, [1.0])
        with pytest.raises(DTypeError, match="beyond every float"):
            ops.add(x, 1 << 2000)
    ops.mul(y, y).sum().backward()
    assert y.grad is not None
    assert y.grad.tolist() == [2.0] * 3


def test_tensors_stand_for_numbers_of_options(gpu: GpuDevice) -> None:
    for place in ("cpu", gpu):
        x = fw.tensor([-1.0, 2.0], device=place)
        for slope in (0.5, 0.25):
            number = fw.tensor(slope, device=place)
            for _ in range(2):
                found = fw.nn.functional.leaky_relu(x, number)
                assert found.tolist() == [-slope, 2.0]
        for wrong in (fw.tensor([0.5]), fw.tensor(0.5, requires_grad=True)):
            with pytest.raises(TypeError, match=r"leaky_relu: .* is no operand"):
                fw.nn.functional.leaky_relu(x, wrong)  # type: ignore[arg-type]  # the test


def test_a_condition_of_uint8(gpu: GpuDevice) -> None:
    for place in ("cpu", gpu):
        x = fw.tensor([1.0, 2.0, 3.0], device=place)
        condition = fw.tensor([0, 2, 255], dtype=fw.uint8, device=place)
        for _ in range(2):
            assert fw.where(condition, x, 0).tolist() == [0.0, 2.0, 3.0]
            assert x.where(condition, -x).tolist() == [-1.0, 2.0, 3.0]
        with pytest.raises(DTypeError, match="`condition` is int32"):
            fw.where(condition.int(), x, 0)


VIEWS: dict[str, Callable[[Any], Any]] = {
    "transposed": lambda x: x.permute(2, 1, 0),
    "turned": lambda x: x.permute(2, 0, 1),
    "from the middle": lambda x: x[1:].permute(0, 2, 1),
    "a part": lambda x: x[:, 1:].permute(2, 0, 1),
    "expanded": lambda x: x[:1].expand(3, 4, 5).permute(2, 0, 1),
    "of one": lambda x: x[:, :1].permute(1, 2, 0),
    "row-major": lambda x: x,
}


@pytest.mark.parametrize("name", VIEWS)
def test_results_keep_the_order_of_operands_that_share_one(
    name: str, place: Device
) -> None:
    data, view = np.random.default_rng(0).standard_normal((3, 4, 5)), VIEWS[name]
    data = data.astype("f4")
    x, y = fw.tensor(data, device=place), torch.tensor(data)
    dense = name not in ("a part", "expanded", "of one")
    calls: list[Callable[[Any], Any]] = [
        lambda z: z * 2 + 1,
        lambda z: z > 0,
        lambda z: z.double() if z.device.type == "cpu" else z.half(),
        lambda z: z * z.exp(),
        lambda z: (-z).clone(),
        lambda z: z + z.sum(),
        lambda z: z + z.contiguous(),
        lambda z: z.contiguous() * 2,
        lambda z: (z * 2).sum(0) + (z - 1).mT.reshape(-1).sum(),
        lambda z: (z + 1).cumsum(1),
        lambda z: z + z[0, 0],
        lambda z: z[:, :1] * (z - 1),
    ]
    for _ in range(2):
        for at, call in enumerate(calls):
            found, wanted = call(view(x)), call(view(y))
            assert np.allclose(found.numpy(), wanted.numpy(), 1e-3, 1e-4), at
            # PyTorch looks at the first operand where they differ.
            if dense and at in (0, 1, 2, 3, 5, 10, 11):
                sizes = zip(found.shape, found.stride(), wanted.stride())
                assert all(a == b for size, a, b in sizes if size > 1), at


def test_gradients_through_results_in_another_order(place: Device) -> None:
    data = np.random.default_rng(0).standard_normal((3, 4, 5)).astype("f4")
    x, y = fw.tensor(data, device=place), torch.tensor(data)
    for each in (x.requires_grad_(), y.requires_grad_()):
        turned = (each.permute(2, 0, 1).sigmoid() * 2).exp()
        (turned.softmax(0) * turned + each.permute(2, 0, 1)).pow(2).sum().backward()
    assert x.grad is not None
    assert y.grad is not None
    assert np.allclose(x.grad.numpy(), y.grad.numpy(), 1e-4, 1e-4)
