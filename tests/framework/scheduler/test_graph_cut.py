"""A loop of another length has no new kernels, also where its graph is cut."""

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework import nn
from vkbackend.framework.base.device import MAX_PENDING, GpuDevice
from vkbackend.framework.scheduler.graph_cut import cut_by_content

BATCH, INPUTS, HIDDEN = 3, 5, 8
WARM = (20, 23, 30, 37)
QUICK = (24, 40, 33, 22)

Loss = Callable[[fw.Tensor], fw.Tensor]
Program = Callable[[GpuDevice], tuple[list[nn.Parameter], Loss]]


def cell_by_hand(gpu: GpuDevice) -> tuple[list[nn.Parameter], Loss]:
    weights = [
        nn.Parameter(fw.randn(size, 4 * HIDDEN, device=gpu) * 0.3)
        for size in (INPUTS, HIDDEN)
    ]
    bias = nn.Parameter(fw.zeros(4 * HIDDEN, device=gpu))

    def loss(x: fw.Tensor) -> fw.Tensor:
        hidden = state = fw.zeros(BATCH, HIDDEN, device=gpu)
        for step in range(len(x)):
            gates = x[step] @ weights[0] + hidden @ weights[1] + bias
            into, keep, new, out = gates.chunk(4, 1)
            state = keep.sigmoid() * state + into.sigmoid() * new.tanh()
            hidden = out.sigmoid() * state.tanh()
        return (hidden * hidden).sum()

    return [*weights, bias], loss


def lstm(gpu: GpuDevice) -> tuple[list[nn.Parameter], Loss]:
    layer = nn.LSTM(INPUTS, HIDDEN).to(gpu)

    def loss(x: fw.Tensor) -> fw.Tensor:
        return layer(x)[0].square().sum()

    return list(layer.parameters()), loss


def sum_of_losses(gpu: GpuDevice) -> tuple[list[nn.Parameter], Loss]:
    layer = nn.Linear(INPUTS, HIDDEN).to(gpu)

    def loss(x: fw.Tensor) -> fw.Tensor:
        total = fw.zeros((), device=gpu)
        for step in x:
            total = total + layer(step).square().mean()
        return total

    return list(layer.parameters()), loss


def steps(length: int, device: fw.device) -> fw.Tensor:
    rng = np.random.default_rng(length)
    data = rng.standard_normal((length, BATCH, INPUTS)).astype(np.float32)
    return fw.tensor(data, device=device)


def gradients(parameters: list[nn.Parameter], loss: Loss, length: int) -> list:
    for each in parameters:
        each.grad = None
    loss(steps(length, parameters[0].device)).backward()
    return [each.grad.numpy() for each in parameters]


def compiles_nothing(
    gpu: GpuDevice, program: Program, lengths: tuple[int, ...], jitted: bool = False
) -> None:
    fw.manual_seed(0)
    parameters, loss = program(gpu)

    @fw.jit(max_traces=3)
    def step(x: fw.Tensor) -> tuple[fw.Tensor, ...]:
        return fw.autograd.grad(loss(x), parameters)

    def run(length: int) -> None:
        if jitted:
            [each.numpy() for each in step(steps(length, gpu))]
        else:
            gradients(parameters, loss, length)

    for length in WARM:
        for _ in range(2):
            run(length)
    counters = gpu.gpu.counters
    before = counters.snapshot()
    for length in lengths:
        run(length)
    change = counters.snapshot() - before
    assert (change.shader_compiles, change.pipeline_builds) == (0, 0)


@pytest.mark.usefixtures("long_graphs")
@pytest.mark.parametrize("program", [cell_by_hand, lstm, sum_of_losses])
def test_other_lengths_compile_nothing(gpu: GpuDevice, program: Program) -> None:
    compiles_nothing(gpu, program, QUICK)


@pytest.mark.wide
@pytest.mark.parametrize("program", [cell_by_hand, lstm, sum_of_losses])
def test_traces_of_other_lengths_compile_nothing(
    gpu: GpuDevice, program: Program
) -> None:
    if gpu.gpu.info.target.hides_latency:
        pytest.skip("an NVIDIA H200 has other kernels for some lengths, too")
    compiles_nothing(gpu, program, QUICK, jitted=True)


