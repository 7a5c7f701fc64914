"""Orders of samples."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch.utils.data as theirs

import vkbackend.framework as fw
from vkbackend.framework import data
from vkbackend.framework.base.philox import Generator

TEN = range(10)


def test_in_order() -> None:
    sampler = data.SequentialSampler(TEN)
    assert list(sampler) == list(TEN)
    assert len(sampler) == 10


def test_random() -> None:
    sampler = data.RandomSampler(TEN, generator=Generator(1))
    first, second = list(sampler), list(sampler)
    assert sorted(first) == sorted(second) == list(TEN)
    assert first != second
    assert list(data.RandomSampler(TEN, generator=Generator(1))) == first
    longer = list(data.RandomSampler(TEN, num_samples=25))
    assert sorted(longer[:10]) == sorted(longer[10:20]) == list(TEN)
    assert len(longer) == 25
    fw.manual_seed(0)
    drawn = list(data.RandomSampler(TEN, replacement=True, num_samples=200))
    assert set(drawn) == set(TEN)
    with pytest.raises(ValueError, match="num_samples is 0, of 0 samples"):
        data.RandomSampler([])


def test_random_among_indices() -> None:
    sampler = data.SubsetRandomSampler([3, 5, 8], Generator(2))
    assert sorted(sampler) == [3, 5, 8]
    assert len(sampler) == 3


def test_weighted() -> None:
    weights = [1.0, 0.0, 3.0, 0.0]
    drawn = list(data.WeightedRandomSampler(weights, 4000, generator=Generator(0)))
    shares = np.bincount(drawn, minlength=4) / 4000
    np.testing.assert_allclose(shares, [0.25, 0, 0.75, 0], atol=0.03)
    alone = data.WeightedRandomSampler(fw.tensor(weights), 2, replacement=False)
    assert sorted(alone) == [0, 2]
    counts = np.zeros(4)
    for seed in range(400):
        only = data.WeightedRandomSampler(weights, 1, False, Generator(seed))
        counts[next(iter(only))] += 1
    assert abs(counts[2] / 400 - 0.75) < 0.08


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("size", [1, 3, 5, 20])
def test_batches(size: int, drop_last: bool) -> None:
    ours = data.BatchSampler(data.SequentialSampler(TEN), size, drop_last)
    other = theirs.BatchSampler(theirs.SequentialSampler(TEN), size, drop_last)
    assert list(ours) == list(other)
    assert len(ours) == len(other)


@pytest.mark.parametrize("drop_last", [False, True])
def test_distributed(drop_last: bool) -> None:
    def parts(module: Any) -> list[list[int]]:
        return [
            list(
                module.DistributedSampler(
                    TEN, 3, rank, shuffle=False, drop_last=drop_last
                )
            )
            for rank in range(3)
        ]

    assert parts(data) == parts(theirs)
    samplers = [data.DistributedSampler(TEN, 2, rank) for rank in range(2)]
    orders = []
    for epoch in range(2):
        for sampler in samplers:
            sampler.set_epoch(epoch)
        orders.append([*samplers[0], *samplers[1]])
        assert sorted(orders[-1]) == list(TEN)
    assert orders[0] != orders[1]


def test_the_part_of_a_rank_of_a_group() -> None:
    group = fw.distributed.init()
    assert [*data.DistributedSampler(TEN, shuffle=False, group=group)] == list(TEN)
    group = SimpleNamespace(rank=1, size=3, ranks=(0, 1, 2))
    sampler = data.DistributedSampler(TEN, shuffle=False, group=group)
    assert [*sampler] == [1, 4, 7, 0]


def test_bad_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="num_samples is 0"):
        data.RandomSampler(TEN, num_samples=0)
    with pytest.raises(TypeError, match="replacement is 1"):
        data.RandomSampler(TEN, replacement=1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="batch_size is 0"):
        data.BatchSampler(data.SequentialSampler(TEN), 0, False)
    with pytest.raises(ValueError, match="drop_last is 1"):
        data.BatchSampler(data.SequentialSampler(TEN), 2, 1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="a row of numbers"):
        data.WeightedRandomSampler([-1.0, 2.0], 1)
    with pytest.raises(ValueError, match="at most as many are possible"):
        data.WeightedRandomSampler([0.0, 2.0], 2, replacement=False)
    with pytest.raises(ValueError, match="rank is 2; it must be from 0 to 1"):
        data.DistributedSampler(TEN, 2, 2)
    with pytest.raises(ValueError, match="no process group"):
        data.DistributedSampler(TEN)
    with pytest.raises(NotImplementedError, match="it is not defined"):
        iter(data.Sampler())
