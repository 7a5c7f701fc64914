"""Rows of the op table for what functions written with other ops declare."""

import numpy as np
import torch

from tests.case import Case, Draw, Sample
from tests.elementwise_cases import SHAPES, binary, unary
from vkbackend.framework.dispatch.op import REGISTRY


def _first(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.broadcast_arrays(x, y)[0]


DERIVED = {
    "gcd": binary("gcd", np.gcd, None, exact=True, gradient=False),
    "lcm": binary("lcm", np.lcm, None, exact=True, gradient=False),
    "ordered": binary("ordered", _first, None, exact=True, gradient=False),
    "log_of_odds": unary(
        "log_of_odds", lambda x: np.log(x / (1 - x)), torch.logit, 0.05, 0.95
    ),
    "replaced": Case(
        REGISTRY["replaced"],
        tuple(
            Sample((Draw(shape),), {"nan": 0.5, "posinf": 9.0, "neginf": -9.0})
            for shape in SHAPES
        ),
        np.nan_to_num,
        torch.nan_to_num,
        exact=True,
    ),
    "lifted": unary("lifted", np.copy, torch.clone, exact=True),
    **{
        name: binary(name, np.nextafter, torch.nextafter, exact=True, gradient=False)
        for name in ("neighbour", "half_neighbour", "bfloat16_neighbour")
    },
}
"""Operations of `ops/elementwise/derived.py` and its like."""
