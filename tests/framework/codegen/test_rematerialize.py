"""What kernels compute again: fewer bytes, the same results, and when they do not."""

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework import nn, optim
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.codegen.rematerialize import (
    MAX_REMATERIALISED,
    Operation,
    Read,
    is_cheap,
    rematerialised,
)
from vkbackend.framework.scheduler.scheduler import unfused

SHAPE = (4, 5)
SIZE = 80


def step(
    *reads: int, cheap: bool = True, external: bool = False, in_order: bool = True
) -> Operation:
    return Operation(
        SHAPE, cheap, SIZE, external, tuple(Read(r, SIZE, in_order) for r in reads)
    )


def kernel(*reads: int, product: bool = False) -> Operation:
    given = tuple(Read(r, SIZE, True) for r in reads)
    return Operation(None, False, SIZE, False, given, product)


def test_a_cheap_value_is_not_kept_for_a_later_kernel() -> None:
    """0 is written and read, or computed from what 3 reads anyway."""
    operations = {
        0: step(-1),
        1: step(0),
        2: kernel(1),
        3: step(0, 2, -1),
        4: kernel(2),
    }
    kernel_groups = [[0, 1], [2], [3], [4]]
    assert rematerialised(operations, kernel_groups) == {3: [0]}


def test_what_it_is_computed_from_may_be_read_besides() -> None:
    """One more read for a write and a read less."""
    operations = {0: step(-1), 1: step(0), 2: kernel(1), 3: step(0, 2), 4: kernel(2)}
    kernel_groups = [[0, 1], [2], [3], [4]]
    assert rematerialised(operations, kernel_groups) == {3: [0]}
    # Two more reads gain nothing.
    operations[0] = step(-1, -2)
    assert rematerialised(operations, kernel_groups) == {}
    # Nor does one, if the value is written anyway.
    operations[0] = step(-1, external=True)
    assert rematerialised(operations, kernel_groups) == {}


def test_chains_are_computed_whole() -> None:
    operations = {0: step(-1), 1: step(0), 2: step(1), 3: kernel(2), 4: step(1, 3, -1)}
    operations[5] = kernel(3)
    assert rematerialised(operations, [[0, 1, 2], [3], [4], [5]]) == {4: [0, 1]}
    operations[0] = step(-1, cheap=False)
    assert rematerialised(operations, [[0, 1, 2], [3], [4], [5]]) == {}


@pytest.mark.parametrize(
    ("made", "read"),
    [
        (step(-1, cheap=False), step(0, 2, -1)),
        (step(-1), step(0, 2, -1, in_order=False)),
        (Operation((4,), True, SIZE, False, (Read(-1, SIZE, True),)), step(0, 2, -1)),
        (kernel(-1), step(0, 2, -1)),
        (step(-1), kernel(0, 2, -1)),
    ],
)
def test_what_is_not_computed_again(made: Operation, read: Operation) -> None:
    operations = {0: made, 1: step(0), 2: kernel(1), 3: read, 4: kernel(2)}
    assert rematerialised(operations, [[0, 1], [2], [3], [4]]) == {}


def test_a_product_keeps_its_epilogue() -> None:
    """Neither a unit that ends a product, nor what only an epilogue reads."""
    operations = {0: step(-1), 1: step(0), 2: kernel(1), 3: step(0, 2, -1)}
    assert rematerialised(operations, [[0, 1], [2], [3]]) == {3: [0]}
    operations[2] = kernel(1, product=True)
    assert rematerialised(operations, [[0, 1], [2], [3]]) == {}
    operations = {0: kernel(-1), 1: step(0), 2: step(1), 3: kernel(2), 4: step(1, 3)}
    operations[5] = kernel(3)
    assert rematerialised(operations, [[0], [1, 2], [3], [4], [5]]) == {}


def test_not_too_much() -> None:
    count = MAX_REMATERIALISED + 1
    operations = {k: step(k - 1) for k in range(count)}
    operations |= {count: step(count - 1), count + 1: kernel(count)}
    operations |= {
        count + 2: step(count - 1, count + 1, -1),
        count + 3: kernel(count + 1),
    }
    kernel_groups = [[*range(count + 1)], [count + 1], [count + 2], [count + 3]]
    assert rematerialised(operations, kernel_groups) == {}


def test_cheap_expressions() -> None:
    assert all(map(is_cheap, ("x + y", "-x", "bool(c) ? x : y", "x < 0 ? 0 : x")))
    assert not any(map(is_cheap, (None, "exp(x)", "x / 6", "bool(sqrt(x)) ? x : y")))


@pytest.mark.core
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_gradients_of_a_chain(dtype: str, gpu: GpuDevice) -> None:
    """The differences of sigmoid's and tanh's slopes are never in memory.

    Devices may join a product and a sum of one kernel into one operation, which rounds
    once: results near 1 then differ in their last places.
    """
    if dtype == "float16" and not gpu.gpu.info.storage_16bit:
        pytest.skip("the device does not store float16")
    data = np.random.default_rng(1).normal(size=(256, 256)).astype(dtype)
    grads = []

    def run() -> None:
        x = fw.tensor(data, device=gpu, requires_grad=True)
        total = (((x * 2).sigmoid() * x).tanh()).sum()
        total.backward()
        grads.append(x.grad)
        fw.eval(x.grad, total)

    report = fw.fusion_report(run)
    kernels = report.schedules[-1].kernels
    assert kernels[-1].again
    assert f"{kernels[-1].again[0]}, computed again" in report.text()
    assert kernels[0].values_written < 4
    with unfused(gpu):
        run()
    fused, apart = (grad.numpy().astype(np.float64) for grad in grads)
    assert np.abs(fused - apart).max() <= 4 * np.finfo(dtype).eps
    x = data.astype(np.float64)
    gate = 1 / (1 + np.exp(-2 * x))
    whole = gate + 2 * x * gate * (1 - gate)
    exact = (1 - np.tanh(gate * x) ** 2) * whole
    assert np.abs(fused - exact).max() <= 8 * np.finfo(dtype).eps


@pytest.mark.core
def test_what_it_is_computed_from_may_change_in_between(gpu: GpuDevice) -> None:
    """Under `jit` too, where what changes in place keeps its memory."""

    def run(jitted: bool) -> list[np.ndarray]:
        rng = np.random.default_rng(0)

        def drawn() -> fw.Tensor:
            data = rng.normal(size=(64, 64)).astype(np.float32)
            return fw.tensor(data, device=gpu)

        moving, weight = drawn(), nn.Parameter(drawn())
        optimizer = optim.SGD([weight], lr=0.1)

        def step(x: fw.Tensor) -> fw.Tensor:
            optimizer.zero_grad()
            scale = moving * 2 + 1
            gate = (scale * weight).sigmoid() * 0.01
            loss = (gate.cumsum(0).sigmoid() * x).sum()
            moving.mul_(0.9)
            moving.add_(x)
            loss.backward()
            optimizer.step()
            return loss.detach()

        called = fw.jit(step) if jitted else step
        losses = [called(drawn()) for _ in range(4)]
        report = fw.fusion_report(step, drawn())
        if not jitted:
            kernels = [each for row in report.schedules for each in row.kernels]
            assert any(each.again for each in kernels)
        return [each.detach().numpy() for each in (*losses, moving, weight)]

    with unfused(gpu):
        expected = run(True)
    for found in (run(False), run(True)):
        for one, other in zip(found, expected):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
