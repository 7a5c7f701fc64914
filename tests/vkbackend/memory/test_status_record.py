"""The status record: what the host sees of it."""

import numpy as np
import pytest

import vkbackend
from vkbackend.memory.status_record import StatusRecord


@pytest.fixture
def record(device: vkbackend.Device) -> StatusRecord:
    found = StatusRecord(device.memory)
    assert found.address % 16 == 0
    return found


def test_only_watched_slots_count(record: StatusRecord) -> None:
    bytes_ = np.frombuffer(record._bytes, np.uint32)
    bytes_[:] = 0
    bytes_[0] = bytes_[3] = 7
    for watched, expected in ((0, False), (2, False), (3, True), (1, True)):
        record.watch(watched)
        assert record.is_set() is expected
    assert record.words() == [7, 0, 0, 7] + [0] * (StatusRecord.SLOTS - 4)
    record.clear()
    assert not record.is_set()
    assert not any(record.words())
    del bytes_
    record.close()
    assert not record.is_set()


def test_a_device_has_one(device: vkbackend.Device) -> None:
    record = device.status_record()
    assert device.status is device.status_record() is record
