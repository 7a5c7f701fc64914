"""Benchmarks of the device under test, with NumPy beside it."""

from typing import Any

import pytest

import vkbackend
import vkbackend.framework as fw
from vkbackend.tools.bench.baseline import Peer
from vkbackend.tools.bench.workload import Bench


@pytest.fixture
def peer() -> Peer:
    return Peer("numpy")


@pytest.fixture
def place(device: vkbackend.Device) -> Any:
    return fw.device(device.name)


@pytest.fixture
def bench(peer: Peer, place: Any) -> Bench:
    return Bench(peer, place)
