"""Addresses among the arguments of many kernels."""

import struct
from typing import Any

import pytest

from vkbackend.framework.scheduler.argument_table import AddressTable


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


def test_no_addresses_and_no_arguments() -> None:
    addresses = AddressTable()
    addresses.fix(bytearray())
    addresses.write([1, 2])
