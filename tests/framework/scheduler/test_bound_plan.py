"""Bound plans: what is packed once, and what is written over."""

import math
import struct
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from vkbackend.errors import ArgumentError
from vkbackend.framework.base.errors import TraceError
from vkbackend.framework.base.trace_hooks import Changing
from vkbackend.framework.scheduler.bound_plan import (
    MAX_SINGLE_WRITES,
    AddressTable,
    BoundPlan,
)
from vkbackend.framework.scheduler.dynamic_args import DynamicArguments
from vkbackend.framework.scheduler.launch import ExecutionPlan, Launch

BLOCK = struct.Struct("<QQIf")


def pack(first: int, second: int, count: int, factor: float) -> bytes:
    """Pack as `Pipeline.packer` does, which rounds a float beyond the range."""
    if not 0 <= count < 1 << 32:
        raise ArgumentError(f"kernel: count is {count}")
    factor = math.copysign(math.inf, factor) if abs(factor) > 1e39 else factor
    return BLOCK.pack(first, second, count, factor)


def launch(
    slots: tuple[int, int],
    pack: Callable[..., bytes],
    number: tuple[str, int],
    groups: int = 1,
) -> Launch:
    """Return a launch that takes the first node's number at a place."""
    pipeline: Any = SimpleNamespace(name="kernel")
    return Launch(
        pipeline,
        (groups, 1, 1),
        pack,
        ((slots[0], 0), (slots[1], 4)),
        (),
        ((0, 0),),
        slots[:1],
        slots[1:],
        (),
        address_fields=(("address", 0), ("address", 8)),
        scalar_fields=(number,),
    )


def scaling(slots: tuple[int, int], count: int) -> Launch:
    """Return a launch of `count` workgroups whose factor is a number."""

    def packed(first: int, second: int, factor: float) -> bytes:
        return pack(first, second, count, factor)

    return launch(slots, packed, ("float", 20), count)


def counting(slots: tuple[int, int]) -> Launch:
    """Return a launch whose count is a number."""

    def packed(first: int, second: int, count: int) -> bytes:
        return pack(first, second, count, 0.0)

    return launch(slots, packed, ("uint", 16))


def nodes(*numbers: float) -> list[Any]:
    return [SimpleNamespace(numbers=(number,)) for number in numbers]


def arguments(bound: BoundPlan) -> list[Any]:
    """Return what each command's arguments hold; None for a barrier."""
    return [row and BLOCK.unpack(row[1]) for row in bound.commands()]


@pytest.fixture
def plan() -> ExecutionPlan:
    return ExecutionPlan(((scaling((0, 1), 3), False), (scaling((1, 2), 7), True)))


def test_a_command_for_each_launch_and_barrier(plan: ExecutionPlan) -> None:
    bound = BoundPlan(plan, nodes(0.5))
    bound.write([64, 256, 1 << 40])
    assert arguments(bound) == [
        (64, 260, 3, 0.5),
        None,
        (256, (1 << 40) + 4, 7, 0.5),
    ]
    grids = [row and row[2:] for row in bound.commands()]
    assert grids == [(3, 1, 1), None, (7, 1, 1)]


def test_addresses_and_numbers_are_written_over(plan: ExecutionPlan) -> None:
    bound = BoundPlan(plan, nodes(0.5))
    bound.write([8, 8, 8])
    before = bound.commands()
    for factor, addresses in ((2.0, [1, 2, 3]), (4.0, [1, 2, 3]), (4.0, [5, 6, 7])):
        bound.write(addresses)
        bound.write_numbers(nodes(factor))
        first, _, last = arguments(bound)
        assert first == (addresses[0], addresses[1] + 4, 3, factor)
        assert last == (addresses[1], addresses[2] + 4, 7, factor)
    # A batch that is not yet submitted keeps its arguments.
    assert before[0] is not None
    assert BLOCK.unpack(before[0][1]) == (8, 12, 3, 0.5)


def test_tables_are_written_apart(plan: ExecutionPlan) -> None:
    bound = BoundPlan(plan, nodes(1.0), {0: (0, 0), 1: (1, 0), 2: (0, 1)})
    bound.write([16, 32], 0)
    for address in (48, 64):
        bound.write([address], 1)
        first, _, last = arguments(bound)
        assert (first[:2], last[:2]) == ((16, address + 4), (address, 36))


def test_a_float_beyond_the_range_is_an_infinity(plan: ExecutionPlan) -> None:
    bound = BoundPlan(plan, nodes(1.0))
    bound.write([16, 32, 48])
    for factor, expected in ((1e60, math.inf), (-1e60, -math.inf), (2.0, 2.0)):
        bound.write_numbers(nodes(factor))
        first, _, last = arguments(bound)
        assert (first, last) == ((16, 36, 3, expected), (32, 52, 7, expected))


