"""Adafactor and Muon."""

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from vkbackend.framework import optim
from vkbackend.framework.base.device import Device


@pytest.mark.parametrize("rule", [None, "match_rms_adamw"])
@pytest.mark.parametrize("shape", [(3, 7), (9, 4)])
def test_muon_is_pytorchs(
    shape: tuple[int, int], rule: str | None, place: Device, rng: np.random.Generator
) -> None:
    array = rng.normal(size=shape).astype(np.float32)
    ours = fw.tensor(array, device=place, requires_grad=True)
    theirs = torch.tensor(array, requires_grad=True)
    found = optim.Muon([ours], adjust_lr_fn=rule)
    expected = torch.optim.Muon([theirs], adjust_lr_fn=rule)
    for _ in range(5):
        grad = rng.normal(size=shape).astype(np.float32)
        ours.grad, theirs.grad = fw.tensor(grad, device=place), torch.tensor(grad)
        found.step()
        expected.step()
    # Each product is rounded where that of PyTorch is.
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), 1e-6)


def test_state_by_rows_and_columns() -> None:
    x, y = fw.ones(2, 3, 5, requires_grad=True), fw.ones(4, requires_grad=True)
    optimizer = optim.Adafactor([x, y])
    x.grad, y.grad = fw.ones(2, 3, 5), fw.ones(4)
    optimizer.step()
    assert optimizer.state[x]["row_var"].shape == (2, 3, 1)
    assert optimizer.state[x]["col_var"].shape == (2, 1, 5)
    assert optimizer.state[y]["variance"].shape == (4,)
    optimizer.load_state_dict(optimizer.state_dict())


def test_bad_options_are_named() -> None:
    with pytest.raises(ValueError, match="it must be a matrix"):
        optim.Muon([fw.ones(3, requires_grad=True)])
    x = fw.ones(2, 2, requires_grad=True)
    with pytest.raises(ValueError, match="adjust_lr_fn is 'x'"):
        optim.Muon([x], adjust_lr_fn="x")
    with pytest.raises(ValueError, match="beta2_decay is 1 and d is"):
        optim.Adafactor([x], beta2_decay=1)
