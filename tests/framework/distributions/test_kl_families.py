"""Divergences between families beside PyTorch's."""

from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.framework.distributions.comparison import close

ONE, TWO = np.float32([0.4, 0.7]), np.float32([1.5, 2.5])
MATRIX = np.float32([[2.0, 0.5], [0.5, 1.0]])
MADE: dict[str, Any] = {
    "Bernoulli": lambda t: (t(ONE),),
    "Binomial": lambda t: (5, t(ONE)),
    "Beta": lambda t: (t(TWO), t(ONE)),
    "Cauchy": lambda t: (t(ONE), t(TWO)),
    "Chi2": lambda t: (t(TWO),),
    "ContinuousBernoulli": lambda t: (t(ONE),),
    "Exponential": lambda t: (t(TWO),),
    "Gamma": lambda t: (t(TWO), t(ONE)),
    "Gumbel": lambda t: (t(ONE), t(TWO)),
    "HalfCauchy": lambda t: (t(TWO),),
    "HalfNormal": lambda t: (t(TWO),),
    "InverseGamma": lambda t: (t(TWO) + 2, t(ONE)),
    "Laplace": lambda t: (t(ONE), t(TWO)),
    "Normal": lambda t: (t(ONE), t(TWO)),
    "Pareto": lambda t: (t(ONE), t(TWO) + 1),
    "Poisson": lambda t: (t(TWO),),
    "Uniform": lambda t: (t(ONE) / 2, t(ONE)),
    "Wishart": lambda t: (t(TWO) + 1, t(MATRIX)),
}


def divergence(library: Any, first: str, second: str) -> Any:
    p, q = (
        getattr(library.distributions, name)(*MADE[name](library.tensor))
        for name in (first, second)
    )
    try:
        return library.distributions.kl_divergence(p, q)
    except NotImplementedError as error:
        return error


@pytest.mark.parametrize("first", MADE)
def test_as_in_torch(first: str) -> None:
    for second in MADE:
        found = divergence(fw, first, second)
        expected = divergence(torch, first, second)
        assert isinstance(found, Exception) == isinstance(expected, Exception), second
        if not isinstance(expected, Exception):
            close(found, expected)


def test_other_matrices() -> None:
    """Of different matrices PyTorch's is below 0, which no divergence is."""
    matrix = fw.eye(2) + 0.2
    p = fw.distributions.Wishart(fw.tensor(TWO) + 1, fw.tensor(MATRIX))
    q = fw.distributions.Wishart(4.5, matrix)
    fw.manual_seed(0)
    drawn = p.sample((20000,))
    terms = (p.log_prob(drawn) - q.log_prob(drawn)).numpy()
    error = terms.std(0) / np.sqrt(len(terms))
    found = fw.distributions.kl_divergence(p, q).numpy()
    assert (np.abs(found - terms.mean(0)) < 5 * error).all()


def test_within_the_same_interval() -> None:
    """PyTorch's is infinite, as if the ends did not belong to the interval."""
    uniform = fw.distributions.Uniform(0.0, 1.0)
    continuous = fw.distributions.ContinuousBernoulli(fw.tensor(0.2))
    for p, q in ((uniform, continuous), (continuous, uniform)):
        x = fw.tensor((np.arange(4000, dtype=np.float32) + 0.5) / 4000)
        terms = p.log_prob(x).exp() * (p.log_prob(x) - q.log_prob(x))
        found = fw.distributions.kl_divergence(p, q).item()
        assert found == pytest.approx(terms.mean().item(), rel=1e-3)


def test_chi2_checks_its_degrees() -> None:
    with pytest.raises(ValueError, match="parameter df"):
        fw.distributions.Chi2(fw.tensor(-1.0))
