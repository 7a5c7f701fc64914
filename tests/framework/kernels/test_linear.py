"""Kernels of one invocation per element or word: how many words, what grid."""

import pytest

from vkbackend.framework.base.dtype import float16, float32
from vkbackend.framework.base.errors import ShapeError
from vkbackend.framework.base.shape import TensorSpec
from vkbackend.framework.kernels.linear import (
    linear_dispatch,
    word_dispatch,
    words_of,
)


def test_words_are_counted_in_32_bits() -> None:
    assert words_of("copy", TensorSpec((3, 5), float32)) == 15
    with pytest.raises(
        ShapeError, match=r"^copy: shape \(65536, 65536\) has 4294967296"
    ):
        words_of("copy", TensorSpec((1 << 16, 1 << 16), float32))


def test_each_element_or_word_has_an_invocation() -> None:
    step = linear_dispatch("sort/bincount", 65, {}, {"PASS": 1}, workgroup=64)
    assert step.grid == (2, 1, 1)
    assert step.constants == {"LOCAL_X": 64, "PASS": 1}
    step = word_dispatch("copy/remap", "pad", TensorSpec((513,), float16), {})
    assert step.grid == (2, 1, 1)
    assert step.constants == {"LOCAL_X": 256, "SIZE": 2}
