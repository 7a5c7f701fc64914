"""Optimizers whose learning rates schedulers change."""

from typing import Any

import torch

import vkbackend.framework as fw
from vkbackend.framework import optim

EPOCHS = 25


def optimizer() -> optim.SGD:
    groups: list[dict[str, Any]] = [
        {"params": [fw.ones(1, requires_grad=True)]},
        {"params": [fw.ones(1, requires_grad=True)], "lr": 0.5},
    ]
    return optim.SGD(groups, lr=0.1, momentum=0.9)


def torch_optimizer() -> torch.optim.SGD:
    groups = [{"params": [torch.ones(1)], "lr": lr} for lr in (0.1, 0.5)]
    return torch.optim.SGD(groups, momentum=0.9)
