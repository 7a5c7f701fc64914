import pytest
from hypothesis import given
from hypothesis import strategies as st

from vkbackend.memory.freed_spans import FreedSpans, covering
from vkbackend.memory.span import MemorySpan

pytestmark = pytest.mark.null


def span(address: int, size: int) -> MemorySpan:
    return MemorySpan(None, 0, size, address, ())  # type: ignore[arg-type]  # no block


def test_spans_are_found_by_size_and_address() -> None:
    first, second, third = span(0, 256), span(512, 256), span(1024, 512)
    freed = FreedSpans([first, second, third])
    assert list(freed) == [first, second, third]
    assert freed.bytes == 1024
    assert freed.bins[256][512] is second
    freed.remove(first)
    assert (list(freed), freed.bytes) == ([second, third], 768)


def test_parts_of_what_is_wanted() -> None:
    freed = FreedSpans([span(0, 256), span(512, 256), span(768, 256)])
    free = [(256, 256), (1024, 256)]

    def parts(*wanted: tuple[int, int]) -> list[int]:
        return sorted(each.address for each in freed.parts_of(wanted, free))

    assert parts((0, 512)) == [0], "the rest is free"
    assert parts((256, 512)) == [512]
    assert parts((300, 900)) == [512, 768]
    assert parts((900, 500)) == [], "some of it is in use"
    assert parts((256, 256)) == []
    assert parts((0, 256), (600, 100)) == [0, 512]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), max_size=8),
    st.lists(st.tuples(st.integers(0, 40), st.integers(1, 8)), max_size=4),
)
def test_covering(gaps: list[tuple[int, int]], wanted: list[tuple[int, int]]) -> None:
    ranges, end = [], 0
    for gap, size in gaps:
        ranges.append((end + gap, size))
        end += gap + size
    unused = {at: start for start, size in ranges for at in range(start, start + size)}
    expected = []
    for start, size in wanted:
        touched = [unused.get(at) for at in range(start, start + size)]
        if None not in touched:
            expected.append([*dict.fromkeys(touched)])
    assert list(covering(ranges, wanted)) == expected
