"""Frequencies, and the names of PyTorch's namespace."""

import inspect

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework.base.errors import DTypeError, ShapeError


def test_names_and_parameters_are_those_of_torch() -> None:
    listed = {name for name in torch.fft.__all__ if hasattr(torch.fft, name)}
    assert set(fw.fft.__all__) >= listed - {"Tensor", "factory_common_args"}
    for name in ("rfft", "fftn", "irfft2", "hfft"):
        found = list(inspect.signature(getattr(fw.fft, name)).parameters)
        assert found == ["input", "s" if name[-1] in "n2" else "n", "dim", "norm"]


@pytest.mark.parametrize("n", [1, 8, 9])
def test_frequencies(n: int) -> None:
    for name in ("fftfreq", "rfftfreq"):
        expected = getattr(torch.fft, name)(n, 0.5).numpy()
        assert_close(getattr(fw.fft, name)(n, 0.5), expected)
        found = getattr(fw.fft, name)(n, d=0.5, dtype=fw.float64)
        assert found.dtype is fw.float64


def test_results_go_into_out() -> None:
    out = fw.zeros(4, dtype=fw.complex64)
    assert fw.fft.fft(fw.ones(4), out=out) is out
    assert out.tolist() == np.fft.fft(np.ones(4)).tolist()


def test_what_is_refused() -> None:
    with pytest.raises(ShapeError, match="n is 0; it must be at least 1"):
        fw.fft.fftfreq(0)
    with pytest.raises(DTypeError, match="dtype is int32"):
        fw.fft.rfftfreq(4, dtype=fw.int32)
