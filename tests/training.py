"""A model in training, with each kind of optimizer, under `jit` or not."""

from collections.abc import Callable
from typing import Any

import numpy as np

import vkbackend.framework as fw
from vkbackend.framework import nn, optim
from vkbackend.framework.base.device import GpuDevice

OPTIMIZERS: dict[str, Callable[[Any], optim.Optimizer]] = {
    "SGD": lambda p: optim.SGD(p, lr=0.1),
    "momentum": lambda p: optim.SGD(p, 0.1, 0.9, 0.5, 0.01),
    "AdamW": lambda p: optim.AdamW(p, lr=1e-2),
    "groups": lambda p: optim.Adam([{"params": [each]} for each in p], 1e-2),
}


def tensor(gpu: GpuDevice, data: Any, **options: Any) -> fw.Tensor:
    return fw.tensor(np.asarray(data, np.float32), device=gpu, **options)


def network(gpu: GpuDevice) -> nn.Module:
    fw.manual_seed(3)
    return nn.Sequential(
        nn.Linear(7, 11),
        nn.BatchNorm1d(11),
        nn.ReLU(),
        nn.Dropout(0.3),
        nn.Linear(11, 3),
    ).to(gpu)


class Training:
    """A model, its optimizer and a step, under `jit` or not."""

    def __init__(self, gpu: GpuDevice, name: str, jitted: bool) -> None:
        self.gpu = gpu
        self.model = network(gpu)
        self.optimizer = OPTIMIZERS[name](list(self.model.parameters()))
        self.step: Any = fw.jit(self._step) if jitted else self._step
        self.rng = np.random.default_rng(5)
        fw.manual_seed(9)

    def _step(self, x: fw.Tensor, y: fw.Tensor) -> fw.Tensor:
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.model(x), y)
        loss.backward()
        optim.clip_grad_norm_(self.model.parameters(), 0.5)
        self.optimizer.step()
        return loss

    def batch(self, size: int = 13) -> tuple[fw.Tensor, fw.Tensor]:
        x = tensor(self.gpu, self.rng.normal(size=(size, 7)))
        labels = self.rng.integers(0, 3, size).astype(np.int32)
        return x, fw.tensor(labels, device=self.gpu)

    def state(self) -> list[np.ndarray]:
        moments = [
            value for state in self.optimizer.state.values() for value in state.values()
        ]
        tensors = [*self.model.state_dict().values(), *moments]
        tensors += [each.grad for each in self.model.parameters()]
        return [
            each.numpy() if isinstance(each, fw.Tensor) else np.array(each)
            for each in tensors
        ]


def same(one: Training, other: Training) -> None:
    for x, y in zip(one.state(), other.state(), strict=True):
        np.testing.assert_array_equal(x, y)
