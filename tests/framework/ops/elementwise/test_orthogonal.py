"""Orthogonal polynomials of the host's reference beside SciPy's."""

import numpy as np
import pytest
from scipy import special

from vkbackend.framework.ops.elementwise.orthogonal import (
    FAMILIES,
    MOST_DEGREE,
    host_polynomial,
)

PEERS = {
    "t": special.eval_chebyt,
    "u": special.eval_chebyu,
    "h": special.eval_hermite,
    "he": special.eval_hermitenorm,
    "laguerre": special.eval_laguerre,
    "legendre": special.eval_legendre,
}


@pytest.mark.parametrize("family", PEERS)
def test_reference(family: str) -> None:
    x, n = np.linspace(-0.9, 0.9, 40), np.arange(40.0) % 8
    found = host_polynomial(x, n, float(FAMILIES.index(family)))
    np.testing.assert_allclose(found, PEERS[family](n.astype(int), x), 1e-9, 1e-9)


def test_degrees_that_are_none() -> None:
    n = np.array([-1.0, MOST_DEGREE + 1, np.nan, np.inf])
    found = host_polynomial(np.full(4, 0.5), n, 0.0)
    np.testing.assert_array_equal(found, [0, np.nan, np.nan, np.nan])
