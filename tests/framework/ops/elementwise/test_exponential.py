"""Special values and ranges of exponentials, logarithms and powers."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from tests.framework.ops.special import INF, NAN, check_special, check_special_pairs
from tests.framework.ops.twin import as_in_torch
from vkbackend.framework import ops
from vkbackend.framework.base.device import GpuDevice

Make = Callable[..., fw.Tensor]

UNARY: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "log_sigmoid": lambda x: -np.logaddexp(0, -x),
}


@pytest.mark.parametrize("name", UNARY)
def test_special_values(name: str, make: Make) -> None:
    check_special(getattr(ops, name), UNARY[name], make)


@pytest.mark.parametrize("name", ["exp", "exp2", "expm1"])
def test_where_exponentials_overflow(name: str, make: Make) -> None:
    x = np.linspace(80, 130, 1013, dtype=np.float32)
    check_range(name, np.concatenate([x, -x]), make)


@pytest.mark.parametrize("name", ["expm1", "log1p"])
def test_near_zero_nothing_is_lost(name: str, make: Make) -> None:
    x = np.float32(10.0) ** -np.arange(1, 30, dtype=np.float32)
    check_range(name, np.concatenate([x, -x]), make)


@pytest.mark.parametrize("name", ["log", "log2", "log10"])
def test_logarithms_of_any_size(name: str, make: Make) -> None:
    check_range(name, np.geomspace(1e-37, 3e38, 1013).astype(np.float32), make)
    check_range(name, np.linspace(0.9, 1.1, 1013, dtype=np.float32), make)


def check_range(name: str, x: np.ndarray, make: Make) -> None:
    """Compare with float64 to 4e-7 of the result, that is 3 to 7 ulp."""
    with np.errstate(all="ignore"):
        expected = UNARY[name](x.astype(np.float64)).astype(np.float32)
    found = getattr(ops, name)(make(x)).numpy()
    np.testing.assert_allclose(found, expected, rtol=4e-7, atol=2.0**-126)


def test_whole_logarithms_are_exact(make: Make) -> None:
    x = make(np.float32(2.0) ** np.arange(-20, 20, dtype=np.float32))
    assert ops.log2(x).tolist() == list(range(-20, 20))
    assert ops.exp2(ops.log2(x)).tolist() == x.tolist()


def test_special_powers(make: Make) -> None:
    check_special_pairs(ops.pow, np.power, make)


def test_whole_powers_of_negative_numbers(make: Make) -> None:
    x = make(np.array([-2.0, -2.0, -2.0, -2.0, -0.0, -0.0], np.float32))
    y = make(np.array([2.0, 3.0, -3.0, 0.5, 3.0, -3.0], np.float32))
    expected = np.array([4, -8, -0.125, NAN, -0.0, -INF], np.float32)
    found = x**y
    assert_close(found, expected)
    assert np.signbit(found.numpy()[4])


def test_powers_of_integers(make: Make) -> None:
    x = make(np.array([2, -3, 1, -1, -1, 5, 0, 0], np.int32))
    y = make(np.array([31, 3, -5, -5, -4, -1, 0, -1], np.int32))
    assert ops.pow(x, y).tolist() == [-(2**31), -27, 1, -1, 1, 0, 1, 0]


def test_slopes_of_powers_at_zero(make: Make) -> None:
    # PyTorch's choices: x ** 0 is flat, and so is 0 ** y for y >= 0.
    for exponent in (0.0, make([0.0])):
        x = make([0.0], grad=True)
        (x**exponent).backward()
        assert x.grad.tolist() == [0]
    y = make([0.0, 2.0, -1.0], grad=True)
    (0.0**y).backward(fw.ones_like(y))
    assert y.grad.tolist() == [0, 0, -INF]
    y = make([2.0], grad=True)
    ((-2.0) ** y).backward()
    assert np.isnan(y.grad.item())


def test_logaddexp(make: Make) -> None:
    as_in_torch(make, ops.logaddexp, torch.logaddexp, (3, 1, 7), (5, 7))
    x = np.array([INF, -INF, -INF, INF, 1000, -1000, NAN, 2], np.float32)
    y = np.array([INF, -INF, INF, 0, 1000, 0, 1, 2], np.float32)
    a, b = make(x, grad=True), make(y)
    out = ops.logaddexp(a, b)
    assert_close(out, torch.logaddexp(*map(torch.tensor, (x, y))).numpy())
    out[-1].backward()
    assert a.grad is not None
    assert a.grad[-1].item() == 0.5


@pytest.mark.wide
@pytest.mark.filterwarnings("ignore:.*encountered")
def test_functions_of_float64_on_a_device(gpu: GpuDevice) -> None:
    if not gpu.gpu.info.shader_float64:
        pytest.skip("the device has no shader_float64")
    rng = np.random.default_rng(0)
    ends = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e-310, 745.0, -745.0, 1e-20]
    x = np.array([*ends, *rng.normal(0, 9, 200), *rng.uniform(-1, 1, 99)])
    y = np.array([*ends[::-1], *rng.normal(0, 50, 299)])
    names = (
        "exp exp2 expm1 log log2 log10 log1p sigmoid tanh sin cos tan sinh cosh asin"
        " acos atan asinh acosh atanh erf pow atan2 hypot remainder floor_divide"
        " logaddexp logaddexp2"
    ).split()
    for name in [*names, "erfc"]:
        args = (x, y) if name in names[-7:] else (x,)
        found = getattr(fw, name)(*(fw.tensor(each, device=gpu) for each in args))
        wanted = getattr(torch, name)(*map(torch.tensor, args)).numpy()
        if name in ("remainder", "floor_divide"):  # PyTorch's are not exact
            wanted = getattr(np, name)(*args)
        np.testing.assert_allclose(found.numpy(), wanted, 5e-15, 1e-309, err_msg=name)
    rows = fw.tensor(rng.normal(0, 9, (3, 5)), device=gpu, requires_grad=True)
    labels = fw.tensor([1, 0, 4], device=gpu)
    losses = fw.nn.functional.cross_entropy(rows, labels) + rows.logsumexp(1).sum()
    (slope,) = fw.autograd.grad(losses, rows)
    theirs = torch.tensor(rows.detach().numpy(), requires_grad=True)
    other = torch.nn.functional.cross_entropy(theirs, torch.tensor(labels.numpy()))
    (other + theirs.logsumexp(1).sum()).backward()
    np.testing.assert_allclose(slope.numpy(), theirs.grad, 1e-12)


def test_complex_log1p_and_powers(make: Make) -> None:
    near = np.complex64([1e-10, -1e-10, 1e-9 + 1e-9j, 0.3 - 0.4j, -0.4 + 0.3j, 2 + 1j])
    expected = torch.log1p(torch.tensor(near)).numpy()
    np.testing.assert_allclose(ops.log1p(make(near)).numpy(), expected, 2e-6)
    base = np.complex64([1e10 - 1j, -30 - 1e10j, 0, 1j, 2])
    power = np.complex64([-30, -30, 2, 2, 0.5])
    expected = torch.pow(torch.tensor(base), torch.tensor(power)).numpy()
    np.testing.assert_allclose(
        ops.pow(make(base), make(power)).numpy(), expected, 2e-6, 2e-7
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("size", [1.0, 30.0, 3000.0])
def test_powers_of_two_bytes_are_rounded_once(
    size: float, dtype: str, gpu: GpuDevice
) -> None:
    generator, kind = torch.Generator().manual_seed(7), getattr(torch, dtype)
    every = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int32).short().view(kind)
    near = (1 + torch.randn(len(every), generator=generator) * 0.1).to(kind)
    bases = torch.cat([every, near])
    powers = (torch.randn(len(bases), generator=generator) * size).to(kind)
    special = [0.0, -0.0, 1.0, 2.0, 3.0, -1.0, 0.5, torch.inf, -torch.inf, torch.nan]
    for k, each in enumerate(special):
        powers[k::64] = each
    x, y = (fw.tensor(t.float().numpy(), device=gpu).to(dtype) for t in (bases, powers))
    got = torch.from_numpy(fw.pow(x, y).float().numpy()).to(kind)
    wanted = torch.pow(bases.double(), powers.double()).to(kind)
    # Smaller numbers and results a device may take as 0.
    taken = (bases == 0) | ~(bases.float().abs() < 2.0**-126)
    assert torch.equal(got[taken].isnan(), wanted[taken].isnan())
    assert torch.equal(got[taken].isinf(), wanted[taken].isinf())
    normal = taken & (wanted.float().abs() > 2.0**-126)
    apart = (got.view(torch.int16).int() - wanted.view(torch.int16).int()).abs()
    assert apart[normal].max() <= 1
    assert (apart[normal] > 0).float().mean() < 1e-2
