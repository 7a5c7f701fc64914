"""Rows of the op table for matrix products."""

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - its own documentation's name

from tests.case import Bad, Case, sample
from vkbackend.framework import ops
from vkbackend.framework.base.errors import DTypeError, ShapeError

PRODUCTS = {
    "linear": Case(
        ops.linear,
        (
            sample((37, 29), (11, 29)),
            sample((3, 7, 5), (4, 5)),
            sample((5,), (3, 5)),
            sample((0, 3), (2, 3)),
            sample((3, 0), (2, 0)),
            sample((2, 3), (0, 3)),
            sample((1, 1), (1, 1)),
        ),
        lambda x, weight: np.matmul(x, weight.T),
        F.linear,
        scale=10,
        bad=(
            Bad(
                lambda ones: ops.linear(ones(2, 3), ones(4, 2)),
                ShapeError,
                "linear: x is (2, 3), weight (4, 2); x must be (..., in_features) and"
                " weight (out_features, in_features)",
            ),
            Bad(
                lambda ones: ops.linear(ones(2, 3), ones(4, 3), ones(3)),
                ShapeError,
                "linear: bias is (3,); it must be (4,)",
            ),
        ),
    ),
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
    "mm": Case(
        ops.mm,
        (
            sample((37, 29), (29, 11)),
            sample((0, 3), (3, 2)),
            sample((3, 0), (0, 2)),
            sample((1, 1), (1, 1)),
        ),
        np.matmul,
        torch.mm,
        scale=10,  # dozens of terms of size 4, in any order
        bad=(
            Bad(
                lambda ones: ops.mm(ones(2, 2), ones(2, 2, dtype="float64")),
                DTypeError,
                "matmul: a is float32, b is float64; they must be the same",
            ),
        ),
    ),
    "int_mm": Case(
        ops.int_mm,
        (
            sample((37, 29), (29, 11)),
            sample((3, 7, 5), (3, 5, 11)),
            sample((2, 1, 7, 5), (3, 5, 4)),
            sample((2, 7, 5), (5, 4)),
            sample((64, 48), (48, 96)),
            sample((0, 3), (3, 2)),
            sample((3, 0), (0, 2)),
            sample((1, 1), (1, 1)),
        ),
        lambda a, b: np.matmul(a.astype(np.int32), b.astype(np.int32)),
        lambda a, b: torch.matmul(a.int(), b.int()),
        gradient=False,
        bad=(
            Bad(
                lambda ones: ops.int_mm(
                    ones(4, 3, dtype="int8"), ones(5, 2, dtype="int8")
                ),
                ShapeError,
                "int_mm: inner sizes differ: a is (4, 3), b is (5, 2);"
                " a.shape[-1] = 3 must equal b.shape[-2] = 5",
            ),
            Bad(
                lambda ones: ops.int_mm(ones(3, dtype="int8"), ones(3, 2)),
                ShapeError,
                "int_mm: a is (3,), b is (3, 2); both need two dimensions or more",
            ),
            Bad(
                lambda ones: ops.int_mm(ones(4, 3), ones(3, 2)),
                DTypeError,
                "int_mm: `a` is float32; accepted: int8",
            ),
            Bad(
                lambda ones: ops.int_mm(
                    ones(2, 4, 3, dtype="int8"), ones(3, 3, 2, dtype="int8")
                ),
                ShapeError,
                "int_mm: shapes do not broadcast: (2,), (3,);"
                " dimension -1 has sizes [2, 3], which must be equal or 1",
            ),
        ),
    ),
}
