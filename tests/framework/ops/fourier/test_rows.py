"""Transforms of rows of any length on a device, beside NumPy's."""

import dataclasses

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.compare import assert_close
from tests.hardware import skip_where_it_crashes
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.ops.fourier.rows import fft_rows


@pytest.mark.parametrize(
    "n",
    [1, 2, 13, 60, 97, 256, 34,
     *(pytest.param(n, marks=pytest.mark.wide)
       for n in (3, 8, 16, 19, 128, 255, 385, 512, 676, 713, 1001, 1024, 2048, 2187,
                 3125, 4096, 5566, 6000, 8192, 10007))],
)  # fmt: skip
def test_rows_of_any_length(n: int, either: GpuDevice) -> None:
    drawn = np.random.default_rng(n).uniform(-1, 1, (2, 3, n))
    x = (drawn[0] + 1j * drawn[1]).astype(np.complex64)
    scale = 4 * max(1.0, n**0.5)
    for inverse in (False, True):
        found = fft_rows(fw.tensor(x, device=either), inverse, 0.5)
        made = np.fft.ifft(x, norm="forward") if inverse else np.fft.fft(x)
        assert_close(found, (0.5 * made).astype(np.complex64), scale=scale)


@pytest.mark.parametrize(
    ("shape", "dim"),
    [
        ((3, 16, 5), 1),
        ((60, 12), 0),
        ((2, 4, 8, 30), 1),
        *(
            pytest.param(shape, dim, marks=pytest.mark.wide)
            for shape, dim in (
                ((2, 100, 8), 1),
                ((4, 256, 6), 1),
                ((2, 2048, 4), 1),
                ((2, 3000, 5), 1),
                ((2, 8192, 8), 1),
                ((1, 65536), 1),
            )
        ),
    ],
)
def test_columns_of_any_length(
    shape: tuple[int, ...], dim: int, either: GpuDevice
) -> None:
    drawn = np.random.default_rng(dim).uniform(-1, 1, (2, *shape))
    x = (drawn[0] + 1j * drawn[1]).astype(np.complex64)
    scale = 4 * shape[dim] ** 0.5
    given = fw.tensor(x, device=either)
    assert_close(fw.fft.fft(given, dim=dim), np.fft.fft(x, axis=dim), scale=scale)
    made = np.fft.ifft(x, axis=dim, norm="ortho")
    assert_close(fw.fft.ifft(given, dim=dim, norm="ortho"), made, scale=4)


@pytest.mark.parametrize(
    ("shape", "dim", "memory"),
    [
        ((3, 256), 1, 1200),
        ((2, 120, 9), 1, 3000),
        ((2, 1920), 1, 1200),
        ((2, 1536, 5), 1, 700),
        *(
            pytest.param(*row, marks=pytest.mark.wide)
            for row in (
                ((5, 500), 1, 2304),
                ((2, 256, 9), 1, 4352),
                ((2, 8192, 6), 1, 1400),
                ((2, 8192), 1, 1 << 16),
                ((2, 3072), 1, 700),
            )
        ),
    ],
)
def test_parts_of_numbers_one_after_the_other(
    shape: tuple[int, ...],
    dim: int,
    memory: int,
    gpu: GpuDevice,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    info = gpu.gpu.info
    skip_where_it_crashes(info)
    target = dataclasses.replace(info.target, cheap_barriers=True)
    monkeypatch.setitem(info.__dict__, "target", target)
    monkeypatch.setitem(info.__dict__, "max_shared_memory", memory)
    gpu.plans.clear()
    drawn = np.random.default_rng(dim).uniform(-1, 1, (2, *shape))
    x = (drawn[0] + 1j * drawn[1]).astype(np.complex64)
    scale = 4 * shape[dim] ** 0.5
    found = fw.fft.fft(fw.tensor(x, device=gpu), dim=dim)
    assert_close(found, np.fft.fft(x, axis=dim), scale=scale)
    back = fw.fft.ifft(found, dim=dim)
    assert_close(back, x, scale=4)
    fw.eval()
    gpu.plans.clear()


@pytest.mark.parametrize(
    ("n", "memory"),
    [
        (37, 1 << 15),
        (211, 3000),
        *(
            pytest.param(*row, marks=pytest.mark.wide)
            for row in ((97, 1200), (1019, 1 << 15), (1019, 700), (2039, 2400))
        ),
    ],
)
def test_convolutions_by_kernels(
    n: int, memory: int, gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = gpu.gpu.info
    skip_where_it_crashes(info)
    target = dataclasses.replace(info.target, cheap_barriers=True)
    monkeypatch.setitem(info.__dict__, "target", target)
    monkeypatch.setitem(info.__dict__, "max_shared_memory", memory)
    gpu.plans.clear()
    drawn = np.random.default_rng(n).uniform(-1, 1, (2, 3, n))
    x = (drawn[0] + 1j * drawn[1]).astype(np.complex64)
    given = fw.tensor(x, device=gpu).requires_grad_()
    for inverse in (False, True):
        found = fft_rows(given, inverse, 0.5)
        made = np.fft.ifft(x, norm="forward") if inverse else np.fft.fft(x)
        scale = 4 * n**0.5
        assert_close(found, (0.5 * made).astype(np.complex64), scale=scale)
        (slope,) = fw.autograd.grad(found, given, fw.tensor(x, device=gpu))
        back = np.fft.fft(x) if inverse else np.fft.ifft(x, norm="forward")
        assert_close(slope, (0.5 * back).astype(np.complex64), scale=scale)
    fw.eval()
    gpu.plans.clear()


def test_a_replay_keeps_its_factors(gpu: GpuDevice) -> None:
    step = fw.jit(lambda x: fw.fft.ifft(fw.fft.fft(x) * 2).real)
    for k in range(3):
        x = np.arange(22, dtype=np.float32) * (k + 1)
        assert_close(step(fw.tensor(x, device=gpu)), 2 * x, scale=100)
