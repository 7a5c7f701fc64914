import pytest

from vkbackend.memory.freed_spans import FreedSpans
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
