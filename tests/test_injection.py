"""Failing commands, a few of them; `tests.injection` makes all fail, in every way."""

from collections.abc import Iterator

import pytest

import vkbackend
from tests.injection import Worker, cases
from tests.vulkan_shim import Case
from vkbackend.vk import generated as vk

HOST, MEMORY = vk.VK_ERROR_OUT_OF_HOST_MEMORY, vk.VK_ERROR_OUT_OF_DEVICE_MEMORY
LOST = vk.VK_ERROR_DEVICE_LOST

SOME = (
    Case("mapped", "vkCreateInstance", HOST),
    Case("mapped", "vkCreateSemaphore", MEMORY),
    Case("unmapped", "vkCreateCommandPool", HOST, number=2, lasting=True),
    Case("unmapped", "vkQueueSubmit2", LOST, number=5),
    Case("uncached", "vkGetQueryPoolResults", LOST),
    Case("uncached", "vkDeviceWaitIdle", HOST),
)


@pytest.fixture(scope="module")
def worker(device: vkbackend.Device) -> Iterator[Worker]:
    if device.info.kind != "software":
        pytest.skip("memory is simulated over a driver that maps all of its own")
    started = Worker(device.name)
    yield started
    started.close()


@pytest.mark.sampled(2)
@pytest.mark.core
@pytest.mark.parametrize("case", SOME, ids=lambda case: case.command)
def test_a_failing_command_harms_nothing(case: Case, worker: Worker) -> None:
    found = worker.run(case)
    assert found["injected"] > 0
    assert found["wrong"] == []


@pytest.mark.core
@pytest.mark.long
def test_without_a_failure_nothing_is_said(worker: Worker) -> None:
    found = worker.run(Case())
    assert (found["injected"], found["said"], found["wrong"]) == (0, "", [])
    assert found["calls"]["vkQueueSubmit2"] > 10


def test_cases_are_those_of_the_specification() -> None:
    found = set(cases("mapped", {"vkWaitSemaphores": 9, "vkResetCommandBuffer": 1}))
    assert Case("mapped", "vkWaitSemaphores", vk.VK_TIMEOUT, 5) in found
    assert Case("mapped", "vkWaitSemaphores", LOST, 9) in found
    assert Case("mapped", "vkResetCommandBuffer", MEMORY, 1, lasting=True) in found
    assert Case("mapped", "vkResetCommandBuffer", LOST) not in found
