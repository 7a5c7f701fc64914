"""Gradients in parts."""

from collections.abc import Sequence

import numpy as np

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework.autograd.partial_grad import (
    GradSlice,
    PartialGrad,
    accepts_partial,
    dense,
)
from vkbackend.framework.base.dtype import float32
from vkbackend.framework.base.shape import TensorSpec

SPEC = TensorSpec((2, 3), float32)
COLUMN = np.array([[0, 0], [4, 4], [0, 0]], np.float32)


def put(spec: TensorSpec, parts: Sequence[GradSlice]) -> fw.Tensor:
    total = np.zeros(spec.shape, np.float32)
    for grad, (row, column) in parts:
        rows, columns = grad.shape
        total[row : row + rows, column : column + columns] += grad.numpy()
    return fw.tensor(total)


def column(at: int, value: float) -> PartialGrad:
    return PartialGrad(SPEC, [GradSlice(fw.full((2, 1), value), (0, at))], put)


def test_parts_and_whole_gradients_add_up() -> None:
    ones = fw.ones((2, 3))
    total = column(0, 2.0).plus(column(2, 3.0)).plus(ones)
    total = total.plus(column(0, 1.0).plus(ones))
    expected = np.array([[5, 2, 5]] * 2, np.float32)
    assert_close(total.dense(), expected)
    assert_close(total.permuted((1, 0)).dense(), expected.T)
    assert total.permuted((1, 0)).spec == TensorSpec((3, 2), float32)
    assert_close(column(1, 4.0).permuted((1, 0)).dense(), COLUMN)


def test_whole_leaves_tensors_and_nothing_alone() -> None:
    x = fw.ones(2)
    assert dense(x) is x
    assert dense(None) is None
    assert_close(dense(column(0, 1.0)), np.array([[1, 0, 0]] * 2, np.float32))


def test_rules_say_that_they_take_parts() -> None:
    def rule(grad: object) -> object:
        return grad

    assert accepts_partial(rule) is rule
    assert rule.accepts_partial  # type: ignore[attr-defined]  # as said
