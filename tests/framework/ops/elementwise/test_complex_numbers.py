"""Complex numbers beside PyTorch's: values, dtypes and gradients."""

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


def numbers(*shape: int) -> np.ndarray:
    """Return complex numbers around 0."""
    drawn = RNG.uniform(-2, 2, (2, *shape)).astype(np.float32)
    return np.asarray(drawn[0] + 1j * drawn[1])


X, Y = numbers(3, 5), numbers(5)


def rotary(t: Any, x: Any, y: Any) -> Any:
    """Return pairs turned by angles, as Llama's code has it."""
    pairs = t.view_as_complex(t.view_as_real(x).reshape(3, 5, 2))
    turns = t.polar(t.ones_like(y.real), y.imag)
    return t.view_as_real(pairs * turns).flatten(1)


def assigned(t: Any, x: Any, y: Any) -> Any:
    """Return numbers changed in place."""
    z = x * 1
    z[0] = 2j
    z[:, 1] = x[:, 0]
    z += y
    z *= 1j
    return z


@pytest.mark.parametrize("place", ["cpu", "gpu"])
def test_magnitudes_of_logarithms(place: str, gpu: GpuDevice) -> None:
    rng = np.random.default_rng(0)
    sizes = 10 ** rng.uniform(-37, 38, (2, 2000))
    near = np.exp(1j * rng.uniform(-3, 3, 500)) * rng.uniform(0.6, 1.4, 500)
    x = np.concatenate([sizes[0] + 1j * sizes[1], near]).astype(np.complex64)
    device = gpu if place == "gpu" else CPU
    found = fw.tensor(x, device=device).log().numpy()
    expected = np.log(x.astype(np.complex128))
    np.testing.assert_allclose(found.real, expected.real, 1e-6, 1e-6)
    # Neither comparison of a NaN is true.
    ends = [complex(np.nan, 1), complex(1, np.nan), complex(np.inf, np.nan), 0, 3e38j]
    found = fw.tensor(np.complex64(ends), device=device).log().numpy()
    largest = np.float32(np.log(3e38))
    expected = [np.nan, np.nan, np.inf, -np.inf, largest]
    np.testing.assert_allclose(found.real, expected, 1e-6)


FUNCTIONS = (
    "abs square sqrt rsqrt reciprocal exp exp2 expm1 log log2 log10 log1p sigmoid sin"
    " cos tan sinh cosh tanh sgn angle conj_physical view_as_real isfinite isreal sum"
    " mean prod std asin acos atan asinh acosh atanh"
)
CALLS: dict[str, Call] = {
    name: lambda t, x, y, name=name: getattr(t, name)(x) for name in FUNCTIONS.split()
}
CALLS |= {
    "arithmetic": lambda t, x, y: (x + y) * x / (y - 3.5) - 1j / x + 2j * x.real,
    "pow": lambda t, x, y: x**2.5 + x**y + 2**x + x ** (1 + 2j),
    "addcmul": lambda t, x, y: t.addcmul(x, x, y, value=2),
    "compare": lambda t, x, y: (x == y) | (x != x[:, :1]) | t.isclose(x, y),
    "where": lambda t, x, y: t.where(x.real > 0, x, y).masked_fill(x.imag > 1, 1j),
    "move": lambda t, x, y: t.stack([x.flip(0).roll(1, 1).T.reshape(3, 5), x], 1),
    "index": lambda t, x, y: t.cat([x[:, [0, 3]], x[1:, :2]]) * x[0, 0],
    "index_add": lambda t, x, y: x.index_add(0, t.tensor([0, 0]).to(x.device), x[:2]),
    "rows": lambda t, x, y: x.sum(1) + x.mean(1) + x.prod(1) + x.cumsum(1)[:, 2],
    "cumprod": lambda t, x, y: x.cumprod(1),
    "norm": lambda t, x, y: x.norm() + t.linalg.vector_norm(x, dim=1).sum(),
    "matmul": lambda t, x, y: (x @ x.mH) @ (x @ y),
    "softsign": lambda t, x, y: t.nn.functional.softsign(x),
    # Of `silu` PyTorch has no gradient.
    "silu": lambda t, x, y: t.nn.functional.silu(x.detach()),
    "logaddexp": lambda t, x, y: t.logaddexp(x, y) + t.logsumexp(y, 0),
    "normalize": lambda t, x, y: (
        t.nn.functional.normalize(x) + t.nn.functional.rms_norm(x, (5,))
    ),
    "conv": lambda t, x, y: t.nn.functional.conv1d(
        x[None], x[:, None, :2], y[:3], padding=1, groups=3
    ),
    "conv_transpose": lambda t, x, y: t.nn.functional.conv_transpose1d(
        x[None], x[:, None, :2], y[:1], stride=2
    ),
    "fold": lambda t, x, y: t.nn.functional.unfold(x[None], 2),
    "linalg": lambda t, x, y: (
        t.linalg.solve(x[:, :3], x[:, 1:])
        + t.linalg.det(x[:, :3])
        + t.linalg.svdvals(x)[:, None]
        + t.linalg.inv(x[:, 2:])[:, :1]
        + t.linalg.eigvals(x[:, :3]).sum()
        + t.linalg.eigvalsh(x @ x.mH).sum()
        + t.linalg.cholesky(x @ x.mH)[:, 1:2]
    ),
    "einsum": lambda t, x, y: t.einsum("ij,kj,j->ik", x, x.conj(), y),
    "dot": lambda t, x, y: t.vdot(y, x[0]) * t.outer(y, y.conj()) + t.dot(y, x[0]),
    "linear": lambda t, x, y: t.nn.functional.linear(x, x * 2j, y[:3]),
    "complex": lambda t, x, y: t.complex(x.real, y.imag.expand(3, 5)) + x.imag,
    "cast": lambda t, x, y: (
        x.to(t.float32 if t is fw else x.real.dtype).cfloat()
        if t is fw
        else x.real.cfloat()
    ),
    "rotary": rotary,
    "assigned": assigned,
}


