"""Special values, overflow, promotion and edges of arithmetic."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from tests.framework.ops.special import INF, NAN, check_special_pairs, need
from vkbackend.framework import ops
from vkbackend.framework.base.device import CPU, Device, GpuDevice
from vkbackend.framework.base.dtype import DTYPES, INTEGER, DType
from vkbackend.framework.base.errors import DTypeError
from vkbackend.framework.ops.elementwise import binary

Make = Callable[..., fw.Tensor]

BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "copysign": np.copysign,
    "fmod": np.fmod,
    "remainder": np.remainder,
    "floor_divide": np.floor_divide,
}


@pytest.mark.parametrize("name", BINARY)
def test_special_pairs(name: str, make: Make) -> None:
    check_special_pairs(getattr(ops, name), BINARY[name], make)


@pytest.mark.parametrize("name", ["fmod", "remainder", "floor_divide"])
def test_remainders_are_exact(name: str, make: Make) -> None:
    rng = np.random.default_rng(2)
    size = 10.0 ** rng.integers(-30, 30, (2, 2003))
    x, y = (rng.standard_normal((2, 2003)) * size).astype(np.float32)
    if name == "floor_divide":
        y = x / np.float32(rng.uniform(-1000, 1000, 2003))
    assert_close(getattr(ops, name)(make(x), make(y)), BINARY[name](x, y), exact=True)


@pytest.mark.parametrize("dtype", INTEGER, ids=str)
@pytest.mark.parametrize("name", ["add", "sub", "mul", "floor_divide", "remainder"])
def test_integers_wrap(name: str, dtype: DType, place: Device) -> None:
    need(dtype, place)
    low, high = dtype.limits
    ends = [low, low + 1, -1 if low else 5, 0, 1, 2, high - 1, high]
    data = np.array(ends, dtype.numpy)
    found = getattr(ops, name)(
        fw.tensor(data[:, None], device=place), fw.tensor(data, device=place)
    )
    with np.errstate(all="ignore"):
        assert_close(found, BINARY[name](data[:, None], data))


def test_division(make: Make) -> None:
    x = make(np.array([1, -1, 0, 7], np.int32))
    zero = make(np.zeros(4, np.int32))
    assert_close(ops.div(x, zero), np.array([INF, -INF, NAN, INF], np.float32))
    assert_close(x / 2, np.array([0.5, -0.5, 0, 3.5], np.float32))
    assert_close(7 / x, np.array([7, -7, INF, 1], np.float32))


def test_quotients_and_roots_are_rounded_once(make: Make) -> None:
    _check_quotients(make)


def test_quotients_are_rounded_once_by_exact_products(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = gpu.gpu.info
    target = dataclasses.replace(
        info.target, rounds_quotients=False, fuses_multiply_add=False
    )
    monkeypatch.setitem(info.__dict__, "target", target)
    gpu.plans.clear()
    _check_quotients(lambda values: fw.tensor(values, device=gpu))
    gpu.plans.clear()


def _check_quotients(make: Make) -> None:
    """Compare quotients and roots with NumPy's, bit for bit where they are normal."""
    rng = np.random.default_rng(4)
    bits = rng.integers(0, 1 << 32, (2, 200_000), np.uint32)
    # Of 0, infinities, NaN and denormal numbers, each with each other.
    x, y = bits.view(np.float32)
    x[:400] = np.repeat(SPECIAL, 20)
    y[:400] = np.tile(SPECIAL, 20)
    x[400:100_000] = np.ldexp(np.float32(1) + rng.random(99_600, np.float32), -3)
    y[400:100_000] = rng.standard_normal(99_600, np.float32)
    x[400:500] = np.square(np.arange(1, 101))
    a, b = make(x), make(y)
    with np.errstate(all="ignore"):
        quotients, inverses, roots = x / y, 1 / x, np.sqrt(np.abs(x))
    normal = _normal(x) & _normal(y)
    for found, wanted in (((a / b), quotients), (a.reciprocal(), inverses)):
        where = normal & (_normal(wanted) | (wanted == 0) | np.isinf(wanted))
        np.testing.assert_array_equal(found.numpy()[where], wanted[where])
    zeros_and_more = ~(_denormal(x) | _denormal(y) | _denormal(quotients))
    found = (a / b).numpy()[zeros_and_more]
    np.testing.assert_array_equal(found, quotients[zeros_and_more])
    same = np.signbit(found) == np.signbit(quotients[zeros_and_more])
    assert (same | np.isnan(found)).all()
    np.testing.assert_array_equal((a / a).numpy()[_normal(x)], 1)
    truncated = fw.div(b, b, rounding_mode="trunc").numpy()
    np.testing.assert_array_equal(truncated[_normal(y)], 1)
    found = a.abs().sqrt().numpy()
    np.testing.assert_array_equal(found[400:500], np.arange(1, 101))
    where = ~_denormal(x)
    found, roots = found[where], roots[where]
    np.testing.assert_allclose(found, roots, rtol=1.2e-7)
    # Between two numbers, one of a million may be rounded the other way.
    assert np.mean((found != roots) & ~np.isnan(roots)) < 1e-4


