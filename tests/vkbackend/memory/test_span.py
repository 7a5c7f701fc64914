"""Spans on blocks that are only pretended, and what a lease says of them."""

import gc
import sys

import pytest

from tests.vkbackend.memory.test_pool import FakeQueue, point
from vkbackend.memory.memory import Block
from vkbackend.memory.span import Lease, MemorySpan, Region, is_within
from vkbackend.memory.tlsf import Suballocator

pytestmark = pytest.mark.null


def make_region() -> Region:
    return Region(Block(0, 0, 4096, 1024, 0, None, False), Suballocator())


def test_a_span_is_done_when_its_points_are() -> None:
    queue = FakeQueue()
    span = MemorySpan(make_region(), 0, 256, 4096, (point(queue, 2),))
    assert not span.known_done()
    assert not span.done()
    queue.completed = 2
    assert span.known_done()
    assert span.done()
    assert span.points == ()


def test_a_region_is_done_when_its_points_are() -> None:
    queue, region = FakeQueue(), make_region()
    region.points = (point(queue, 1),)
    assert not region.done()
    queue.completed = 1
    assert region.done()


@pytest.mark.parametrize("cyclic", [False, True])
def test_a_lease_tells_of_the_death_of_its_span(cyclic: bool) -> None:
    dead: list[object] = []
    span = MemorySpan(make_region(), 0, 256, 4096, ())
    lease = span.lease = Lease(span, dead.append)
    if cyclic:
        held: list[object] = [span]
        held.append(held)
        del held
    assert lease() is span
    assert dead == []
    del span
    gc.collect()
    assert lease() is None
    assert dead == [lease]


def test_an_operation_runs_in_what_it_calls() -> None:
    class Owner:
        def operate(self, other: object) -> list[bool]:
            operations = {Owner.operate.__code__}
            return [
                is_within(operations, owner, sys._getframe()) for owner in (self, other)
            ]

        def call(self) -> list[bool]:
            return [is_within({Owner.operate.__code__}, self, sys._getframe())]

    one = Owner()
    assert one.operate(Owner()) == [True, False]
    assert one.call() == [False]
