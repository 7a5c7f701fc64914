"""Half the transforms of real numbers on a device, and back, beside PyTorch's."""

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework.base.device import GpuDevice


@pytest.mark.parametrize(
    "n",
    [2, 26, 34, 74, 96,
     *(pytest.param(n, marks=pytest.mark.wide)
       for n in (4, 6, 7, 15, 16, 60, 128, 512, 2000, 4096, 20480))],
)  # fmt: skip
@pytest.mark.parametrize("name", ["rfft", "irfft", "hfft", "ihfft"])
def test_real_rows_of_any_length(n: int, name: str, either: GpuDevice) -> None:
    rng = np.random.default_rng(n)
    real = name in ("rfft", "ihfft")
    data = rng.standard_normal((5, n if real else n // 2 + 1)).astype("f4")
    data = data if real else data + 1j * rng.standard_normal(data.shape).astype("f4")
    x = fw.tensor(data, device=either, requires_grad=True)
    wanted_x = torch.tensor(data, requires_grad=True)
    found = getattr(fw.fft, name)(x, n, norm="ortho")
    wanted = getattr(torch.fft, name)(wanted_x, n, norm="ortho")
    assert_close(found, wanted.detach().resolve_conj().numpy(), scale=4)
    seed = torch.randn(wanted.shape, dtype=wanted.dtype, generator=torch.manual_seed(0))
    found.backward(fw.tensor(seed.numpy(), device=either))
    wanted.backward(seed)
    assert x.grad is not None
    assert wanted_x.grad is not None
    assert_close(x.grad, wanted_x.grad.resolve_conj().numpy(), scale=4)


@pytest.mark.parametrize("name", ["rfft", "ihfft"])
@pytest.mark.parametrize(
    "shape",
    [(3, 15), (2, 2, 37), pytest.param((5, 1), marks=pytest.mark.wide),
     pytest.param((4, 1019), marks=pytest.mark.wide)],
)  # fmt: skip
def test_odd_rows(shape: tuple[int, ...], name: str, either: GpuDevice) -> None:
    data = np.random.default_rng(2).standard_normal(shape).astype("f4")
    x = fw.tensor(data, device=either, requires_grad=True)
    wanted_x = torch.tensor(data, requires_grad=True)
    found = getattr(fw.fft, name)(x, norm="ortho")
    wanted = getattr(torch.fft, name)(wanted_x, norm="ortho")
    assert_close(found, wanted.detach().resolve_conj().numpy(), scale=8)
    seed = torch.randn(wanted.shape, dtype=wanted.dtype, generator=torch.manual_seed(0))
    found.backward(fw.tensor(seed.numpy(), device=either))
    wanted.backward(seed)
    assert x.grad is not None
    assert wanted_x.grad is not None
    assert_close(x.grad, wanted_x.grad.numpy(), scale=8)


def test_real_rows_are_one_kernel(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = gpu.gpu.info
    target = dataclasses.replace(info.target, cheap_barriers=True)
    monkeypatch.setitem(info.__dict__, "target", target)
    gpu.plans.clear()
    x = fw.rand(8, 64, device=gpu)
    for call in (fw.fft.rfft, fw.fft.ihfft):
        half = call(x)
        fw.eval(half)
        before = gpu.gpu.counters.dispatches
        fw.eval(call(x))
        assert gpu.gpu.counters.dispatches == before + 1
    for back in (fw.fft.irfft, fw.fft.hfft):
        fw.eval(back(half))
        before = gpu.gpu.counters.dispatches
        fw.eval(back(half))
        assert gpu.gpu.counters.dispatches == before + 1
    gpu.plans.clear()


def test_gradients_of_gradients(gpu: GpuDevice) -> None:
    data = np.random.default_rng(1).standard_normal((3, 12)).astype("f4")

    def second(library: Any, x: Any) -> Any:
        energy = (library.fft.rfft(x).abs() ** 2).sum() ** 2
        (first,) = library.autograd.grad(energy, x, create_graph=True)
        (found,) = library.autograd.grad((first**2).sum(), x)
        return found

    found = second(fw, fw.tensor(data, device=gpu, requires_grad=True))
    wanted = second(torch, torch.tensor(data, requires_grad=True)).numpy()
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-4)
