"""Memcpy threads: every byte once, nothing after the return, closing, interrupts."""

import ctypes
import os
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from tests.interruption import each_interruption
from vkbackend import ArgumentError, Device
from vkbackend.command.memcpy_threads import MemcpyThreads, thread_count
from vkbackend.driver.logical_device import LogicalDevice
from vkbackend.driver.physical_device import choose

SLICE = 4096


@pytest.fixture
def logical() -> LogicalDevice:
    return cast(LogicalDevice, SimpleNamespace(unlocked_calls=set(), closing=False))


@pytest.fixture
def threads(logical: LogicalDevice) -> Iterator[MemcpyThreads]:
    made = MemcpyThreads(logical, 3, SLICE)
    yield made
    helpers = list(made._helpers)
    made.close()
    for helper in helpers:
        helper.join(60)
        assert not helper.is_alive()
    assert logical.unlocked_calls == set()


def moved(threads: MemcpyThreads, data: Any, out: Any) -> bool:
    return threads.move(out.ctypes.data, data.ctypes.data, data.size)


@pytest.mark.parametrize(("cores", "count"), [(1, 1), (2, 1), (4, 2), (16, 8), (99, 8)])
def test_thread_count(cores: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        os, "sched_getaffinity", lambda _: set(range(cores)), raising=False
    )
    assert thread_count(8) == count
    assert thread_count(128, 1) == max(1, cores - 1)
    assert thread_count(128, 1000) == max(1, cores // 2)


@pytest.mark.parametrize("size", [1, SLICE, SLICE + 1, 40 * SLICE - 5])
def test_every_byte_is_copied(threads: MemcpyThreads, size: int) -> None:
    data = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    out = np.zeros(size + 1, np.uint8)
    assert moved(threads, data, out)
    assert (out[:-1] == data).all()
    assert out[-1] == 0


def test_helpers_take_part(
    threads: MemcpyThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three slices are copied at one time, each by a thread of its own."""
    together, move = threading.Barrier(3), ctypes.memmove

    def moves(*arguments: int) -> int:
        together.wait(60)
        return int(move(*arguments))

    monkeypatch.setattr(ctypes, "memmove", moves)
    data, out = np.ones(3 * SLICE, np.uint8), np.zeros(3 * SLICE, np.uint8)
    assert moved(threads, data, out)
    assert (out == 1).all()


def test_without_helpers_the_caller_copies(
    logical: LogicalDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuses)
    threads = MemcpyThreads(logical, 3, SLICE)
    data, out = np.ones(9 * SLICE, np.uint8), np.zeros(9 * SLICE, np.uint8)
    assert moved(threads, data, out)
    assert (out == 1).all()
    assert not threads.shares(data.size)


def test_closing_ends_a_copy(
    logical: LogicalDevice, threads: MemcpyThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    move = ctypes.memmove

    def moves(*arguments: int) -> int:
        logical.closing = True
        return int(move(*arguments))

    monkeypatch.setattr(ctypes, "memmove", moves)
    data, out = np.ones(9 * SLICE, np.uint8), np.zeros(9 * SLICE, np.uint8)
    assert not moved(threads, data, out)
    assert out.sum() < out.size


def test_an_interrupted_copy_touches_nothing_afterwards(
    threads: MemcpyThreads,
) -> None:
    data, out = np.ones(9 * SLICE, np.uint8), np.zeros(9 * SLICE, np.uint8)

    def copies() -> None:
        assert moved(threads, data, out)

    copies()
    for interruption in each_interruption(copies):
        out[:] = 0
        assert (out == 0).all(), interruption.where
        copies()
        assert (out == 1).all(), interruption.where


@pytest.mark.device
@pytest.mark.parametrize("kind", ["cached", "unmapped"])
def test_transfers_share_their_copies(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = Device(choose())
    if kind == "unmapped":
        allocate = device.memory.allocate

        def allocated(*arguments: Any) -> Any:
            block = allocate(*arguments)
            if arguments[1].value == "device":
                block.mapped = None
            return block

        monkeypatch.setattr(device.memory, "allocate", allocated)
    device.transfer._threads = MemcpyThreads(device.logical, 3, 128 << 10)
    data = np.random.default_rng(0).bytes((9 << 20) + 5)
    buffer = device.allocate(len(data))
    device.upload(data, buffer)
    out = bytearray(len(data))
    device.read(buffer, out=out)
    assert out == data
    assert bytes(device.read(buffer)) == data
    assert len(device.transfer._threads._helpers) == 2
    monkeypatch.setattr(device, "settle", device.close)
    helpers = list(device.transfer._threads._helpers)
    with pytest.raises(ArgumentError, match="the device is closed"):
        device.upload(data, buffer)
    for helper in helpers:
        helper.join(60)
    assert device.logical.unlocked_calls == set()
