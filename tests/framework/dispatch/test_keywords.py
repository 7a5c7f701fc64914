"""PyTorch's names of parameters, NumPy's, and results written into `out`."""

import pytest

import vkbackend
import vkbackend.framework as fw
from tests.torch_calls import check
from vkbackend.framework.dispatch.keywords import renamed

CALLS = """\
T.sum(input=m, dim=0)
m.sum(axis=1, keepdims=True)
T.add(input=m, other=m2)
T.pow(input=p, exponent=0.5)
T.mm(m, mat2=m2.T)
T.addmm(input=T.ones(3), mat1=m, mat2=m2.T)
T.where(condition=b, input=m, other=m2)
T.split(tensor=m, split_size_or_sections=2, dim=1)
T.atan2(input=m, other=m2)
!T.sum(m, dim=0, out=T.empty(4))
!T.add(m, m2, out=T.empty(3, 4))
!T.exp(m, out=T.empty(0))
T.abs(m, out=None)
""".splitlines()


@pytest.mark.parametrize("call", CALLS)
def test_names(call: str) -> None:
    check(call)


def test_on_a_device(device: vkbackend.Device) -> None:
    check("T.add(input=m, other=m2)", fw.device(device.info.name))


def test_an_argument_under_two_names() -> None:
    with pytest.raises(TypeError, match="given under two names"):
        fw.sum(fw.ones(3), dim=0, axis=0)


def test_what_is_no_tensor() -> None:
    with pytest.raises(TypeError, match="sum: x is a str; it must be a tensor"):
        fw.sum("3")  # type: ignore[arg-type]


def test_our_names_stay() -> None:
    assert renamed("sum", ["x", "dim"]) == {"axis": "dim", "input": "x"}