def slope(t: Any, found: Any, weight: Any) -> Any:
    """Return a real number that depends on both parts of a result."""
    if found.is_complex():
        return (found.real * weight + 0.75 * found.imag * weight).sum()
    return (found * weight).sum()


def check(name: str, device: Device) -> None:
    """Compare a call and its gradients with PyTorch's."""
    given = [torch.tensor(each, requires_grad=True) for each in (X, Y)]
    ours = [fw.tensor(each, device=device).requires_grad_() for each in (X, Y)]
    expected, found = CALLS[name](torch, *given), CALLS[name](fw, *ours)
    wanted = expected.detach().resolve_conj().numpy()
    scale = 4 * max(1.0, float(np.abs(wanted).max()))
    assert_close(found, wanted, scale=scale)
    if not expected.requires_grad:
        return
    weight = RNG.standard_normal(wanted.shape).astype(np.float32)
    slope(torch, expected, torch.tensor(weight)).backward()
    slope(fw, found, fw.tensor(weight, device=device)).backward()
    for one, its in zip(ours, given):
        if its.grad is not None:
            grad = its.grad.resolve_conj().numpy()
            size = 8 * max(1.0, float(np.abs(grad).max()))
            assert_close(one.grad, grad, scale=size)


@pytest.mark.parametrize("name", CALLS)
def test_it_is_as_in_torch(name: str) -> None:
    check(name, CPU)


BRIEF = ("exp", "arithmetic", "matmul", "rotary", "rows", "index")


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "name",
    [each if each in BRIEF else pytest.param(each, marks=pytest.mark.wide)
     for each in CALLS],
)  # fmt: skip
def test_it_is_as_in_torch_on_a_device(name: str, gpu: GpuDevice) -> None:
    check(name, gpu)


def test_promotion_is_that_of_torch() -> None:
    kinds = ("bool", "int32", "float32", "float64", "complex64", "complex128")
    for one in kinds:
        for number in (2, 0.5, 1j):
            ours = fw.ones(2, dtype=getattr(fw, one)) * number
            theirs = torch.ones(2, dtype=getattr(torch, one)) * number
            assert str(ours.dtype) == str(theirs.dtype), (one, number)
        for other in kinds:
            for shape in ((2,), ()):
                ours = fw.result_type(
                    fw.ones(2, dtype=getattr(fw, one)),
                    fw.ones(shape, dtype=getattr(fw, other)),
                )
                theirs = torch.result_type(
                    torch.ones(2, dtype=getattr(torch, one)),
                    torch.ones(shape, dtype=getattr(torch, other)),
                )
                assert str(ours) == str(theirs), (one, other, shape)


