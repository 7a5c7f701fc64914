"""The public gradient check finds what is right and what is wrong."""

import re

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework import ops
from vkbackend.framework.autograd.engine import GradNode, edge_of
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.errors import GradError
from vkbackend.framework.debug.gradcheck import gradcheck


def leaf(shape: tuple[int, ...], dtype: str, place: Device | str = "cpu") -> fw.Tensor:
    data = np.random.default_rng(1).uniform(0.5, 1.5, shape).astype(dtype)
    return fw.tensor(data, device=place, requires_grad=True)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_right_gradients(dtype: str) -> None:
    x, y = leaf((3, 5), dtype), leaf((5,), dtype)
    gradcheck(lambda x, y: ((x * y).exp() / y, (x + y).sum()), [x, y])
    assert x.grad is None


def test_on_each_device(place: Device) -> None:
    x, y = leaf((3, 5), "float32", place), leaf((5, 7), "float32", place)
    labels = fw.tensor(np.array([0, 6, 2], np.int32), device=place)
    gradcheck(
        lambda x, y, labels: ops.cross_entropy((x @ y).tanh(), labels), [x, y, labels]
    )


def test_unused_input() -> None:
    gradcheck(lambda x, y: x * 2.0, [leaf((3,), "float64"), leaf((3,), "float64")])


def wrong(x: fw.Tensor, factor: float) -> fw.Tensor:
    """Return twice `x`, with a gradient that is off by a factor."""
    out = x.detach() * 2.0
    edge = edge_of(x)
    if edge is not None:
        out.requires_grad = True
        out.grad_node = GradNode(
            "wrong", lambda grad: grad * (2.0 * factor), (edge,), (x.spec,), {}
        )
    return out


@pytest.mark.parametrize("factor", [0.0, 1.001, -1.0, float("nan")])
def test_wrong_gradients(factor: float) -> None:
    x = leaf((7,), "float64")
    gradcheck(lambda x: wrong(x, 1.0), [x])
    pattern = (
        r"gradcheck: along a random direction \(seed 0\) backward gives (\S+) and"
        r" finite differences (\S+); they may differ by \S+"
    )
    with pytest.raises(GradError) as raised:
        gradcheck(lambda x: wrong(x, factor), [x])
    found = re.fullmatch(pattern, str(raised.value))
    assert found is not None
    expected = float(found[2]) * factor
    assert float(found[1]) == pytest.approx(expected, rel=1e-6, abs=0.1, nan_ok=True)


def test_tolerance_and_seed() -> None:
    x = leaf((7,), "float64")
    gradcheck(lambda x: wrong(x, 1.001), [x], seed=5, tolerance=0.01)
    with pytest.raises(GradError, match=r"\(seed 5\)"):
        gradcheck(lambda x: wrong(x, 1.001), [x], seed=5)


def test_nothing_to_check() -> None:
    with pytest.raises(GradError) as raised:
        gradcheck(lambda x: x, [fw.ones(2)])
    assert str(raised.value) == (
        "gradcheck: no input requires a gradient; set requires_grad=True on one"
    )
