"""Weight and spectral norm as parametrizations, beside PyTorch's."""

from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework import nn

LAYERS: dict[str, Any] = {
    "linear": (lambda n: n.Linear(3, 2), (4, 3)),
    "conv": (lambda n: n.Conv1d(3, 2, 3), (4, 3, 5)),
    "transposed": (lambda n: n.ConvTranspose1d(3, 2, 3), (4, 3, 5)),
}


@pytest.mark.parametrize("kind", ["weight_norm", "spectral_norm"])
@pytest.mark.parametrize("layer", LAYERS)
def test_are_pytorchs(kind: str, layer: str, rng: np.random.Generator) -> None:
    make, shape = LAYERS[layer]
    theirs = getattr(torch.nn.utils.parametrizations, kind)(make(torch.nn))
    ours = getattr(nn.utils.parametrizations, kind)(make(nn))
    assert [*ours.state_dict()] == [*theirs.state_dict()]
    ours.load_state_dict(theirs.state_dict())
    x = rng.normal(size=shape).astype("f4")
    for _ in range(2):
        found, expected = ours(fw.tensor(x)), theirs(torch.tensor(x))
        assert_close(found, expected.detach().numpy(), scale=20)
        found.sum().backward()
        expected.sum().backward()
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert_close(mine.grad, other.grad.numpy(), scale=100)
    for name, value in theirs.state_dict().items():
        assert_close(ours.state_dict()[name], value.numpy(), scale=20)
