"""Streams and events: one queue, which can be asked and waited for."""

import pytest

import vkbackend.framework as fw
from vkbackend.errors import NoVulkanError
from vkbackend.framework.base.device import GpuDevice


def test_an_event_is_done_once_the_work_before_it_is(gpu: GpuDevice) -> None:
    stream = fw.Stream(gpu)
    with stream:
        y = fw.ones(5, device=gpu) * 3
    event = stream.record_event()
    event.synchronize()
    assert event.query()
    stream.wait_event(event)
    stream.wait_stream(fw.Stream(gpu))
    stream.synchronize()
    assert stream.query()
    assert y.tolist() == [3.0] * 5


def test_recording_submits_what_is_pending(gpu: GpuDevice) -> None:
    gpu.synchronize()
    before = gpu.gpu.compute_queue.submitted
    y = fw.ones(7, device=gpu) + 0.5
    event = fw.Event(gpu)
    assert event.query()
    event.record()
    assert gpu.gpu.compute_queue.submitted > before
    event.wait()
    assert y.sum().item() == 10.5


def test_times_are_in_order(gpu: GpuDevice) -> None:
    start, end = (fw.Event(gpu, enable_timing=True) for _ in range(2))
    start.record(fw.Stream(gpu))
    x = fw.ones(64, 64, device=gpu)
    (x @ x).sum()
    end.record()
    assert start.elapsed_time(end) > 0
    assert start.elapsed_time(end) == -end.elapsed_time(start)


def test_streams_of_a_device_are_one(gpu: GpuDevice) -> None:
    assert fw.Stream(gpu) == fw.Stream(gpu, priority=-1)
    assert {fw.Stream(gpu), fw.accelerator.current_stream(gpu)} == {fw.Stream(gpu)}
    assert fw.Stream(gpu) != 3
    assert fw.Stream(gpu).device_index == gpu.index
    assert str(gpu) in repr(fw.Stream(gpu))
    assert "timed=False" in repr(fw.Event(gpu))


def test_what_cannot_be_is_refused(gpu: GpuDevice) -> None:
    event = fw.Event(gpu)
    event.record()
    with pytest.raises(RuntimeError, match="enable_timing=True"):
        event.elapsed_time(event)
    with pytest.raises(NotImplementedError, match="one process"):
        fw.Event(gpu, interprocess=True)
    with pytest.raises(NoVulkanError, match="has no queue"):
        fw.Stream("cpu")


def test_no_stream_of_cuda_is_a_block_without_effect() -> None:
    with fw.cuda.stream(None):
        assert fw.ones(2).sum().item() == 2
    with pytest.raises(NoVulkanError):
        fw.cuda.stream(fw.Stream)
