"""Blocks of mixed precision: nesting, threads, traces, what they do to a device."""

import dataclasses
import pickle
import threading
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.base.dtype import DType
from vkbackend.framework.base.errors import DTypeError
from vkbackend.framework.base.modes import autocast_dtype

SIXTEEN = (fw.float16, fw.bfloat16)


def product() -> DType:
    """Return the dtype that a product of float32 tensors has."""
    ones = fw.ones((2, 2), device="cpu")
    return (ones @ ones).dtype


def test_blocks_nest_and_end() -> None:
    assert (product(), fw.is_autocast_enabled()) == (fw.float32, False)
    with fw.autocast(fw.bfloat16):
        assert (product(), fw.is_autocast_enabled()) == (fw.bfloat16, True)
        with fw.autocast(enabled=False):
            assert (product(), fw.is_autocast_enabled()) == (fw.float32, False)
            with fw.autocast():
                assert product() is fw.float16
        assert product() is fw.bfloat16
    assert product() is fw.float32


def test_an_error_ends_a_block() -> None:
    with pytest.raises(RuntimeError, match="inside"), fw.autocast():
        raise RuntimeError("inside")
    assert product() is fw.float32


def test_one_block_entered_again() -> None:
    block = fw.autocast("bfloat16")
    with block, fw.autocast(enabled=False), block:
        assert product() is fw.bfloat16
    assert product() is fw.float32


@pytest.mark.parametrize("enabled", [True, False])
def test_as_a_decorator(enabled: bool) -> None:
    @fw.autocast(fw.bfloat16, enabled)
    def inner(depth: int) -> DType:
        return inner(depth - 1) if depth else product()

    with fw.autocast(fw.float16):
        assert inner(2) is (fw.bfloat16 if enabled else fw.float32)
        assert product() is fw.float16


def test_a_block_belongs_to_its_thread() -> None:
    found = []
    with fw.autocast():
        thread = threading.Thread(target=lambda: found.append(product()))
        thread.start()
        thread.join()
    assert found == [fw.float32]


def test_other_dtypes_are_refused() -> None:
    with pytest.raises(DTypeError) as raised:
        fw.autocast(fw.float32)
    assert str(raised.value) == (
        "autocast: dtype is float32; it must be float16 or bfloat16"
    )


@pytest.mark.parametrize("dtype", SIXTEEN)
def test_gradients_have_the_dtypes_of_the_forward_pass(
    dtype: DType, half_place: Device
) -> None:
    weight = fw.ones((3, 4), device=half_place, requires_grad=True)
    x = fw.ones((2, 4), dtype=dtype, device=half_place, requires_grad=True)
    for inside in (True, False):
        weight.grad = x.grad = None
        with fw.autocast(dtype):
            inner = fw.nn.functional.linear(x, weight)
            seen = []
            inner.register_hook(lambda grad, seen=seen: seen.append(grad.dtype))
            loss = inner.softmax(-1).log()[:, 0].sum()
            assert (inner.dtype, loss.dtype) == (dtype, fw.float32)
            if inside:
                loss.backward()
        if not inside:
            loss.backward()
        assert seen == [dtype]
        assert (weight.grad.dtype, x.grad.dtype) == (fw.float32, dtype)


def test_backward_inside_a_block_is_that_outside(half_place: Device) -> None:
    rng = np.random.default_rng(0)
    weight = fw.tensor(
        rng.normal(size=(5, 7)), "float32", half_place, requires_grad=True
    )
    x = fw.tensor(rng.normal(size=(6, 7)), "float32", half_place)
    grads = []
    for inside in (True, False):
        weight.grad = None
        with fw.autocast(fw.bfloat16):
            loss = fw.nn.functional.linear(x, weight).exp().mean()
            if inside:
                loss.backward()
        if not inside:
            loss.backward()
        grads.append(weight.grad.numpy())
    assert_close(grads[0], grads[1], exact=True)


def casts(gpu: GpuDevice) -> int:
    """Return how many casts are pending, and run them."""
    found = sum(node.op.name == "cast" for node in gpu.pending)
    fw.eval()
    return found


def test_a_parameter_is_cast_once(gpu: GpuDevice) -> None:
    weight = fw.ones((4, 4), device=gpu, requires_grad=True)
    x = fw.ones((4, 4), dtype="float16", device=gpu)
    fw.eval()
    with fw.autocast():
        results = [x @ weight, x @ weight]
        with fw.autocast(fw.bfloat16):
            results.append(x.bfloat16() @ weight)
        results.append(x @ weight)
        # Of the parameter to each dtype, and of x.
        assert casts(gpu) == 3
        with fw.no_grad():
            weight.mul_(2)
        results.append(x @ weight)
        assert casts(gpu) == 1
    assert [each[0, 0].item() for each in results] == [4, 4, 4, 4, 8]
    with fw.autocast(cache_enabled=False):
        kept = [x @ weight, x @ weight]
        assert casts(gpu) == len(kept)


