"""Rows of sparse gradients, each once."""

import vkbackend.framework as fw
from vkbackend.framework.base.device import Device
from vkbackend.framework.sparse.rows import added_rows, rows_of


def test_equal_rows_are_summed_in_as_many_places(place: Device) -> None:
    grad = fw.sparse_coo_tensor(
        fw.tensor([[2, 0, 2]], device=place), [[1.0], [2.0], [4.0]], (3, 1)
    ).to(place)
    rows, values, kept = rows_of(grad)
    assert rows.tolist() == [0, 2, 0]
    assert values.tolist() == [[2], [5], [0]]
    assert kept.tolist() == [[True], [True], [False]]
    found = added_rows(fw.ones(3, 1, device=place), grad, rows, values)
    assert found.tolist() == [[3], [1], [6]]
