"""Rows of the op table for what functions written with other ops declare."""

import numpy as np
import torch

from tests.elementwise_cases import binary, unary


def _first(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.broadcast_arrays(x, y)[0]


DERIVED = {
    "gcd": binary("gcd", np.gcd, None, exact=True, gradient=False),
    "lcm": binary("lcm", np.lcm, None, exact=True, gradient=False),
    "ordered": binary("ordered", _first, None, exact=True, gradient=False),
    "lifted": unary("lifted", np.copy, torch.clone, exact=True),
    **{
        name: binary(name, np.nextafter, torch.nextafter, exact=True, gradient=False)
        for name in ("neighbour", "half_neighbour", "bfloat16_neighbour")
    },
}
"""Operations of `ops/elementwise/derived.py` and its like."""
