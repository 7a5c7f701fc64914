"""Twenty steps of one of our optimizers beside PyTorch's, on the same gradients."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework import optim
from vkbackend.framework.base.device import Device

STEPS = 20
SHAPES = ((3, 7), (11,), ())


def compare(
    ours: Callable[..., optim.Optimizer],
    theirs: Callable[..., torch.optim.Optimizer],
    options: dict[str, Any],
    place: Device,
    rng: np.random.Generator,
) -> optim.Optimizer:
    """Check the parameters after each step; return our optimizer."""
    arrays = [rng.normal(size=shape).astype(np.float32) for shape in SHAPES]
    mine = [fw.tensor(array, device=place, requires_grad=True) for array in arrays]
    other = [torch.tensor(array, requires_grad=True) for array in arrays]
    found, expected = ours(mine, **options), theirs(other, **options)
    for step in range(STEPS):
        for x, y in zip(mine, other):
            grad = np.asarray(rng.normal(size=x.shape), np.float32)
            # A parameter without a gradient is left alone.
            skipped = step == 5 and x.ndim == 1
            x.grad = None if skipped else fw.tensor(grad, device=place)
            y.grad = None if skipped else torch.tensor(grad)
        found.step()
        expected.step()
    for x, y in zip(mine, other):
        assert_close(x, y.detach().numpy(), scale=2)
    return found
