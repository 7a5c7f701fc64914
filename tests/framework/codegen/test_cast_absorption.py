"""Losses that read 16-bit logits in place of their copy in float32."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from vkbackend.framework import nn
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.codegen import rewrites
from vkbackend.framework.ops.loss import cross_entropy
from vkbackend.framework.scheduler import plan

Step = Callable[[nn.Linear, fw.Tensor, fw.Tensor], list[fw.Tensor]]


@pytest.fixture(params=["apart", "with_gradient"])
def loss(
    request: pytest.FixtureRequest, gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compute the gradient by a kernel of its own, or with the loss."""
    fused = request.param == "with_gradient"
    monkeypatch.setattr(cross_entropy, "is_grad_fused", lambda *_: fused)


def trained(layer: nn.Linear, x: fw.Tensor, labels: fw.Tensor) -> list[fw.Tensor]:
    loss = nn.functional.cross_entropy(layer(x).float(), labels)
    loss.backward()
    return [loss.detach(), *gradients(layer)]


def gradients(layer: nn.Linear) -> list[fw.Tensor]:
    found = [layer.weight.grad, layer.bias.grad]
    return [each for each in found if each is not None]


def found(
    gpu: GpuDevice,
    dtype: str,
    step: Step,
    jitted: bool = False,
    absorbing: bool = True,
) -> tuple[list[np.ndarray], int]:
    """Return what a step makes, and by how many kernels."""
    with pytest.MonkeyPatch.context() as patch:
        if not absorbing:
            patch.setattr(rewrites, "absorb_casts", lambda nodes, external: nodes)
        gpu.plans.clear()
        fw.manual_seed(0)
        layer = nn.Linear(16, 53).to(gpu).to(dtype)
        x = fw.randn(6, 16, device=gpu).to(dtype)
        labels = fw.randint(0, 53, (6,), device=gpu)

        def once() -> list[fw.Tensor]:
            layer.zero_grad()
            return step(layer, x, labels)

        run: Any = fw.jit(once) if jitted else once
        for _ in range(3):
            fw.eval(*run())
        before = gpu.gpu.counters.snapshot()
        results = run()
        fw.eval(*results)
        count = (gpu.gpu.counters.snapshot() - before).dispatches
    gpu.plans.clear()
    return [each.float().numpy() for each in results], count