@pytest.mark.parametrize("divides", [False, True])
@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
def test_integer_quotients_of_every_size(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch, dtype: str, divides: bool
) -> None:
    """Also of those that 32 bits do not hold, and where most lanes have others."""
    info = gpu.gpu.info
    target = dataclasses.replace(info.target, divides_int64=divides)
    monkeypatch.setitem(info.__dict__, "target", target)
    gpu.plans.clear()
    rng = np.random.default_rng(6)
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    ends = np.array([0, 1, 2, 7, most, most - 1, most // 2, least, least + 1], dtype)
    if least < 0:
        ends = np.concatenate([ends, -ends[1:4], ends[4:5] >> 31, [1 - least // 2]])
    ends = ends.astype(dtype)
    drawn = rng.integers(least, most, (2, 4000), dtype, endpoint=True)
    few = rng.integers(1, 100, (2, 400)).astype(dtype)
    drawn[1] >>= rng.integers(0, np.iinfo(dtype).bits - 1, 4000).astype(dtype)
    x = np.concatenate([np.repeat(ends, len(ends)), drawn[0], few[0]])
    y = np.concatenate([np.tile(ends, len(ends)), drawn[1], few[1]])
    divisors = y != 0
    a, b = fw.tensor(x, device=gpu), fw.tensor(y, device=gpu)
    with np.errstate(all="ignore"):
        wanted = {
            "floor_divide": x // y,
            "remainder": np.remainder(x, y),
            "fmod": np.fmod(x, y),
            "gcd": np.gcd(x, y),
            "lcm": np.lcm(x, y),
        }
    for name, right in wanted.items():
        found = getattr(fw, name)(a, b).numpy()
        where = divisors if name in ("floor_divide", "remainder", "fmod") else ...
        np.testing.assert_array_equal(found[where], right[where], name)
    gpu.plans.clear()


SPECIAL = np.float32(
    "0 -0.0 inf -inf nan 1 -1 3 7 1e-40 -1e-40 1e-38 1.2e-38 2e-38 1e-30 1e-10 1e10"
    " 1e30 3.4e38 -3.4e38".split()
)


def _normal(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.isfinite(x) & (np.abs(x) >= np.finfo(np.float32).tiny)


def _denormal(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return (np.abs(x) < np.finfo(np.float32).tiny) & (x != 0)


@pytest.mark.parametrize("mode", ["floor", "trunc"])
@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_rounded_division(mode: Any, dtype: str, make: Make) -> None:
    x, y = np.array([7, -7, 7, -7], dtype), np.array([2, 2, -2, -2], dtype)
    expected = torch.div(torch.from_numpy(x), torch.from_numpy(y), rounding_mode=mode)
    found = ops.div(make(x, dtype), make(y, dtype), rounding_mode=mode)
    assert_close(found, expected.numpy())


def test_unknown_rounding_is_refused() -> None:
    with pytest.raises(ValueError, match="div: rounding_mode is 'up'; it must be None"):
        ops.div(fw.ones(1), 2, rounding_mode="up")  # type: ignore[arg-type]


PROMOTIONS = [
    ("int8", "uint8", "int16"),
    ("int32", "float16", "float16"),
    ("uint16", "int32", "int32"),
    ("float16", "float32", "float32"),
    ("float16", "bfloat16", "float32"),
    ("int64", "bfloat16", "bfloat16"),
    ("bool", "float32", "float32"),
    ("bool", "int8", "int8"),
]


@pytest.mark.parametrize(("first", "second", "result"), PROMOTIONS)
def test_promotion(first: str, second: str, result: str, place: Device) -> None:
    for each in (first, second):
        need(DTYPES[each], place)
    x = fw.tensor(np.array([1, 0, 1]), first, place)
    y = fw.tensor(np.array([3, 4, 5]), second, place)
    for found in (ops.add(x, y), ops.add(y, x)):
        assert found.dtype is DTYPES[result]
        assert found.tolist() == [4, 4, 6]


def test_masks_multiply(make: Make) -> None:
    mask, x = make(np.array([True, False])), make([3.0, 4.0])
    assert (mask * x).tolist() == [3, 0]
    with pytest.raises(DTypeError, match=r"^sub: an operand is bool; use \^"):
        1 - mask


OF_BOOLS = ("add", "mul", "maximum", "minimum", "lt", "le", "gt", "ge")


@pytest.mark.parametrize("name", OF_BOOLS)
def test_bools_combine(name: str, make: Make) -> None:
    one, other = np.array([[True], [False]]), np.array([True, False])
    found = getattr(make(one), name)(make(other))
    expected = getattr(torch.from_numpy(one), name)(torch.from_numpy(other))
    assert found.dtype is fw.bool_
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize(
    "name", ["sqrt", "exp", "log", "sin", "tanh", "erf", "logsumexp"]
)
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32"])
def test_integers_become_floats(name: str, dtype: str, make: Make) -> None:
    data = np.array([1, 0, 1]).astype(dtype)
    arguments = (0,) if name == "logsumexp" else ()
    found = getattr(make(data), name)(*arguments)
    expected = getattr(torch.from_numpy(data), name)(*arguments)
    assert found.dtype is fw.float32
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-6)


@pytest.mark.parametrize("name", ["floor", "ceil", "round", "trunc", "sign"])
def test_integers_are_whole(name: str, make: Make) -> None:
    found = getattr(make(np.array([-2, 0, 3], np.int32)), name)()
    assert found.dtype is fw.int32
    expected = [-1, 0, 1] if name == "sign" else [-2, 0, 3]
    assert found.tolist() == expected


def test_eight_dimensions_broadcast(make: Make) -> None:
    rng = np.random.default_rng(4)
    x = rng.standard_normal((2, 1, 3, 1, 2, 1, 3, 1)).astype(np.float32)
    y = rng.standard_normal((1, 2, 1, 3, 1, 2, 1, 3)).astype(np.float32)
    z = rng.standard_normal((3, 1, 2, 1, 3)).astype(np.float32)
    assert_close(make(x) * make(y) + make(z), x * y + z)


@pytest.mark.parametrize("name", ["sub", "div", "floor_divide", "pow"])
def test_numbers_on_either_side(name: str, make: Make) -> None:
    data, call = np.array([0.5, 3.0, 4.5], np.float32), getattr(ops, name)
    x, number = make(data), make(np.float32(2.5))
    assert call(x, 2.5).tolist() == call(x, number).tolist()
    assert call(2.5, x).tolist() == call(number, x).tolist()


@pytest.mark.core
def test_shapes_that_do_not_fit_leave_nothing_pending(gpu: GpuDevice) -> None:
    x = fw.ones((3, 2), device=gpu)
    fw.eval()
    with pytest.raises(ValueError, match="add: shapes do not broadcast"):
        x + fw.ones((4, 1), device=gpu).to(CPU).to(gpu).expand(4, 2)
    assert all(node.op.name != "add" for node in gpu.pending)


NEIGHBOURS = np.array([0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, INF, -INF, NAN], "f4")
WHOLE = np.array([0, 1, -1, 2, -3, 5, 0, 2, 11], np.int64)
PARTNERS = np.array([1, 0, 2.5, -1, 0.5, -2, -1, 3, 0.25], np.float32)

MIXED = ("add", "sub", "mul", "div", "maximum", "minimum", "pow", "atan2", "hypot",
         "fmod", "remainder")  # fmt: skip


@pytest.mark.parametrize("name", MIXED)
def test_gradients_are_those_of_torch(name: str, place: Device) -> None:
    """At ties, zeros, infinities and NaN, and beside integers and 2-byte floats."""
    x, y = (each.ravel() for each in np.meshgrid(NEIGHBOURS, NEIGHBOURS))
    half = WHOLE[:-1].astype(np.float16)
    pairs = [(x, y), (PARTNERS[:-1], half), (half, PARTNERS[:-1])]
    pairs += [(PARTNERS, WHOLE), (WHOLE.astype(np.int8), PARTNERS)]
    # Rules are written with operations, whose kernels are tested for mixed dtypes.
    for pair in pairs[:1] if place.is_gpu else pairs:
        ours = [fw.tensor(each, device=place) for each in pair]
        theirs = [torch.tensor(each) for each in pair]
        for mine, its in zip(ours, theirs):
            mine.requires_grad_(mine.dtype.is_float)
            its.requires_grad_(its.is_floating_point())
        made, wanted = (getattr(ops, name)(*ours), getattr(torch, name)(*theirs))
        made.backward(fw.full_like(made, 3.0))
        wanted.backward(torch.full_like(wanted, 3.0))
        error = 2e-3 if np.float16 in {each.dtype.type for each in pair} else 3e-6
        for mine, its in zip(ours, theirs):
            if mine.requires_grad:
                assert mine.grad is not None
                assert its.grad is not None
                np.testing.assert_allclose(
                    mine.grad.numpy(), its.grad.numpy(), error, 1e-6
                )


@pytest.mark.parametrize("base", [0, 0.0, -2.0, 2])
def test_slopes_of_a_number_to_a_power(base: float, place: Device) -> None:
    values = np.array([0.0, 1.0, -1.0, 2.5, -0.5], np.float32)
    y, its = fw.tensor(values, device=place, requires_grad=True), torch.tensor(values)
    ops.pow(base, y).sum().backward()
    torch.pow(base, its.requires_grad_()).sum().backward()
    assert y.grad is not None
    assert its.grad is not None
    assert_close(y.grad, its.grad.numpy())


def test_sign_of_a_remainder_that_is_zero(make: Make) -> None:
    x = np.float32([-4, 4, 0.0, -0.0, 5, -5])
    y = np.float32([2, -2, -1, 1, 3, 3])
    found = ops.remainder(make(x), make(y)).numpy()
    expected = torch.remainder(torch.tensor(x), torch.tensor(y)).numpy()
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


def test_alpha_of_an_operand(make: Make) -> None:
    x = make(np.ones(2, np.float32))
    assert binary.times_alpha("add", x, x, 1) is x
    assert binary.times_alpha("add", x, 3, 2) == 6
    assert binary.times_alpha("add", x > 0, True, 2) is True
    np.testing.assert_array_equal(binary.times_alpha("sub", x, x, -0.5), [-0.5, -0.5])


@pytest.mark.parametrize("name", ["fmod", "remainder"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_remainders_of_two_bytes_are_exact(
    name: str, dtype: str, gpu: GpuDevice
) -> None:
    rng = np.random.default_rng(0)
    ends = np.array([0, -0.0, 1, -2, 65504, 6e-8, -6e-5, INF, NAN, 0.333, 1e-30], "f4")
    x, y = np.meshgrid(ends, ends)
    scales = rng.choice([1e-6, 1, 3000], (2, 5000))
    more = (rng.standard_normal((2, 5000)) * scales).astype("f4")
    one = torch.tensor(np.concatenate([x.ravel(), more[0]])).to(getattr(torch, dtype))
    two = torch.tensor(np.concatenate([y.ravel(), more[1]])).to(getattr(torch, dtype))
    given = (fw.tensor(each.float().numpy(), dtype, gpu) for each in (one, two))
    found = getattr(fw, name)(*given).float().numpy()
    with np.errstate(invalid="ignore"):
        exact = getattr(np, name)(one.double().numpy(), two.double().numpy())
    wanted = torch.tensor(exact).to(one.dtype).float().numpy()
    # Denormal bfloat16 numbers are as the device has them.
    normal = (np.abs(wanted) >= 2.0**-126) | (wanted == 0) | ~np.isfinite(wanted)
    np.testing.assert_array_equal(found[normal], wanted[normal])


@pytest.mark.parametrize("name", ["logaddexp", "logaddexp2"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sums_of_exponentials_of_two_bytes(
    name: str, dtype: str, gpu: GpuDevice
) -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(0, 5, 5000), rng.uniform(-1.1, -0.9, 5000)])
    y = np.concatenate([rng.normal(0, 5, 5000), rng.uniform(-1.1, -0.9, 5000)])
    kind = getattr(torch, dtype)
    one, two = (torch.tensor(each).to(kind) for each in (x, y))
    given = (fw.tensor(each.float().numpy(), dtype, gpu) for each in (one, two))
    found = getattr(fw, name)(*given).float().numpy()
    wanted = getattr(np, name)(one.double().numpy(), two.double().numpy())
    # Half a step of the result, and 2^-20 where it nearly vanishes.
    step = 2.0**-11 if dtype == "float16" else 2.0**-8
    np.testing.assert_allclose(found, wanted, 1.01 * step, 2.0**-20)
    ends = np.array([INF, -INF, -INF, INF, NAN, 2, -1], "f4")
    others = np.array([INF, -INF, INF, 0, 1, 2, -1], "f4")
    found = getattr(fw, name)(
        *(fw.tensor(each, dtype, gpu) for each in (ends, others))
    ).float()
    wanted = getattr(torch, name)(*map(torch.tensor, (ends, others))).to(kind).float()
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), step, 2.0**-20)
