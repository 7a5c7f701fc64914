"""Prefill attention: which caches it reads, and what it refuses."""

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.ops.twin import draw
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.base.errors import ShapeError
from vkbackend.framework.ops.attention import prefill
from vkbackend.framework.ops.attention.prefill import (
    prefill_attention,
    prefills,
    prefills_pages,
)


def test_tables_of_other_sequences() -> None:
    x, pool = fw.ones(2, 1, 1, 4), fw.zeros(3, 1, 4, 4)
    position, table = fw.zeros(2, dtype="int64"), fw.zeros((1, 2), dtype="int64")
    message = r"position is \(2,\), with tables \(1, 2\); it must be \(2,\), tables"
    with pytest.raises(ShapeError, match=f"prefill_attention: {message}"):
        prefill_attention(x, pool, pool, position, table, 1.0)
    with pytest.raises(ShapeError, match="with no tables; it must be without"):
        prefill_attention(x, pool, pool, position, None, 1.0)


def test_a_sequence_is_a_page(place: Device) -> None:
    """Of as many tokens as there is room for."""
    q, k, v = (draw(2, n, count, 8) for n, count in ((4, 5), (2, 12), (2, 12)))
    given = [fw.tensor(each, device=place) for each in (q, k, v)]
    at = fw.tensor(6, device=place)
    found = prefill_attention(*given, at, None, 0.5)
    table = fw.arange(2, device=place).reshape(2, 1)
    paged = prefill_attention(*given, at.expand(2), table, 0.5)
    np.testing.assert_array_equal(found.numpy(), paged.numpy())


def test_which_caches(gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefill, "uses_tensor_cores", lambda *_: True)
    for head, taken in ((16, True), (20, False), (512, False)):
        q, keys = (fw.zeros(1, 2, n, head, device=gpu) for n in (20, 40))
        assert prefills(q, keys, 1.0) == taken
        assert prefills_pages(q, keys) == (head < 512)
        assert not prefills(q.cpu(), keys.cpu(), 1.0)
    monkeypatch.setattr(prefill, "uses_tensor_cores", lambda *_: False)
    assert not prefills(q, keys, 1.0)
