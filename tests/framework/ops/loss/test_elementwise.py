"""Losses of one element each, against PyTorch."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its own documentation's name

import vkbackend.framework as fw
from tests.compare import assert_close
from tests.framework.ops.twin import as_in_torch, draw
from vkbackend.framework import ops

Make = Callable[..., fw.Tensor]
REDUCTIONS = ("mean", "sum", "none")
PLAIN: dict[str, dict[str, Any]] = {
    "mse_loss": {},
    "l1_loss": {},
    "smooth_l1_loss": {"beta": 0.5},
    "huber_loss": {"delta": 0.5},
}


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("name", PLAIN)
def test_distances(name: str, reduction: str, make: Make) -> None:
    options = {**PLAIN[name], "reduction": reduction}
    call, twin = getattr(ops, name), getattr(F, name)
    as_in_torch(make, call, twin, (7, 11), (7, 11), **options)


def test_distances_broadcast(make: Make) -> None:
    def twin(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.mse_loss(x, target.expand(7, 3))

    as_in_torch(make, ops.mse_loss, twin, (7, 3), (3,))


def test_smooth_l1_without_a_curve(make: Make) -> None:
    as_in_torch(make, ops.smooth_l1_loss, F.smooth_l1_loss, (7,), (7,), beta=0.0)


def probabilities(*shape: int, seed: int) -> np.ndarray:
    return (draw(*shape, seed=seed) * np.float32(0.45) + np.float32(0.5)).astype(
        np.float32
    )


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_binary_cross_entropy(reduction: str, make: Make) -> None:
    target, weight = probabilities(7, 3, seed=1), probabilities(3, seed=2)
    half = 0.5

    def call(x: fw.Tensor) -> fw.Tensor:
        return ops.binary_cross_entropy(
            x * 0.45 + half, make(target), make(weight), reduction=reduction
        )

    def twin(x: torch.Tensor) -> torch.Tensor:
        return F.binary_cross_entropy(
            x * 0.45 + half,
            torch.from_numpy(target).double(),
            torch.from_numpy(weight).double(),
            reduction=reduction,
        )

    as_in_torch(make, call, twin, (7, 3))


def test_binary_cross_entropy_at_the_ends(make: Make) -> None:
    data = np.array([0, 0, 1, 1, 0.5], np.float32)
    target = np.array([0, 1, 0, 1, 0.5], np.float32)
    x, twin = make(data, grad=True), torch.from_numpy(data).requires_grad_()
    losses = ops.binary_cross_entropy(x, make(target), reduction="none")
    wanted = F.binary_cross_entropy(twin, torch.from_numpy(target), reduction="none")
    assert_close(losses, wanted.detach().numpy())
    losses.sum().backward()
    wanted.sum().backward()
    assert twin.grad is not None
    assert_close(x.grad, twin.grad.numpy())


def test_binary_cross_entropy_of_the_least_gradient(make: Make) -> None:
    """The mean of 16 Mi elements in float16 has a gradient of one step, 2^-24."""
    data, target = (probabilities(64, seed=seed).astype(np.float16) for seed in (0, 1))
    step = np.float16(2.0**-24)
    x = make(data, grad=True)
    losses = ops.binary_cross_entropy(x, make(target), reduction="none")
    losses.backward(make(np.full(64, step, np.float16)))
    twin = torch.from_numpy(data).double().requires_grad_()
    wanted = F.binary_cross_entropy(
        twin, torch.from_numpy(target).double(), reduction="sum"
    )
    wanted.backward()
    assert x.grad is not None
    assert twin.grad is not None
    found = x.grad.numpy().astype(np.float64) / float(step)
    # Half a step, and what rounding before costs.
    np.testing.assert_allclose(found, twin.grad.numpy(), rtol=4e-3, atol=0.5)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("weighted", [False, True])
def test_binary_cross_entropy_with_logits(
    weighted: bool, reduction: str, make: Make
) -> None:
    target = probabilities(7, 3, seed=1)
    weights = [probabilities(3, seed=2), probabilities(3, seed=3)] if weighted else []
    names = ("weight", "pos_weight")

    def call(x: fw.Tensor) -> fw.Tensor:
        given: Any = dict(zip(names, map(make, weights)))
        return ops.binary_cross_entropy_with_logits(
            x, make(target), reduction=reduction, **given
        )

    def twin(x: torch.Tensor) -> torch.Tensor:
        given: Any = dict(zip(names, (torch.from_numpy(w).double() for w in weights)))
        return F.binary_cross_entropy_with_logits(
            x, torch.from_numpy(target).double(), reduction=reduction, **given
        )

    as_in_torch(make, call, twin, (7, 3))


def test_large_logits_do_not_overflow(make: Make) -> None:
    x, target = make([-1e4, 1e4, -1e4], grad=True), make([0.0, 0.0, 1.0])
    losses = ops.binary_cross_entropy_with_logits(x, target, reduction="none")
    assert_close(losses, np.array([0, 1e4, 1e4], np.float32))
    losses.sum().backward()
    assert_close(x.grad, np.array([0, 1, -1], np.float32))


@pytest.mark.filterwarnings("ignore:reduction")
@pytest.mark.parametrize("reduction", [*REDUCTIONS, "batchmean"])
@pytest.mark.parametrize("log_target", [False, True])
def test_kl_div(log_target: bool, reduction: str, make: Make) -> None:
    target = probabilities(7, 3, seed=1)
    target[0, 0] = 0

    def call(x: fw.Tensor) -> fw.Tensor:
        return ops.kl_div(x, make(target), reduction=reduction, log_target=log_target)

    def twin(x: torch.Tensor) -> torch.Tensor:
        wanted = torch.from_numpy(target).double()
        return F.kl_div(x, wanted, reduction=reduction, log_target=log_target)

    as_in_torch(make, call, twin, (7, 3))


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_margins(reduction: str, make: Make) -> None:
    signs = np.sign(draw(7, seed=5))
    twin_signs = torch.from_numpy(signs).double()

    def call(x: fw.Tensor, y: fw.Tensor) -> fw.Tensor:
        first = ops.hinge_embedding_loss(x, make(signs), reduction=reduction)
        return first + ops.margin_ranking_loss(x, y, make(signs), reduction=reduction)

    def twin(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        first = F.hinge_embedding_loss(x, twin_signs, reduction=reduction)
        return first + F.margin_ranking_loss(x, y, twin_signs, reduction=reduction)

    as_in_torch(make, call, twin, (7,), (7,))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves(dtype: str, make: Make) -> None:
    data, target = draw(7, 3), draw(7, 3, seed=1)
    loss = ops.mse_loss(make(data).to(dtype), make(target).to(dtype))
    assert loss.dtype.name == dtype
    kind = getattr(torch, dtype)
    twins = [torch.from_numpy(each).to(kind) for each in (data, target)]
    assert_close(loss, F.mse_loss(*twins).float().numpy().astype(loss.numpy().dtype))
