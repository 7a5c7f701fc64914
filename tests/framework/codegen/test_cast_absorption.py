"""Losses that read 16-bit logits in place of their copy in float32."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework import nn
from vkbackend.framework.base.device import GpuDevice
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
            patch.setattr(plan, "absorb_casts", lambda nodes, external: nodes)
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


def scaled(layer: nn.Linear, x: fw.Tensor, labels: fw.Tensor) -> list[fw.Tensor]:
    (nn.functional.cross_entropy(layer(x).float(), labels) * 3).backward()
    return gradients(layer)


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
    [with_gradient_kept, with_another_reader, scaled, of_given_logits, of_some_rows],
)
def test_what_is_read_elsewhere_is_computed(gpu: GpuDevice, step: Step) -> None:
    results, _ = found(gpu, "bfloat16", step)
    wanted, _ = found(gpu, "bfloat16", step, absorbing=False)
    for one, other in zip(results, wanted, strict=True):
        np.testing.assert_array_equal(one, other)
