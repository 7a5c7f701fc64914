"""State that users assign to optimizers, and optimizers that wrap others."""

from collections import defaultdict
from typing import Any

import pytest
import torch

import vkbackend.framework as fw


class Wrapper:
    """Mixed into an optimizer class: what wraps another, and calls no `__init__`."""

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer
        self.param_groups = optimizer.param_groups
        self.state: Any = defaultdict(dict)

    def step(self) -> None:
        """Step, and move half of the way back to where the last step ended."""
        self.optimizer.step()
        for group in self.param_groups:
            for parameter in group["params"]:
                state = self.state[parameter]
                slow = state.setdefault("slow", parameter.detach().clone())
                slow.add_(parameter.detach() - slow, alpha=0.5)
                parameter.data.copy_(slow)


def parameter_of(library: Any) -> Any:
    return library.nn.Parameter(library.tensor([1.0, -2.0, 3.0]))


def steps(library: Any, parameter: Any, optimizer: Any, count: int = 3) -> list[float]:
    """Return a parameter's elements after some steps."""
    for _ in range(count):
        parameter.grad = library.tensor([0.5, 1.0, -1.0])
        optimizer.step()
    found: list[float] = parameter.detach().tolist()
    return found


def wrapped(library: Any) -> list[float]:
    parameter = parameter_of(library)
    kind = type("Lookahead", (Wrapper, library.optim.Optimizer), {})
    return steps(library, parameter, kind(library.optim.SGD([parameter], lr=0.1)))


def test_a_wrapper_of_an_optimizer_keeps_a_state_of_its_own() -> None:
    assert wrapped(fw) == pytest.approx(wrapped(torch))


@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_an_assigned_state_takes_the_place_of_the_old(name: str) -> None:
    options = {"lr": 0.1, **({"momentum": 0.9} if name == "SGD" else {})}

    def run(library: Any) -> tuple[list[float], bool]:
        parameter = parameter_of(library)
        optimizer = getattr(library.optim, name)([parameter], **options)
        steps(library, parameter, optimizer)
        mine: Any = defaultdict(dict)
        optimizer.state = mine
        found = steps(library, parameter, optimizer)
        return found, optimizer.state is mine and list(mine) == [parameter]

    found, kept = run(fw)
    expected, _ = run(torch)
    assert kept
    assert found == pytest.approx(expected, rel=1e-5)


def test_a_state_that_was_assigned_is_that_of_a_jitted_step() -> None:
    parameter = parameter_of(fw)
    optimizer = fw.optim.SGD([parameter], lr=0.1, momentum=0.9)

    @fw.jit
    def step(grad: fw.Tensor) -> None:
        parameter.grad = grad
        optimizer.step()

    grad = fw.tensor([1.0, 1.0, 1.0])
    for _ in range(3):
        step(grad)
    before = parameter.detach().clone()
    optimizer.state = defaultdict(dict)
    step(grad)
    # Without momentum of the earlier steps.
    assert (before - parameter).tolist() == pytest.approx([0.1] * 3)


def test_without_a_state_it_says_so() -> None:
    class Empty(fw.optim.Optimizer):
        def __init__(self) -> None:
            pass

    with pytest.raises(AttributeError, match="Empty: there is no state yet"):
        Empty().state  # noqa: B018
