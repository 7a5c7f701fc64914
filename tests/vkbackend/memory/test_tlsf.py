from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.interruption import each_interruption
from vkbackend.errors import ArgumentError
from vkbackend.memory.tlsf import Suballocator

pytestmark = pytest.mark.null


class AgainstIntervals(RuleBasedStateMachine):
    """The allocator and a plain list of what is taken."""

    @initialize(
        size=st.integers(1, 5000) | st.integers(1, 1 << 40),
        alignment=st.sampled_from((1, 3, 16, 256)),
    )
    def make(self, size: int, alignment: int) -> None:
        self.size = size
        self.alignment = alignment
        self.usable = size // alignment * alignment
        self.allocator = Suballocator(size, alignment=alignment)
        self.taken: dict[int, int] = {}

    def gaps(self) -> list[int]:
        bounds = [0]
        for start in sorted(self.taken):
            bounds += [start, start + self.taken[start]]
        bounds.append(self.usable)
        return [
            end - start
            for start, end in zip(bounds[::2], bounds[1::2], strict=True)
            if start < end
        ]

    @rule(share=st.floats(0, 1.1), power=st.integers(1, 12))
    def allocate(self, share: float, power: int) -> None:
        size = max(1, int(self.size * share**power))
        rounded = -(-size // self.alignment) * self.alignment
        offset = self.allocator.allocate(size)
        if offset is None:
            assert rounded > max(self.gaps(), default=0)
            return
        assert offset % self.alignment == 0
        assert 0 <= offset
        assert offset + rounded <= self.usable
        for start, length in self.taken.items():
            assert offset + rounded <= start or start + length <= offset
        self.taken[offset] = rounded

    @rule(at=st.floats(0, 1.1), share=st.floats(0, 1.1), power=st.integers(1, 12))
    def allocate_at(self, at: float, share: float, power: int) -> None:
        start = int(self.size * at) // self.alignment * self.alignment
        size = max(1, int(self.size * share**power))
        end = start + -(-size // self.alignment) * self.alignment
        free = end <= self.usable and all(
            end <= taken or taken + length <= start
            for taken, length in self.taken.items()
        )
        assert self.allocator.allocate_at(start, size) == free
        if free:
            self.taken[start] = end - start

    @rule(pick=st.integers(0, 1000))
    def free(self, pick: int) -> None:
        if self.taken:
            offset = sorted(self.taken)[pick % len(self.taken)]
            del self.taken[offset]
            self.allocator.free(offset)

    @rule()
    def allocate_largest(self) -> None:
        largest = self.allocator.largest_free
        if largest:
            offset = self.allocator.allocate(largest)
            assert offset is not None
            self.taken[offset] = largest

    @invariant()
    def numbers_agree(self) -> None:
        gaps = self.gaps()
        taken = sorted(self.taken)
        for start, end in zip(
            [0, *[each + self.taken[each] for each in taken]],
            [*taken, self.usable],
            strict=True,
        ):
            if start < end:
                assert self.allocator.free_end(start) == end
                assert self.allocator.free_end(end - 1) == end
        for start in taken:
            assert self.allocator.free_end(start) == 0
        assert self.allocator.free_bytes == sum(gaps)
        assert self.allocator.used_bytes == sum(self.taken.values())
        assert self.allocator.largest_free == max(gaps, default=0)
        assert self.allocator.empty == (not self.taken)

    def teardown(self) -> None:
        for offset in self.taken:
            self.allocator.free(offset)
        if self.usable:
            assert self.allocator.allocate(self.usable) == 0


AgainstIntervals.TestCase.settings = settings(
    max_examples=60, stateful_step_count=60, deadline=None
)
test_against_intervals = AgainstIntervals.TestCase


def test_neighbours_merge_in_any_order() -> None:
    for order in ((0, 1, 2), (2, 1, 0), (0, 2, 1), (1, 0, 2)):
        allocator = Suballocator(768)
        offsets = [allocator.allocate(256) for _ in range(3)]
        assert allocator.allocate(1) is None
        for index in order:
            offset = offsets[index]
            assert offset is not None
            allocator.free(offset)
        assert allocator.largest_free == 768


def test_exact_range_is_preferred_to_a_larger_one() -> None:
    allocator = Suballocator(1 << 20)
    small = allocator.allocate(4096)
    allocator.allocate(256)
    assert small is not None
    allocator.free(small)
    assert allocator.allocate(4096) == small


def test_last_range_that_fits_is_found_behind_a_newer_one() -> None:
    allocator = Suballocator(33 + 1 + 32, alignment=1)
    large, _, small = (allocator.allocate(size) for size in (33, 1, 32))
    assert large is not None
    assert small is not None
    allocator.free(large)
    allocator.free(small)
    assert allocator.allocate(33) == large


def test_block_smaller_than_its_alignment_holds_nothing() -> None:
    allocator = Suballocator(255)
    assert allocator.allocate(1) is None
    assert (allocator.free_bytes, allocator.used_bytes) == (0, 0)


def test_a_range_is_taken_where_it_is_asked_for() -> None:
    """From the middle of a free range; not across blocks, nor between granules."""
    space = Suballocator()
    assert not space.allocate_at(0, 1)
    space.add(1 << 20, 1024)
    space.add((1 << 20) + 1024, 512)
    assert not space.allocate_at((1 << 20) + 768, 512)
    assert not space.allocate_at((1 << 20) + 100, 256)
    assert not space.allocate_at(1 << 19, 256)
    assert space.allocate_at((1 << 20) + 256, 300)
    assert not space.allocate_at((1 << 20) + 512, 1)
    assert (space.used_bytes, space.largest_free) == (512, 512)
    assert space.allocate(256) == (1 << 20) + 768
    assert space.allocate_at(1 << 20, 256)
    for offset in (0, 256, 768):
        space.free((1 << 20) + offset)
    assert space.largest_free == 1024


def test_second_free_is_refused() -> None:
    allocator = Suballocator(1024)
    offset = allocator.allocate(100)
    assert offset == 0
    allocator.free(offset)
    with pytest.raises(ArgumentError, match=r"nothing is allocated at offset 0;"):
        allocator.free(offset)


@pytest.mark.parametrize("size", [0, -1])
def test_sizes_below_one_are_refused(size: int) -> None:
    with pytest.raises(ArgumentError, match=f"size is {size} bytes"):
        Suballocator(1024).allocate(size)
    with pytest.raises(ArgumentError, match=r"size -1, alignment 256"):
        Suballocator(-1)


def test_blocks_are_added_and_removed() -> None:
    space = Suballocator()
    assert space.allocate(1) is None
    space.add(1 << 20, 1024)
    space.add((1 << 20) + 1024, 512)  # Neighbours, which must not merge.
    assert space.largest_free == 1024
    first, second = space.allocate(1024), space.allocate(512)
    assert (first, second) == (1 << 20, (1 << 20) + 1024)
    with pytest.raises(ArgumentError, match=r"no unused block starts at 1048576;"):
        space.remove(1 << 20)
    assert first is not None
    assert second is not None
    space.free(second)
    space.free(first)
    assert space.is_free(first)
    assert space.largest_free == 1024
    space.remove(first)
    assert (space.free_bytes, space.used_bytes) == (512, 0)
    with pytest.raises(ArgumentError, match=r"no unused block starts at 7;"):
        space.remove(7)


OPERATIONS: dict[str, Callable[[Suballocator], object]] = {
    "allocate": lambda allocator: allocator.allocate(5),
    "free": lambda allocator: allocator.free(30),
    "add": lambda allocator: allocator.add(200, 50),
    "remove": lambda allocator: allocator.remove(100),
    "allocate_at": lambda allocator: allocator.allocate_at(105, 20),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_interrupt_at_any_line_leaves_it_whole(operation: str) -> None:
    def ready() -> Suballocator:
        allocator = Suballocator(100, alignment=1)
        for _ in range(9):
            allocator.allocate(10)
        allocator.add(100, 50)
        return allocator

    made = [ready()]
    places = 0
    for one in each_interruption(lambda: OPERATIONS[operation](made[0])):
        (allocator,) = made
        places += 1
        assert allocator.largest_free >= 10, one.where
        size = sum(allocator._blocks.values())
        assert allocator.free_bytes + allocator.used_bytes == size, one.where
        for start in tuple(allocator._used):
            allocator.free(start)
        for start in tuple(allocator._blocks):
            allocator.remove(start)
        assert allocator.free_bytes == allocator.used_bytes == 0, one.where
        made[:] = [ready()]
    assert places > 5
