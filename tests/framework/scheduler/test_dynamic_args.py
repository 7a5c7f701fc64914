"""Arguments that change."""

import struct
import sys
from types import FrameType
from typing import Any

import pytest

from vkbackend.framework.base.errors import TraceError
from vkbackend.framework.base.philox import Generator
from vkbackend.framework.base.trace_hooks import Changing, StreamWord
from vkbackend.framework.scheduler.dynamic_args import DynamicArguments


def changing(values: list[float]) -> Changing:
    number = Changing(values[0])
    number.read = values.pop
    return number


def word(generator: Generator, call: int, part: int) -> StreamWord:
    marked = StreamWord(0)
    marked.generator, marked.call, marked.part = generator, call, part
    return marked


def test_fixed_numbers_are_left_alone() -> None:
    words, content = DynamicArguments(), bytearray(8)
    words.add("kernel", ("float", 0), 0, 2.5)
    words.add("kernel", ("float", 0), None, 2.5)
    words.fix(content, [], {})
    words.write()
    assert not words.any
    assert content == bytes(8)


def test_a_number_goes_wherever_it_is_taken() -> None:
    words, content, number = DynamicArguments(), bytearray(32), changing([1.5, 2.5])
    words.add("kernel", ("float", 4), 0, number)
    words.add("kernel", ("double", 8), 0, number)
    words.add("kernel", ("float", 4), 16, number)
    words.fix(content, [number], {})
    assert words.any
    for expected in (2.5, 1.5):
        words.write()
        assert struct.unpack_from("<f", content, 4) == (expected,)
        assert struct.unpack_from("<d", content, 8) == (expected,)
        assert struct.unpack_from("<f", content, 20) == (expected,)


def test_what_is_as_it_was_need_not_be_sent() -> None:
    words, content = DynamicArguments(), bytearray(4)
    number = changing([4.0, 3.0, 3.0, -0.0, 0.0, 2.0, 2.0, 2.0])
    words.add("kernel", ("float", 0), 0, number)
    words.fix(content, [number], {})
    assert not words.changed
    seen = []
    for _ in range(7):
        words.write()
        seen.append((words.changed, struct.unpack_from("<f", content)[0]))
        words.sent()
    assert [changed for changed, _ in seen] == [True, False, False, *[True] * 3, False]
    assert str([number for _, number in seen]) == "[2.0, 2.0, 2.0, 0.0, -0.0, 3.0, 3.0]"


def test_what_was_not_sent_is_remembered() -> None:
    words, content, number = DynamicArguments(), bytearray(4), changing([2.0, 2.0, 2.0])
    words.add("kernel", ("float", 0), 0, number)
    words.fix(content, [number], {})
    words.write()
    words.write()
    assert words.changed


def test_a_number_whose_write_was_interrupted_is_written_again() -> None:
    words, content, number = DynamicArguments(), bytearray(4), changing([2.0, 3.0, 2.0])
    words.add("kernel", ("float", 0), 0, number)
    words.fix(content, [number], {})
    words.write()

    def interrupt(frame: FrameType, event: str, _: object) -> Any:
        if event == "line" and struct.unpack("<f", content) == (3.0,):
            raise KeyboardInterrupt
        return interrupt

    tracing = sys.gettrace()
    sys.settrace(interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            words.write()
    finally:
        sys.settrace(tracing)
    words.write()
    assert struct.unpack("<f", content) == (2.0,)


def test_actions_keep_their_order() -> None:
    words, content, done = DynamicArguments(), bytearray(8), []
    number = Changing(0)
    number.read = lambda: len(done)
    words.add("kernel", ("float", 0), 0, number)
    words.fix(content, [lambda: done.append(1), number, lambda: done.append(2)], {})
    words.write()
    assert struct.unpack_from("<f", content) == (1.0,)
    assert done == [1, 2]


def test_draws_take_the_next_streams() -> None:
    words, content = DynamicArguments(), bytearray(32)
    generator = Generator((7 << 32) + 5)
    generator.set_state((generator.key, (3 << 32) - 1))
    for call in range(2):
        for part in range(4):
            marked = word(generator, call, part)
            words.add("kernel", ("uint", 4 * part), 16 * call, marked)
    words.fix(content, [], {generator: 3})
    words.write()
    first, second = (
        struct.unpack("<4I", content[:16]),
        struct.unpack("<4I", content[16:]),
    )
    assert first == (5, 7, 0xFFFFFFFF, 2)
    assert second == (5, 7, 0, 3)
    assert generator.get_state()[1] == (3 << 32) + 2


def test_draws_that_no_kernel_needs_are_taken_too() -> None:
    words, generator = DynamicArguments(), Generator(0)
    words.fix(bytearray(), [], {generator: 2})
    words.write()
    assert generator.get_state() == (0, 2)


def test_numbers_that_cannot_change_are_refused() -> None:
    with pytest.raises(TraceError, match="arguments are fixed"):
        DynamicArguments().add("kernel", ("float", 0), None, changing([1.0]))
    words, number = DynamicArguments(), changing([1.0])
    words.add("kernel", ("half", 0), 0, number)
    with pytest.raises(TraceError, match="takes a half"):
        words.fix(bytearray(8), [number], {})