def test_copies_end_with_the_block_and_with_a_backward_pass(half_place: Device) -> None:
    weight = fw.ones((2, 2), device=half_place, requires_grad=True)
    x = fw.ones((2, 2), device=half_place)
    with fw.autocast():
        with fw.no_grad():
            x @ weight
        for _ in range(2):
            (x @ weight).sum().backward()
    assert weight.grad.tolist() == [[4, 4], [4, 4]]


def test_in_place_keeps_the_dtype(half_place: Device) -> None:
    x = fw.ones((2, 2), dtype="float16", device=half_place)
    with fw.autocast(fw.bfloat16):
        x.exp_()
        x.pow_(2)
    assert x.dtype is fw.float16
    assert x.tolist()[0][0] == pytest.approx(np.exp(2), rel=1e-2)


@pytest.mark.parametrize("dtype", SIXTEEN)
def test_a_block_inside_of_a_traced_function(dtype: DType, gpu: GpuDevice) -> None:
    weight = fw.tensor(np.eye(3) * 1.001, "float32", gpu, requires_grad=True)

    def step(x: fw.Tensor) -> fw.Tensor:
        with fw.autocast(dtype):
            return (x @ weight).sum(dim=0) + (x @ weight).exp().sum(dim=1)

    replayed = fw.jit(step)
    for k in range(4):
        x = fw.tensor(np.arange(9.0).reshape(3, 3) / 7 + k, "float32", gpu)
        found = replayed(x)
        assert found.dtype is fw.float32
        assert_close(found, step(x).detach().numpy(), exact=True)
    assert (replayed.traces, replayed.replays) == (1, 3)


def test_a_block_around_calls_is_part_of_their_kind(gpu: GpuDevice) -> None:
    weight = fw.ones((2, 2), device=gpu, requires_grad=True)
    product = fw.jit(lambda x: x @ weight)
    x = fw.ones((2, 2), device=gpu)
    wanted = [fw.float32, fw.float16, fw.bfloat16]
    for _ in range(3):
        found = [product(x).dtype]
        for dtype in SIXTEEN:
            with fw.autocast(dtype):
                # A copy made outside of the trace must not be read inside.
                outside = (x @ weight)[0, 0].item()
                result = product(x)
                assert result[0, 0].item() == outside == 2
                found.append(result.dtype)
        assert found == wanted
    assert (product.traces, product.replays) == (3, 6)
    with fw.autocast():
        copied = x @ weight
        with fw.no_grad():
            weight.add_(1)
        assert (copied[0, 0].item(), product(x)[0, 0].item()) == (2, 4)


def test_what_decides_a_block_is_looked_at(gpu: GpuDevice) -> None:
    enabled = True

    @fw.jit
    def product(x: fw.Tensor) -> fw.Tensor:
        with fw.autocast(fw.bfloat16, enabled):
            return x @ x

    x = fw.ones((2, 2), device=gpu)
    assert product(x).dtype is fw.bfloat16
    enabled = False
    assert product(x).dtype is fw.float32


def test_a_device_without_16_bits_says_so(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = gpu.gpu.info
    less = found.supported - {"storage_16bit"}
    info = dataclasses.replace(found, supported=less)
    monkeypatch.setattr(gpu.gpu, "info", info)
    x = fw.ones((2, 2), device=gpu)
    with fw.autocast(), pytest.raises(DTypeError) as raised:
        x @ x
    assert str(raised.value) == (
        f"bmm: {gpu.name} has no storage_16bit, which float16 needs; use a 32-bit dtype"
        " there, or the cpu device"
    )


def test_a_replay_leaves_no_block_open(gpu: GpuDevice) -> None:
    function = fw.jit(lambda x: fw.autocast()(lambda: x @ x)())
    x = fw.ones((2, 2), device=gpu)
    assert [function(x).dtype for _ in range(3)] == [fw.float16] * 3
    assert autocast_dtype() is None


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"dtype": fw.bfloat16}, "autocast(dtype=bfloat16)"),
        ({"enabled": False}, "autocast(enabled=False)"),
        ({"cache_enabled": False}, "autocast(dtype=float16, cache_enabled=False)"),
    ],
)
def test_a_block_of_autocast_is_pickled(options: Any, text: str) -> None:
    block = fw.autocast("gpu", **options)
    with block:
        again = pickle.loads(pickle.dumps(block))
        enabled = fw.is_autocast_enabled()
    assert repr(block) == repr(again) == text
    with again:
        assert fw.is_autocast_enabled() == enabled
    # As a decorator, each call has a block of the same settings.
    assert repr(block._recreate_cm()) == text


def test_a_block_for_the_host_is_pickled() -> None:
    block = fw.autocast("cpu")
    again = pickle.loads(pickle.dumps(block))
    assert repr(block) == repr(again) == 'autocast("cpu", dtype=bfloat16)'
    for each in (again, block._recreate_cm()):
        with each:
            assert fw.ones(2, dtype=fw.bfloat16).exp().dtype is fw.bfloat16
