"""Losses as layers."""

from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework import nn
from vkbackend.framework.device import Device


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"reduction": "sum", "label_smoothing": 0.1},
        {"reduction": "none", "ignore_index": 2},
    ],
)
def test_cross_entropy(
    options: dict[str, Any], place: Device, rng: np.random.Generator
) -> None:
    logits = rng.normal(size=(11, 5)).astype(np.float32)
    labels = rng.integers(0, 5, 11).astype(np.int32)
    expected_x = torch.tensor(logits, requires_grad=True)
    found_x = fw.tensor(logits, device=place, requires_grad=True)
    expected = torch.nn.CrossEntropyLoss(**options)(
        expected_x, torch.tensor(labels.astype(np.int64))
    )
    found = nn.CrossEntropyLoss(**options)(found_x, fw.tensor(labels, device=place))
    assert_close(found, expected.detach().numpy())
    expected.sum().backward()
    found.sum().backward()
    assert expected_x.grad is not None
    assert_close(found_x.grad, expected_x.grad.numpy())
