"""Constants beside PyTorch's."""

import math

import torch

import vkbackend.framework as fw


def test_constants() -> None:
    assert (fw.pi, fw.e, fw.inf) == (torch.pi, torch.e, torch.inf)
    assert math.isnan(fw.nan)
    assert fw.zeros(3)[:, fw.newaxis].shape == (3, 1)
