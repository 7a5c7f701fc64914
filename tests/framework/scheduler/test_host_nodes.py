"""Host steps that no replay runs."""

from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.communication.traced import recorded
from vkbackend.framework.ir.host_step import HostStep, host_steps
from vkbackend.framework.jit.tracer import Trace


class Added(HostStep):
    def __init__(self, number: int, fails: bool = False) -> None:
        self.number, self.fails = number, fails

    def run(self, data: np.ndarray) -> np.ndarray:
        if self.fails:
            raise ConnectionError("gone")
        return data + data.dtype.type(self.number)


def traced(function: Any) -> tuple[Trace, Any]:
    trace = Trace()
    return trace, trace.run(function, (), {}, [])


def test_steps_depend_on_each_other(gpu: GpuDevice) -> None:
    x, kept = fw.arange(3, device=gpu), fw.zeros(3, dtype=fw.int64, device=gpu)

    def f() -> fw.Tensor:
        y = recorded(x * 2, Added(1), x.shape)
        kept.add_(y)
        return recorded(y + kept, Added(5), x.shape) * 10

    trace, found = traced(f)
    assert len(host_steps(trace.nodes)) == 2
    trace.run_now()
    assert found.tolist() == [70, 110, 150]
    assert kept.tolist() == [1, 3, 5]


def test_what_depends_on_a_step_that_fails(gpu: GpuDevice) -> None:
    x, kept = fw.ones(2, device=gpu), fw.zeros(2, device=gpu)
    fw.eval()

    def f() -> Any:
        kept.add_(1)
        lost = recorded(x, Added(1, fails=True), x.shape)
        kept.add_(lost)
        return lost, x + 1

    trace, (lost, other) = traced(f)
    with pytest.raises(ConnectionError, match="gone"):
        trace.run_now()
    with pytest.raises(RuntimeError, match=r"never computed.*gone"):
        lost.tolist()
    assert other.tolist() == [2.0, 2.0]
    assert kept.tolist() == [1.0, 1.0]
