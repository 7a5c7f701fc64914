"""Kernels of one invocation per element or word: how many words, what grid."""

import dataclasses

import numpy as np
import pytest
import torch

import vkbackend
import vkbackend.framework as fw
from vkbackend.framework import ops
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.dtype import float16, float32
from vkbackend.framework.base.errors import ShapeError
from vkbackend.framework.base.shape import TensorSpec
from vkbackend.framework.kernels import linear
from vkbackend.framework.kernels.linear import (
    COPY_ITEMS,
    MIN_COPY_ITEMS,
    copy_dispatch,
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


def test_large_copies_write_several_items(discrete: vkbackend.DeviceInfo) -> None:
    software = dataclasses.replace(discrete, kind="software")
    for gpu, items, each in (
        (discrete, MIN_COPY_ITEMS - 1, 1),
        (discrete, MIN_COPY_ITEMS, COPY_ITEMS),
        (software, MIN_COPY_ITEMS, 1),
    ):
        step = copy_dispatch(gpu, "copy/remap", items, {}, {"SIZE": 4})
        assert step.constants["ITEMS"] == each
        assert step.grid[0] * 256 * each >= items


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "uint8"])
def test_several_items_at_once(
    quads: GpuDevice, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linear, "MIN_COPY_ITEMS", 1)
    values = np.random.default_rng(0).integers(0, 99, (3, 5, 7, 9))
    x, twin = fw.tensor(values, dtype, quads), torch.tensor(values)
    pairs = [
        (ops.flip(x, -1), twin.flip(-1)),
        (ops.roll(x, (3, -2), (1, 3)), twin.roll((3, -2), (1, 3))),
        # Whole vectors of 16 bytes.
        (
            ops.roll(x.reshape((3, 35, 9))[:, :16].transpose(1, 2), (1, 2), (0, 1)),
            twin.reshape(3, 35, 9)[:, :16].transpose(1, 2).roll((1, 2), (0, 1)),
        ),
        (
            ops.pad(x.flatten()[:160].reshape((2, 5, 16)), (0, 0, 1, 2, 3, 1), value=7),
            torch.nn.functional.pad(
                twin.flatten()[:160].reshape(2, 5, 16), (0, 0, 1, 2, 3, 1), value=7
            ),
        ),
        (ops.pad(x, (1, 2, 0, 3)), torch.nn.functional.pad(twin, (1, 2, 0, 3))),
        (ops.cat([x, x[:, :2]], 1), torch.cat([twin, twin[:, :2]], 1)),
        (
            ops.cat([x.reshape((-1, 9))[:16].t().contiguous()] * 3, 1),
            torch.cat([twin.reshape(-1, 9)[:16].t()] * 3, 1),
        ),
    ]
    for found, wanted in pairs:
        assert found.tolist() == wanted.tolist()
