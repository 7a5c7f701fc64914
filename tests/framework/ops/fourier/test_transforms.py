"""Fourier transforms beside PyTorch's: values, dtypes, shapes and gradients."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework.base.device import CPU, Device, GpuDevice
from vkbackend.framework.base.errors import DTypeError, ShapeError

Call = Callable[..., Any]

RNG = np.random.default_rng(0)
REAL = RNG.uniform(-1, 1, (3, 8)).astype(np.float32)
COMPLEX = REAL[:, 1:] + 1j * RNG.uniform(-1, 1, (3, 7)).astype(np.float32)


def called(name: str, *args: Any, **kwargs: Any) -> Call:
    """Return the call of a transform, of real numbers where it takes no others."""
    real = name.startswith(("rfft", "ihfft"))

    def call(t: Any, x: Any, z: Any) -> Any:
        return getattr(t.fft, name)(x if real else z, *args, **kwargs)

    return call


ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
SEVERAL = tuple(f"{each}{end}" for each in ONE for end in ("2", "n"))
CALLS: dict[str, Call] = {}
for n in (2, 5, 12, 19):
    CALLS |= {f"{name} {n}": called(name, n, norm="ortho") for name in ONE}
CALLS |= {f"{name} of columns": called(name, dim=0, norm="forward") for name in ONE}
CALLS |= {name: called(name) for name in SEVERAL}
CALLS |= {f"{name} s": called(name, s=(4, 6), norm="forward") for name in SEVERAL}
CALLS |= {
    "fft of real": lambda t, x, z: t.fft.fft(x),
    "fftn of one": lambda t, x, z: t.fft.fftn(z, s=(5,)),
    "shifts": lambda t, x, z: t.fft.fftshift(z) + t.fft.ifftshift(z, dim=1),
}


def check(call: Call, device: Device, real: np.ndarray, pairs: np.ndarray) -> None:
    """Compare a call and its gradients with PyTorch's."""
    given = [torch.tensor(each, requires_grad=True) for each in (real, pairs)]
    ours = [fw.tensor(x, device=device).requires_grad_() for x in (real, pairs)]
    expected, found = call(torch, *given), call(fw, *ours)
    wanted = expected.detach().resolve_conj().numpy()
    scale = 2 * max(1.0, float(np.abs(wanted).max()))
    assert_close(found, wanted, scale=scale)
    weight = np.linspace(-1, 1, wanted.size, dtype=np.float32).reshape(wanted.shape)
    slope(expected, torch.tensor(weight)).backward()
    slope(found, fw.tensor(weight, device=device)).backward()
    for one, its in zip(ours, given):
        if its.grad is not None:
            grad = its.grad.resolve_conj().numpy()
            assert_close(one.grad, grad, scale=4 * max(1.0, float(np.abs(grad).max())))


def slope(found: Any, weight: Any) -> Any:
    """Return a real number that depends on both parts of a result."""
    if found.is_complex():
        return (found.real * weight + 0.75 * found.imag * weight).sum()
    return (found * weight).sum()


@pytest.mark.parametrize("name", CALLS)
def test_it_is_as_in_torch(name: str) -> None:
    check(CALLS[name], CPU, REAL, COMPLEX)


BRIEF = ("fft 12", "rfft 12", "irfft 19", "rfft2", "irfftn s")


@pytest.mark.parametrize(
    "name",
    [each if each in BRIEF else pytest.param(each, marks=pytest.mark.wide)
     for each in CALLS],
)  # fmt: skip
def test_it_is_as_in_torch_on_a_device(name: str, gpu: GpuDevice) -> None:
    check(CALLS[name], gpu, REAL, COMPLEX)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("fftn", (6, 35)),
        ("ifft2", (37, 8)),
        *(
            pytest.param(name, shape, marks=pytest.mark.wide)
            for name, shape in (
                ("fftn", (2048,)),
                ("irfftn", (12, 9)),
                ("fft", (3, 37)),
            )
        ),
    ],
)
def test_real_numbers_are_read_as_complex_ones(
    name: str, shape: tuple[int, ...], either: GpuDevice
) -> None:
    x = np.random.default_rng(3).uniform(-1, 1, shape).astype(np.float32)
    call = lambda t, x, z: getattr(t.fft, name)(x, norm="ortho")  # noqa: E731
    check(call, either, x, COMPLEX)


def test_real_numbers_take_no_pass_of_their_own(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = gpu.gpu.info
    target = dataclasses.replace(info.target, cheap_barriers=True)
    monkeypatch.setitem(info.__dict__, "target", target)
    gpu.plans.clear()
    for call, x, count in (
        (fw.fft.fftn, fw.rand(8, 35, device=gpu), 2),
        (fw.fft.rfftn, fw.rand(64, device=gpu), 1),
    ):
        fw.eval(call(x))
        before = gpu.gpu.counters.dispatches
        fw.eval(call(x))
        assert gpu.gpu.counters.dispatches == before + count
    gpu.plans.clear()


def test_other_dtypes() -> None:
    whole = fw.fft.fft(fw.arange(4))
    assert_close(whole, np.fft.fft(np.arange(4)).astype(np.complex64))
    wide = fw.fft.irfft(fw.fft.rfft(fw.tensor(REAL).double()))
    assert_close(wide, REAL.astype(np.float64))


def test_what_is_refused() -> None:
    x = fw.tensor(REAL)
    with pytest.raises(ShapeError, match="0 numbers are asked for"):
        fw.fft.fft(x, 0)
    with pytest.raises(ValueError, match="norm is 'half'"):
        fw.fft.fft(x, norm="half")
    with pytest.raises(DTypeError, match="the tensor is float16"):
        fw.fft.fft(x.half())
    with pytest.raises(DTypeError, match="it must be real"):
        fw.fft.rfft(x + 1j)
    with pytest.raises(ShapeError, match="each may be given once"):
        fw.fft.fftn(x, dim=(0, -2))
    with pytest.raises(ShapeError, match="they must be as many"):
        fw.fft.fft2(x, s=(3,))


@pytest.mark.parametrize("size", [None, 3, 7])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft"])
def test_the_graph_shows_one_transform_of_what_was_cut_or_padded(
    name: str, size: int | None
) -> None:
    found = []
    for library in (torch, fw):
        lib: Any = library
        x = lib.arange(10.0).reshape(2, 5).requires_grad_()
        given = x * 1 if name in ("fft", "rfft") else lib.complex(x * 1, x * 2)
        out, log = getattr(lib.fft, name)(given, size), []
        node, names = out.grad_fn, []
        node.register_hook(lambda grads, _, log=log: log.append(tuple(grads[0].shape)))
        for _ in range(2):
            names.append(node.name())
            node = node.next_functions[0][0]
        out.abs().sum().backward()
        found.append((names, log, np.array(x.grad.tolist())))
    (names, log, wanted), (ours, own_log, grad) = found
    assert ours == names
    assert own_log == log
    assert np.allclose(grad, wanted, rtol=1e-4, atol=1e-5)
