"""Kullback-Leibler divergences."""

from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.framework.distributions.comparison import (
    close,
    pair,
    positive,
    real,
    shares,
)
from vkbackend.framework.distributions import (
    Categorical,
    Normal,
    Uniform,
    kl_divergence,
    register_kl,
)

FIRST, SECOND = positive(3), positive(3, seed=8)
WEIGHTS, OTHERS = shares(2, 4), shares(2, 4, seed=9)
PAIRS: dict[str, tuple[Any, Any]] = {
    "Normal": ((real(3), FIRST), (real(3, seed=4), SECOND)),
    "HalfNormal": ((FIRST,), (SECOND,)),
    "LogNormal": ((real(3), FIRST), (real(3, seed=4), SECOND)),
    "Laplace": ((real(3), FIRST), (real(3, seed=4), SECOND)),
    "Cauchy": ((real(3), FIRST), (real(3, seed=4), SECOND)),
    "Gumbel": ((real(3), FIRST), (real(3, seed=4), SECOND)),
    "Uniform": ((real(3) - 3, real(3) + 3), (real(3) - 4, real(3) + 4)),
    "Gamma": ((FIRST, SECOND), (SECOND, FIRST)),
    "Exponential": ((FIRST,), (SECOND,)),
    "Beta": ((FIRST, SECOND), (SECOND, FIRST)),
    "Dirichlet": ((WEIGHTS,), (OTHERS,)),
    "Poisson": ((FIRST,), (SECOND,)),
    "Pareto": ((FIRST, FIRST), (FIRST / 2, SECOND)),
    "Bernoulli": ((shares(3),), (shares(3, seed=8),)),
    "ContinuousBernoulli": ((shares(3),), (shares(3, seed=8),)),
    "Binomial": ((4, shares(3)), (4, shares(3, seed=8))),
    "Geometric": ((shares(3),), (shares(3, seed=8),)),
    "Categorical": ((WEIGHTS,), (OTHERS,)),
    "OneHotCategorical": ((WEIGHTS,), (OTHERS,)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_as_in_torch(name: str) -> None:
    first, second = PAIRS[name]
    p, expected_p = pair(name, *first)
    q, expected_q = pair(name, *second)
    expected = torch.distributions.kl_divergence(expected_p, expected_q)
    close(kl_divergence(p, q), expected)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Uniform", "Normal"),
        ("Laplace", "Normal"),
        ("Exponential", "Gamma"),
        ("Gamma", "Exponential"),
    ],
)
def test_of_different_classes(first: str, second: str) -> None:
    p, expected_p = pair(first, *PAIRS[first][0])
    q, expected_q = pair(second, *PAIRS[second][1])
    expected = torch.distributions.kl_divergence(expected_p, expected_q)
    close(kl_divergence(p, q), expected)


def test_what_q_excludes_is_infinite() -> None:
    outside = kl_divergence(Uniform(0.0, 2.0), Uniform(0.0, 1.0))
    assert outside.item() == np.inf
    p = Categorical(fw.tensor([0.5, 0.5]))
    q = Categorical(fw.tensor([1.0, 0.0]))
    assert kl_divergence(p, q).item() == np.inf
    assert kl_divergence(q, p).item() == pytest.approx(np.log(2))


def test_pair_without_a_rule() -> None:
    with pytest.raises(NotImplementedError, match="declare one with register_kl"):
        kl_divergence(Normal(0.0, 1.0), Categorical(fw.ones(2)))


def test_rule_of_a_derived_class() -> None:
    class Shifted(Normal):
        pass

    @register_kl(Shifted, Shifted)
    def rule(p: Shifted, q: Shifted) -> fw.Tensor:
        return fw.zeros(())

    assert kl_divergence(Shifted(0.0, 1.0), Shifted(5.0, 1.0)).item() == 0
    assert kl_divergence(Shifted(0.0, 1.0), Normal(5.0, 1.0)).item() == 12.5
    with pytest.raises(TypeError, match="no class of distributions"):
        register_kl(3, Normal)  # type: ignore[arg-type]  # no class
