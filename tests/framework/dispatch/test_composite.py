"""Ops written with other ops, whose calls are asked for again."""

from typing import Any

import numpy as np
import pytest
import torch

import vkbackend
import vkbackend.framework as fw
from vkbackend.framework import ops
from vkbackend.framework.dispatch.composite import Composite
from vkbackend.framework.dispatch.declare import composite
from vkbackend.framework.dispatch.op import REGISTRY
from vkbackend.framework.eager.node_recorder import RecordedCall


@pytest.fixture
def place(device: vkbackend.Device) -> Any:
    return fw.device(device.name)


@pytest.fixture
def linear() -> Any:
    """Return the op behind `linear`, which knows no call."""
    op = REGISTRY["linear"]
    assert isinstance(op, Composite)
    op.call_cache.clear()
    return op


def recorded_calls(op: Any) -> list[Any]:
    return [
        each
        for known in op.call_cache.values()
        for each in known.recorded_calls.values()
    ]


def given(place: Any, rng: np.random.Generator, *shape: int) -> tuple[Any, Any]:
    array = rng.normal(size=shape).astype(np.float32)
    return (
        fw.tensor(array, device=place, requires_grad=True),
        torch.tensor(array, requires_grad=True),
    )


def test_calls_on_other_values(place: Any, linear: Any) -> None:
    rng = np.random.default_rng(0)
    for turn in range(5):
        x, peer = given(place, rng, 3, 8)
        weight, peer_weight = given(place, rng, 4, 8)
        out = ops.linear(x, weight).tanh()
        expected = torch.nn.functional.linear(peer, peer_weight).tanh()
        np.testing.assert_allclose(
            out.detach().numpy(), expected.detach().numpy(), rtol=1e-5, atol=1e-6
        )
        out.sum().backward()
        expected.sum().backward()
        for mine, theirs in ((x, peer), (weight, peer_weight)):
            np.testing.assert_allclose(
                mine.grad.numpy(), theirs.grad.numpy(), rtol=1e-5, atol=1e-5
            )
        assert len(recorded_calls(linear)) == (turn >= 1)
    (recorded_call,) = recorded_calls(linear)
    assert isinstance(recorded_call, RecordedCall)


def test_tensors_that_share_elements(place: Any, linear: Any) -> None:
    rng = np.random.default_rng(1)
    for turn in range(8):
        x, _ = given(place, rng, 8, 8)
        y, _ = given(place, rng, 8, 8)
        pair = (x, x) if turn % 4 < 2 else (x, y)
        expected = pair[0].detach().numpy() @ pair[1].detach().numpy().T
        found = ops.linear(*pair).detach().numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_another_choice_of_kernels_is_found(place: Any, linear: Any) -> None:
    rng = np.random.default_rng(2)
    x, _ = given(place, rng, 8, 8)
    for _ in range(3):
        ops.linear(x, x.detach().exp())
    (recorded_call,) = recorded_calls(linear)
    before = fw.get_float32_matmul_precision()
    try:
        fw.set_float32_matmul_precision("high")
        for _ in range(2):
            ops.linear(x, x.detach().exp())
        (other,) = recorded_calls(linear)
        assert other is not recorded_call
    finally:
        fw.set_float32_matmul_precision(before)


def test_draws_are_others_each_time(place: Any) -> None:
    x = fw.ones(64, device=place)
    found = [fw.nn.functional.dropout(x, 0.5).numpy().tobytes() for _ in range(6)]
    assert len(set(found)) == 6


def test_a_function_of_the_users_runs_each_time(place: Any) -> None:
    times = []

    @composite(dtypes=(fw.float32,))
    def noted(x: "fw.Tensor") -> "fw.Tensor":
        """Add how often it ran."""
        times.append(1)
        return x + float(len(times))

    try:
        x = fw.zeros(2, device=place)
        found = [noted(x).tolist() for _ in range(5)]
    finally:
        del REGISTRY["noted"]
    assert found == [[k, k] for k in (1.0, 2.0, 3.0, 4.0, 5.0)]


def test_a_trace_hears_what_is_asked_for(place: Any, linear: Any) -> None:
    rng = np.random.default_rng(3)
    weight, _ = given(place, rng, 4, 8)
    x, _ = given(place, rng, 3, 8)
    for _ in range(3):
        expected = ops.linear(x.detach(), weight.detach()).numpy()
    replayed = fw.jit(lambda x: ops.linear(x, weight.detach()))
    for _ in range(3):
        found = replayed(x.detach()).numpy()
        assert (found == expected).all()
    assert replayed.replays == 2
