"""Steps of optimizers against PyTorch's own."""

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.errors import GradError
from vkbackend.framework.ops.elementwise import optimizer_step


def test_adam_step_is_pytorchs(place: Device) -> None:
    rng = np.random.default_rng(0)
    value, grad = rng.standard_normal((2, 300)).astype(np.float32)
    wanted = torch.nn.Parameter(torch.tensor(value))
    optimizer = torch.optim.AdamW([wanted], lr=0.1, weight_decay=0.25)
    x, g = fw.tensor(value, device=place), fw.tensor(grad, device=place)
    first = second = fw.zeros_like(x)
    for step in range(1, 4):
        wanted.grad = torch.tensor(grad)
        optimizer.step()
        first = optimizer_step.ema(first, g, 0.1)
        second = optimizer_step.weighted_sum_square(second, g, 0.999, 0.001)
        root_scale = (1 - 0.999**step) ** -0.5
        size = 0.1 / (1 - 0.9**step)
        x = optimizer_step.adam_step(x, first, second, 0.975, root_scale, 1e-8, size)
    assert_close(x, wanted.detach().numpy(), scale=10)


def test_they_are_not_differentiated() -> None:
    x = fw.ones(3, requires_grad=True)
    out = optimizer_step.sgd_step(x, fw.ones(3), 0.5)
    with pytest.raises(GradError, match="sgd_step has no gradient rule"):
        out.sum().backward()
