"""L-BFGS: beside PyTorch, and the interpolation of its line search."""

from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from vkbackend.framework import optim
from vkbackend.framework.base.device import Device
from vkbackend.framework.optim.lbfgs import Trial, cubic_minimum

START = np.float32([-1.2, 1.0])


def rosenbrock(module: Any, kind: Any, x: Any, options: dict[str, Any]) -> list[float]:
    """Return the losses of four steps on Rosenbrock's function."""
    optimizer = kind([x], **options)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = (1 - x[0]) ** 2 + 10 * (x[1] - x[0] ** 2) ** 2
        loss.backward()
        return loss

    return [optimizer.step(closure).item() for _ in range(4)]


@pytest.mark.parametrize(
    "options",
    [
        {"line_search_fn": "strong_wolfe", "max_iter": 5},
        {"line_search_fn": "strong_wolfe", "max_iter": 8, "history_size": 2},
        {"lr": 0.02, "max_iter": 6},
    ],
)
def test_is_pytorchs(options: dict[str, Any], place: Device) -> None:
    ours = fw.tensor(START, device=place, requires_grad=True)
    theirs = torch.tensor(START, requires_grad=True)
    found = rosenbrock(fw, optim.LBFGS, ours, options)
    expected = rosenbrock(torch, torch.optim.LBFGS, theirs, options)
    np.testing.assert_allclose(found, expected, 1e-3, 1e-6)
    np.testing.assert_allclose(
        ours.detach().numpy(), theirs.detach().numpy(), 1e-3, 1e-5
    )


def test_several_parameters_reach_the_minimum() -> None:
    x, y = fw.zeros(2, 2, requires_grad=True), fw.zeros((), requires_grad=True)
    optimizer = optim.LBFGS([x, y], line_search_fn="strong_wolfe")

    def closure() -> fw.Tensor:
        optimizer.zero_grad()
        loss = ((x - 3.0) ** 2).sum() + (y + 1.0) ** 2
        loss.backward()
        return loss

    optimizer.step(closure)
    np.testing.assert_allclose(x.detach().numpy(), 3.0, 1e-4)
    assert y.item() == pytest.approx(-1.0, abs=1e-4)


def test_lowest_point_of_a_cubic() -> None:
    def trial(x: float) -> Trial:
        return Trial(x, x**3 - 3 * x, fw.zeros(1), 3 * x**2 - 3)

    assert cubic_minimum(trial(0.2), trial(3.0), 0.0, 9.0) == pytest.approx(1.0)
    assert cubic_minimum(trial(3.0), trial(0.2), 2.0, 9.0) == 2.0
    flat = Trial(1.0, 0.0, fw.zeros(1), 0.0)
    assert cubic_minimum(flat, flat, 0.0, 4.0) == 2.0


def test_bad_arguments_are_named() -> None:
    x = fw.ones(2, requires_grad=True)
    with pytest.raises(ValueError, match="it takes one"):
        optim.LBFGS([{"params": [x]}, {"params": [fw.ones(1, requires_grad=True)]}])
    with pytest.raises(ValueError, match="line_search_fn is 'armijo'"):
        optim.LBFGS([x], line_search_fn="armijo")
    with pytest.raises(TypeError, match="closure is missing"):
        optim.LBFGS([x]).step()
