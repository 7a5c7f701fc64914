"""Adaptive softmax beside PyTorch's."""

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework import nn
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.errors import ShapeError

# Classes and positions are int64, as in PyTorch.
pytestmark = pytest.mark.int64


def test_is_as_in_torch(place: Device, rng: np.random.Generator) -> None:
    options = (8, 20, [4, 10], 2.0, True)
    ours = nn.AdaptiveLogSoftmaxWithLoss(*options)
    theirs = torch.nn.AdaptiveLogSoftmaxWithLoss(*options)
    state = {key: fw.tensor(each.numpy()) for key, each in theirs.state_dict().items()}
    ours.load_state_dict(state)
    ours.to(place)
    x = rng.normal(size=(7, 8)).astype(np.float32)
    labels = np.array([0, 3, 4, 9, 10, 19, 5])
    given = fw.tensor(x, device=place), fw.tensor(labels, device=place)
    found, expected = ours(*given), theirs(torch.tensor(x), torch.tensor(labels))
    assert_close(found.output, expected.output.detach().numpy(), scale=4)
    assert_close(found.loss, expected.loss.detach().numpy(), scale=4)
    expected.loss.backward()
    found.loss.backward()
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert other.grad is not None
        assert_close(one.grad, other.grad.numpy(), scale=4)
    every = theirs.log_prob(torch.tensor(x))
    assert_close(ours.log_prob(given[0]), every.detach().numpy(), scale=4)
    best = theirs.predict(torch.tensor(x))
    assert_close(ours.predict(given[0]), best.numpy())
    assert ours(given[0][0], given[1][0]).output.shape == ()


def test_bad_arguments() -> None:
    with pytest.raises(ShapeError, match="cutoffs are"):
        nn.AdaptiveLogSoftmaxWithLoss(8, 20, [10, 4])
    layer = nn.AdaptiveLogSoftmaxWithLoss(8, 20, [4])
    with pytest.raises(ShapeError, match="targets are from 1 to 20"):
        layer(fw.ones((2, 8)), fw.tensor([1, 20]))
    with pytest.raises(ShapeError, match="input is"):
        layer(fw.ones((2, 8)), fw.tensor([1, 2, 3]))
