"""From a trace to a recording."""

from typing import Any

import pytest

import vkbackend.framework as fw
from vkbackend.framework.capture.build import Built, build
from vkbackend.framework.capture.trace import Trace
from vkbackend.framework.device import GpuDevice
from vkbackend.framework.schedule import realised

pytestmark = pytest.mark.core


def ignored(_: object) -> None:
    """Return nothing."""


def built(function: Any, *fed: fw.Tensor) -> tuple[Trace, Built]:
    fw.eval()
    trace = Trace()
    tree, tensors = trace.settle(trace.run(function, fed, {}, list(fed)))
    state = {
        id(before): realised(before) for _, before in trace.rebound_arrays.values()
    }
    found = build(trace, state)
    del tree, tensors
    return trace, found


def test_intermediate_results_share_memory(gpu: GpuDevice) -> None:
    def chain(x: fw.Tensor) -> fw.Tensor:
        for _ in range(6):
            x = x @ x
        return x

    _, found = built(chain, fw.ones((16, 16), device=gpu))
    assert found.eager == 6 * 1024
    assert found.planned == found.alive == 2 * 1024
    assert found.kept == 1024


def test_what_is_fed_dies_after_its_last_use(gpu: GpuDevice) -> None:
    def chain(x: fw.Tensor, y: fw.Tensor) -> fw.Tensor:
        return ((x @ x) @ y) @ y

    x, y = fw.ones((16, 16), device=gpu), fw.ones((16, 16), device=gpu)
    _, found = built(chain, x, y)
    assert found.eager == 4 * 1024
    assert found.planned == 3 * 1024
    first, second = found.feeds
    assert first is not None
    assert second is not None
    assert (first.size, second.size) == (1024, 1024)
    assert first.offset != second.offset


def test_what_nobody_reads_is_not_fed(gpu: GpuDevice) -> None:
    x = fw.ones(4, device=gpu)
    _, found = built(lambda x, y: x + 1, x, fw.ones(3, device=gpu))
    assert found.feeds[0] is not None
    assert found.feeds[1] is None


def test_an_element_wise_change_needs_no_copy(gpu: GpuDevice) -> None:
    w = fw.ones((8, 8), device=gpu)
    _, found = built(lambda: ignored(w.mul_(2).add_(1)))
    assert found.recording is not None
    assert found.recording.dispatches == 1
    assert found.recording.barriers == 0
    assert (found.planned, found.kept) == (0, 0)


def test_a_change_that_reads_other_elements_is_copied(gpu: GpuDevice) -> None:
    w = fw.ones((8, 8), device=gpu)

    def change() -> None:
        w.copy_(w @ w)

    _, found = built(change)
    assert found.recording is not None
    assert (found.recording.dispatches, found.recording.barriers) == (1, 1)
    assert found.planned == 256


def test_what_is_only_read_is_a_constant(gpu: GpuDevice) -> None:
    w, v = fw.ones(4, device=gpu), fw.ones(4, device=gpu)
    fw.eval()
    _, found = built(lambda: ignored(v.add_(w)))
    assert found.constants == [w.array.value]


def test_nothing_wanted_is_nothing_recorded(gpu: GpuDevice) -> None:
    _, found = built(lambda x: ignored(x + 1), fw.ones(1, device=gpu))
    assert found.recording is None
    assert found.feeds == [None]