def test_numbers_come_and_go() -> None:
    x = fw.tensor([[1 + 2j, -0.5j], [3.25, 1e-3 - 1j]])
    assert repr(x) == repr(torch.tensor(x.tolist()))
    assert x.dtype is fw.cfloat
    assert x.is_complex()
    assert not x.is_conj()
    assert x[0, 0].item() == 1 + 2j
    assert x.numpy().dtype == np.complex64
    assert fw.full((2,), 1j).dtype is fw.complex64
    assert fw.zeros(1, dtype=fw.cdouble).tolist() == [0j]
    drawn = fw.randn(4000, dtype=fw.complex64)
    assert abs(float(drawn.var()) - 1) < 0.1
    x.real, x.imag = fw.zeros(2, 2), 2.0
    assert x.tolist() == [[2j, 2j], [2j, 2j]]


def test_powers_in_complex128() -> None:
    assert_close(fw.float_power(fw.tensor(Y), 2), Y.astype(complex) ** 2, scale=10)
    powers = fw.float_power(fw.tensor([1, 2]), 2 + 1j)
    assert_close(powers, np.array([1, 2]) ** (2 + 1j))


def test_a_gradient_can_be_differentiated() -> None:
    def second(t: Any) -> Any:
        x = t.tensor(Y).requires_grad_()
        (first,) = t.autograd.grad((x * x.exp()).abs().sum(), x, create_graph=True)
        return t.autograd.grad(slope(t, first, 1.0), x)[0]

    assert_close(second(fw), second(torch).numpy(), scale=100)


def test_it_replays_under_jit(gpu: GpuDevice) -> None:
    step = fw.jit(lambda x, s: fw.view_as_real(x * 1j * s + x.exp()))
    for k in range(3):
        x = Y * (k + 1)
        found = step(fw.tensor(x, device=gpu), 0.5 + k)
        wanted = x * 1j * (0.5 + k) + np.exp(x)
        assert_close(
            found, np.stack([wanted.real, wanted.imag], -1).astype(np.float32), scale=50
        )


def test_what_there_is_not() -> None:
    x = fw.tensor(Y)
    for call in (fw.relu, fw.floor, fw.sort, fw.sign, fw.erf, fw.amax, fw.isneginf):
        with pytest.raises(DTypeError, match="is complex64"):
            call(x)
    for compare in (lambda: x < x, lambda: fw.maximum(x, x), lambda: x // 2):
        with pytest.raises(DTypeError, match="is complex64"):
            compare()
    with pytest.raises(DTypeError, match="complex numbers cannot become float32"):
        fw.tensor([1j], dtype=fw.float32)
    with pytest.raises(DTypeError, match="'complex32' is unknown"):
        fw.zeros(2, dtype="complex32")
    with pytest.raises(DTypeError, match="imag: the tensor is float32"):
        fw.imag(fw.ones(2))
    with pytest.raises(DTypeError, match="they must be of one dtype"):
        fw.complex(fw.ones(2), fw.ones(2).double())
    with pytest.raises(ShapeError, match="the last size must be 2"):
        fw.view_as_complex(fw.ones(3))


def test_devices_have_no_complex128(gpu: GpuDevice) -> None:
    with pytest.raises(DTypeError, match="has no complex128; use complex64"):
        fw.tensor(Y.astype(complex), device=gpu)
    with pytest.raises(DTypeError, match="has no complex128"):
        fw.tensor(Y, device=gpu).cdouble()


def test_gradients_of_parts_are_one_dispatch(gpu: GpuDevice) -> None:
    parts = [fw.rand(7, device=gpu, requires_grad=True) for _ in range(2)]
    seed = fw.complex(*(fw.rand(7, device=gpu) for _ in range(2)))
    out = fw.complex(*parts)
    fw.eval(out, seed)
    before = gpu.gpu.counters.dispatches
    found = fw.autograd.grad([out], parts, [seed])
    fw.eval(*found)
    assert gpu.gpu.counters.dispatches == before + 1
    wanted = seed.numpy()
    assert found[0].tolist() == wanted.real.tolist()
    assert found[1].tolist() == wanted.imag.tolist()
