"""What workers know of themselves."""

import threading

from vkbackend.framework import data
from vkbackend.framework.base.philox import Generator


class Seeds(data.Dataset[int]):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> int:
        info = data.get_worker_info()
        assert info is not None
        assert info.dataset is self
        assert info.num_workers == 2
        assert info.id == index % 2
        return info.seed % 1000003


def test_seeds_follow_from_the_generator() -> None:
    assert data.get_worker_info() is None

    def seeds(seed: int) -> list[list[int]]:
        loader = data.DataLoader(Seeds(), num_workers=2, generator=Generator(seed))
        return [[batch.item() for batch in loader] for _ in range(2)]

    first, second = seeds(3)
    assert len(set(first)) == 2
    assert first != second
    assert seeds(3) == [first, second]
    assert seeds(4) != [first, second]


def test_a_function_begins_each_worker() -> None:
    begun: list[tuple[int, str]] = []

    def begin(number: int) -> None:
        begun.append((number, threading.current_thread().name))

    list(data.DataLoader(Seeds(), num_workers=2, worker_init_fn=begin))
    assert sorted(number for number, _ in begun) == [0, 1]
    assert threading.main_thread().name not in dict(begun).values()
