"""Bytes of what programs give."""

import numpy as np
import pytest

from vkbackend.errors import ArgumentError
from vkbackend.memory.byte_view import byte_view


def test_bytes_are_shared() -> None:
    data = np.arange(6, dtype=np.int16).reshape(2, 3)
    view = byte_view("upload", data)
    data[0, 0] = 258
    assert (view.format, len(view), bytes(view[:2])) == ("B", 12, b"\x02\x01")
    assert len(byte_view("upload", np.empty((0, 3)))) == 0
    assert byte_view("upload", b"ab").readonly
    row = np.zeros(1, [("O", np.int32)])
    assert len(byte_view("upload", row)) == 4


def test_what_has_no_bytes_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"upload: int is not accepted .*; give"):
        byte_view("upload", 3)
    with pytest.raises(ArgumentError, match="read: the data holds Python objects"):
        byte_view("read", np.array([None]))
    with pytest.raises(ArgumentError, match=r"not C-contiguous: shape \(3, 2\)"):
        byte_view("read", np.zeros((2, 3)).T)
