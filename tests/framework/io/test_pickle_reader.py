"""The interpreter of pickles that runs nothing."""

import os
import pickle
from collections import OrderedDict
from typing import Any

import pytest

from vkbackend.framework.base.errors import UnsafeFileError
from vkbackend.framework.io.pickle_reader import Named, PickleReader


def find(module: str, name: str) -> Any:
    if (module, name) == ("collections", "OrderedDict"):
        return Named("collections.OrderedDict", OrderedDict)
    raise UnsafeFileError(f"{module}.{name}")


def read(content: bytes) -> Any:
    return PickleReader(find, list).read(content)


VALUES = [
    [None, True, False, 0, 255, 65_536, -1, 1 << 100, 1.5, "ä", "x" * 300],
    {"a": (), 1: (1,), (1, 2): (1, 2), None: (1, 2, 3), "four": (1, 2, 3, 4)},
    OrderedDict(b=[1], a={}),
]


@pytest.mark.parametrize("protocol", range(6))
def test_data_of_every_protocol(protocol: int) -> None:
    value = [*VALUES, VALUES[0]]
    loaded = read(pickle.dumps(value, protocol))
    assert loaded == value
    assert loaded[-1] is loaded[0]


def test_attributes_of_ordered_dicts() -> None:
    value: Any = OrderedDict(a=1)
    value._metadata = {"": {"version": 2}}
    assert read(pickle.dumps(value, 2))._metadata == {"": {"version": 2}}
    value.other = 1
    with pytest.raises(UnsafeFileError, match="it sets attributes of a OrderedDict"):
        read(pickle.dumps(value, 2))


class Hostile:
    """Something whose pickle calls a function."""

    def __reduce__(self) -> Any:
        return os.system, ("exit 1",)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (pickle.dumps(Hostile()), r"(posix|nt)\.system"),
        (b"cbuiltins\neval\n(S'1'\ntR.", r"builtins\.eval"),
        (b"(S'exit'\nios\nsystem\n.", "the opcode INST"),
        (b"\x80\x02\x82\x01.", "the opcode EXT1"),
        (b"(ccollections\nOrderedDict\no.", "the opcode OBJ"),
        (b"\x80\x02K\x01)R.", "it calls a int"),
        (b"\x80\x02]}b.", "it sets attributes of a list"),
        (b"ccollections\nOrderedDict\n}b.", "it sets attributes of a Named"),
    ],
)
def test_what_could_run(content: bytes, text: str) -> None:
    with pytest.raises(UnsafeFileError, match=text):
        read(content)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b".",
        b"\x80\x02K",
        b"K\x01K\x02.",
        b"\x85.",
        b"(a.",
        b"h\x07.",
        b"q\x00.",
        b"}(K\x01u.",
        b"K\x01K\x02a.",
        b"}]K\x01s.",
        b"(K\x01\x85.",
        b"\x8d" + b"\xff" * 7 + b"\x7f.",
        b"X\xff\xff\xff\x7fx.",
    ],
)
def test_damage(content: bytes) -> None:
    with pytest.raises((ArithmeticError, LookupError, TypeError, ValueError)):
        read(content)


def test_deep_nesting_and_keys_that_would_not_end() -> None:
    deep = b"]" * 200_000 + b"a" * 199_999 + b"."
    assert len(read(deep)) == 1
    key = b"})" + b"\x85" * 200_000 + b"K\x01s."
    with pytest.raises(ValueError, match="a tuple is a key"):
        read(key)
    endless = b"]q\x00h\x00a."
    found = read(endless)
    assert found[0] is found


def test_large_memo_numbers_take_no_memory() -> None:
    assert read(b"K\x01r\xff\xff\xff\x7f.") == 1
