"""Transforms of rows of any length on a device, beside NumPy's."""

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.ops.fourier.rows import fft_rows


@pytest.mark.parametrize(
    "n",
    [1, 2, 13, 60, 97, 256,
     *(pytest.param(n, marks=pytest.mark.wide)
       for n in (3, 8, 16, 128, 385, 512, 676, 1001, 1024, 2048, 2187, 3125, 4096, 6000,
                 8192, 10007))],
)  # fmt: skip
def test_rows_of_any_length(n: int, either: GpuDevice) -> None:
    drawn = np.random.default_rng(n).uniform(-1, 1, (2, 3, n))
    x = (drawn[0] + 1j * drawn[1]).astype(np.complex64)
    scale = 4 * max(1.0, n**0.5)
    for inverse in (False, True):
        found = fft_rows(fw.tensor(x, device=either), inverse, 0.5)
        made = np.fft.ifft(x, norm="forward") if inverse else np.fft.fft(x)
        assert_close(found, (0.5 * made).astype(np.complex64), scale=scale)


def test_a_replay_keeps_its_factors(gpu: GpuDevice) -> None:
    step = fw.jit(lambda x: fw.fft.ifft(fw.fft.fft(x) * 2).real)
    for k in range(3):
        x = np.arange(22, dtype=np.float32) * (k + 1)
        assert_close(step(fw.tensor(x, device=gpu)), 2 * x, scale=100)
