"""Random numbers of workers: their own, whatever the threads do."""

import random
import threading
from typing import Any

import numpy as np
import pytest
from torch.utils.data._utils.worker import _generate_state

import vkbackend.framework as fw
from vkbackend.framework import data
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.data.thread_random import ThreadRandom


class Drawn(data.Dataset[Any]):
    """Random numbers, which a worker draws when those before it are drawn."""

    def __init__(self, order: list[int]) -> None:
        self.done = [threading.Event() for _ in order]
        self.before = dict(zip(order, [None, *order]))

    def __len__(self) -> int:
        return len(self.done)

    def __getitem__(self, index: int) -> Any:
        info, before = data.get_worker_info(), self.before[index]
        if before is not None:
            assert self.done[before].wait(60)
        drawn = (
            *(fw.rand(2), random.random(), random.randint(0, 1 << 40)),
            *(np.random.rand(), np.random.sample(), np.random.permutation(5)),
        )
        assert info is not None
        assert fw.initial_seed() == info.seed
        self.done[index].set()
        return drawn


def drawn_in(order: list[int]) -> list[Any]:
    for seed in (random.seed, np.random.seed, fw.manual_seed):
        seed(3)
    loader = data.DataLoader(Drawn(order), num_workers=2)
    found: list[Any] = []
    for batch in loader:
        found.append([part.tolist() for part in batch])
        found.append([random.random(), np.random.rand(), fw.rand(1).item()])
    return found


def test_turns_of_threads_do_not_matter() -> None:
    before = [random.random, random.seed, np.random.rand, np.random.seed]
    found = drawn_in([0, 1, 2, 3, 4, 5])
    assert drawn_in([1, 0, 3, 2, 5, 4]) == found
    assert len({str(each) for each in found}) == 12
    assert [random.random, random.seed, np.random.rand, np.random.seed] == before
    for seed in (random.seed, np.random.seed):
        seed(3)
    assert [each[:2] for each in found[1::2]] == [
        [random.random(), np.random.rand()] for _ in range(6)
    ]


def test_a_worker_seeds_itself_alone() -> None:
    def begin(number: int) -> None:
        seed = fw.initial_seed() % 2**32
        for each in (random.seed, np.random.seed, fw.manual_seed):
            each(seed + number)

    before = random.getstate(), fw.get_rng_state()
    loader = data.DataLoader(
        Drawn([0]), None, num_workers=1, worker_init_fn=begin, generator=fw.Generator()
    )
    with pytest.raises(AssertionError):
        list(loader)
    assert (random.getstate(), fw.get_rng_state()) == before


def test_seeds_are_those_of_torch() -> None:
    base = (1 << 62) + 77
    own = ThreadRandom(base + 3, 3)
    try:
        np.random.seed(_generate_state(base, 3))
        random.seed(base + 3)
        expected = [random.random(), np.random.rand()]
        found: list[float] = []

        def draw() -> None:
            own.use_in_thread()
            found.extend([random.random(), np.random.rand()])

        thread = threading.Thread(target=draw)
        thread.start()
        thread.join()
        assert found == expected
    finally:
        own.release()
        own.release()


def test_a_replay_repeats_no_number_of_the_host(gpu: GpuDevice) -> None:
    @fw.jit
    def scaled(x: fw.Tensor) -> fw.Tensor:
        return x * random.random() + np.random.rand()

    x = fw.ones(1, device=gpu)
    loader = data.DataLoader(Drawn([0, 1, 2]), num_workers=1)
    assert len({scaled(x).item() for _ in loader}) == 3
