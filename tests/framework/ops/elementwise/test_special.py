"""The error function over its whole range."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import special

import vkbackend.framework as fw
from tests.framework.ops.special import check_special
from vkbackend.framework import ops

Make = Callable[..., fw.Tensor]

ORACLES = {"erf": np.vectorize(math.erf), "erfc": np.vectorize(math.erfc)}


@pytest.mark.parametrize("name", ORACLES)
def test_special_values(name: str, make: Make) -> None:
    check_special(getattr(ops, name), ORACLES[name], make)


@pytest.mark.parametrize("name", ORACLES)
def test_range(name: str, make: Make) -> None:
    x = np.linspace(-11, 11, 4001, dtype=np.float32)
    expected = ORACLES[name](x.astype(np.float64)).astype(np.float32)
    found = getattr(ops, name)(make(x)).numpy()
    np.testing.assert_allclose(found, expected, rtol=6e-7, atol=2.0**-126)


def test_inverse(make: Make) -> None:
    x = np.linspace(-1, 1, 4001).astype(np.float32)
    x = np.concatenate([x, np.float32([1 - 2**-24, 1e-30, 1.5, np.nan])])
    expected = special.erfinv(x.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(ops.erfinv(make(x)).numpy(), expected, 5e-7)
