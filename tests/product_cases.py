"""Rows of the op table for matrix products."""

import numpy as np
import torch

from tests.case import Bad, Case, sample
from vkbackend.framework import ops
from vkbackend.framework.errors import DTypeError, ShapeError

PRODUCTS = {
    "bmm": Case(
        ops.matmul,
        (
            sample((37, 29), (29, 11)),
            sample((3, 7, 5), (3, 5, 11)),
            sample((2, 1, 7, 5), (3, 5, 4)),
            sample((3, 5), (5,)),
            sample((5,), (2, 5, 3)),
            sample((7,), (7,)),
            sample((64, 48), (48, 96)),
            sample((0, 3), (3, 2)),
            sample((3, 0), (0, 2)),
            sample((1, 1), (1, 1)),
        ),
        np.matmul,
        torch.matmul,
        scale=10,  # dozens of terms of size 4, in any order
        bad=(
            Bad(
                lambda ones: ops.matmul(ones(4, 3), ones(5, 2)),
                ShapeError,
                "matmul: inner sizes differ: a is (4, 3), b is (5, 2);"
                " a.shape[-1] = 3 must equal b.shape[-2] = 5",
            ),
            Bad(
                lambda ones: ops.matmul(ones(2, 3), ones(2)),
                ShapeError,
                "matmul: inner sizes differ: a is (2, 3), b is (2,);"
                " a.shape[-1] = 3 must equal b.shape[0] = 2",
            ),
            Bad(
                lambda ones: ops.matmul(ones(3), ones()),
                ShapeError,
                "matmul: a is (3,), b is (); both need at least one dimension",
            ),
            Bad(
                lambda ones: ops.matmul(ones(2, 2), ones(2, 2, dtype="float64")),
                DTypeError,
                "matmul: a is float32, b is float64; they must be the same",
            ),
            Bad(
                lambda ones: ops.bmm(ones(2, 2), ones(2, 2)),
                ShapeError,
                "bmm: a is (2, 2), b is (2, 2); both must be 3-D",
            ),
            Bad(
                lambda ones: ops.bmm(ones(1, 2, 2), ones(3, 2, 2)),
                ShapeError,
                "bmm: batch sizes differ: a is (1, 2, 2), b is (3, 2, 2)",
            ),
        ),
    ),
}
