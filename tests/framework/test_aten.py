"""Operators by PyTorch's names, beside PyTorch."""

import pytest

import vkbackend.framework as fw
from tests.torch_calls import check


@pytest.mark.parametrize(
    "call",
    [
        "T.ops.aten.add.Tensor(m, m2, alpha=2)",
        "T.ops.aten.add(m, 1)",
        "T.ops.aten.mul.Scalar(m, 2)",
        "T.ops.aten.sum.dim_IntList(m, [0], True)",
        "T.ops.aten.mean.dim(m, [1])",
        "T.ops.aten.mm.default(m, m2.T)",
        "T.ops.aten.view.default(m, [4, 3])",
        "T.ops.aten.linalg_vector_norm.default(m)",
        "T.ops.aten.special_expit(m)",
        "T.ops.aten.gelu.default(m)",
        "T.ops.aten.max.dim(m, 1)[0]",
        "T.ops.aten.where.self(b, m, m2)",
        "T.ops.aten.clone.default(m)",
    ],
)
def test_operators(call: str) -> None:
    check(call)


def test_in_place() -> None:
    x = fw.zeros(2)
    assert fw.ops.aten.add_.Tensor(x, fw.ones(2)) is x
    assert x.tolist() == [1, 1]


def test_names() -> None:
    assert repr(fw.ops.aten.add.Tensor) == "<operator aten.add.Tensor>"
    assert fw.ops.aten.add.Tensor is fw.ops.aten.add.Tensor


@pytest.mark.parametrize(
    ("read", "says"),
    [
        (
            lambda: fw.ops.aten.convolution,
            "ops.aten: there is no operator 'convolution'; what is here:"
            " nn.functional.conv2d, and conv_transpose2d",
        ),
        (
            lambda: fw.ops.aten.nothing,
            "ops.aten: there is no operator 'nothing'; what is here: see"
            " vkbackend.framework.Tensor and vkbackend.framework.nn.functional",
        ),
        (
            lambda: fw.ops.aten.add.Tenser,
            "ops.aten.add: 'Tenser' is no overload; call ops.aten.add itself",
        ),
    ],
)
def test_what_is_not_here(read: object, says: str) -> None:
    with pytest.raises(AttributeError) as raised:
        read()  # type: ignore[operator]
    assert str(raised.value) == says
