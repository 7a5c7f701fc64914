"""Copies, and waits for other queues."""

from vkbackend.command.copy import Copier, copy_command, cross_queue_waits
from vkbackend.driver.queue import TimelinePoint
from vkbackend.vk import generated as vk


class FakeQueue:
    """A queue that has got somewhere."""

    def __init__(self, completed: int) -> None:
        self.completed = completed

    def reached(self, value: int) -> bool:
        return value <= self.completed


def test_waits_are_the_last_of_other_queues() -> None:
    own, other, third = FakeQueue(0), FakeQueue(4), FakeQueue(9)
    points = [
        TimelinePoint(queue, value)  # type: ignore[arg-type]
        for queue, value in ((own, 7), (other, 5), (other, 8), (other, 6), (third, 9))
    ]
    assert cross_queue_waits(own, points) == {other: 8}  # type: ignore[arg-type, comparison-overlap]


def test_copy_is_recorded_with_its_ranges() -> None:
    seen = []

    def record(commands: int, info: object) -> None:
        copy = info._obj  # type: ignore[attr-defined]
        region = copy.pRegions[0]
        assert copy.sType == vk.VK_STRUCTURE_TYPE_COPY_BUFFER_INFO_2
        buffers = (copy.srcBuffer, copy.dstBuffer)
        offsets = (region.srcOffset, region.dstOffset)
        seen.append((commands, buffers, copy.regionCount, offsets, region.size))

    copy_command(record, (11, 100), (22, 200), 300)(5)
    assert seen == [(5, (11, 22), 1, (100, 200), 300)]


def test_a_copier_records_one_copy_after_another() -> None:
    seen = []

    def record(commands: int, info: object) -> None:
        copy = info._obj  # type: ignore[attr-defined]
        region = copy.pRegions[0]
        buffers = (copy.srcBuffer, copy.dstBuffer)
        offsets = (region.srcOffset, region.dstOffset)
        seen.append((commands, buffers, offsets, region.size))

    copier = Copier(record)
    copier.record(5, (11, 100), (22, 200), 300)
    copier.record(6, (33, 1), (44, 2), 3)
    assert seen == [(5, (11, 22), (100, 200), 300), (6, (33, 44), (1, 2), 3)]
