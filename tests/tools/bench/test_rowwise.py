"""The workloads of this family run, and agree with their peer."""

from typing import Any

import pytest

from vkbackend.tools.bench import rowwise
from vkbackend.tools.bench.baseline import Peer
from vkbackend.tools.bench.measure import measure
from vkbackend.tools.bench.workload import WORKLOADS, Workload

SMALL = [
    workload
    for workload in WORKLOADS
    if workload.make.__module__ == rowwise.__name__ and "small" in workload.sizes
]
# What the others measure is tested where it is.
FEW = [*SMALL[:1], *(pytest.param(each, marks=pytest.mark.wide) for each in SMALL[1:])]


@pytest.mark.parametrize("workload", FEW, ids=lambda w: w.title("small"))
@pytest.mark.long
def test_agrees_with_numpy(workload: Workload, peer: Peer, place: Any) -> None:
    found = measure(workload, "small", peer, place, 1)
    assert found.seconds > 0
    assert found.error is None or found.error <= found.case.tolerance
