"""Results written into tensors that the caller gives, and what is refused."""

from collections.abc import Callable

import pytest

import vkbackend.framework as fw
from vkbackend.framework.base.errors import DTypeError, GradError

Make = Callable[..., fw.Tensor]


def test_written_into_the_same_storage(make: Make) -> None:
    out = make([0.0, 0.0])
    view = out[:1]
    assert fw.add(make([1.0, 2.0]), 1, out=out) is out  # type: ignore[call-arg]
    assert out.tolist() == [2.0, 3.0]
    assert view.tolist() == [2.0]


def test_an_empty_one_gets_the_shape(make: Make) -> None:
    values, places = make([]), make([]).to("int32")
    found = fw.sort(make([3.0, 1.0]), out=(values, places))  # type: ignore[call-arg]
    assert values.tolist() == [1.0, 3.0]
    assert found.indices is places


def test_another_shape_is_resized(make: Make) -> None:
    base = make([9.0, 9.0, 9.0])
    out = base[1:]
    with pytest.warns(UserWarning, match=r"exp: out is \(2,\), the result \(1, 1\)"):
        fw.exp(make([[0.0]]), out=out)  # type: ignore[call-arg]  # every op takes it
    assert out.tolist() == [[1.0]]
    assert base.tolist() == [9.0, 1.0, 9.0]
    values, places = make([0.0, 0.0, 0.0, 0.0]), make([]).to("int32")
    with pytest.warns(UserWarning, match="sort: out is"):
        fw.sort(make([3.0, 1.0]), out=(values, places))  # type: ignore[call-arg]
    assert (values.tolist(), places.tolist()) == ([1.0, 3.0], [1, 0])


def test_refusals() -> None:
    x = fw.ones(2)
    for out, error in (
        (fw.ones(2, dtype="int32"), DTypeError),
        (fw.ones(2, requires_grad=True), GradError),
        ([1.0], TypeError),
    ):
        with pytest.raises(error, match="exp: out is"):
            fw.exp(x, out=out)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="a tuple of 2 tensors"):
        fw.sort(x, out=x)  # type: ignore[call-arg]
