"""Negative log-likelihood against PyTorch: weights, ignored and bad labels."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its own documentation's name

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework import ops
from vkbackend.framework.errors import ShapeError

Make = Callable[..., fw.Tensor]


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", [(7, 5), (3, 4, 2, 3)])
def test_is_as_in_torch(
    shape: tuple[int, ...], weighted: bool, reduction: str, make: Make
) -> None:
    rng = np.random.default_rng(0)
    data = rng.uniform(-3, 0, shape).astype(np.float32)
    labels = rng.integers(0, shape[1], (shape[0], *shape[2:])).astype(np.int32)
    labels.flat[1] = -100
    weight = rng.uniform(0.5, 2, shape[1]).astype(np.float32) if weighted else None
    x = make(data, grad=True)
    found = ops.nll_loss(
        x,
        make(labels),
        None if weight is None else make(weight),
        reduction=reduction,
    )
    theirs = torch.tensor(data, requires_grad=True)
    wanted = F.nll_loss(
        theirs,
        torch.tensor(labels).long(),
        None if weight is None else torch.tensor(weight),
        reduction=reduction,
    )
    assert_close(found, wanted.detach().numpy())
    found.sum().backward()
    wanted.sum().backward()
    assert_close(x.grad, theirs.grad.numpy())


def test_labels_that_are_no_class(make: Make) -> None:
    x = make(np.zeros((3, 2), np.float32))
    labels = make(np.array([0, 2, -100], np.int32))
    if not x.is_gpu:
        with pytest.raises(ShapeError, match="labels: 2 is out of range"):
            ops.nll_loss(x, labels, reduction="none")
        return
    losses = ops.nll_loss(x, labels, reduction="none")
    assert_close(losses, np.array([0, np.nan, 0], np.float32))
