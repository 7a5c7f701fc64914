"""The workloads of this family run, and agree with their peer."""

from typing import Any

import pytest

import vkbackend.framework as fw
from vkbackend import OutOfDeviceMemory
from vkbackend.framework.jit import compiled
from vkbackend.tools.bench import training
from vkbackend.tools.bench.baseline import Peer
from vkbackend.tools.bench.measure import measure
from vkbackend.tools.bench.networks import mobile_net
from vkbackend.tools.bench.workload import WORKLOADS, Bench, Workload

SMALL = [
    workload
    for workload in WORKLOADS
    if workload.make.__module__ == training.__name__ and "small" in workload.sizes
]
# What the others measure is tested where it is.
FEW = [*SMALL[:1], *(pytest.param(each, marks=pytest.mark.wide) for each in SMALL[1:])]


@pytest.mark.parametrize("workload", FEW, ids=lambda w: w.title("small"))
def test_agrees_with_numpy(workload: Workload, peer: Peer, place: Any) -> None:
    found = measure(workload, "small", peer, place, 1)
    assert found.seconds > 0
    assert found.error is None or found.error <= found.case.tolerance


def test_replays_begin_with_the_weights_that_the_peer_begins_with(place: Any) -> None:
    pytest.importorskip("torch")
    bench = Bench(Peer("torch"), place)
    data = bench.uniform(2, 3, 32, 32), bench.whole(2, below=5)
    case = training.training_case(
        bench, lambda library: mobile_net(library, 2, 5), data, "cudagraph"
    )
    assert case.theirs is not None
    (mine,), (theirs,) = case.ours(), case.theirs()
    # After one more step, losses would differ by 1e-4 and more.
    assert abs(mine.item() - theirs.item()) <= 1e-5 * theirs.item()


@pytest.mark.filterwarnings("ignore")
def test_what_is_not_replayed_is_not_timed_as_if_it_were(
    place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> None:
        raise OutOfDeviceMemory("no room for the plan")

    x = fw.ones(4, device=place)
    training.warm_replays(fw.jit(lambda: [x + 1]))
    monkeypatch.setattr(compiled, "compile_trace", fails)
    with pytest.raises(UserWarning, match="no room for the plan"):
        training.warm_replays(fw.jit(lambda: [x + 1]))
