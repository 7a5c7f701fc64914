"""Losses under PyTorch's signatures."""

from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.nn.functional.beside import Fixed, beside, drawn
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.errors import ShapeError
from vkbackend.framework.nn import functional as F  # noqa: N812 - PyTorch's usual name

X, TARGET, POSITIVE = drawn(4, 5), drawn(4, 5, seed=1), np.abs(drawn(4, 5)) + 0.1
COUNTS = np.array([[0, 1, 2, 5, 9]] * 4)
SIGNS = Fixed(np.sign(drawn(4, 5, seed=2)))

LOSSES: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("mse_loss", (X, TARGET), {"weight": POSITIVE}),
    ("l1_loss", (X, TARGET), {"weight": POSITIVE}),
    ("huber_loss", (X, TARGET), {"weight": POSITIVE, "delta": 0.5}),
    ("poisson_nll_loss", (X, COUNTS), {}),
    ("poisson_nll_loss", (POSITIVE, COUNTS), {"log_input": False, "full": True}),
    ("gaussian_nll_loss", (X, TARGET, POSITIVE), {"full": True}),
    ("gaussian_nll_loss", (X, TARGET, POSITIVE[:, :1]), {}),
    ("gaussian_nll_loss", (X, TARGET, POSITIVE[:, 0]), {}),
    ("gaussian_nll_loss", (X, TARGET, 0.3), {}),
    ("gaussian_nll_loss", (X, TARGET, POSITIVE * 0), {"eps": 0.1}),
    ("soft_margin_loss", (X, SIGNS), {}),
    ("kl_div", (X, TARGET), {"log_target": True, "reduction": "batchmean"}),
    ("cross_entropy", (X, np.array([1, 0, 4, 2])), {"weight": POSITIVE[0]}),
    ("nll_loss", (X, np.array([1, 0, 4, 2])), {"ignore_index": 4}),
]


@pytest.mark.sampled(3)
@pytest.mark.int64
@pytest.mark.parametrize(("name", "arrays", "options"), LOSSES)
@pytest.mark.parametrize("reduction", ["none", "mean"])
def test_is_as_in_torch(
    name: str,
    arrays: tuple[Any, ...],
    options: dict[str, Any],
    reduction: str,
    place: Device,
) -> None:
    beside(name, place, *arrays, scale=16, **{"reduction": reduction, **options})


def test_shapes_that_broadcast_are_said() -> None:
    with pytest.warns(UserWarning, match=r"mse_loss: input is \(2, 3\), target \(3,\)"):
        F.mse_loss(fw.ones((2, 3)), fw.ones(3))
    with pytest.warns(UserWarning, match="'batchmean' gives the divergence"):
        F.kl_div(fw.zeros(3), fw.ones(3))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: F.gaussian_nll_loss(x, x, -1.0), "var is -1.0"),
        (lambda x: F.gaussian_nll_loss(x, x, -x), "a variance is negative"),
        (lambda x: F.gaussian_nll_loss(x, x, fw.ones(7)), r"var is \(7,\)"),
        (lambda x: F.mse_loss(x, x, weight=fw.ones(3)), r"weight is \(3,\)"),
        (lambda x: F.soft_margin_loss(x, x, reduction="x"), "reduction is 'x'"),
    ],
)
def test_bad_arguments(call: Any, text: str) -> None:
    with pytest.raises(ShapeError, match=text):
        call(fw.ones((2, 3)))


def test_a_negative_variance_on_a_device_gives_nan(place: Device) -> None:
    if not fw.ones(1, device=place).is_gpu:
        pytest.skip("the host reads them")
    x = fw.ones(3, device=place)
    assert np.isnan(F.gaussian_nll_loss(x, x, -x).item())
