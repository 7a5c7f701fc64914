"""Declaring ops: what the machinery promises, and what it refuses."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework import ops
from vkbackend.framework.base.dtype import FLOAT, float32
from vkbackend.framework.base.shape import TensorSpec
from vkbackend.framework.dispatch.declare import composite, elementwise, primitive
from vkbackend.framework.dispatch.op import REGISTRY

Make = Callable[..., fw.Tensor]


@pytest.mark.usefixtures("registry")
def test_a_new_elementwise_op_works_everywhere(make: Make) -> None:
    @elementwise(glsl="x * x + c", reference=lambda x, c: x * x + c, dtypes=(float32,))
    def square_plus(x: fw.Tensor, c: float = 1.0) -> fw.Tensor:
        """Return the square and a number."""

    @square_plus.vjp
    def square_plus_vjp(grad: fw.Tensor, x: fw.Tensor) -> fw.Tensor:
        return grad * x * 2.0

    x = make([1.0, -3.0], grad=True)
    y = square_plus(x, c=0.5) - square_plus(x * 0.0)
    y.backward(make([1.0, 10.0]))
    assert y.tolist() == [0.5, 8.5]
    assert x.grad.tolist() == [2, -60]
    assert REGISTRY["square_plus"] is square_plus
    assert repr(square_plus) == "<op square_plus>"


@pytest.mark.usefixtures("registry")
def test_a_rule_gets_what_it_names() -> None:
    seen: dict[str, Any] = {}

    @primitive(dtypes=FLOAT, outputs=("out", "extra"))
    def split(
        x: fw.Tensor, y: fw.Tensor, z: fw.Tensor | None, power: int
    ) -> tuple[fw.Tensor, fw.Tensor]:
        """Return two results."""

    @split.spec
    def split_spec(
        x: TensorSpec, y: TensorSpec, z: TensorSpec | None, power: int
    ) -> tuple[TensorSpec, TensorSpec]:
        return x, y

    @split.reference
    def split_reference(
        x: np.ndarray, y: np.ndarray, z: np.ndarray | None, power: int
    ) -> tuple[np.ndarray, np.ndarray]:
        return x**power, y * 2

    @split.vjp
    def split_vjp(
        grad: fw.Tensor,
        y: fw.Tensor,
        out: fw.Tensor,
        extra: fw.Tensor,
        x_spec: TensorSpec,
        z_spec: TensorSpec | None,
        needs: tuple[bool, ...],
        power: int,
    ) -> tuple[Any, ...]:
        seen.update(locals())
        return grad, None, None

    x, y = fw.tensor([3.0], requires_grad=True), fw.tensor([5.0])
    out, extra = split(x, y, None, 2)
    assert not extra.requires_grad
    out.backward()
    assert x.grad.tolist() == [1]
    assert seen["needs"] == (True, False, False)
    assert (seen["x_spec"], seen["z_spec"]) == (TensorSpec((1,), float32), None)
    assert seen["power"] == 2
    kept = [seen[name].tolist() for name in ("y", "out", "extra")]
    assert kept == [[5], [9], [10]]


@pytest.mark.usefixtures("registry")
def test_names_are_checked_at_import() -> None:
    @elementwise(glsl="x", reference=np.copy, dtypes=FLOAT)
    def same(x: fw.Tensor) -> fw.Tensor:
        """Return the same."""

    with pytest.raises(TypeError) as raised:
        same.vjp(lambda grad, result: grad)
    assert str(raised.value) == (
        "same.vjp: unknown parameters: result; a rule may take grad, needs, out, x,"
        " x_spec"
    )
    with pytest.raises(TypeError) as raised:
        elementwise(glsl="x", reference=np.copy, dtypes=FLOAT)(same.function)
    assert str(raised.value) == "same: an op of this name is already declared"

    @elementwise(glsl="grad", reference=np.copy, dtypes=FLOAT)
    def clash(grad: fw.Tensor) -> fw.Tensor:
        """Return the same."""

    with pytest.raises(
        TypeError, match=r"clash.vjp: `grad` and `needs` are the rule's"
    ):
        clash.vjp(lambda grad: grad)


@pytest.mark.usefixtures("registry")
def test_composite_has_its_own_rule(make: Make) -> None:
    @composite(dtypes=FLOAT)
    def doubled(x: fw.Tensor) -> fw.Tensor:
        """Return twice the elements."""
        return x * 2.0

    @doubled.vjp
    def doubled_vjp(grad: fw.Tensor) -> fw.Tensor:
        return grad * 7.0

    x = make([1.0], grad=True)
    doubled(x).backward()
    assert x.grad.tolist() == [7]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: ops.exp(), "exp: the argument `x` is missing"),
        (lambda x: ops.exp(x, x), "exp: 2 arguments given; it takes (x)"),
        (
            lambda x: ops.exp(x, base=2),
            "exp: unexpected argument `base`; it takes (x)",
        ),
        (lambda x: ops.exp(x, x=x), "exp: unexpected argument `x`; it takes (x)"),
        (lambda x: ops.exp(3.0), "exp: no argument is a tensor; one of x must be"),
        (
            lambda x: ops.pow(2, 3),
            "pow: no argument is a tensor; one of x, y must be",
        ),
    ],
)
def test_arguments_are_bound_as_python_binds_them(
    call: Callable[[fw.Tensor], Any], text: str
) -> None:
    with pytest.raises(TypeError) as raised:
        call(fw.ones(2))
    assert str(raised.value) == text


def test_ops_look_like_their_functions() -> None:
    assert list(inspect.signature(ops.leaky_relu).parameters) == ["x", "negative_slope"]
    assert ops.leaky_relu.__name__ == "leaky_relu"
    assert "where it is negative" in (ops.leaky_relu.__doc__ or "")


@pytest.mark.parametrize("name", REGISTRY)
def test_every_op_is_documented(name: str) -> None:
    text = REGISTRY[name].__doc__
    assert text
    assert text.splitlines()[0].endswith(".")
