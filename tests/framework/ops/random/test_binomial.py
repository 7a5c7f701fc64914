"""Binomial draws: their distribution, limits, and that nothing is read for them."""

from collections.abc import Callable

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework.base.device import GpuDevice

Make = Callable[..., fw.Tensor]
COUNT = 6000


@pytest.mark.parametrize(
    ("trials", "prob"), [(5, 0.3), (40, 0.9), (60, 0.4), (70_000, 0.02), (1 << 20, 0.7)]
)
def test_draws_have_their_distribution(trials: int, prob: float, make: Make) -> None:
    from scipy import stats

    fw.manual_seed(7)
    count = make(np.full(COUNT, trials, np.float32))
    drawn = fw.binomial(count, fw.full_like(count, prob)).numpy().astype(np.float64)
    assert (drawn == np.floor(drawn)).all()
    points = np.arange(drawn.min(), drawn.max() + 1)
    shares = np.searchsorted(np.sort(drawn), points, side="right") / COUNT
    exact = float(np.float32(prob))
    apart = np.abs(shares - stats.binom(trials, exact).cdf(points))
    # Steps make the test statistic smaller than that of a continuous distribution.
    assert apart.max() < 2 / COUNT**0.5


def test_limits(make: Make) -> None:
    """As PyTorch's, but it waits for ever where the number of trials is NaN."""
    nan = np.nan
    count = make(np.array([0, -1, 3, 3, 2.5, 2.5, nan, nan, 3, np.inf], np.float32))
    prob = make(np.array([0.5, 0.5, 0, -1, 1, 1.5, 0.5, 1, nan, 0.5], np.float32))
    wanted = [0, 0, 0, 0, 2.5, 2.5, nan, nan, nan, nan]
    np.testing.assert_array_equal(fw.binomial(count, prob).numpy(), wanted)


def test_shapes_dtypes_and_seeds(make: Make) -> None:
    count, prob = (
        make(np.array(each, np.float32)) for each in ([[9.0], [4]], [0, 0.5, 1])
    )
    drawn = fw.binomial(count.requires_grad_(), prob)
    assert drawn.shape == (2, 3)
    assert not drawn.requires_grad
    assert drawn[:, ::2].tolist() == [[0, 9], [0, 4]]
    assert fw.binomial(count.half(), prob.half()).dtype is fw.float16
    assert fw.binomial(fw.ones(0), fw.ones(0)).shape == (0,)
    one, two = (fw.Generator().manual_seed(1) for _ in range(2))
    assert fw.equal(fw.binomial(count, prob, one), fw.binomial(count, prob, two))
    with pytest.raises(TypeError, match="both must be of one float dtype"):
        fw.binomial(fw.tensor([1]), prob)


def test_the_host_reads_nothing(gpu: GpuDevice) -> None:
    count, prob = (fw.full((4, 3), each, device=gpu) for each in (50.0, 0.4))
    fw.eval(count, prob)
    counters = gpu.gpu.counters
    for _ in range(2):
        before = counters.snapshot()
        drawn = fw.binomial(count, prob)
        fw.eval(drawn)
        gpu.synchronize()
    made = counters - before
    assert (made.submits, made.dispatches, made.host_reads) == (1, 1, 0)
