"""Peers: NumPy always, PyTorch where it is installed."""

import types

import numpy as np
import pytest

from vkbackend.tools.bench import baseline as peer
from vkbackend.tools.bench.baseline import Peer


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


@pytest.mark.parametrize("before", [True, False])
def test_convolutions_are_exact_inside(
    before: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", before)
    with Peer("torch").exactly():
        assert not torch.backends.cudnn.allow_tf32
    assert torch.backends.cudnn.allow_tf32 == before


def test_numpy_is_always_exact() -> None:
    with Peer("numpy").exactly():
        pass


def test_seconds_are_of_one_run(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter([100.0, 108.0])
    rests: list[float] = []
    clock = types.SimpleNamespace(perf_counter=ticks.__next__, sleep=rests.append)
    monkeypatch.setattr(peer, "time", clock)
    runs: list[object] = []

    def run() -> list[object]:
        runs.append(None)
        return []

    assert Peer("numpy").seconds(run, repeat=4, wall=True) == 2.0
    assert len(runs) == 4
    # The host's other threads come to rest.
    assert len(rests) == 1
