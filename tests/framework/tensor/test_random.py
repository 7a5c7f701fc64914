"""Random tensors: one stream for all devices, distributions, generators, refusals."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.framework.ops.agree import need
from vkbackend.framework import ops
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.base.dtype import DTYPES
from vkbackend.framework.base.errors import DomainError, DTypeError, ShapeError

EXACT: dict[str, Callable[[Any], fw.Tensor]] = {
    "rand": lambda device: fw.rand(5, 7, device=device),
    "rand float16": lambda device: fw.rand(113, dtype="float16", device=device),
    "rand bfloat16": lambda device: fw.rand(113, dtype="bfloat16", device=device),
    "randint": lambda device: fw.randint(-3, 11, (5, 7), None, "int32", device),
    "randint int8": lambda device: fw.randint(
        -128, 128, (113,), dtype="int8", device=device
    ),
    "randint uint32": lambda device: fw.randint(
        0, 1 << 32, (113,), dtype="uint32", device=device
    ),
    "randint float": lambda device: fw.randint(
        9, (37,), dtype="float32", device=device
    ),
    "randperm": lambda device: fw.randperm(1031, None, "int32", device),
    "bernoulli": lambda device: ops.bernoulli(fw.full((113,), 0.3, device=device)),
}
ROUNDED: dict[str, Callable[[Any], fw.Tensor]] = {
    "randn": lambda device: fw.randn(64, 64, device=device),
    "randn of odd size": lambda device: fw.randn(37, device=device),
    "normal": lambda device: fw.normal(3.0, 2.0, (5, 7), device=device),
    "exponential": lambda device: ops.draw_exponential(
        fw.zeros((), device=device), (64, 64), DTYPES["float32"]
    ),
}


@pytest.mark.core
@pytest.mark.parametrize("name", [*EXACT, *ROUNDED])
def test_every_device_draws_the_same(name: str, gpu: GpuDevice) -> None:
    draw = (EXACT | ROUNDED)[name]
    drawn = []
    for device in ("cpu", gpu):
        fw.manual_seed(7)
        drawn.append(draw(device).numpy())
    if name in EXACT:
        assert np.array_equal(*drawn)
    else:
        # A few roundings of numbers up to 6.
        np.testing.assert_allclose(*drawn, rtol=2e-6, atol=2e-6)


def test_no_draw_is_uploaded(gpu: GpuDevice) -> None:
    fw.eval()
    before = gpu.gpu.counters.snapshot()
    for draw in (*EXACT.values(), *ROUNDED.values()):
        draw(gpu)
    fw.eval()
    assert (gpu.gpu.counters - before).uploads == 0
    assert (gpu.gpu.counters - before).host_reads == 0


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_uniform_draws_are_below_1(dtype: str, place: Device) -> None:
    need(dtype, place)
    drawn = fw.rand(1 << 16, dtype=dtype, device=place).numpy()
    assert drawn.min() >= 0
    assert drawn.max() < 1
    assert abs(drawn.astype(np.float64).mean() - 0.5) < 0.01


def test_moments_of_normal_draws(place: Device) -> None:
    drawn = fw.randn(1 << 16, device=place).numpy().astype(np.float64)
    # 65,536 draws: deviations 0.004 of the mean, 0.006 of the variance, 0.04 of the
    # fourth moment.
    assert abs(drawn.mean()) < 0.02
    assert abs((drawn**2).mean() - 1) < 0.03
    assert abs((drawn**4).mean() - 3) < 0.2
    assert np.abs(drawn).max() < 5.77
    neighbours = (drawn[0::2] * drawn[1::2]).mean()
    assert abs(neighbours) < 0.03


def test_integers_are_even(place: Device) -> None:
    drawn = fw.randint(-2, 3, (50_000,), None, "int32", place).numpy()
    counts = np.bincount(drawn + 2, minlength=5)
    # 10,000 expected of each, with a deviation of 90.
    assert np.abs(counts - 10_000).max() < 450


def test_permutations(place: Device) -> None:
    drawn = fw.randperm(3000, None, "int32", place).numpy()
    assert np.array_equal(np.sort(drawn), np.arange(3000))
    assert not np.array_equal(drawn, np.arange(3000))
    assert fw.randperm(0, None, "int32", place).shape == (0,)


def test_integers_are_int64_unless_said_otherwise() -> None:
    assert fw.randint(9, (2,)).dtype is DTYPES["int64"]
    assert fw.randperm(9).dtype is DTYPES["int64"]


def test_normal_with_tensors(place: Device) -> None:
    mean = fw.full((20_000,), 3.0, device=place, requires_grad=True)
    drawn = fw.normal(mean, 0.5)
    assert abs(drawn.detach().numpy().mean() - 3) < 0.05
    assert abs(drawn.detach().numpy().std() - 0.5) < 0.05


@pytest.mark.parametrize(
    "draw",
    [
        lambda m, x, y: m.normal(x, 0.5),
        lambda m, x, y: m.normal(0.5, y),
        lambda m, x, y: m.normal(x, y),
        lambda m, x, y: m.bernoulli(x),
        lambda m, x, y: m.poisson(x),
    ],
)
def test_gradients_of_draws_are_as_in_torch(draw: Callable[..., Any]) -> None:
    """They are 0: who draws an action gets no gradient by way of it."""
    found = []
    for library in (torch, fw):
        x, y = (
            library.full(shape, 0.5, requires_grad=True) for shape in ((2, 3), (3,))
        )
        drawn = draw(library, x, y)
        drawn.sum().backward()
        grads = [None if each.grad is None else each.grad.tolist() for each in (x, y)]
        found.append((drawn.grad_fn.name(), drawn.requires_grad, grads))
    assert found[0] == found[1]


@pytest.mark.parametrize("replacement", [False, True])
def test_multinomial(replacement: bool, place: Device) -> None:
    weights = np.array([0, 1, 2, 5], np.float32)
    rows = fw.tensor(np.tile(weights, (2000, 1)), device=place)
    drawn = ops.multinomial(rows, 3, replacement).numpy()
    assert drawn.shape == (2000, 3)
    assert not (drawn == 0).any()
    shares = np.bincount(drawn[:, 0], minlength=4) / 2000
    np.testing.assert_allclose(shares, weights / 8, atol=0.06)
    if not replacement:
        assert (np.sort(drawn, 1) == [1, 2, 3]).all()
    assert ops.multinomial(rows[0], 2, replacement).shape == (2,)


def test_generators(place: Device) -> None:
    one, other = fw.Generator(3), fw.Generator(3)
    first = fw.rand(5, generator=one, device=place)
    assert np.array_equal(first.numpy(), fw.rand(5, generator=other).numpy())
    state = one.get_state()
    second = fw.randn(5, generator=one, device=place).numpy()
    one.set_state(state)
    assert np.array_equal(fw.randn(5, generator=one, device=place).numpy(), second)
    assert one.initial_seed() == 3


def test_state_of_the_default_generator() -> None:
    assert fw.manual_seed(5).initial_seed() == fw.initial_seed() == 5
    state = fw.get_rng_state()
    first = fw.rand(3).numpy()
    fw.set_rng_state(state)
    assert np.array_equal(fw.rand(3).numpy(), first)


@pytest.mark.parametrize(
    ("low", "high"),
    [(0, (1 << 63) - 1), (1 - (1 << 63), 5), (7, (1 << 32) + 8), (-(1 << 62), 1 << 62)],
)
def test_integers_of_many(low: int, high: int, place: Device) -> None:
    """Quarters of the range are drawn about as often, and hardly a number twice."""
    drawn = fw.randint(low, high, (4000,), device=place).numpy()
    assert drawn.dtype == np.int64
    quarters = [(int(each) - low) * 4 // (high - low) for each in drawn]
    assert set(quarters) == {0, 1, 2, 3}
    assert np.abs(np.bincount(quarters) - 1000).max() < 150
    assert len(set(drawn.tolist())) > 3990


def test_random_fills_the_range_of_a_dtype(place: Device) -> None:
    most = fw.empty(1000, dtype="int64", device=place).random_().numpy().max()
    assert most > 1 << 62
    most = fw.empty(1000, dtype="int32", device=place).random_().numpy().max()
    assert most > 1 << 30


def test_one_bound_is_the_upper_one(place: Device) -> None:
    x = fw.empty(300, device=place)
    assert set(x.random_(3).tolist()) == {0, 1, 2}
    assert set(x.random_(to=2).tolist()) == {0, 1}
    assert set(x.random_(-2, 1).tolist()) == {-2, -1, 0}
    with pytest.raises(ShapeError, match="no integers from 0 to before 0"):
        x.random_(0)


def test_like(place: Device) -> None:
    x = fw.zeros((3, 5), dtype="float16", device=place)
    for made in (fw.rand_like(x), fw.randn_like(x), fw.randint_like(x, 3, 9)):
        assert (made.shape, made.dtype, made.device) == (x.shape, x.dtype, x.device)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda: fw.randint(3, 3, (2,)),
            ShapeError,
            "randint: there are no integers from 3 to before 3; high must be above low",
        ),
        (
            lambda: fw.randint(0, 300, (2,), dtype="uint8"),
            DTypeError,
            "randint: uint8 holds 0 to 255, not all from 0 to 299",
        ),
        (
            lambda: fw.rand(2, dtype="int32"),
            DTypeError,
            "rand: dtype is int32; it must be a float dtype",
        ),
        (
            lambda: fw.randperm(-1),
            ShapeError,
            "randperm: n is -1; it must be at least 0",
        ),
        (
            lambda: fw.normal(),
            ShapeError,
            "normal: size is missing; say how many to draw",
        ),
        (
            lambda: ops.multinomial(fw.ones(3), 4),
            ShapeError,
            "multinomial: 4 draws from 3 classes; at least 1, and without replacement"
            " at most as many as classes, are possible",
        ),
        (
            lambda: fw.rand(2, -1),
            ShapeError,
            "rand: sizes are (2, -1); none may be below 0",
        ),
    ],
)
def test_bad_input(
    call: Callable[[], object], error: type[Exception], text: str
) -> None:
    with pytest.raises(error) as raised:
        call()
    assert str(raised.value) == text


def test_a_deviation_below_0() -> None:
    with pytest.raises(DomainError, match="std is -1"):
        fw.normal(0.0, -1.0, (2,))


def test_normal_refuses_complex_deviations_and_integers_for_results() -> None:
    with pytest.raises(DTypeError, match="std is complex64; it must be real"):
        fw.normal(fw.ones(2), fw.tensor([1j, 2.0]))
    with pytest.raises(DTypeError, match="out is int64; it must be of floats"):
        fw.normal(fw.ones(2), 1.0, out=fw.empty(2, dtype=fw.int64))
