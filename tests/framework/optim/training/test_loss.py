"""Accumulated losses: weighted by the samples of each batch."""

import pytest

import vkbackend.framework as fw
from vkbackend.framework import nn
from vkbackend.framework.optim.training.loss import AccumulatedLoss, BatchLoss


def test_batches_weigh_as_their_samples() -> None:
    loss = BatchLoss(nn.Identity(), nn.functional.mse_loss)
    batches = [
        (fw.zeros(3), fw.full((3,), 2.0)),
        (fw.zeros(1), fw.full((1,), 4.0)),
    ]
    assert loss(*batches[0]).item() == 4.0
    whole = AccumulatedLoss(loss)
    assert [each.item() for each in whole.losses(*batches)] == [3.0, 4.0]
    assert whole(*batches).item() == pytest.approx(7.0)
