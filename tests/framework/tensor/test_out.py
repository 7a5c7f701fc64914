"""Results written into tensors that the caller gives, and what is refused."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

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
    values, places = make([]), make([]).to("int64")
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
    values, places = make([0.0, 0.0, 0.0, 0.0]), make([]).to("int64")
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


CALLS = """\
T.exp(m, out=T.zeros(3, 4).double())
T.exp(m, out=T.zeros(3, 4).long())
T.add(i, 1, out=T.zeros_like(i).int())
T.add(m, 1, out=T.zeros(3, 4) + 0j)
T.eq(m, 1, out=T.zeros(3, 4))
T.abs(m, out=T.zeros(3, 4).double())
T.mm(m, m2.T, out=T.zeros(3, 3).double())
T.where(m > 0, m, m2, out=T.zeros(3, 4).double())
T.amax(m, 0, out=T.zeros(4).double())
T.max(m, 0, out=(T.zeros(4).double(), T.zeros(4).long()))
T.max(m, 0, out=(T.zeros(4), T.zeros(4).int()))
T.max(m, out=T.zeros(()).double())
T.argmax(m, 0, out=T.zeros(4).int())
T.all(m > 0, 0, out=T.zeros(4, dtype=T.uint8))
T.all(m > 0, 0, out=T.zeros(4))
T.sum(m * 2, 0, out=T.zeros(4).long())
T.cumsum(m * 2, 0, out=T.zeros(3, 4).long())
T.linalg.inv(T.eye(3), out=T.zeros(3, 3).double())
T.gather(m, 1, T.zeros(3, 4).long(), out=T.zeros(3, 4).half())
T.exp(m, out=T.zeros(1, 4).expand(3, 4))
T.exp(b[:8], out=b[1:9])
T.exp(b[::2], out=b[1::2])
T.exp(b, out=b)
T.add(q, q.t(), out=q)
T.cat([b[:4], b[4:8]], out=b[2:])
T.softmax(b[:8], 0, out=b[1:9])
b[1:9].add_(b[:8])
b[1:9].copy_(b[:8])
b[5:].copy_(b[:5])
q.mul_(q.t())
q.mul_(q[0])
q.add_(q)
q[1:].sub_(q[:1])
q[0].expand(4, 4).fill_(2)
q[:, :1].expand(4, 4).zero_()
q[0].expand(4, 4).add_(2)
""".splitlines()


def answer(library: Any, call: str) -> Any:
    """Return what a call gives, or its error."""
    names = {
        "T": library,
        "m": library.arange(12.0).reshape(3, 4) / 4 - 1,
        "m2": library.arange(12.0).reshape(3, 4).flip(0),
        "i": library.arange(12).reshape(3, 4),
        "b": library.arange(10.0) / 8,
        "q": library.arange(16.0).reshape(4, 4) / 8,
    }
    try:
        return eval(call, names)
    except (RuntimeError, TypeError) as error:
        return error


@pytest.mark.parametrize("call", CALLS)
def test_dtypes_and_overlaps_as_in_pytorch(call: str) -> None:
    wanted, found = answer(torch, call), answer(fw, call)
    if isinstance(wanted, Exception):
        assert isinstance(found, type(wanted)), found
        return
    pairs = [(found, wanted)]
    if isinstance(wanted, tuple):
        pairs = [*zip(found, wanted, strict=True)]
    for one, two in pairs:
        assert str(one.dtype) == str(two.dtype)
        np.testing.assert_allclose(one.numpy(), two.numpy(), 1e-6, 1e-6)


def test_products_over_their_operands() -> None:
    """PyTorch's BLAS reads what it has written, as its processor has it."""
    q = fw.arange(16.0).reshape(4, 4) / 8
    wanted = q.numpy().T @ q.numpy()
    fw.mm(q.t(), q, out=q)
    np.testing.assert_allclose(q.numpy(), wanted, 1e-6)
