"""Random state: all generators of a training come back."""

import random

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework import data
from vkbackend.framework.optim.training.random_state import (
    generators_of,
    random_state,
    set_random_state,
)


def test_all_generators_come_back() -> None:
    own = [fw.Generator(seed) for seed in range(3)]
    dataset = data.TensorDataset(fw.zeros(4))
    dataset.generator = own[2]  # type: ignore[attr-defined]
    loaders = [
        data.DataLoader(dataset, 2, True, generator=own[0]),
        data.DataLoader(
            data.Subset(dataset, [1]),
            sampler=data.RandomSampler(dataset, generator=own[1]),
        ),
        None,
    ]
    generators = generators_of(loaders)
    assert generators == [fw.default_generator, own[0], own[2], own[1]]

    def drawn() -> list[object]:
        return [
            *[each.stream() for each in generators],
            *[random.gauss(0, 1), random.random()],
            *[np.random.standard_normal(), np.random.rand()],
        ]

    drawn()
    random.gauss(0, 1)
    state = random_state(generators)
    first = drawn()
    set_random_state(state, generators)
    assert drawn() == first
    other = {**state, "numpy": {**state["numpy"], "bit_generator": "PCG64"}}
    with pytest.raises(ValueError, match="PRNG"):
        set_random_state(other, generators)
    wrong = {**state, "python": (3, np.zeros(3, np.uint32), None)}
    with pytest.raises(ValueError, match="state vector"):
        set_random_state(wrong, generators)
    set_random_state(state, generators)
    assert drawn() == first
