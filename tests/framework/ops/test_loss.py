"""Losses of two tensors of one shape, against PyTorch."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its own documentation's name

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework import ops
from vkbackend.framework.errors import ShapeError

Make = Callable[..., fw.Tensor]

LOSSES: dict[str, tuple[Callable[..., Any], Callable[..., Any], dict[str, Any]]] = {
    "mse": (ops.mse_loss, F.mse_loss, {}),
    "l1": (ops.l1_loss, F.l1_loss, {}),
    "smooth_l1": (ops.smooth_l1_loss, F.smooth_l1_loss, {"beta": 0.5}),
    "huber": (ops.huber_loss, F.huber_loss, {"delta": 0.3}),
    "bce": (ops.binary_cross_entropy, F.binary_cross_entropy, {}),
    "bce_with_logits": (
        ops.binary_cross_entropy_with_logits,
        F.binary_cross_entropy_with_logits,
        {},
    ),
    "kl_div": (ops.kl_div, F.kl_div, {}),
    "kl_div_log": (ops.kl_div, F.kl_div, {"log_target": True}),
}


@pytest.mark.filterwarnings("ignore:reduction:UserWarning")  # torch on kl_div's mean
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name", LOSSES)
def test_is_as_in_torch(name: str, reduction: str, make: Make) -> None:
    loss, oracle, options = LOSSES[name]
    rng = np.random.default_rng(0)
    x, target = rng.uniform(0.05, 0.95, (2, 7, 11)).astype(np.float32)
    ours = [make(x, grad=True), make(target)]
    theirs = [torch.tensor(x, requires_grad=True), torch.tensor(target)]
    found = loss(*ours, reduction=reduction, **options)
    wanted = oracle(*theirs, reduction=reduction, **options)
    assert_close(found, wanted.detach().numpy(), scale=4)
    found.sum().backward()
    wanted.sum().backward()
    assert_close(ours[0].grad, theirs[0].grad.numpy(), scale=4)


def test_weights_as_in_torch(make: Make) -> None:
    rng = np.random.default_rng(1)
    x, target = rng.uniform(0.05, 0.95, (2, 7, 11)).astype(np.float32)
    weight = rng.uniform(0.5, 2, 11).astype(np.float32)
    found = ops.binary_cross_entropy_with_logits(
        make(x), make(target), make(weight), pos_weight=make(weight)
    )
    wanted = F.binary_cross_entropy_with_logits(
        torch.tensor(x),
        torch.tensor(target),
        torch.tensor(weight),
        pos_weight=torch.tensor(weight),
    )
    assert_close(found, wanted.numpy(), scale=4)


def test_an_unknown_reduction_is_refused(make: Make) -> None:
    x = make(np.ones(3, np.float32))
    with pytest.raises(ShapeError, match="reduction is 'median'"):
        ops.mse_loss(x, x, reduction="median")
