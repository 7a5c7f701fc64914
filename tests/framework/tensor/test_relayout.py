"""Changes of a tensor's own shape: the tape, views, and what is refused."""

from collections.abc import Callable

import pytest

import vkbackend.framework as fw
from vkbackend.framework.base.errors import (
    DTypeError,
    GradError,
    ShapeError,
    TraceError,
)

Make = Callable[..., fw.Tensor]


def test_elements_are_shared_with_views(make: Make) -> None:
    x = make([[1.0, 2.0, 3.0]])
    row = x[0]
    assert x.transpose_(0, 1) is x
    x[0, 0] = 7.0
    assert x.shape == (3, 1)
    assert row.tolist() == [7.0, 2.0, 3.0]


def test_gradient_of_what_came_before(make: Make) -> None:
    x = make([[1.0, 2.0], [3.0, 4.0]]).requires_grad_()
    y = x * 2
    y.t_()
    y.mul_(3.0)
    (y * make([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
    assert x.grad.tolist() == [[6.0, 18.0], [12.0, 24.0]]


def test_a_larger_shape_keeps_the_elements(make: Make) -> None:
    x = make([1.0, 2.0])
    assert x.resize_(1).tolist() == [1.0]
    assert x.resize_((2, 2)).tolist() == [[1.0, 2.0], [0.0, 0.0]]


def test_storage_of_another() -> None:
    x, y = fw.zeros(1), fw.tensor([1.0, 2.0, 3.0])
    assert x.set_(y, 1, (2,)).tolist() == [2.0, 3.0]
    x.zero_()
    assert y.tolist() == [1.0, 0.0, 0.0]
    assert x.set_().shape == (0,)
    with pytest.raises(TypeError, match="it must be a tensor"):
        x.set_(3)  # type: ignore[arg-type]


def test_refusals() -> None:
    leaf = fw.ones(2, requires_grad=True)
    with pytest.raises(GradError, match="unsqueeze_: the tensor is a leaf"):
        leaf.unsqueeze_(0)
    for change in (lambda: leaf.resize_(1), lambda: leaf.set_(fw.ones(1))):
        with pytest.raises(GradError, match="requires a gradient"):
            change()
    with pytest.raises(ShapeError, match="none may be below 0"):
        fw.ones(2).resize_(-1)


def test_a_trace_refuses_it() -> None:
    @fw.jit
    def step(x: fw.Tensor) -> fw.Tensor:
        return (x * 2).t_()

    with pytest.raises(TraceError, match="use the function without"):
        step(fw.ones(2, 2))


def test_set_of_another_dtype_or_without_a_size() -> None:
    x = fw.ones(3)
    with pytest.raises(DTypeError, match="source is int64, the tensor float32"):
        x.set_(fw.ones(2, dtype="int64"))
    with pytest.raises(ShapeError, match="storage_offset is 1 without a size"):
        x.set_(fw.ones(2), 1)
    assert x.tolist() == [1, 1, 1]
