"""Independent and transformed distributions, and mixtures."""

import numpy as np
import pytest
import torch
import torch.distributions as theirs

import vkbackend.framework as fw
import vkbackend.framework.distributions as ours
from tests.framework.distributions.comparison import close, positive, real, shares

LOC, SCALE = real(2, 3), positive(2, 3)
WEIGHTS = shares(2, 3)
VALUES = real(5, 2, seed=7)


def test_independent() -> None:
    made = ours.Independent(ours.Normal(fw.tensor(LOC), fw.tensor(SCALE)), 1)
    base = theirs.Normal(torch.tensor(LOC), torch.tensor(SCALE))
    expected = theirs.Independent(base, 1)
    values = real(4, 2, 3)
    close(made.log_prob(fw.tensor(values)), expected.log_prob(torch.tensor(values)))
    close(made.entropy(), expected.entropy())
    assert made.batch_shape == (2,)
    assert made.event_shape == (3,)
    with pytest.raises(ValueError, match="it must be at most 2"):
        ours.Independent(made.base_dist, 3)


def test_mixture() -> None:
    made = ours.MixtureSameFamily(
        ours.Categorical(fw.tensor(WEIGHTS)),
        ours.Normal(fw.tensor(LOC), fw.tensor(SCALE)),
    )
    expected = theirs.MixtureSameFamily(
        theirs.Categorical(torch.tensor(WEIGHTS)),
        theirs.Normal(torch.tensor(LOC), torch.tensor(SCALE)),
    )
    close(made.mean, expected.mean)
    close(made.variance, expected.variance)
    close(made.log_prob(fw.tensor(VALUES)), expected.log_prob(torch.tensor(VALUES)))
    close(made.cdf(fw.tensor(VALUES)), expected.cdf(torch.tensor(VALUES)))
    fw.manual_seed(0)
    drawn = made.sample((20_000,)).numpy()
    np.testing.assert_allclose(drawn.mean(0), expected.mean.numpy(), atol=0.05)


def test_mixture_of_vectors() -> None:
    components = ours.Independent(ours.Normal(fw.zeros(3, 2), fw.ones(3, 2)), 1)
    made = ours.MixtureSameFamily(ours.Categorical(fw.ones(3)), components)
    assert made.sample((4,)).shape == (4, 2)
    assert made.log_prob(fw.zeros(4, 2)).shape == (4,)


def test_mixture_with_another_number_of_components() -> None:
    with pytest.raises(ValueError, match="followed by the number of components"):
        ours.MixtureSameFamily(
            ours.Categorical(fw.ones(2)), ours.Normal(fw.zeros(3), fw.ones(3))
        )


def test_transforms_in_a_row() -> None:
    chain = [ours.TanhTransform(), ours.AffineTransform(1.0, -2.0)]
    made = ours.TransformedDistribution(ours.Normal(0.3, 0.5), chain)
    expected = theirs.TransformedDistribution(
        theirs.Normal(0.3, 0.5),
        [theirs.TanhTransform(), theirs.AffineTransform(1.0, -2.0)],
    )
    values = np.array([-0.5, 0.7, 2.1], np.float32)
    close(made.log_prob(fw.tensor(values)), expected.log_prob(torch.tensor(values)))
    close(made.cdf(fw.tensor(values)), expected.cdf(torch.tensor(values)))
    assert made.rsample((3,)).shape == (3,)
