"""Registry of transforms onto constraints."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.distributions import biject_to as theirs
from torch.distributions import constraints as their_constraints

import vkbackend.framework as fw
from tests.framework.distributions.comparison import close, real
from vkbackend.framework.distributions import biject_to, constraints, transform_to

CONSTRAINTS: dict[str, Any] = {
    "real": None,
    "positive": None,
    "unit_interval": None,
    "simplex": None,
    "greater_than": (1.0,),
    "less_than": (1.0,),
    "interval": (-1.0, 3.0),
}


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_as_in_torch(name: str) -> None:
    ours, expected = getattr(constraints, name), getattr(their_constraints, name)
    if CONSTRAINTS[name]:
        ours, expected = ours(*CONSTRAINTS[name]), expected(*CONSTRAINTS[name])
    values = real(2, 3)
    found = biject_to(ours)(fw.tensor(values))
    close(found, theirs(expected)(torch.tensor(values)))
    assert ours.check(transform_to(ours)(fw.tensor(values))).all().item()


def test_independent() -> None:
    transform = biject_to(constraints.independent(constraints.positive, 1))
    assert transform.domain.event_dim == 1
    np.testing.assert_allclose(transform(fw.zeros(3)).numpy(), 1)


@pytest.mark.parametrize("name", ["positive_definite", "corr_cholesky"])
def test_matrices(name: str) -> None:
    ours = getattr(constraints, name)
    expected = getattr(their_constraints, name)
    values = real(2, 3) if name == "corr_cholesky" else real(2, 3, 3)
    found = transform_to(ours)(fw.tensor(values))
    close(found, torch.distributions.transform_to(expected)(torch.tensor(values)))
    assert ours.check(found).all().item()


@pytest.mark.parametrize("join", ["cat", "stack"])
def test_parts(join: str) -> None:
    def made(library: Any) -> Any:
        parts = [library.positive, library.interval(-1.0, 2.0)]
        return getattr(library, join)(parts, 0)

    values = real(2, 3)
    found = biject_to(made(constraints))(fw.tensor(values))
    close(found, theirs(made(their_constraints))(torch.tensor(values)))


def test_constraint_without_a_transform() -> None:
    with pytest.raises(NotImplementedError, match="there is no transform onto"):
        biject_to(constraints.boolean)


def test_class_that_is_none_of_constraints() -> None:
    with pytest.raises(TypeError, match="must be a Constraint"):
        biject_to.register(int, lambda _: None)  # type: ignore[arg-type]
