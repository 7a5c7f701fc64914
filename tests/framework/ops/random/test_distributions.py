"""What is built on draws: choices by chance and by weight."""

import math
from collections.abc import Callable

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework import ops
from vkbackend.framework.base.errors import DomainError, DTypeError, ShapeError

Make = Callable[..., fw.Tensor]


def test_bernoulli(make: Make) -> None:
    chances = np.repeat(np.array([0, 0.25, 1], np.float32), 10_000).reshape(3, -1)
    drawn = ops.bernoulli(make(chances)).numpy()
    # 10,000 draws have a deviation of 0.005 at most.
    np.testing.assert_allclose(drawn.mean(1), [0, 0.25, 1], atol=0.02)
    assert set(np.unique(drawn)) == {0, 1}


def test_multinomial(make: Make) -> None:
    weights = make(np.array([[1, 0, 3], [0, 2, 0]], np.float32))
    drawn = ops.multinomial(weights, 4000, replacement=True).numpy()
    shares = np.stack([(drawn == k).mean(1) for k in range(3)], 1)
    np.testing.assert_allclose(shares, [[0.25, 0, 0.75], [0, 1, 0]], atol=0.04)
    once = ops.multinomial(weights[0], 2).numpy()
    assert sorted(once) == [0, 2]


def test_refusals(make: Make) -> None:
    with pytest.raises(ShapeError, match="3 draws from 2 classes"):
        ops.multinomial(make([1.0, 2.0]), 3)
    with pytest.raises(DTypeError, match="bernoulli: dtype is int32"):
        ops.bernoulli(make(np.ones(3, np.int32)))


def test_numbers_without_a_distribution() -> None:
    for weights in ([0.0, 0.0], [1.0, -1.0], [1.0, math.nan], [1.0, math.inf]):
        with pytest.raises(DomainError, match=r"^multinomial: a number is .* finite"):
            ops.multinomial(fw.tensor(weights), 1)
    with pytest.raises(DomainError, match=r"^multinomial: a number is 0\.0; weights"):
        ops.multinomial(fw.tensor([[1.0, 0.0], [0.0, 0.0]]), 1)
    for chance in (1.5, -0.5, math.nan):
        with pytest.raises(DomainError, match=r"^bernoulli: a number is"):
            ops.bernoulli(fw.tensor([0.5, chance]))
    with pytest.raises(RuntimeError, match=r"^normal: a number is -1\.0; deviations"):
        ops.normal(0.0, fw.tensor([1.0, -1.0]))
