"""Collectives as nodes of a trace; among processes: test_mpi_transport."""

from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.rank_threads import as_threads
from vkbackend.framework.base.device import CPU, GpuDevice
from vkbackend.framework.communication.group import Group
from vkbackend.framework.communication.traced import Collective, Reduced, is_recorded
from vkbackend.framework.communication.transport import Call
from vkbackend.framework.ops import REGISTRY


def test_what_a_node_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(group: Group) -> Any:
        shape = (2, 2)
        gather = Collective(group, "_all_gather", (1,), shape, (2, 4), fw.int32)
        total = Reduced(group, Call("all_sum"), "sum", fw.int32)
        data = np.arange(4, dtype=np.int32) + 10 * group.rank
        return gather.run(data), total.run(data)

    for joined, total in as_threads(monkeypatch, 2).run(work):
        assert joined.tolist() == [0, 1, 10, 11, 2, 3, 12, 13]
        assert total.tolist() == [10, 12, 14, 16]


def test_what_is_recorded(gpu: GpuDevice) -> None:
    assert "communicated" not in REGISTRY
    assert not is_recorded(fw.ones(1, device=gpu))

    @fw.jit
    def f(x: fw.Tensor) -> fw.Tensor:
        assert is_recorded(x)
        assert not is_recorded(fw.ones(1, device=CPU))
        return x + 1

    assert f(fw.ones(1, device=gpu)).tolist() == [2.0]
