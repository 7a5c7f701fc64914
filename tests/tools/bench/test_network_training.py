"""Networks of `network_training` are trained, and agree with PyTorch."""

from typing import Any

import pytest

from vkbackend.tools.bench import network_training
from vkbackend.tools.bench.baseline import Peer
from vkbackend.tools.bench.measure import measure
from vkbackend.tools.bench.workload import WORKLOADS, Workload

pytest.importorskip("torch")

SMALL = [
    workload
    for workload in WORKLOADS
    if workload.make.__module__ == network_training.__name__
    and "small" in workload.sizes
]


@pytest.mark.wide
@pytest.mark.parametrize("workload", SMALL, ids=lambda w: w.title("small"))
def test_first_losses_agree(workload: Workload, place: Any) -> None:
    found = measure(workload, "small", Peer("torch"), place, 1)
    assert found.error is not None
    assert found.error <= found.case.tolerance
