"""Rows of the op table for matrix products."""

import itertools

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - its own documentation's name

import vkbackend.framework as fw
from tests.case import Bad, Case, Draw, Sample, sample
from vkbackend.framework import ops
from vkbackend.framework.base.errors import DTypeError, ShapeError
from vkbackend.framework.dispatch.op import REGISTRY
from vkbackend.framework.ops.matmul.grouped import gather_mm


def group_ends(size: int) -> list[int]:
    """Return where three groups end, the second of which is empty."""
    return [size // 3, size // 3, size]


def in_groups(a: fw.Tensor, b: fw.Tensor) -> fw.Tensor:
    ends = group_ends(len(a) if b.ndim == 3 else len(b))
    return ops.grouped_mm(a, b, fw.tensor(ends, dtype=fw.int32, device=a.device))


PRODUCTS = {
    "cross_product": Case(
        REGISTRY["cross_product"],
        tuple(
            sample(shape, shape)
            for shape in ((7, 3, 1), (2, 3, 37), (1, 3, 300), (0, 3, 4), (1, 3, 1))
        ),
        lambda a, b: np.cross(a, b, 1, 1, 1),
        torch=lambda a, b: torch.linalg.cross(a, b, dim=1),
    ),
    "grouped_rows": Case(
        in_groups,
        (
            sample((11, 7), (3, 7, 5)),
            sample((0, 3), (3, 3, 2)),
            sample((1, 1), (3, 1, 1)),
        ),
        lambda a, b: np.concatenate([a[: len(a) // 3] @ b[0], a[len(a) // 3 :] @ b[2]]),
        scale=10,
        bad=(
            Bad(
                lambda ones: ops.grouped_mm(ones(4, 3), ones(2, 3, 5)),
                ShapeError,
                "grouped_mm: mat_a is (4, 3), mat_b (2, 3, 5) and offs missing; it must"
                " be given where an operand is a matrix, and only there",
            ),
            Bad(
                lambda ones: ops.grouped_mm(
                    ones(4, 3), ones(2, 4, 5), ones(2, dtype="int32")
                ),
                ShapeError,
                "grouped_mm: inner sizes differ: mat_a is (4, 3), mat_b (2, 4, 5); 3"
                " must equal 4",
            ),
            Bad(
                lambda ones: ops.grouped_mm(ones(4, 3), ones(2, 3, 5), ones(2)),
                DTypeError,
                "grouped_mm: offs is float32; it must be of an integer dtype",
            ),
        ),
    ),
    "grouped_depth": Case(
        in_groups,
        (
            sample((7, 11), (11, 5)),
            sample((3, 0), (0, 2)),
            sample((1, 1), (1, 1)),
        ),
        lambda a, b: np.stack(
            [
                a[:, start:end] @ b[start:end]
                for start, end in itertools.pairwise([0, *group_ends(len(b))])
            ]
        ),
        scale=10,
    ),
    "gather_mm": Case(
        gather_mm,
        (
            Sample((Draw((3, 7)), Draw((4, 7, 5)), Draw((6,), 0, 4, "int32"))),
            Sample((Draw((0, 7)), Draw((4, 7, 5)), Draw((0,), 0, 4, "int32"))),
            Sample((Draw((1, 1)), Draw((1, 1, 1)), Draw((1,), 0, 1, "int32"))),
        ),
        lambda a, b, numbers: np.matmul(
            np.repeat(a, len(numbers) // max(1, len(a)), 0)[:, None], b[numbers]
        )[:, 0],
        gradient=False,
        scale=10,
        bad=(
            Bad(
                lambda ones: gather_mm(
                    ones(2, 7), ones(4, 7, 5), ones(3, dtype="int32")
                ),
                ShapeError,
                "gather_mm: rows are (2, 7), matrices (4, 7, 5), numbers (3,); they"
                " must be (rows, k), (matrices, k, n) and a multiple of the rows",
            ),
        ),
    ),
    "product_sums": Case(
        lambda x, y, dim=0: REGISTRY["product_sums"](x, y, (dim,), x.dtype),
        (
            sample((13,), (13,)),
            sample((1,), (1,)),
            sample((3, 4, 5), (3, 4, 5), dim=1),
            sample((7, 113), (7, 113), dim=1),
        ),
        lambda x, y, dim=0: (x * y).sum(dim, keepdims=True, dtype=x.dtype),
        lambda x, y, dim=0: (x * y).sum(dim, keepdim=True, dtype=x.dtype),
        scale=10,
        bad=(
            Bad(
                lambda ones: ops.dot(ones(2, 2), ones(2)),
                ShapeError,
                "dot: a is (2, 2); it must be 1-D",
            ),
        ),
    ),
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
