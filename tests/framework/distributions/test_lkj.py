"""Factors of correlations: densities are PyTorch's, draws are correlations."""

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from vkbackend.framework.distributions import LKJCholesky, constraints


@pytest.mark.parametrize("dim", [2, 4])
def test_density_and_draws(dim: int) -> None:
    fw.manual_seed(0)
    strength = np.asarray([0.5, 1.0, 3.0], np.float32)
    found = LKJCholesky(dim, fw.tensor(strength))
    drawn = found.sample((200,))
    assert bool(constraints.corr_cholesky.check(drawn).all())
    theirs = torch.distributions.LKJCholesky(dim, torch.tensor(strength))
    expected = theirs.log_prob(torch.tensor(drawn.numpy()))
    np.testing.assert_allclose(
        found.log_prob(drawn).numpy(), expected.numpy(), 1e-3, 1e-3
    )
    # Off the diagonal a correlation's mean is 0; its variance is 1 / (2 c + dim - 1).
    correlation = (drawn @ drawn.mT).numpy()[:, :, 1, 0]
    spread = 1 / (2 * strength + dim - 1)
    np.testing.assert_allclose(correlation.var(0), spread, atol=0.1)


def test_refusals() -> None:
    with pytest.raises(ValueError, match="dim is 1; it must be at least 2"):
        LKJCholesky(1)
