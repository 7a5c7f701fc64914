"""A function and its twin in PyTorch: results, gradients, and no host read."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework.base.device import GpuDevice

Make = Callable[..., fw.Tensor]


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    """Return float32 numbers between -1 and 1."""
    rng = np.random.default_rng(seed + len(shape))
    return rng.uniform(-1, 1, shape).astype(np.float32)


def as_in_torch(
    make: Make,
    call: Callable[..., fw.Tensor],
    twin: Callable[..., torch.Tensor],
    *shapes: tuple[int, ...],
    scale: float = 4.0,
    **options: Any,
) -> None:
    """Compare results, and gradients for each argument, in float32.

    PyTorch computes in float64; `scale` is the tolerance's factor, for sums of a few
    dozen terms. The device must not read anything back.
    """
    arrays = [draw(*shape, seed=k) for k, shape in enumerate(shapes)]
    ours = [make(array, grad=True) for array in arrays]
    theirs = [torch.tensor(array, dtype=torch.float64) for array in arrays]
    for each in theirs:
        each.requires_grad_()
    wanted = twin(*theirs, **options)
    weights = draw(*wanted.shape, seed=99)
    wanted.backward(torch.from_numpy(weights).double())
    weight = make(weights)
    reads = host_reads(weight)
    found = call(*ours, **options)
    found.backward(weight)
    fw.eval()
    assert host_reads(weight) == reads
    assert_close(found, wanted.detach().float().numpy(), scale=scale)
    for one, other in zip(ours, theirs):
        assert other.grad is not None
        assert_close(one.grad, other.grad.float().numpy(), scale=scale)


def host_reads(tensor: fw.Tensor) -> int:
    """Return how often the host has read from a tensor's device."""
    if not isinstance(tensor.device, GpuDevice):
        return 0
    return tensor.device.gpu.counters.snapshot().host_reads
