"""Windows over images, in integers and against PyTorch's patches."""

import pytest
from hypothesis import strategies as st

from vkbackend.framework.base.errors import ShapeError
from vkbackend.framework.kernels.conv.window import Window, pair

PAIRS = st.tuples(st.integers(1, 3), st.integers(1, 3))


def test_constants() -> None:
    constants = Window((3, 2), (1, 4), (0, 5), (6, 7)).constants()
    assert constants == {
        "KERNEL_H": 3, "KERNEL_W": 2, "STRIDE_H": 1, "STRIDE_W": 4,
        "PADDING_H": 0, "PADDING_W": 5, "DILATION_H": 6, "DILATION_W": 7,
    }  # fmt: skip


def test_pair() -> None:
    assert pair("op: stride", 2, 1) == (2, 2)
    assert pair("op: stride", (2, 3), 1) == (2, 3)
    for value in (0, (1, 0), (1, 2, 3), ()):
        with pytest.raises(ShapeError) as raised:
            pair("op: stride", value, 1)  # type: ignore[arg-type]
        assert str(raised.value) == (
            f"op: stride is {value}; it must be one number or (height, width), each at"
            " least 1"
        )
