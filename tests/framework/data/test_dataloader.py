"""Batches in order, with and without threads."""

import threading
from typing import Any

import numpy as np
import pytest
import torch.utils.data as theirs

import vkbackend.framework as fw
from vkbackend.framework import data
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.base.philox import Generator

COUNT = 23


class Squares(data.Dataset[tuple[int, float]]):
    """Samples that are fetched one by one; `broken` cannot be."""

    def __init__(self, broken: int = -1) -> None:
        self.broken = broken
        self.threads: set[str] = set()

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> tuple[int, float]:
        self.threads.add(threading.current_thread().name)
        if index == self.broken:
            raise OSError("sample 13 cannot be read")
        return index, float(index**2)


def loader_threads() -> list[str]:
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if name.startswith("vkbackend-loader")]


def numbers(loader: data.DataLoader) -> list[list[int]]:
    return [batch[0].tolist() for batch in loader]


def flat(batches: list[list[int]]) -> list[int]:
    return [number for batch in batches for number in batch]


@pytest.mark.parametrize("num_workers", [0, 1, 3])
@pytest.mark.parametrize("drop_last", [False, True])
def test_batches_come_in_order(
    num_workers: int, drop_last: bool, place: Device
) -> None:
    loader = data.DataLoader(
        Squares(), 5, num_workers=num_workers, drop_last=drop_last, device=place
    )
    expected = [list(range(k, min(k + 5, COUNT))) for k in range(0, COUNT, 5)]
    expected = expected[:-1] if drop_last else expected
    assert len(loader) == len(expected)
    for _ in range(2):
        batches = list(loader)
        assert [index.tolist() for index, _ in batches] == expected
        assert all(square.device is place for _, square in batches)
        assert batches[1][1].tolist() == [25.0, 36.0, 49.0, 64.0, 81.0]
    assert loader_threads() == []


def test_threads_do_the_work() -> None:
    dataset = Squares()
    list(data.DataLoader(dataset, 2, num_workers=2))
    assert threading.main_thread().name not in dataset.threads


@pytest.mark.parametrize("num_workers", [0, 2])
def test_shuffling_is_repeatable_and_new_in_each_pass(num_workers: int) -> None:
    orders = []
    for _ in range(2):
        loader = data.DataLoader(
            Squares(), 5, True, num_workers=num_workers, generator=Generator(4)
        )
        orders.append([flat(numbers(loader)) for _ in range(2)])
    assert orders[0] == orders[1]
    assert orders[0][0] != orders[0][1]
    assert sorted(orders[0][0]) == list(range(COUNT))


def test_the_default_generator_is_seeded_by_manual_seed() -> None:
    loader = data.DataLoader(Squares(), COUNT, shuffle=True)
    orders = []
    for _ in range(2):
        fw.manual_seed(1)
        orders.append(numbers(loader))
    assert orders[0] == orders[1]


def test_leaving_early_stops_the_threads() -> None:
    for index, _ in data.DataLoader(Squares(), 1, num_workers=2):
        if index.item() == 3:
            break
    assert loader_threads() == []


@pytest.mark.parametrize("num_workers", [0, 2])
def test_an_error_is_raised_where_its_batch_is_due(num_workers: int) -> None:
    batches = iter(data.DataLoader(Squares(broken=13), 5, num_workers=num_workers))
    assert [next(batches)[0].tolist()[0] for _ in range(2)] == [0, 5]
    with pytest.raises(OSError, match="sample 13 cannot be read"):
        next(batches)
    assert loader_threads() == []


def test_threads_work_a_bounded_number_ahead() -> None:
    started = threading.Semaphore(0)

    class Counted(data.Dataset[int]):
        def __len__(self) -> int:
            return 100

        def __getitem__(self, index: int) -> int:
            started.release()
            return index

    batches = iter(data.DataLoader(Counted(), 1, num_workers=2, prefetch_factor=3))
    next(batches)
    # Six are asked for at first, and one more when the first has arrived.
    for _ in range(7):
        assert started.acquire(timeout=60)
    assert not started.acquire(blocking=False)
    batches.close()  # type: ignore[attr-defined]


def test_whole_batches_are_fetched_at_once_also_from_a_subset() -> None:
    dataset = data.TensorDataset(np.arange(COUNT), np.arange(COUNT) * 2)
    part = data.Subset(data.Subset(dataset, range(5, COUNT)), [3, 1, 0])
    loader = data.DataLoader(part, 2)
    assert [[x.tolist() for x in batch] for batch in loader] == [
        [[8, 6], [16, 12]],
        [[5], [10]],
    ]


def test_collate_fn_makes_the_batch() -> None:
    def collate(samples: list[Any]) -> dict[str, Any]:
        return {"sum": np.asarray(sum(index for index, _ in samples)), "name": "x"}

    batch = next(iter(data.DataLoader(Squares(), 4, collate_fn=collate)))
    assert batch["sum"].item() == 6
    assert batch["name"] == "x"


def test_an_empty_dataset_has_no_batches() -> None:
    loader = data.DataLoader(data.TensorDataset(np.zeros((0, 3))), 4, num_workers=2)
    assert len(loader) == 0
    assert list(loader) == []


