"""Activation checkpointing: the same gradients, with less that is saved."""

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.torch_log import Log, assert_logs_agree
from vkbackend.framework import nn
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.base.errors import GradError
from vkbackend.framework.utils.checkpoint import (
    CheckpointError,
    checkpoint,
    checkpoint_sequential,
)


def of(log: Log) -> Any:
    """Return the module under test."""
    return importlib.import_module(f"{log.library.__name__}.utils.checkpoint")


def both_forms(log: Log) -> None:
    weight = log.tensor([0.5, -1.0])

    def function(x: Any, factor: float, y: Any) -> Any:
        inner = (x * weight).exp()
        return inner * factor + y, inner.sum()

    for reentrant in (True, False):
        x, y = log.tensor([1.0, 2.0]), log.tensor([3.0, 4.0])
        run = of(log).checkpoint
        first, second = run(function, x * 1, 2.0, y, use_reentrant=reentrant)
        (first.sum() * second).backward()
        log.add(first, second, x.grad, y.grad, weight.grad)
        weight.grad = None


def recorded(log: Log) -> None:
    autograd, run = log.library.autograd, of(log).checkpoint
    weight = log.tensor([0.5, -1.0])

    def inner(x: Any) -> Any:
        return (x * weight).sin()

    def outer(x: Any, *, scale: float) -> Any:
        return {"y": run(inner, x * scale, use_reentrant=False).exp()}

    x = log.tensor([1.0, 2.0])
    y = run(outer, x, use_reentrant=False, scale=2.0)["y"]
    (first,) = autograd.grad(y.sum(), x, create_graph=True)
    log.add(first, autograd.grad(first.sum(), [x, weight]))
    with log.library.no_grad():
        log.add(run(inner, x, use_reentrant=False).requires_grad)


def in_a_row(log: Log) -> None:
    functions = [lambda x, k=k: x * k + x.sin() for k in range(1, 6)]
    for reentrant in (True, False):
        x = log.tensor([1.0, 2.0])
        run = of(log).checkpoint_sequential
        run(functions, 2, x, use_reentrant=reentrant).sum().backward()
        log.add([round(each, 4) for each in x.grad.tolist()])


@pytest.mark.parametrize("program", [both_forms, recorded, in_a_row])
def test_gradients_are_those_of_torch(program: Callable[[Log], None]) -> None:
    wanted, found = Log(__import__("torch"), "cpu"), Log(fw, "cpu")
    program(wanted)
    program(found)
    for own, other in zip(found.entries, wanted.entries, strict=True):
        # Second derivatives are sums that nearly cancel.
        np.testing.assert_allclose(_flat(own), _flat(other), rtol=1e-5, atol=2e-6)


def _flat(value: Any) -> list[float]:
    if isinstance(value, list | tuple):
        return [each for part in value for each in _flat(part)]
    return [float(value)]


def refusals(log: Log) -> None:
    run, x = of(log).checkpoint, log.tensor([1.0, 2.0])
    log.refused(lambda: run(lambda x, k: x * k, x, k=2, use_reentrant=True))
    y = run(lambda x: x * x, x, use_reentrant=True).sum()
    log.refused(lambda: log.library.autograd.grad(y, x))


def test_refusals_are_those_of_torch() -> None:
    assert_logs_agree(refusals)


def test_an_argument_changed_in_place_is_refused() -> None:
    x = fw.tensor([1.0], requires_grad=True) * 1
    y = checkpoint(lambda x: x.exp(), x, use_reentrant=False)
    x.add_(1)
    with pytest.raises(GradError, match="changed in place"):
        y.backward()


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("jitted", [False, True])
def test_draws_are_repeated(reentrant: bool, jitted: bool, place: Device) -> None:
    x = fw.ones(64, device=place, requires_grad=True)

    def function(x: fw.Tensor) -> fw.Tensor:
        return nn.functional.dropout(x * x, 0.5) * fw.rand_like(x)

    def step() -> tuple[fw.Tensor, fw.Tensor]:
        x.grad = None
        y = checkpoint(function, x, use_reentrant=reentrant)
        y.sum().backward()
        return y * 1, x.grad * 1

    run = fw.jit(step) if jitted else step
    seen = []
    for _ in range(3):
        y, grad = run()
        # The function is quadratic: its gradient at one is twice its value.
        np.testing.assert_allclose(grad.numpy(), 2 * y.detach().numpy(), rtol=1e-6)
        seen.append(y.tolist())
    assert seen[0] != seen[1] != seen[2]


