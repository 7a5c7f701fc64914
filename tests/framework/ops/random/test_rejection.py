"""Draws by rejection: their distributions, reproducibility and limits."""

from collections.abc import Callable

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework import ops
from vkbackend.framework.base.errors import DomainError

Make = Callable[..., fw.Tensor]
COUNT = 6000


@pytest.mark.parametrize("concentration", [0.2, 1.0, 30.0])
def test_gamma_has_its_distribution(concentration: float, make: Make) -> None:
    # Here, since its import would take a second of each collection.
    from scipy import stats

    fw.manual_seed(5)
    drawn = ops.draw_gamma(make(np.full(COUNT, concentration, np.float32))).numpy()
    result = stats.kstest(drawn.astype(np.float64), stats.gamma(concentration).cdf)
    assert result.pvalue > 1e-4


@pytest.mark.parametrize("rate", [0.4, 9.0, 11.0, 2000.0])
def test_poisson_has_its_distribution(rate: float, make: Make) -> None:
    from scipy import stats

    fw.manual_seed(6)
    drawn = ops.poisson(make(np.full(COUNT, rate, np.float32))).numpy()
    assert (drawn == np.floor(drawn)).all()
    # Steps make the test statistic smaller than that of a continuous distribution.
    points = np.arange(drawn.max() + 1)
    shares = np.searchsorted(np.sort(drawn), points, side="right") / COUNT
    assert np.abs(shares - stats.poisson(rate).cdf(points)).max() < 2 / COUNT**0.5


def test_same_seed_same_draws() -> None:
    x = fw.full((50,), 2.0)
    generator = fw.Generator(3)
    first = ops.draw_gamma(x, generator).numpy()
    second = ops.draw_gamma(x, generator).numpy()
    again = ops.draw_gamma(x, fw.Generator(3)).numpy()
    assert (first == again).all()
    assert (first != second).any()


def test_limits(make: Make) -> None:
    x = make(np.array([0.0, -1.0, np.nan], np.float32))
    np.testing.assert_array_equal(ops.draw_gamma(x).numpy(), [0, np.nan, np.nan])
    if x.is_gpu:
        np.testing.assert_array_equal(ops.poisson(x).numpy(), [0, np.nan, np.nan])
        return
    with pytest.raises(DomainError) as raised:
        ops.poisson(x)
    assert str(raised.value) == "poisson: a number is -1.0; rates are at least 0"


def test_dtype_stays(make: Make) -> None:
    for dtype in ("float16", "float32"):
        x = make(np.full(4, 3.0, np.float32)).to(dtype)
        assert ops.draw_gamma(x).dtype.name == dtype
        assert ops.poisson(x).dtype.name == dtype
