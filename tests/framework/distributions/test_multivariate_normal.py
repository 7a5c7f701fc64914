"""Normal distributions of vectors beside PyTorch's."""

from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from vkbackend.framework import distributions as ours

RANDOM = np.random.default_rng(0)
LOC = RANDOM.standard_normal((2, 3)).astype(np.float32)
ROOT = RANDOM.standard_normal((3, 3)).astype(np.float32)
COVARIANCE = ROOT @ ROOT.T + np.eye(3, dtype=np.float32)
FACTOR = RANDOM.standard_normal((3, 2)).astype(np.float32)
DIAGONAL = RANDOM.uniform(0.5, 2, 3).astype(np.float32)
VALUE = RANDOM.standard_normal((4, 2, 3)).astype(np.float32)
TRIL = np.linalg.cholesky(COVARIANCE).astype(np.float32)


def made(library: Any, kind: str) -> Any:
    distributions, tensor = library.distributions, library.tensor
    if kind == "low rank":
        parts = tensor(LOC), tensor(FACTOR), tensor(DIAGONAL)
        return distributions.LowRankMultivariateNormal(*parts)
    matrix = tensor(TRIL if kind == "scale_tril" else COVARIANCE)
    return distributions.MultivariateNormal(tensor(LOC), **{kind: matrix})


KINDS = ["covariance_matrix", "precision_matrix", "scale_tril", "low rank"]


@pytest.mark.parametrize("kind", KINDS)
def test_values(kind: str) -> None:
    one, two = made(fw, kind), made(torch, kind)
    pairs = [
        (getattr(one, name), getattr(two, name))
        for name in ("mean", "mode", "variance", "covariance_matrix", "scale_tril",
                     "precision_matrix", "stddev")
    ]  # fmt: skip
    pairs.append((one.log_prob(fw.tensor(VALUE)), two.log_prob(torch.tensor(VALUE))))
    pairs.append((one.entropy(), two.entropy()))
    pairs.append((one.expand((5, 2)).entropy(), two.expand((5, 2)).entropy()))
    for other in KINDS:
        pairs.append(
            (ours.kl_divergence(one, made(fw, other)),
             torch.distributions.kl_divergence(two, made(torch, other)))
        )  # fmt: skip
    for found, expected in pairs:
        assert tuple(found.shape) == tuple(expected.shape)
        np.testing.assert_allclose(found.numpy(), expected.numpy(), 2e-4, 2e-5)
    assert (one.batch_shape, one.event_shape) == ((2,), (3,))


@pytest.mark.parametrize("kind", KINDS)
def test_draws_and_their_gradients(kind: str) -> None:
    fw.manual_seed(0)
    found = made(fw, kind)
    drawn = found.sample((4000,)).numpy()
    np.testing.assert_allclose(drawn.mean(0), found.mean.numpy(), atol=0.2)
    spread = np.cov(drawn[:, 0].T)
    np.testing.assert_allclose(spread, found.covariance_matrix.numpy()[0], atol=0.7)
    loc = fw.tensor(LOC, requires_grad=True)
    ours.MultivariateNormal(loc, fw.tensor(COVARIANCE)).rsample((2,)).sum().backward()
    assert loc.grad.tolist() == [[2.0] * 3] * 2


def test_refusals() -> None:
    with pytest.raises(ValueError, match="2 of covariance_matrix, precision_matrix"):
        ours.MultivariateNormal(fw.zeros(2), fw.eye(2), fw.eye(2))
    with pytest.raises(ValueError, match="loc has no dimension"):
        ours.MultivariateNormal(fw.tensor(1.0), fw.eye(2))
    with pytest.raises(ValueError, match="is not all in"):
        ours.MultivariateNormal(fw.zeros(2), -fw.eye(2))
    with pytest.raises(ValueError, match=r"they must be \(..., n\)"):
        ours.LowRankMultivariateNormal(fw.zeros(2), fw.zeros((3, 1)), fw.ones(2))