@pytest.mark.wide
@pytest.mark.usefixtures("long_graphs")
@pytest.mark.parametrize("program", [cell_by_hand, lstm, sum_of_losses])
def test_no_length_compiles(gpu: GpuDevice, program: Program) -> None:
    lengths = [*range(20, 41)]
    random.Random(1).shuffle(lengths)
    compiles_nothing(gpu, program, tuple(lengths))


def test_gradients_do_not_depend_on_the_device(gpu: GpuDevice) -> None:
    """Also where the graph is cut, and the sums are divided."""
    cpu = fw.device("cpu")
    for length in (9, 31):
        found = []
        for device in (gpu, cpu):
            fw.manual_seed(0)
            layer = nn.LSTMCell(INPUTS, HIDDEN).to(cpu).to(device)

            def loss(x: fw.Tensor, layer: nn.LSTMCell = layer) -> fw.Tensor:
                state = None
                for step in range(len(x)):
                    state = layer(x[step], state)
                return state[0].square().sum()

            found.append(gradients(list(layer.parameters()), loss, length))
        for ours, theirs in zip(*found):
            assert_close(ours, theirs, scale=100)


def test_a_loop_is_cut_before_its_step(gpu: GpuDevice) -> None:
    x = fw.ones(4, 4, device=gpu)
    fw.eval(x)
    kept = []
    for extra in range(7):
        y = x + extra
        for _ in range(MAX_PENDING // 3):
            y = (y @ x).tanh() * 0.5
        kept.append(gpu.pending[0].op.name)
        fw.eval(y)
    assert len(set(kept)) == 1


def begins_early(gpu: GpuDevice, patch: pytest.MonkeyPatch, first: int) -> None:
    """Let a device get the first nodes as early as one with its own processors."""
    patch.setattr(gpu, "first_submitted", first)
    patch.setattr(gpu, "max_pending", first)


def test_an_idle_device_begins_early(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets a small piece of a long graph first, and then larger ones."""
    begins_early(gpu, monkeypatch, 16)
    x = fw.full((4, 4), 0.25, device=gpu)
    for _ in range(2):
        fw.eval(x)
        y, sizes, submitted = x, [], gpu.gpu.counters.submits
        for step in range(100):
            y = (y @ x) * (2 + step)
            y = y / (1 + step)
            if gpu.gpu.counters.submits > submitted:
                submitted = gpu.gpu.counters.submits
                sizes.append(3 * (step + 1) - sum(sizes) - len(gpu.pending))
        assert len(sizes) == 4
        for size, most in zip(sizes, (16, 32, 64, 128)):
            assert most // 2 - 3 <= size <= most + 3
        expected = np.full((4, 4), 0.25)
        for step in range(100):
            expected = expected * (2 + step) / (1 + step)
        assert_close(y, expected.astype(np.float32), scale=100)


def test_cuts_depend_on_the_content() -> None:
    """Not on what was pending before; also where a step is longer than a piece."""
    signatures = [Mock(**{"op.is_elementwise": k % 3 > 0}) for k in range(150)]
    for k, signature in enumerate(signatures):
        signature.op.name = f"op{k % 7}"
        signature.operands = [SimpleNamespace(shape=(k, 4))]
    step: list[Any] = [SimpleNamespace(signature=each) for each in signatures]

    def cuts(before: int) -> list[int]:
        """Return where in its step each cut is."""
        nodes, found, start = step[len(step) - before :] + step * 9, [], 0
        while len(nodes) - start >= 64:
            start += cut_by_content(nodes[start : start + 64])
            found.append((start - before) % len(step))
        return found

    places = {*cuts(0)[3:]}
    assert len(places) <= 5
    for before in range(1, 64):
        assert {*cuts(before)[3:]} == places
    assert all(not signatures[place].op.is_elementwise for place in places)
