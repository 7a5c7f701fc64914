"""Norms and softmax of few nodes, forward and backward, and of rows that are split."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its own documentation's name

import vkbackend.framework as fw
from tests.compare import assert_close
from tests.framework.ops.twin import draw
from vkbackend.framework import nn
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.nn import functional
from vkbackend.framework.ops.norm.normalized import inverse_deviation

LONG = 70_001
"""Elements that no registers hold, and no vec4 loads fit."""

EVEN = 1 << 16

HELD = 36_000
"""Elements that registers hold, but not those of two operands."""


def ops_of(gpu: GpuDevice) -> Counter[str]:
    """Return how often each op is pending, and submit them."""
    found = Counter(node.op.name for node in gpu.pending)
    fw.eval()
    return found


@pytest.mark.parametrize("kind", ["batch", "group"])
def test_a_layer_is_few_nodes(kind: str, gpu: GpuDevice) -> None:
    layer = nn.BatchNorm2d(6) if kind == "batch" else nn.GroupNorm(3, 6)
    layer.to(gpu)
    x = fw.randn(2, 6, 4, 5, device=gpu, requires_grad=True)
    for _ in range(2):
        fw.eval()
        y = layer(x)
        forward = ops_of(gpu)
        y.backward(fw.ones_like(y))
        backward = ops_of(gpu)
    assert forward["normalized"] == forward["inverse_deviation"] == 1
    assert forward["weighted_sum"] == (2 if kind == "batch" else 0)
    assert sum(forward.values()) <= 7
    assert backward["normalized_vjp"] == backward["batch_norm_sums"] == 1


def test_no_variance_and_no_eps_give_infinity(gpu: GpuDevice) -> None:
    for device in ("cpu", gpu):
        variance = fw.tensor([0.0, 4.0], device=device)
        with np.errstate(divide="ignore"):
            assert inverse_deviation(variance, 0.0).tolist() == [np.inf, 0.5]


def gradients(call: Any, lib: Any, inputs: list[Any], grad: Any) -> list[Any]:
    """Return the result of a call, and the gradients of its inputs."""
    out = call(lib, *inputs)
    out.backward(grad)
    return [out.detach(), *(each.grad for each in inputs)]


CALLS = {
    "softmax": (lambda lib, x: lib.softmax(x, 1), 0),
    "log_softmax": (lambda lib, x: lib.log_softmax(x, 1), 0),
    "layer_norm": (lambda lib, x: lib.layer_norm(x, (x.shape[1],)), 0),
    "layer_norm_affine": (lambda lib, x, w, b: lib.layer_norm(x, w.shape, w, b), 2),
    "layer_norm_weight": (lambda lib, x, w: lib.layer_norm(x, w.shape, w), 1),
    "rms_norm": (lambda lib, x, w: lib.rms_norm(x, w.shape, w, 1e-5), 1),
    "group_norm": (lambda lib, x: lib.group_norm(x.unsqueeze(1), 1).squeeze(1), 0),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("shape", [(2, LONG), (1, 3 * EVEN), (3, HELD)])
def test_long_rows(name: str, shape: tuple[int, int], quads: GpuDevice) -> None:
    call, vectors = CALLS[name]
    arrays = [draw(*shape, seed=1) + 1, draw(shape[1], seed=2), draw(shape[1], seed=3)]
    grad = draw(*shape, seed=4)
    inputs = [
        fw.tensor(each, device=quads, requires_grad=True)
        for each in arrays[: 1 + vectors]
    ]
    twins = [
        torch.from_numpy(each).double().requires_grad_()
        for each in arrays[: 1 + vectors]
    ]
    found = gradients(call, functional, inputs, fw.tensor(grad, device=quads))
    wanted = gradients(call, F, twins, torch.from_numpy(grad).double())
    for ours, theirs in zip(found, wanted):
        assert_close(ours, theirs.numpy().astype(np.float32), scale=8)


@pytest.mark.parametrize("name", ["softmax", "layer_norm"])
def test_half_precision(name: str, quads: GpuDevice) -> None:
    x = (draw(2, EVEN, seed=1) + 1).astype(np.float16)
    call, _ = CALLS[name]
    ours = call(functional, fw.tensor(x, device=quads))
    wanted = call(F, torch.from_numpy(x).float()).half()
    assert ours.dtype is fw.float16
    assert_close(ours, wanted.numpy())


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize("where", [0, 40_000, EVEN - 1])
def test_special_values(name: str, where: int, quads: GpuDevice) -> None:
    """NaN and infinities give what PyTorch gives, wherever in a row they are."""
    x = np.full((5, EVEN), 0.5, np.float32)
    x[:, where] = [np.nan, np.inf, -np.inf, 90, 0]
    x[4] = -np.inf
    wanted = getattr(F, name)(torch.from_numpy(x), 1).numpy()
    ours = getattr(functional, name)(fw.tensor(x, device=quads), 1)
    assert_close(ours, wanted, scale=4)


def test_gradients_of_gradients(quads: GpuDevice) -> None:
    data, grad = draw(1, EVEN, seed=1), draw(1, EVEN, seed=2)
    for name in ("softmax", "log_softmax", "layer_norm"):
        call, _ = CALLS[name]
        found = []
        for lib, make, library in (
            (functional, lambda a: fw.tensor(a, device=quads), fw),
            (F, lambda a: torch.from_numpy(a).double(), torch),
        ):
            x = make(data).requires_grad_()
            (first,) = library.autograd.grad(
                call(lib, x), x, make(grad), create_graph=True
            )
            (second,) = library.autograd.grad((first * first).sum(), x)
            found.append(second)
        wanted = found[1].numpy()
        size = np.abs(wanted).max()
        ours = found[0].numpy() / np.float32(size)
        assert_close(ours, (wanted / size).astype(np.float32), scale=8)


def test_differences_from_a_large_mean_do_not_cancel(quads: GpuDevice) -> None:
    x = (1000 + draw(2, EVEN, seed=1) / 16).astype(np.float32)
    ours = functional.layer_norm(fw.tensor(x, device=quads), (EVEN,), eps=0.0)
    wanted = F.layer_norm(torch.from_numpy(x).double(), (EVEN,), eps=0.0)
    # A mean of 1000 is rounded by 3e-5, half a thousandth of a deviation.
    difference = np.abs(ours.numpy() - wanted.numpy())
    assert difference.max() < 2e-3


def test_running_statistics_are_tracked_as_pytorch_does(gpu: GpuDevice) -> None:
    """Of layers on either device, of statistics in views, and of what saves them."""
    x = draw(3, 4, 5, 2, seed=1)
    for place in ("cpu", gpu):
        for momentum in (0.1, 1, None):
            ours = nn.BatchNorm2d(4, momentum=momentum).to(place)
            twin = torch.nn.BatchNorm2d(4, momentum=momentum)
            for number in range(3):
                given = fw.tensor(x + number, device=place, requires_grad=True)
                out = ours(given)
                twin(torch.from_numpy(x + number))
                assert out.grad_fn.name() == "NativeBatchNormBackward0"
                assert ours.running_mean.grad_fn is None
            assert_close(ours.running_mean, twin.running_mean.numpy(), scale=4)
            assert_close(ours.running_var, twin.running_var.numpy(), scale=4)
        both = fw.zeros(2, 4, device=place)
        version = both[1]._version
        functional.batch_norm(given.detach(), both[0], both[1], training=True)
        assert (both != 0).all()
        assert both[1]._version > version
