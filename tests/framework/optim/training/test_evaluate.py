"""Evaluation: means over samples, modes as they were."""

import pytest

import vkbackend.framework as fw
from vkbackend.framework import nn, optim
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.errors import ShapeError


def test_means_over_samples_and_modes(place: Device) -> None:
    model = nn.Sequential(nn.Dropout(0.9), nn.Identity(), nn.Linear(1, 1)).to(place)
    model[1].eval()

    def mean(outputs: fw.Tensor, targets: fw.Tensor) -> fw.Tensor:
        assert not outputs.requires_grad
        assert not model.training
        return targets.float().mean()

    batches = [(fw.ones(3, 1), fw.ones(3)), (fw.ones(1, 1), fw.full((1,), 5.0))]
    assert optim.evaluate(model, batches, [mean]) == {"mean": 2.0}
    assert [each.training for each in model] == [True, False, True]
    with pytest.raises(ValueError, match="no batch"):
        optim.evaluate(model, [], [mean])
    with pytest.raises(ShapeError, match=r"m has shape \(3, 1\)"):
        optim.evaluate(model, batches, {"m": lambda outputs, _: outputs})
    with pytest.raises(TypeError, match="a batch has 1 members"):
        optim.evaluate(model, [fw.ones(3)], [mean])
    assert [each.training for each in model] == [True, False, True]