def test_nothing_is_saved_until_backward(place: Device) -> None:
    x = fw.ones(3, device=place, requires_grad=True)
    calls = []

    def function(x: fw.Tensor) -> fw.Tensor:
        calls.append(1)
        return x.exp().sin().exp()

    y = checkpoint(function, x, use_reentrant=False)
    nodes = [y.grad_fn]
    while nodes[-1].next_functions[0][0].next_functions:
        nodes.append(nodes[-1].next_functions[0][0])
    assert [type(each.saved).__name__ for each in nodes] == ["_LazySaved"] * 3
    y.sum().backward()
    assert len(calls) == 2


def test_the_second_run_has_the_autocast_mode_of_the_first() -> None:
    x = fw.ones((2, 2), requires_grad=True)
    modes = []

    def function(x: fw.Tensor) -> fw.Tensor:
        modes.append((x @ x).dtype.name)
        return x @ x

    with fw.autocast(fw.bfloat16):
        y = checkpoint(function, x, use_reentrant=False)
    y.float().sum().backward()
    assert modes == ["bfloat16"] * 2


def test_a_row_of_modules_is_checkpointed() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2), nn.Tanh())
    x = fw.rand(5, 3)
    checkpoint_sequential(model, 2, x, use_reentrant=False).sum().backward()
    found = [each.grad.numpy() for each in model.parameters()]
    model.zero_grad()
    model(x).sum().backward()
    for grad, each in zip(found, model.parameters()):
        np.testing.assert_allclose(grad, each.grad.numpy(), rtol=1e-6)


def test_the_error_of_another_second_run_names_the_op() -> None:
    x = fw.ones(2, requires_grad=True)
    ops = iter([fw.exp, fw.sin])
    y = checkpoint(lambda x: next(ops)(x), x, use_reentrant=False)
    with pytest.raises(CheckpointError, match="recorded sin of"):
        y.sum().backward()


@pytest.mark.usefixtures("_no_collector")
@pytest.mark.parametrize(
    ("jitted", "reentrant"), [(False, False), (True, False), (False, True)]
)
def test_second_runs_come_one_after_the_other(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch, jitted: bool, reentrant: bool
) -> None:
    """Also where all of a pass is one plan, which runs what it can at once."""
    statistics = gpu.gpu.pool.counts
    weight = fw.ones((16, 2048), device=gpu)
    x = fw.ones((128, 16), device=gpu, requires_grad=True)
    size = 4 * 128 * 2048

    def layer(x: fw.Tensor) -> fw.Tensor:
        return (x @ weight).tanh().sin() @ weight.mT

    def work(x: fw.Tensor) -> fw.Tensor:
        hidden = x
        for _ in range(8):
            hidden = hidden + checkpoint(layer, hidden, use_reentrant=reentrant)
        if reentrant:
            x.grad = None
            hidden.sum().backward()
            assert x.grad is not None
            return x.grad
        return fw.autograd.grad(hidden.sum(), [x])[0]

    run = fw.jit(work) if jitted else work
    fw.eval(x, weight)
    before = statistics.in_use
    monkeypatch.setattr(statistics, "peak_in_use", before)
    fw.eval(run(x))
    # Of all layers at once it would be 36 sizes; a GPU's products take scratch memory.
    assert statistics.peak_in_use - before < 6 * size