@pytest.mark.usefixtures("loss")
@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_loss_reads_16_bit_logits(gpu: GpuDevice, dtype: str, jitted: bool) -> None:
    results, count = found(gpu, dtype, trained, jitted)
    wanted, usual = found(gpu, dtype, trained, jitted, absorbing=False)
    for one, other in zip(results, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    assert count < usual


def with_gradient_kept(
    layer: nn.Linear, x: fw.Tensor, labels: fw.Tensor
) -> list[fw.Tensor]:
    logits = layer(x).float()
    logits.retain_grad()
    nn.functional.cross_entropy(logits, labels).backward()
    assert logits.grad is not None
    return [logits.detach(), logits.grad, *gradients(layer)]


def with_another_reader(
    layer: nn.Linear, x: fw.Tensor, labels: fw.Tensor
) -> list[fw.Tensor]:
    logits = layer(x).float()
    loss = nn.functional.cross_entropy(logits, labels) + logits.square().mean()
    loss.backward()
    return [loss.detach(), *gradients(layer)]


def of_given_logits(
    layer: nn.Linear, x: fw.Tensor, labels: fw.Tensor
) -> list[fw.Tensor]:
    logits = layer(x).detach()
    fw.eval(logits)
    return [nn.functional.cross_entropy(logits.float(), labels)]


def of_some_rows(layer: nn.Linear, x: fw.Tensor, labels: fw.Tensor) -> list[fw.Tensor]:
    loss = nn.functional.cross_entropy(layer(x).float()[1:-1], labels[1:-1])
    loss.backward()
    return [loss.detach(), *gradients(layer)]


@pytest.mark.usefixtures("loss")
@pytest.mark.parametrize(
    "step",
    [with_gradient_kept, with_another_reader, of_given_logits, of_some_rows],
)
def test_what_is_read_elsewhere_is_computed(gpu: GpuDevice, step: Step) -> None:
    results, _ = found(gpu, "bfloat16", step)
    wanted, _ = found(gpu, "bfloat16", step, absorbing=False)
    for one, other in zip(results, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


ROWS, CLASSES = 64, 97
IGNORED = 5


class Scaled(NamedTuple):
    """A program that scales its loss: the same with either library's `library`."""

    options: dict[str, Any]
    scale: Callable[[Any], Any]


def halves(loss: Any) -> Any:
    """Return the loss by rows, half of them counted twice, and their mean."""
    return (loss * (loss.detach() > 4).float() + loss).mean()


SCALED = {
    "accumulated": Scaled({}, lambda loss: loss / 3),
    "weighted": Scaled({}, lambda loss: loss * 0.3 + 1),
    "by itself": Scaled({}, lambda loss: loss * loss.detach()),
    "smoothed": Scaled({"label_smoothing": 0.1}, lambda loss: loss * 7),
    "some ignored": Scaled({"ignore_index": IGNORED}, lambda loss: loss * 5),
    "sum": Scaled({"reduction": "sum"}, lambda loss: loss / 1000),
    "mean of rows": Scaled({"reduction": "none"}, lambda loss: loss.mean() * 3),
    "rows weighted": Scaled({"reduction": "none"}, halves),
}


def drawn(dtype: str) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(0)
    x = (4 * torch.randn(ROWS, CLASSES, generator=draw)).to(getattr(torch, dtype))
    return x, torch.randint(0, CLASSES, (ROWS,), generator=draw)


def expected(dtype: str, program: Scaled, factor: float = 1.0) -> np.ndarray:
    """Return PyTorch's gradient by the logits, of its float64 program."""
    x, labels = drawn(dtype)
    twin = x.double().requires_grad_()
    loss = torch.nn.functional.cross_entropy(twin, labels, **program.options)
    (program.scale(loss) * factor).backward()
    assert twin.grad is not None
    return twin.grad.numpy()


def largest_allocation(plans: list[plan.Plan]) -> int:
    """Return the bytes of the largest memory that a kernel of plans asks for."""
    return max(
        size for one in plans for launch in one.launches for _, size in launch.allocate
    )


def run_scaled(
    gpu: GpuDevice, dtype: str, step: Callable[[fw.Tensor, fw.Tensor], fw.Tensor]
) -> tuple[np.ndarray, list[plan.Plan], int]:
    """Return the gradient by logits, the plans of a step, and its dispatches."""
    given, labels = drawn(dtype)
    x = fw.tensor(given.float().numpy() / 2, device=gpu).to(dtype).requires_grad_()
    y = fw.tensor(labels.numpy(), device=gpu)
    fw.eval(x, y)
    gpu.plans.clear()
    before = gpu.gpu.counters.snapshot()
    with plan.built_plans() as plans:
        # As of a layer, the graph makes the logits, and reads their gradient.
        loss = step(x * 2, y)
        loss.backward()
        assert x.grad is not None
        fw.eval(loss.detach(), x.grad)
    count = (gpu.gpu.counters.snapshot() - before).dispatches
    gpu.plans.clear()
    return x.grad.float().numpy() / 2, plans, count


@pytest.mark.usefixtures("loss")
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", SCALED)
def test_a_scaled_loss_reads_16_bit_logits(
    gpu: GpuDevice, name: str, dtype: str
) -> None:
    program = SCALED[name]

    def step(logits: fw.Tensor, labels: fw.Tensor) -> fw.Tensor:
        loss = nn.functional.cross_entropy(logits.float(), labels, **program.options)
        return program.scale(loss)

    grad, plans, _ = run_scaled(gpu, dtype, step)
    # Rounded once: by half a unit, and by the errors of float32 before.
    unit = {"bfloat16": 2.0**-8, "float16": 2.0**-11}[dtype]
    least = {"bfloat16": 1e-9, "float16": 2.0**-24}[dtype]
    np.testing.assert_allclose(
        grad, expected(dtype, program), rtol=1.01 * unit, atol=least
    )
    assert largest_allocation(plans) <= 2 * ROWS * CLASSES


@pytest.mark.usefixtures("loss")
@pytest.mark.parametrize("name", SCALED)
def test_scaling_takes_no_kernel_over_the_logits(gpu: GpuDevice, name: str) -> None:
    program = SCALED[name]

    def loss_of(logits: fw.Tensor, labels: fw.Tensor) -> fw.Tensor:
        loss = nn.functional.cross_entropy
        return loss(logits.float(), labels, **program.options)

    def step(logits: fw.Tensor, labels: fw.Tensor) -> fw.Tensor:
        return program.scale(loss_of(logits, labels))

    _, plans, count = run_scaled(gpu, "bfloat16", step)
    whole = [
        launch.pipeline.name.split()[0]
        for one in plans
        for launch in one.launches
        if any(size >= 2 * ROWS * CLASSES for _, size in launch.allocate)
    ]
    # The logits, their gradient, and what reads it.
    assert whole == ["fused/mul", "loss/cross_entropy_vjp", "fused/mul"]
    if program.options.get("reduction") != "none":
        assert count <= run_scaled(gpu, "bfloat16", loss_of)[2]


@pytest.mark.usefixtures("loss")
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_gradient_scaler_reads_16_bit_logits(gpu: GpuDevice, dtype: str) -> None:
    scaler = fw.amp.GradScaler(init_scale=4096.0)

    def step(logits: fw.Tensor, labels: fw.Tensor) -> fw.Tensor:
        with fw.autocast("gpu", dtype=getattr(fw, dtype)):
            return scaler.scale(nn.functional.cross_entropy(logits, labels))

    grad, plans, _ = run_scaled(gpu, dtype, step)
    unit = {"bfloat16": 2.0**-8, "float16": 2.0**-11}[dtype]
    wanted = expected(dtype, SCALED["accumulated"], 3 * 4096.0)
    np.testing.assert_allclose(grad, wanted, rtol=1.01 * unit, atol=2.0**-24)
    assert largest_allocation(plans) <= 2 * ROWS * CLASSES


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_losses_of_two_heads_read_16_bit_logits(
    registers: GpuDevice, dtype: str
) -> None:
    def step(logits: fw.Tensor, labels: fw.Tensor) -> fw.Tensor:
        first, second = logits[:32].contiguous(), logits[32:].contiguous()
        loss = nn.functional.cross_entropy
        one = loss(first.float(), labels[:32])
        return one + 0.3 * loss(second.float(), labels[32:], label_smoothing=0.1)

    grad, plans, _ = run_scaled(registers, dtype, step)
    x, labels = drawn(dtype)
    twin = x.double().requires_grad_()
    loss = torch.nn.functional.cross_entropy
    whole = loss(twin[:32], labels[:32])
    whole = whole + 0.3 * loss(twin[32:], labels[32:], label_smoothing=0.1)
    whole.backward()
    assert twin.grad is not None
    unit = {"bfloat16": 2.0**-8, "float16": 2.0**-11}[dtype]
    np.testing.assert_allclose(grad, twin.grad.numpy(), rtol=1.01 * unit, atol=2.0**-24)
    assert largest_allocation(plans) <= 2 * ROWS * CLASSES
