"""Layers that cut images into patches and add them up again."""

import numpy as np
import torch

from tests.framework.nn.layers import compare
from vkbackend.framework import nn
from vkbackend.framework.base.device import Device


def test_unfold(place: Device, rng: np.random.Generator) -> None:
    x = rng.normal(size=(2, 3, 5, 7)).astype(np.float32)
    options = {"kernel_size": (2, 3), "padding": 1, "stride": 2}
    compare(nn.Unfold(**options), torch.nn.Unfold(**options), x, place)


def test_fold(place: Device, rng: np.random.Generator) -> None:
    x = rng.normal(size=(2, 12, 20)).astype(np.float32)
    ours, theirs = (lib.Fold((5, 6), 2) for lib in (nn, torch.nn))
    compare(ours, theirs, x, place)
