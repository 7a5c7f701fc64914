"""Peers: NumPy always, PyTorch where it is installed."""

import time

import numpy as np
import pytest

from vkbackend.tools.bench.peer import Peer


def test_numpy() -> None:
    peer = Peer("numpy")
    made = peer.array(np.ones(3), "float16")
    assert made.dtype == np.float16
    assert peer.host(made).dtype == np.float64
    assert peer.name.startswith("numpy ")


def test_torch() -> None:
    torch = pytest.importorskip("torch")
    peer = Peer("torch")
    made = peer.array(np.ones(3, np.float32), "bfloat16")
    assert made.dtype is torch.bfloat16
    np.testing.assert_array_equal(peer.host(made.requires_grad_()), np.ones(3))


def test_seconds_are_of_one_run() -> None:
    def run() -> list[object]:
        time.sleep(0.005)
        return []

    assert 0.005 <= Peer("numpy").seconds(run, repeat=4, wall=True) < 0.02
