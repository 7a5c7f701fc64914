"""Short-time Fourier transforms beside PyTorch's."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.ops.fourier.test_transforms import check
from vkbackend.framework.base.device import CPU, Device
from vkbackend.framework.base.errors import DomainError, DTypeError, ShapeError

RNG = np.random.default_rng(0)
REAL = RNG.uniform(-1, 1, (2, 50)).astype(np.float32)
COMPLEX = REAL + 1j * RNG.uniform(-1, 1, (2, 50)).astype(np.float32)


def hann(t: Any, x: Any, n: int) -> Any:
    """Return a window beside a signal."""
    return t.hann_window(n, device=x.device)


CALLS: dict[str, Callable[..., Any]] = {
    "stft": lambda t, x, z: t.stft(
        x, 16, 4, window=hann(t, x, 16), return_complex=True
    ),
    "stft of one": lambda t, x, z: t.stft(
        x[0], 16, 5, 12, hann(t, x, 12), normalized=True, return_complex=True
    ),
    "stft of both sides": lambda t, x, z: x.stft(
        16, center=False, onesided=False, return_complex=True
    ),
    "stft as parts": lambda t, x, z: t.stft(
        x, 16, pad_mode="constant", return_complex=False
    ),
    "istft": lambda t, x, z: t.istft(
        t.stft(x, 16, 4, window=hann(t, x, 16), return_complex=True) * 2,
        16, 4, window=hann(t, x, 16), length=47,
    ),
    "istft of both sides": lambda t, x, z: t.istft(
        t.stft(x[0], 16, onesided=False, center=False, return_complex=True),
        16, onesided=False, center=False, length=70, normalized=True,
    ),
    "istft of complex": lambda t, x, z: t.stft(z, 16).istft(
        16, return_complex=True, onesided=False
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_it_is_as_in_torch(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's, of calls without a window
        check(CALLS[name], CPU, REAL, COMPLEX)


@pytest.mark.parametrize("name", ["istft"])
def test_it_is_as_in_torch_on_a_device(name: str, gpu: Device) -> None:
    check(CALLS[name], gpu, REAL, COMPLEX)


def test_what_is_refused() -> None:
    x = fw.tensor(REAL)
    with pytest.raises(ValueError, match="return_complex is not given"):
        fw.stft(x, 16)
    with pytest.raises(ShapeError, match="window is \\(4,\\); it must be \\(16,\\)"):
        fw.stft(x, 16, window=fw.ones(4), return_complex=True)
    with pytest.raises(ShapeError, match="n_fft = 64 must not be more"):
        fw.stft(x, 64, center=False, return_complex=True)
    with pytest.raises(DTypeError, match="it must be complex"):
        fw.istft(x, 16)
    with pytest.raises(ShapeError, match="there must be 9"):
        fw.istft(fw.tensor(COMPLEX), 16)
    spectrum = fw.stft(x, 16, window=fw.hann_window(16), return_complex=True)
    with pytest.raises(DomainError, match="leave a gap"):
        fw.istft(spectrum, 16, window=fw.hann_window(16), center=False)