def test_a_number_that_does_not_fit_is_named() -> None:
    plan = ExecutionPlan(((counting((0, 1)), False),))
    with pytest.raises(ArgumentError, match="count is -1"):
        BoundPlan(plan, nodes(-1))
    bound = BoundPlan(plan, nodes(1))
    with pytest.raises(ArgumentError, match="count is -1"):
        bound.write_numbers(nodes(-1))


def changing(reads: Sequence[float]) -> Changing:
    number = Changing(reads[0])
    number.read = iter(reads[1:]).__next__
    return number


def test_numbers_that_change_become_dynamic_arguments(plan: ExecutionPlan) -> None:
    number = changing([1.0, 3.0])
    bound, words = BoundPlan(plan, nodes(number)), DynamicArguments()
    bound.add_dynamic(words, nodes(number))
    words.fix(bound.content, [number], {})
    bound.write([16, 32, 48])
    words.write()
    first, _, last = arguments(bound)
    assert (first, last) == ((16, 36, 3, 3.0), (32, 52, 7, 3.0))


def test_dynamic_arguments_of_a_copy(plan: ExecutionPlan) -> None:
    number = changing([1.0, 3.0])
    bound, words, copy = (
        BoundPlan(plan, nodes(number)),
        DynamicArguments(),
        bytearray(64),
    )
    with pytest.raises(TraceError, match="arguments are fixed"):
        bound.add_dynamic(DynamicArguments(), nodes(number), [0, None])
    bound.add_dynamic(words, nodes(number), [32, 0])
    words.fix(copy, [number], {})
    words.write()
    assert struct.unpack_from("<f", copy, 20) == struct.unpack_from("<f", copy, 52)
    assert struct.unpack_from("<f", copy, 20) == (3.0,)


def test_addresses_are_written_where_they_stand() -> None:
    content = bytearray(b"\xff" * 48)
    addresses = AddressTable()
    addresses.add(0, 1, 0)
    addresses.add(16, 0, 12)
    addresses.add(32, 1, 4)
    addresses.fix(content)
    for first, second in ((1 << 40, 256), (512, 1 << 63), (512, 1 << 63), (512, 0)):
        addresses.write([first, second])
        found = struct.unpack("<6Q", content)
        assert found[::2] == (second, first + 12, second + 4)
        assert set(found[1::2]) == {(1 << 64) - 1}


def test_what_is_not_written_again_is_what_stands_there() -> None:
    """Only who gives the same addresses as last time finds nothing written."""
    content = bytearray(16)
    addresses = AddressTable()
    addresses.add(8, 0, 0)
    addresses.fix(content)
    given = [64]
    addresses.write(given)
    given[0] = 128
    addresses.write(given)
    assert struct.unpack("<2Q", content) == (0, 128)


def test_an_interrupted_write_is_made_up_for() -> None:
    """What stands there is unknown then: the addresses before are written again."""
    content = bytearray(8)
    addresses = AddressTable()
    # As many as are written at once, all to one place.
    for _ in range(MAX_SINGLE_WRITES + 1):
        addresses.add(0, 0, 0)
    addresses.fix(content)
    addresses.write([64])
    words = addresses._words

    class Interrupting:
        def __setitem__(self, places: Any, found: Any) -> None:
            words[places] = found
            raise KeyboardInterrupt

    addresses._words = Interrupting()
    with pytest.raises(KeyboardInterrupt):
        addresses.write([128])
    addresses._words = words
    addresses.write([64])
    assert struct.unpack("<Q", content) == (64,)


def test_an_interrupt_between_addresses_is_made_up_for() -> None:
    content = bytearray(16)
    addresses = AddressTable()
    addresses.add(0, 0, 0)
    addresses.add(8, 1, 0)
    addresses.fix(content)
    addresses.write([64, 64])
    with pytest.raises(struct.error):
        addresses.write([128, -1])
    addresses.write([64, 64])
    assert struct.unpack("<2Q", content) == (64, 64)


@pytest.mark.parametrize("count", [1, MAX_SINGLE_WRITES, MAX_SINGLE_WRITES + 1, 40])
def test_addresses_stand_where_they_were_added(count: int) -> None:
    content = bytearray(8 * count)
    addresses = AddressTable()
    for k in range(count):
        addresses.add(8 * k, (3 * k) % count, k)
    addresses.fix(content)
    given = [1000 * k for k in range(count)]
    addresses.write(iter(given))
    wanted = [given[(3 * k) % count] + k for k in range(count)]
    assert struct.unpack(f"<{count}Q", content) == tuple(wanted)


def test_no_addresses_and_no_arguments() -> None:
    addresses = AddressTable()
    addresses.fix(bytearray())
    addresses.write([1, 2])
