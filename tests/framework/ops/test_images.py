"""Windows over signals and images."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import vkbackend.framework as fw
from tests.framework.kernels.conv.test_window import PAIRS
from vkbackend.framework.base.errors import ShapeError
from vkbackend.framework.kernels.conv.window import Window
from vkbackend.framework.ops.images import check_fit


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


def test_window_that_does_not_fit() -> None:
    window = Window((3, 3), (1, 1), (1, 0), (2, 1))
    check_fit("op", fw.ones((1, 1, 3, 3)), window)
    with pytest.raises(ShapeError) as raised:
        check_fit("op", fw.ones((1, 1, 2, 3)), window)
    assert str(raised.value) == (
        "op: a window of (3, 3) with dilation (2, 1) does not fit an image of (2, 3)"
        " with padding (1, 0)"
    )
