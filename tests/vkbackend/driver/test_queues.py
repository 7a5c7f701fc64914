"""Queues for copies in each direction: what each has, and that they do not race."""

from collections.abc import Iterator

import numpy as np
import pytest

from tests.vkbackend.command.test_transfer import disguise, with_transfer_queues
from tests.vkbackend.gate import held
from tests.vkbackend.kernels import add_affine, affine, filled, words
from tests.vkbackend.race_checker import checked
from vkbackend import Batch, Buffer, Device
from vkbackend.command import transfer
from vkbackend.driver.physical_device import choose

SIZE = 4096
STEPS = 60


@pytest.fixture
def discrete(monkeypatch: pytest.MonkeyPatch) -> Iterator[Device]:
    """Return a device with memory and queues as discrete devices have them."""
    opened = with_transfer_queues(Device(choose()))
    disguise(opened, monkeypatch, mapped=None)
    yield opened
    opened.close()
    assert opened.live_objects() == {}


@pytest.mark.core
def test_each_direction_has_a_queue(discrete: Device) -> None:
    queues = discrete.queues
    assert queues.all == (queues.compute, queues.transfer, queues.readback)
    x, y = discrete.allocate(SIZE), discrete.allocate(SIZE)

    def used() -> list[int]:
        return [each.submitted for each in queues.all]

    start = used()
    discrete.upload(bytes(SIZE), x)
    discrete.transfer.copy((x, 0), (y, 0), SIZE)
    discrete.read(y)
    discrete.transfer.copy((y, 0), (x, 0), SIZE, outward=True)
    assert [now - then for now, then in zip(used(), start)] == [0, 2, 2]
    discrete.synchronize()
    assert all(each.completed == each.submitted for each in queues.all)


class Program:
    """Uploads, kernels, copies both ways, replays and reads, in random order."""

    def __init__(self, device: Device, seed: int) -> None:
        self.device, self.rng = device, np.random.default_rng(seed)
        self.pipeline = affine(device)
        self.values = [np.full(SIZE // 4, k, np.uint32) for k in range(3)]
        self.buffers = [filled(device, each) for each in self.values]
        batch = device.batch()
        add_affine(batch, self.pipeline, self.buffers[0], self.buffers[1], 3, 1)
        self.recording = device.record(batch)

    def step(self) -> None:
        """Do one thing, on the device and with NumPy."""
        device, buffers, values = self.device, self.buffers, self.values
        source, target = (int(k) for k in self.rng.permutation(3)[:2])
        match int(self.rng.integers(6)):
            case 0:
                values[target] = self.rng.integers(0, 99, SIZE // 4).astype(np.uint32)
                device.upload(values[target], buffers[target])
            case 1:
                batch = device.batch()
                a, b = buffers[source], buffers[target]
                add_affine(batch, self.pipeline, a, b, 2, 5)
                batch.submit()
                values[target] = 2 * values[source] + 5
            case 2 | 3 as kind:
                places = (buffers[source], 0), (buffers[target], 0)
                device.settle()
                device.transfer.copy(*places, SIZE, outward=kind == 3)
                values[target] = values[source]
            case 4:
                self.recording.submit()
                values[1] = 3 * values[0] + 1
            case _:
                if target == 2:  # the recording keeps the others
                    del buffers[2:]
                    buffers.append(filled(device, values[2]))
                assert (words(device, buffers[source]) == values[source]).all()


@pytest.mark.core
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(k, marks=pytest.mark.wide) for k in range(1, 20))]
)
def test_random_programs_have_no_races(discrete: Device, seed: int) -> None:
    with checked(discrete) as checker:
        program = Program(discrete, seed)
        for _ in range(STEPS):
            program.step()
        for buffer, value in zip(program.buffers, program.values):
            assert (words(discrete, buffer) == value).all()
    assert checker.races == []


@pytest.mark.device
@pytest.mark.parametrize("victim", ["batch", "copy"])
def test_races_are_found(
    discrete: Device, monkeypatch: pytest.MonkeyPatch, victim: str
) -> None:
    x, y = discrete.allocate(SIZE), discrete.allocate(SIZE)
    z: Buffer = discrete.allocate(SIZE)
    with held(discrete.compute_queue), checked(discrete) as checker:
        if victim == "batch":
            monkeypatch.setattr(Batch, "_waits", lambda self: {})
        else:
            monkeypatch.setattr(transfer, "cross_queue_waits", lambda *given: {})
        discrete.transfer.copy((x, 0), (y, 0), SIZE)
        if victim == "batch":
            batch = discrete.batch()
            batch.copy(y, z)
            batch.submit()
        else:
            discrete.transfer.copy((y, 0), (z, 0), SIZE, outward=True)
    assert len(checker.races) == 1
