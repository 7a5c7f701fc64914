"""A warm training loop compiles, allocates and plans nothing new."""

from typing import Any

import numpy as np
import pytest

import vkbackend
import vkbackend.framework as fw
from vkbackend.framework import nn, optim

STEPS = 9
WARM = 3
"""The step, counted from one, from which on everything is there."""


@pytest.mark.core
@pytest.mark.parametrize("kind", [optim.SGD, optim.AdamW])
def test_from_the_third_step_on_nothing_is_made_or_read(
    kind: type[optim.SGD | optim.AdamW], device: vkbackend.Device
) -> None:
    place = fw.device(device.name)
    rng = np.random.default_rng(0)
    images = rng.normal(size=(STEPS, 29, 1, 8, 8)).astype(np.float32)
    labels = rng.integers(0, 10, (STEPS, 29)).astype(np.int32)
    model = small_network().to(place)
    options: dict[str, Any] = {"momentum": 0.9} if kind is optim.SGD else {}
    optimizer = kind(model.parameters(), lr=1e-3, **options)
    total = fw.zeros((), device=place)
    dispatches = []
    for step in range(STEPS):
        before = device.counters.snapshot()
        optimizer.zero_grad()
        scores = model(fw.tensor(images[step], device=place))
        loss = nn.functional.cross_entropy(
            scores, fw.tensor(labels[step], device=place)
        )
        loss.backward()
        total = total + loss.detach()
        optimizer.step()
        change = device.counters.snapshot() - before
        dispatches.append(change.dispatches)
        if step + 1 >= WARM:
            assert change.device_allocations == 0
            assert change.pipeline_builds == 0
            assert change.shader_compiles == 0
            assert change.host_reads == 0
            assert change.submits <= 3
    assert len(set(dispatches[WARM - 1 :])) == 1
    assert np.isfinite(total.item())


def small_network() -> nn.Sequential:
    """Return a network with one of each layer that training treats specially."""
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Dropout(0.25),
        nn.Flatten(),
        nn.Linear(64, 10),
    )
