"""Tape entries of calls that are replayed."""

from typing import Any

import numpy as np
import pytest

import vkbackend
import vkbackend.framework as fw
from vkbackend.framework.dispatch.replayable import replayable

functional = fw.nn.functional


@pytest.fixture
def place(device: vkbackend.Device) -> Any:
    return fw.device(device.name)


def ramp(place: Any, start: int) -> Any:
    values = np.arange(start, start + 6, dtype=np.float32) / 4
    return fw.tensor(values, device=place, requires_grad=True)


def function(x: Any, y: Any) -> tuple[Any, Any]:
    inner = (x * y).exp().reshape(2, 3)
    return inner.sum(0), (inner - y.reshape(2, 3)).square()


def results(run: Any, x: Any, y: Any) -> list[Any]:
    """Return outputs, gradients, and gradients of gradients."""
    outputs = run(x, y)
    total = (outputs[0] * 2).sum() + outputs[1].sum()
    grads = fw.autograd.grad(total, [x, y], create_graph=True)
    second = fw.autograd.grad(grads[0].square().sum(), [x, y])
    return [each.tolist() for each in (*outputs, *grads, *second)]


def test_gradients_of_replayed_calls(place: Any) -> None:
    calls = []

    @replayable
    def counted(x: Any, y: Any) -> tuple[Any, Any]:
        calls.append(x)
        return function(x, y)

    for start in range(4):
        x, y = ramp(place, start - 3), ramp(place, 1)
        found, wanted = results(counted, x, y), results(function, x, y)
        for each, expected in zip(found, wanted):
            np.testing.assert_allclose(each, expected, rtol=1e-5)
    assert len(calls) == 2
    # What needs a gradient is another call; a result of an op is none.
    x, y = ramp(place, 1), ramp(place, 2).detach()
    counted(x, y)[0].sum().backward()
    made = ramp(place, 1)
    counted(made * 1.0, ramp(place, 1))[1].sum().backward()
    assert made.grad is not None
    assert len(calls) == 3


def test_a_changed_input_is_told(place: Any) -> None:
    run = replayable(lambda x: (x * x).sum())
    for _ in range(3):
        x = ramp(place, 1)
        with fw.no_grad():
            kept = x.detach()
        out = run(x)
        kept.add_(1.0)
        with pytest.raises(RuntimeError, match="place"):
            out.backward()


def test_saved_tensors_hooks_see_each_call(place: Any) -> None:
    run = replayable(lambda x: (x * x).sum())
    packed: list[Any] = []
    for _ in range(4):
        x = ramp(place, 1)
        with fw.autograd.graph.saved_tensors_hooks(
            lambda each: packed.append(each) or each, lambda each: each
        ):
            run(x).backward()
    assert len(packed) == 8


def test_graphs_show_the_same(place: Any) -> None:
    image = fw.ones((1, 2, 4, 4), device=place, requires_grad=True)
    target = fw.zeros((1, 2, 2, 2), device=place)
    seen = set()
    for _ in range(4):
        out = functional.mse_loss(functional.avg_pool2d(image, 2), target)
        node = out.grad_fn
        inner = node.next_functions[0][0]
        seen.add((node.name(), inner.name(), inner.next_functions[0][0].name()))
    assert seen == {
        ("MseLossBackward0", "AvgPool2DBackward0", "torch::autograd::AccumulateGrad")
    }
