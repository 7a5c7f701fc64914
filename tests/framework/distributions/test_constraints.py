"""Constraints: which values are in each."""

import numpy as np
import pytest
import torch
from torch.distributions import constraints as theirs

import vkbackend.framework as fw
from vkbackend.framework.distributions import Uniform, constraints

NUMBERS = np.array([-1.5, -1.0, -0.0, 0.3, 1.0, 2.0, np.nan, np.inf], np.float32)
ROWS = np.array([[0, 1, 0], [1, 1, 0], [0.2, 0.3, 0.5], [-1, 1, 1]], np.float32)
MATRICES = np.array(
    [[[1, 0], [2, 3]], [[1, 2], [0, 1]], [[1, 2], [2, 1]], [[-1, 0], [0, 1]]],
    np.float32,
)
CALLS = {
    "boolean": NUMBERS, "real": NUMBERS, "positive": NUMBERS, "nonnegative": NUMBERS,
    "unit_interval": NUMBERS, "nonnegative_integer": NUMBERS, "simplex": ROWS,
    "positive_integer": NUMBERS, "one_hot": ROWS, "real_vector": ROWS,
    "lower_triangular": MATRICES, "lower_cholesky": MATRICES, "symmetric": MATRICES,
    "square": MATRICES, "corr_cholesky": MATRICES,
}  # fmt: skip
MADE = {
    "greater_than": (1.0,), "greater_than_eq": (1.0,), "less_than": (1.0,),
    "interval": (-1.0, 1.0), "half_open_interval": (-1.0, 1.0),
    "integer_interval": (-1, 1),
}  # fmt: skip


@pytest.mark.parametrize("name", [*CALLS, *MADE])
def test_as_in_torch(name: str) -> None:
    made, expected = getattr(constraints, name), getattr(theirs, name)
    if name in MADE:
        made, expected = made(*MADE[name]), expected(*MADE[name])
    values = CALLS.get(name, NUMBERS)
    found = made.check(fw.tensor(values))
    assert found.tolist() == expected.check(torch.tensor(values)).tolist()
    assert made.event_dim == expected.event_dim
    assert made.is_discrete == expected.is_discrete


def test_dependent_constraints() -> None:
    assert constraints.is_dependent(Uniform.support)
    assert not constraints.is_dependent(Uniform(0.0, 1.0).support)
    with pytest.raises(ValueError, match="depends on a distribution's parameters"):
        constraints.dependent.check(fw.zeros(1))


def test_pieces_and_slices() -> None:
    both = [constraints.positive, constraints.real]
    values = fw.tensor([[1.0, -1.0], [-1.0, 2.0]])
    joined = constraints.cat(both, 0, [1, 1]).check(values)
    assert joined.tolist() == [[True, False], [True, True]]
    stacked = constraints.stack(both, 1).check(values)
    assert stacked.tolist() == [[True, True], [False, True]]
