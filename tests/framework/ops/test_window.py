"""Windows over images, in integers and against PyTorch's patches."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import vkbackend.framework as fw
from vkbackend.framework.errors import ShapeError
from vkbackend.framework.ops.window import Window, check_fit, pair

PAIRS = st.tuples(st.integers(1, 3), st.integers(1, 3))


@given(PAIRS, PAIRS, st.tuples(st.integers(0, 2), st.integers(0, 2)), PAIRS)
def test_patches_are_as_in_torch(
    kernel: Any, stride: Any, padding: Any, dilation: Any
) -> None:
    window = Window(kernel, stride, padding, dilation)
    x = np.random.default_rng(0).standard_normal((2, 3, 9, 8))
    patches = window.patches(x, 0)
    unfolded = torch.nn.functional.unfold(
        torch.from_numpy(x),
        kernel,
        stride=stride,
        padding=padding,
        dilation=dilation,
    )
    height, width = window.output(9, 8)
    assert patches.shape == (2, 3, height, width, *kernel)
    wanted = unfolded.numpy().reshape(2, 3, *kernel, height, width)
    assert np.array_equal(patches, wanted.transpose(0, 1, 4, 5, 2, 3))


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


def test_window_that_does_not_fit() -> None:
    window = Window((3, 3), (1, 1), (1, 0), (2, 1))
    check_fit("op", fw.ones((1, 1, 3, 3)), window)
    with pytest.raises(ShapeError) as raised:
        check_fit("op", fw.ones((1, 1, 2, 3)), window)
    assert str(raised.value) == (
        "op: a window of (3, 3) with dilation (2, 1) does not fit an image of (2, 3)"
        " with padding (1, 0)"
    )
