"""Conversions between all dtypes."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from tests.framework.ops.special import INF, NAN, need
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.base.dtype import (
    DTYPES,
    FLOAT,
    INTEGER,
    STORED,
    DType,
    convert,
)
from vkbackend.framework.scheduler import lowering_cache, plan

Make = Callable[..., fw.Tensor]

CASTS = [
    pytest.param(source, target, id=f"{source.name}-{target.name}")
    for source in STORED
    for target in STORED
]


@pytest.mark.parametrize(("source", "target"), CASTS)
def test_cast(source: DType, target: DType, place: Device) -> None:
    need(source, place)
    need(target, place)
    values: list[float] = [0, 1, 2, 3, 100]
    if source.kind in ("int", "float") and target.kind != "uint":
        values += [-1, -100]
    if source.is_float:
        values += [0.5, 2.75]
    if source.kind in ("int", "uint") and target.kind in ("int", "uint"):
        values += source.limits
    data = np.array(values, source.numpy)
    real = source.kind == "complex" and target.kind not in ("complex", "bool")
    assert_close(
        fw.tensor(data, source, place).to(target),
        (data.real if real else data).astype(target.numpy),
        exact=True,
    )


@pytest.mark.parametrize("target", INTEGER, ids=str)
@pytest.mark.parametrize("source", FLOAT, ids=str)
def test_floats_beyond_an_integers_range(
    source: DType, target: DType, place: Device
) -> None:
    need(source, place)
    need(target, place)
    low, high = target.limits
    x = fw.tensor([INF, 1e30, -INF, -1e30, NAN, -0.75], source, place)
    assert x.to(target).tolist() == [high, high, low, low, 0, 0]


def test_nan_is_true(make: Make) -> None:
    assert make([NAN, INF, 0.0, -0.0]).bool().tolist() == [True, True, False, False]


def test_cast_of_large_floats_to_halves(make: Make) -> None:
    data = np.array([65504, 65520, 1e6, -1e6, 1e-8, NAN, INF], np.float32)
    with np.errstate(all="ignore"):
        expected = data.astype(np.float16)
    assert_close(make(data).half(), expected, exact=True)
    assert_close(make(data).half().float(), expected.astype(np.float32), exact=True)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_rounding_is_to_nearest_even(dtype: str, make: Make) -> None:
    bits = np.random.default_rng(5).integers(0, 1 << 32, 4096, np.uint32)
    data = bits.view(np.float32)
    ties = np.float32(1) + np.arange(64, dtype=np.float32) * np.float32(2.0**-12)
    ties = np.concatenate([ties, 1 + 16 * (ties - 1)])
    data = np.concatenate([data[np.isfinite(data)], ties, [NAN, INF, -INF]])
    expected = torch.from_numpy(data.astype(np.float32)).to(getattr(torch, dtype))
    found = make(data.astype(np.float32)).to(dtype)
    assert found.dtype is DTYPES[dtype]
    assert_close(found.float(), expected.float().numpy(), exact=True)


@pytest.mark.device
@pytest.mark.parametrize("kind", ["cast", "softmax"])
def test_a_device_rounds_to_halves_as_integers_do(
    kind: str, gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = gpu.gpu.info
    if not info.shader_float16:
        pytest.skip("the device does not compute in float16")
    # Every finite float16, and what lies between it and the next one.
    halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float32)
    middle = np.append((halves[1:] + halves[:-1]) / 2, np.float32(65520))
    below, above = np.nextafter(middle, 0), np.nextafter(middle, INF)
    data = np.stack([halves, below, middle, above]).astype(np.float32)
    data = np.concatenate([data, -data, np.full((1, data.shape[1]), INF)])
    if not info.rounds_to_float16:
        data = data[:, halves >= 2.0**-14]
    x = fw.tensor(data, device=gpu)
    fw.eval(x)
    found = []
    for macros in ({}, {"DEVICE_ROUNDING": "1"}):
        gpu.plans.clear()
        with monkeypatch.context() as patch:
            for module in (plan, lowering_cache):
                patch.setattr(module, "device_macros", lambda _, macros=macros: macros)
            half = x.half()
            if kind == "softmax":
                half = fw.nn.functional.softmax(half[:, :1024], 1)
            found.append(half.numpy())
    gpu.plans.clear()
    if kind == "cast":
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(found[0], data.astype(np.float16))
    np.testing.assert_array_equal(found[1], found[0])


def test_fused_casts_are_the_same_as_stored_ones(gpu: Device) -> None:
    data = np.linspace(-300, 300, 113, dtype=np.float32)
    x = fw.tensor(data, device=gpu)
    for name in ("uint8", "int16", "bfloat16"):
        fused = (x * 1.5).to(name).float() + 0.25
        expected = convert(data * np.float32(1.5), DTYPES[name]).astype(np.float32)
        assert_close(fused, expected + np.float32(0.25), exact=True)


@pytest.mark.device
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_what_is_rounded_inside_a_kernel_is_not_taken_for_what_it_was(
    dtype: str, gpu: Device, rng: np.random.Generator
) -> None:
    x, y = (fw.tensor(rng.normal(size=4099), dtype, gpu) for _ in range(2))
    fw.eval(x, y)
    found = (x * y).float() - x.float() * y.float()
    exact = x.float().numpy() * y.float().numpy()
    expected = convert(exact, DTYPES[dtype]).astype(np.float32) - exact
    assert np.abs(expected).max() > 0
    assert_close(found, expected, exact=True)
