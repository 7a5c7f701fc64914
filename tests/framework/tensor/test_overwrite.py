"""Recorded in-place changes beside PyTorch, through views of views."""

import random
from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw

STEPS = 12
SHAPE = (4, 6)
NAMES = "relu_ sigmoid_ tanh_ neg_ square_ exp_ zero_".split()


def _view(t: Any, x: Any, kind: int, at: int) -> Any:
    """Return a view of a tensor, the same of both libraries."""
    rows, columns = x.shape
    if kind == 0:
        return x.t()
    if kind == 1:
        return x[at % rows :]
    if kind == 2:
        return x[:, : at % columns + 1]
    if kind == 3:
        return x[:, at % 2 :: 2]
    return x.detach() if kind == 4 else x.unsqueeze(0).squeeze(0)


class Program:
    """A random program of views, changes in place and ops, on one library.

    Parameters
    ----------
    t : module
        PyTorch or the framework.
    place : str
        Device.
    seed : int
        Chooses the program.
    """

    def __init__(self, t: Any, place: str, seed: int) -> None:
        self.t, self.place = t, place
        self.random = random.Random(seed)
        self.data = np.random.default_rng(seed)
        self.weight = self.tensor(SHAPE).requires_grad_(True)
        self.known = [self.weight * 0.5, self.tensor(SHAPE)]

    def tensor(self, shape: tuple[int, ...]) -> Any:
        """Return a tensor of the program's next random numbers."""
        made = self.data.standard_normal(shape).astype(np.float32)
        return self.t.tensor(made).to(self.place)

    def step(self) -> None:
        """Run one random statement."""
        draw = self.random
        x = draw.choice(self.known)
        other = draw.choice(self.known)
        kind, at, name = draw.randrange(9), draw.randrange(6), draw.choice(NAMES)
        number = draw.uniform(-1, 1)
        if kind < 3:
            made = _view(self.t, x, draw.randrange(6), at)
            if made.numel():
                self.known.append(made)
        elif kind == 3:
            self.known.append(x * other.sum() * 0.1 if at < 3 else (x * 1.0).tanh())
        elif kind == 4:
            getattr(x, name)()
        elif kind == 5:
            x.mul_(other.sum() * 0.1) if at < 3 else x.mul_(number)
        elif kind == 6:
            x[at % x.shape[0]] = number if at < 2 else other.sum()
        elif kind == 7:
            x.copy_(other[:1, :1] * 2)
        else:
            x[:, at % x.shape[1]] += number

    def loss(self) -> Any:
        """Return a scalar of everything that the program made."""
        total = (self.weight * 0.1).sum()
        for k, each in enumerate(self.known):
            total = total + (each * each).sum() * (0.1 + 0.01 * k)
        return total


def outcome(t: Any, place: str, seed: int) -> tuple[list[Any], bool]:
    """Return values and gradient of a program, and whether it was refused."""
    program = Program(t, place, seed)
    try:
        for _ in range(STEPS):
            program.step()
        values = [each.tolist() for each in program.known]
        wanted = [each.requires_grad for each in program.known]
        program.loss().backward()
    except RuntimeError:
        return [], True
    return [values, wanted, program.weight.grad.tolist()], False


def check(place: str, seeds: range) -> int:
    """Compare programs with PyTorch's; return how many ran to the end there."""
    ran = 0
    for seed in seeds:
        expected, refused = outcome(torch, "cpu", seed)
        found, also = outcome(fw, place, seed)
        # Values are never overwritten here, so more programs have a gradient.
        assert refused or not also, seed
        if refused:
            continue
        ran += 1
        assert found[1] == expected[1], seed
        for own, theirs in zip((*found[0], found[2]), (*expected[0], expected[2])):
            np.testing.assert_allclose(own, theirs, rtol=1e-4, atol=1e-4)
    return ran


@pytest.mark.parametrize("count", [15, pytest.param(40, marks=pytest.mark.wide)])
@pytest.mark.parametrize("place", ["cpu", "gpu"])
def test_random_programs(place: str, count: int) -> None:
    assert check(place, range(count)) > count // 3


# PyTorch warns of the cycle that a recorded gradient makes.
@pytest.mark.filterwarnings("ignore:Using backward")
@pytest.mark.parametrize("place", ["cpu", "gpu"])
def test_double_backward(place: str) -> None:
    made = []
    for t, where in ((torch, "cpu"), (fw, place)):
        w = t.tensor([[1.0, 2.0, 3.0], [0.5, 1.5, -1.0]]).to(where)
        w.requires_grad_(True)
        x = w * w
        x[0] *= x[1].clone()
        x[:, 1] = w[:, 2] ** 3
        (x * x).sum().backward(create_graph=True)
        first = w.grad
        w.grad = None
        (first * first).sum().backward()
        made.append((first.tolist(), w.grad.tolist()))
    np.testing.assert_allclose(made[1][0], made[0][0], rtol=1e-5)
    np.testing.assert_allclose(made[1][1], made[0][1], rtol=1e-5)


def test_jitted_step_equals_an_eager_one() -> None:
    def loss(w: fw.Tensor, data: fw.Tensor) -> fw.Tensor:
        x = data * 1.0
        x[1:] = w[1:] * 2
        x[0].mul_(w[0])
        y = x.t().relu_()
        y += 1
        return (y * y).sum()

    def grads(step: Any) -> list[Any]:
        w = fw.linspace(-1, 1, 12, device="gpu").reshape(3, 4).clone()
        w.requires_grad_(True)
        found = []
        for k in range(4):
            data = fw.full((3, 4), 0.5 + k, device="gpu")
            w.grad = None
            found.append([step(w, data).item(), w.grad.tolist()])
        return found

    def step(w: fw.Tensor, data: fw.Tensor) -> fw.Tensor:
        made = loss(w, data)
        made.backward()
        return made

    assert grads(fw.jit(step)) == grads(step)
