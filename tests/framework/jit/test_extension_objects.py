"""Extension objects: which have opaque state."""

import datetime
import decimal
import enum
import io
import re
import sqlite3
import threading
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from vkbackend.framework.jit.extension_objects import describes, hides_state


class Plain:
    """A class in Python."""

    __hash__ = object.__hash__
    __slots__ = ("alpha",)


@pytest.mark.parametrize(
    "value",
    [
        Plain(),
        SimpleNamespace(),
        datetime.date(2020, 1, 1),
        decimal.Decimal(1),
        re.compile("a"),
        threading.Lock(),
        enum.Enum("E", "A"),
        len,
        ValueError(),
        range(3),
    ],
    ids=lambda value: type(value).__name__,
)
def test_these_do_not(value: Any) -> None:
    assert not hides_state(value)


@pytest.mark.parametrize(
    "value",
    [torch.ones(1), sqlite3.connect(":memory:"), memoryview(b"x")],
    ids=lambda value: type(value).__name__,
)
def test_these_do(value: Any) -> None:
    assert hides_state(value)


def test_descriptors_in_c() -> None:
    assert describes(type(vars(Plain)["alpha"]))
    assert not describes(type(vars(io.StringIO)["read"]))
    assert not describes(Plain)
