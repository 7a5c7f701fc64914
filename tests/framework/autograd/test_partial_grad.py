"""Gradients in parts."""

from collections.abc import Sequence

import numpy as np

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework.autograd.partial_grad import Part, Parts, takes_parts, whole
from vkbackend.framework.base.dtype import float32
from vkbackend.framework.base.shape import TensorSpec

SPEC = TensorSpec((2, 3), float32)
COLUMN = np.array([[0, 0], [4, 4], [0, 0]], np.float32)


def put(spec: TensorSpec, parts: Sequence[Part]) -> fw.Tensor:
    total = np.zeros(spec.shape, np.float32)
    for grad, (row, column) in parts:
        rows, columns = grad.shape
        total[row : row + rows, column : column + columns] += grad.numpy()
    return fw.tensor(total)


def column(at: int, value: float) -> Parts:
    return Parts(SPEC, [Part(fw.full((2, 1), value), (0, at))], put)


def test_parts_and_whole_gradients_add_up() -> None:
    ones = fw.ones((2, 3))
    total = column(0, 2.0).plus(column(2, 3.0)).plus(ones)
    total = total.plus(column(0, 1.0).plus(ones))
    expected = np.array([[5, 2, 5]] * 2, np.float32)
    assert_close(total.whole(), expected)
    assert_close(total.permuted((1, 0)).whole(), expected.T)
    assert total.permuted((1, 0)).spec == TensorSpec((3, 2), float32)
    assert_close(column(1, 4.0).permuted((1, 0)).whole(), COLUMN)


def test_whole_leaves_tensors_and_nothing_alone() -> None:
    x = fw.ones(2)
    assert whole(x) is x
    assert whole(None) is None
    assert_close(whole(column(0, 1.0)), np.array([[1, 0, 0]] * 2, np.float32))


def test_rules_say_that_they_take_parts() -> None:
    def rule(grad: object) -> object:
        return grad

    assert takes_parts(rule) is rule
    assert rule.takes_parts  # type: ignore[attr-defined]  # as said
