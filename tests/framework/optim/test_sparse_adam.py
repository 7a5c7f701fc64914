"""Steps with sparse gradients, beside PyTorch."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework.base.device import CPU, Device

BATCHES = [[[1, 2, 2], [0, 1, 5]], [[1, 1, 1], [3, 4, 4]], [[0, 0, 2], [5, 5, 5]]]
WEIGHTS = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)


def steps(m: Any, place: Any, name: str, options: dict[str, Any], run: Callable) -> Any:
    """Return the table after some steps."""
    table = m.nn.Embedding(6, 3, sparse=True).to(place)
    with m.no_grad():
        table.weight.copy_(m.tensor(WEIGHTS))
    optimizer = getattr(m.optim, name)(table.parameters(), lr=0.1, **options)

    def step(index: Any) -> None:
        optimizer.zero_grad()
        (table(index) ** 2).sum().backward()
        optimizer.step()

    called = run(step)
    for batch in BATCHES:
        called(m.tensor(batch, device=place))
    return table


CASES = [
    ("SparseAdam", {"betas": (0.8, 0.9)}),
    ("SparseAdam", {"maximize": True}),
    ("SGD", {}),
    ("SGD", {"momentum": 0.9, "nesterov": True}),
    ("Adagrad", {"lr_decay": 0.1, "initial_accumulator_value": 0.2}),
]


@pytest.mark.parametrize(("name", "options"), CASES)
def test_steps_are_as_in_torch(name: str, options: dict[str, Any]) -> None:
    found = steps(fw, CPU, name, options, lambda step: step)
    wanted = steps(torch, "cpu", name, options, lambda step: step)
    assert_close(found.weight.detach(), wanted.weight.detach().numpy())


@pytest.mark.device
@pytest.mark.parametrize("name", ["SparseAdam", "Adagrad"])
def test_steps_are_replayed(name: str, gpu: Device) -> None:
    found = steps(fw, gpu, name, {}, fw.jit)
    wanted = steps(torch, "cpu", name, {}, lambda step: step)
    assert_close(found.weight.detach(), wanted.weight.detach().numpy())
    grad = found.weight.grad
    assert grad is not None
    assert_close(grad.to_dense(), wanted.weight.grad.to_dense().numpy())


def test_what_does_not_fit_is_refused() -> None:
    dense = fw.nn.Embedding(3, 2)
    dense(fw.tensor([1])).sum().backward()
    with pytest.raises(RuntimeError, match="has a dense gradient; use Adam"):
        fw.optim.SparseAdam(dense.parameters()).step()
    sparse = fw.nn.Embedding(3, 2, sparse=True)
    sparse(fw.tensor([1])).sum().backward()
    for name, options in (
        ("Adam", {}),
        ("SGD", {"weight_decay": 0.1}),
        ("Adagrad", {"weight_decay": 0.1}),
    ):
        with pytest.raises(RuntimeError, match="sparse"):
            getattr(fw.optim, name)(sparse.parameters(), **options).step()
    with pytest.raises(ValueError, match=r"parameter 0 is torch\.sparse_coo"):
        fw.optim.SparseAdam([fw.eye(2).to_sparse()])
