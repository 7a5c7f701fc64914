"""The weight norm of a module's weight, beside PyTorch's."""

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework import nn


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_is_pytorchs(rng: np.random.Generator) -> None:
    theirs = torch.nn.utils.weight_norm(torch.nn.Linear(3, 2))
    ours = nn.utils.weight_norm(nn.Linear(3, 2))
    assert [*ours.state_dict()] == [*theirs.state_dict()]
    ours.load_state_dict(theirs.state_dict())
    x = rng.normal(size=(4, 3)).astype("f4")
    for _ in range(2):
        found, expected = ours(fw.tensor(x)), theirs(torch.tensor(x))
        assert_close(found, expected.detach().numpy(), scale=20)
        found.sum().backward()
        expected.sum().backward()
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert other.grad is not None
        assert_close(mine.grad, other.grad.numpy(), scale=100)
    with pytest.raises(RuntimeError, match="is normalised already"):
        nn.utils.weight_norm(ours)
    nn.utils.remove_weight_norm(ours)
    torch.nn.utils.remove_weight_norm(theirs)
    assert sorted(ours.state_dict()) == sorted(theirs.state_dict())
    assert_close(ours.weight, theirs.weight.detach().numpy(), scale=20)
    with pytest.raises(ValueError, match="is not normalised"):
        nn.utils.remove_weight_norm(ours)
