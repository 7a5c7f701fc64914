"""The taps of each rule: as matrices, in NumPy alone."""

import numpy as np
import pytest

from vkbackend.framework.ops.pool.filter_weights import (
    Averages,
    Cubic,
    Linear,
    Rule,
    Shares,
    Taps,
)

RULES: list[Rule] = [
    Averages(11, 5, 3, 2, 0, "padded"),
    Averages(11, 6, 3, 2, 1, "inside"),
    Averages(11, 4, 2, 3, 0, "nothing"),
    Shares(11, 4),
    Shares(4, 11),
    Linear(11, 17, 11 / 17, False),
    Linear(11, 1, 0.0, True),
    Linear(11, 4, 10 / 3, True),
    Cubic(11, 17, 11 / 17, False),
]


def matrix(taps: Taps, size: int) -> np.ndarray:
    """Return the matrix that taps stand for."""
    full = np.zeros((len(taps.first), size))
    for row, start, used, weights in zip(full, *taps):
        row[start : start + used] = weights[:used]
    return full


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_transposed(rule: Rule) -> None:
    taps = rule.taps()
    back = taps.transposed(rule.size)
    wanted = matrix(taps, rule.size)
    assert np.allclose(matrix(back, rule.out), wanted.T, rtol=1e-15)


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_table_is_within_bounds(rule: Rule) -> None:
    first, count, weights = rule.taps()
    assert first.min() >= 0
    assert (first + count).max() <= rule.size
    assert count.max() <= weights.shape[1]
    table = rule.taps().table()
    assert table.shape == (rule.out, 2 + weights.shape[1])


@pytest.mark.parametrize("rule", RULES[3:], ids=repr)
def test_weights_sum_to_one(rule: Rule) -> None:
    assert np.allclose(rule.taps().weights.sum(axis=1), 1)


def test_averages_divide_as_asked() -> None:
    padded = Averages(4, 3, 3, 2, 1, "padded").taps().weights.sum(axis=1)
    inside = Averages(4, 3, 3, 2, 1, "inside").taps().weights.sum(axis=1)
    assert np.allclose(padded, [2 / 3, 1, 1 / 2])
    assert np.allclose(inside, 1)