@pytest.mark.core
def test_the_next_batch_is_uploaded_ahead(gpu: GpuDevice) -> None:
    dataset = data.TensorDataset(np.arange(6, dtype=np.float32))
    before = gpu.gpu.counters.snapshot()
    batches = iter(data.DataLoader(dataset, 2, device=gpu))
    next(batches)
    assert (gpu.gpu.counters.snapshot() - before).uploads == 2
    assert len(list(batches)) == 2
    change = gpu.gpu.counters.snapshot() - before
    assert change.uploads == 3
    assert change.host_reads == 0


@pytest.mark.parametrize("name", ["batch_size", "num_workers", "prefetch_factor"])
def test_bad_sizes_are_named(name: str) -> None:
    with pytest.raises(ValueError, match=f"DataLoader: {name} is -1"):
        data.DataLoader(Squares(), **{name: -1})  # type: ignore[arg-type]


def test_without_batches_samples_are_converted() -> None:
    loader = data.DataLoader([np.float32([1, 2]), "a", 3], batch_size=None)
    first, second, third = loader
    assert first.tolist() == [1, 2]
    assert (second, third) == ("a", 3)
    assert len(loader) == 3


def test_samplers_and_batch_samplers() -> None:
    chosen = data.DataLoader(Squares(), 2, sampler=[4, 2, 9])
    assert numbers(chosen) == [[4, 2], [9]]
    batches = data.DataLoader(Squares(), batch_sampler=[[1], [2, 3]], num_workers=2)
    assert numbers(batches) == [[1], [2, 3]]
    assert len(batches) == 2


def test_many_samples_at_once_by_the_protocol() -> None:
    class Whole(data.Dataset[int]):
        def __len__(self) -> int:
            return 5

        def __getitems__(self, indices: list[int]) -> list[int]:
            return [10 * index for index in indices]

    assert [x.tolist() for x in data.DataLoader(Whole(), 3)] == [[0, 10, 20], [30, 40]]


def test_strings_and_nested_samples() -> None:
    samples = [{"text": f"s{k}", "ids": (k, [float(k)])} for k in range(3)]
    batch = next(iter(data.DataLoader(samples, 3)))
    assert batch["text"] == ["s0", "s1", "s2"]
    assert batch["ids"][0].tolist() == [0, 1, 2]
    assert batch["ids"][1][0].dtype is fw.float64


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"shuffle": True, "sampler": [1]}, "shuffle and sampler were given"),
        ({"batch_sampler": [[1]], "batch_size": 2}, "leave these out"),
        ({"batch_size": None, "drop_last": True}, "drop_last was given without"),
        ({"prefetch_factor": 2}, "prefetch_factor is 2, but num_workers is 0"),
        ({"persistent_workers": True}, "persistent_workers is True, but num_workers"),
        ({"multiprocessing_context": "fork"}, "context is 'fork', but num_workers is"),
        ({"multiprocessing_context": "x", "num_workers": 1}, "must be one of fork"),
        ({"batch_size": "a"}, "batch_size is 'a'; it must be at least 1"),
    ],
)
def test_arguments_that_exclude_each_other(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        data.DataLoader(Squares(), **options)


def test_an_iterable_dataset_has_its_own_order() -> None:
    with pytest.raises(ValueError, match="has an order of its own"):
        data.DataLoader(data.ChainDataset([]), shuffle=True)


def test_a_worker_that_takes_too_long() -> None:
    held = threading.Event()

    class Slow(data.Dataset[int]):
        def __len__(self) -> int:
            return 1

        def __getitem__(self, index: int) -> int:
            held.wait(60)
            return index

    batches = iter(data.DataLoader(Slow(), num_workers=1, timeout=0.01))
    threading.Timer(0.5, held.set).start()
    with pytest.raises(RuntimeError, match=r"no batch for 0\.01 seconds"):
        next(batches)


def test_attributes_are_pytorchs() -> None:
    for options in ({}, {"batch_size": None}, {"num_workers": 1}):
        given: dict[str, Any] = options
        ours, other = (
            data.DataLoader(Squares(), **given),
            theirs.DataLoader([1], **given),
        )
        for name in (
            *("batch_size", "num_workers", "pin_memory", "drop_last", "timeout"),
            *("worker_init_fn", "multiprocessing_context", "generator", "in_order"),
            *("prefetch_factor", "persistent_workers", "pin_memory_device"),
        ):
            assert getattr(ours, name) == getattr(other, name)
        assert ours.collate_fn.__name__ == other.collate_fn.__name__
        for name in ("batch_size", "sampler", "dataset"):
            with pytest.raises(ValueError, match=f"{name} is set on a loader"):
                setattr(ours, name, None)
    batches = iter(data.DataLoader(Squares(), 5))
    assert (len(batches), iter(batches)) == (5, batches)
    with pytest.raises(AssertionError, match=r"timeout is 3, but num_workers is 0"):
        iter(data.DataLoader(Squares(), timeout=3))
