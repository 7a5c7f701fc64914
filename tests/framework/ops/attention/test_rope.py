"""Rotary embedding: against complex numbers, positions, and turning back."""

from collections.abc import Callable

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.attention_cases import turned
from tests.compare import assert_close
from tests.framework.ops.twin import draw
from vkbackend.framework import ops

Make = Callable[..., fw.Tensor]


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("shape", [(9, 8), (5, 9, 6), (2, 3, 9, 8), (1, 1, 2)])
def test_is_a_complex_product(
    shape: tuple[int, ...], interleaved: bool, make: Make
) -> None:
    data = draw(*shape)
    x = make(data, grad=True)
    out = ops.rope(x, 3, theta=100.0, interleaved=interleaved)
    assert_close(out, turned(data, interleaved, 3), scale=4)
    # The gradient turns back.
    out.backward(out.detach())
    assert_close(x.grad, data, scale=4)


def test_positions_of_each_sample(make: Make) -> None:
    data, places = draw(2, 3, 5, 4), np.array([[0, 1, 2, 3, 4], [7, 3, 9, 1, 0]])
    found = ops.rope(make(data), make(places.astype(np.int32)), theta=100.0)
    for sample in range(2):
        for row in range(5):
            one = data[sample, :, row : row + 1]
            expected = turned(one, False, int(places[sample, row]))
            found_row = found[sample, :, row : row + 1]
            assert_close(found_row, expected, scale=4)


def test_products_depend_on_distance_only(make: Make) -> None:
    q, k = make(draw(1, 8)), make(draw(1, 8, seed=1))
    scores = [
        (ops.rope(q, at + 5) * ops.rope(k, at)).sum().item() for at in (0, 100, 4000)
    ]
    # Angles up to 4,000 are known to 2e-4 in float32.
    assert np.ptp(scores) < 2e-3


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves(dtype: str, make: Make) -> None:
    x = make(draw(3, 5, 4)).to(dtype)
    found = ops.rope(x, theta=100.0)
    assert found.dtype.name == dtype
    exact = turned(x.float().numpy(), False, 0)
    assert_close(found, fw.tensor(exact).to(dtype).numpy())


def test_no_vectors(make: Make) -> None:
    assert ops.rope(make(np.zeros((0, 4), np.float32))).shape == (0, 4)
