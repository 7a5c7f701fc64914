"""Rows combined by the host's reference, beside a loop."""

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework.base.index_checks import UNCHECKED
from vkbackend.framework.ops.indexing.atomic_scatter import scatter_atomic

JOINS = {"max": max, "min": min, "prod": lambda a, b: a * b, "sum": lambda a, b: a + b}


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("operation", JOINS)
def test_reference(operation: str, include_self: bool) -> None:
    rng = np.random.default_rng(0)
    base, source = rng.integers(1, 5, (2, 4, 3)), rng.integers(1, 5, (2, 9, 3))
    rows = rng.integers(0, 4, 9)
    wanted = base.copy()
    for outer, inner in np.ndindex(2, 3):
        for row in range(4):
            terms = source[outer, rows == row, inner].tolist()
            if include_self or not terms:
                terms.append(int(base[outer, row, inner]))
            total = terms[0]
            for each in terms[1:]:
                total = JOINS[operation](total, each)
            wanted[outer, row, inner] = total
    given = (fw.tensor(each) for each in (base, rows, source))
    found = scatter_atomic(*given, operation, include_self, UNCHECKED, False)
    assert np.array_equal(found.numpy(), wanted)
