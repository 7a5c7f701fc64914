"""Activations under PyTorch's signatures."""

from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from tests.framework.nn.functional.beside import beside, drawn
from vkbackend.framework.base.device import Device
from vkbackend.framework.nn import functional as F  # noqa: N812 - PyTorch's usual name

CALLS: list[tuple[str, tuple[Any, ...]]] = [
    ("threshold", (0.3, -2.0)),
    ("hardshrink", (0.4,)),
    ("softshrink", (0.4,)),
    ("tanhshrink", ()),
    ("rrelu", (0.1, 0.5)),
    ("softmin", (1,)),
    ("softmax", (1, 3, None)),
    ("log_softmax", (0,)),
    ("logsigmoid", ()),
]


@pytest.mark.parametrize(("name", "rest"), CALLS)
def test_is_as_in_torch(name: str, rest: tuple[Any, ...], place: Device) -> None:
    beside(name, place, drawn(3, 5), *rest)


def test_gelu(place: Device) -> None:
    beside("gelu", place, drawn(3, 5), approximate="tanh")


@pytest.mark.int64
def test_whole_numbers(place: Device) -> None:
    beside("relu6", place, np.arange(-3, 9))
    beside("hardtanh", place, np.arange(-3, 3))


def test_nan_stays() -> None:
    x = fw.tensor([float("nan"), 1.0])
    for out in (F.threshold(x, 0.0, 0.0), F.hardshrink(x), F.softshrink(x)):
        assert np.isnan(out.numpy()).tolist() == [True, False]


IN_PLACE: list[tuple[str, tuple[Any, ...]]] = [
    ("relu", ()),
    ("relu6", ()),
    ("leaky_relu", (0.2,)),
    ("elu", (0.5,)),
    ("selu", ()),
    ("celu", (0.5,)),
    ("silu", ()),
    ("mish", ()),
    ("hardswish", ()),
    ("hardsigmoid", ()),
    ("hardtanh", (-0.5, 0.5)),
    ("threshold", (0.1, 7.0)),
    ("rrelu", (0.1, 0.3, False)),
]


@pytest.mark.parametrize(("name", "rest"), IN_PLACE)
def test_in_place_is_recorded(name: str, rest: tuple[Any, ...], place: Device) -> None:
    array = drawn(7)
    grads = []
    for library, x in (
        (torch.nn.functional, torch.tensor(array, requires_grad=True)),
        (F, fw.tensor(array, device=place, requires_grad=True)),
    ):
        changed: Any = x * 2
        assert getattr(library, name)(changed, *rest, inplace=True) is changed
        (changed * changed).sum().backward()
        grads += [changed, x.grad]
    assert_close(grads[2], grads[0].detach().numpy(), scale=4)
    assert_close(grads[3], grads[1].numpy(), scale=8)  # products of two such


@pytest.mark.parametrize(
    "name", ["relu", "leaky_relu", "elu", "selu", "celu", "hardtanh", "rrelu"]
)
def test_names_with_an_underscore(name: str) -> None:
    x = fw.tensor(drawn(5))
    expected = getattr(F, name)(x).numpy()
    assert getattr(F, f"{name}_")(x) is x
    np.testing.assert_array_equal(x.numpy(), expected)


def test_random_slopes(place: Device) -> None:
    x = fw.full((4000,), -1.0, device=place, requires_grad=True)
    out = F.rrelu(x, 0.2, 0.4, training=True)
    slopes = -out.detach().numpy()
    assert 0.2 <= slopes.min() < 0.21
    assert 0.39 < slopes.max() <= 0.4
    out.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), slopes)


@pytest.mark.parametrize(("shape", "dim"), [((3,), 0), ((2, 3), 1), ((2, 3, 4), 0)])
def test_dim_that_is_not_given(shape: tuple[int, ...], dim: int) -> None:
    x = fw.tensor(drawn(*shape))
    with pytest.warns(UserWarning, match=f"dim is None, which means {dim}"):
        found = F.softmax(x)
    np.testing.assert_array_equal(found.numpy(), F.softmax(x, dim).numpy())


def test_gumbel_softmax(place: Device) -> None:
    logits = fw.tensor(np.log([[0.1, 0.6, 0.3]] * 3000), "float32", place, True)
    hard = F.gumbel_softmax(logits, 0.5, hard=True)
    shares = hard.detach().numpy().mean(0)
    np.testing.assert_allclose(shares, [0.1, 0.6, 0.3], atol=0.03)
    assert set(np.unique(hard.detach().numpy().round(6))) == {0, 1}
    (hard * hard).sum().backward()
    assert np.abs(logits.grad.numpy()).max() > 0
    soft = F.gumbel_softmax(logits, 2.0)
    assert_close(soft.sum(-1), np.ones(3000, np.float32))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: F.softshrink(x, -1.0), "softshrink: lambd is -1.0"),
        (lambda x: F.rrelu(x, 0.5, 0.1), "rrelu: lower is 0.5, upper 0.1"),
        (lambda x: F.hardtanh(x, 1.0, 0.0), "hardtanh: min_val is 1.0, max_val 0.0"),
    ],
)
def test_bad_arguments(call: Any, text: str) -> None:
    with pytest.raises((ValueError, RuntimeError), match=text):
        call(fw.ones(3))
