"""Functions as programs write them, jitted: the bits of the same calls without jit."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vkbackend
import vkbackend.framework as fw
from vkbackend.framework import autograd, nn, optim

pytestmark = pytest.mark.wide

Made = tuple[Callable[[fw.Tensor], Any], list[Any]]


class Square(autograd.Function):
    """A function with a gradient of its own."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 2 * x * grad


def hooks(place: Any) -> Made:
    layer: Any = nn.Linear(4, 4).to(place)
    layer.register_forward_hook(lambda module, given, out: out * 2)
    layer.weight.register_hook(lambda grad: grad * 3)

    def run(x: fw.Tensor) -> Any:
        layer.zero_grad()
        layer(x).sum().backward()
        return layer.weight.grad

    return run, [*layer.parameters()]


def checkpoint(place: Any) -> Made:
    model: Any = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).to(place)

    def run(x: fw.Tensor) -> Any:
        model.zero_grad()
        found: Any = fw.utils.checkpoint.checkpoint(model, x, use_reentrant=False)
        found.sum().backward()
        return found

    return run, [*model.parameters()]


def function(place: Any) -> Made:
    w: Any = nn.Parameter(fw.ones(4, device=place))

    @fw.no_grad()
    def decay() -> None:
        w.mul_(0.9)

    def run(x: fw.Tensor) -> Any:
        decay()
        w.grad = None
        y: Any = Square.apply(x * w)
        y.retain_grad()
        y[:, 0] = 0
        y.sum().backward()
        return y.grad

    return run, [w]


def norm(place: Any) -> Made:
    model: Any = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).to(place)
    optimizer = optim.Adam(model.parameters(), 0.1)
    schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)

    def run(x: fw.Tensor) -> Any:
        optimizer.zero_grad()
        loss = model(x).pow(3).mean() + fw.rand_like(x).mean()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        schedule.step()
        return loss

    return run, [*model.parameters(), *model.buffers()]


def target(place: Any) -> Made:
    online: Any = nn.Linear(4, 4).to(place)
    other: Any = nn.Linear(4, 4).to(place)

    def run(x: fw.Tensor) -> Any:
        other.load_state_dict(online.state_dict())
        with fw.no_grad():
            online.weight.add_(0.1)
        return other(x)

    return run, [*online.parameters(), *other.parameters()]


@pytest.mark.parametrize("make", [hooks, checkpoint, function, norm, target])
def test_a_jitted_function_is_the_function(
    make: Callable[[Any], Made], device: vkbackend.Device
) -> None:
    place = fw.device(device.name)
    x = fw.tensor(np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4), device=place)
    rows = []
    for jitted in (False, True):
        fw.manual_seed(3)
        plain, state = make(place)
        run: Any = fw.jit(plain) if jitted else plain
        found = [run(x * (k + 1)).detach().numpy().copy() for k in range(4)]
        rows.append([*found, *[each.detach().numpy() for each in state]])
        assert not jitted or run.replays >= 2
    for eager, replayed in zip(*rows):
        np.testing.assert_array_equal(eager, replayed)
