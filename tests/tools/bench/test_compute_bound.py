"""The workloads of this family run, and agree with their peer."""

from typing import Any

import pytest

from vkbackend.tools.bench import compute_bound
from vkbackend.tools.bench.baseline import Peer
from vkbackend.tools.bench.measure import measure
from vkbackend.tools.bench.workload import WORKLOADS, Workload

SMALL = [
    workload
    for workload in WORKLOADS
    if workload.make.__module__ == compute_bound.__name__ and "small" in workload.sizes
]


# What they measure is tested where it is, and software computes it for long.
@pytest.mark.wide
@pytest.mark.parametrize("workload", SMALL, ids=lambda w: w.title("small"))
@pytest.mark.long
def test_agrees_with_numpy(workload: Workload, peer: Peer, place: Any) -> None:
    found = measure(workload, "small", peer, place, 1)
    assert found.seconds > 0
    assert found.error is None or found.error <= found.case.tolerance
