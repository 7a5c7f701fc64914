"""Slices from symbolic numbers: which indices are taken, in two steps."""

from typing import Any

import pytest

from vkbackend.framework.base.shape import Shape
from vkbackend.framework.base.symbolic_number import SymbolTable, live
from vkbackend.framework.ops.indexing.symbolic_index import symbolic_index

pytestmark = pytest.mark.core

WHOLE = slice(None)


def _described(index: Any, shape: Shape) -> Any:
    found = symbolic_index(index, shape)
    if found is None:
        return None
    return found.static, [(d, start.now(), length) for d, start, length in found.slices]


def test_an_index_is_a_view_and_slices_of_it() -> None:
    table, shape = SymbolTable([2, 0.5], indexing=True), (4, 5, 6)
    live.add(table)
    symbols: Any = table.symbols()
    n, x = symbols
    assert _described(n, shape) == ((WHOLE,), [(0, 2, None)])
    assert _described((1, n - 3), shape) == ((1, WHOLE), [(0, 4, None)])
    found = _described((None, ..., slice(n, n + 3)), shape)
    assert found == ((None, WHOLE, WHOLE, WHOLE), [(3, 2, 3)])
    found = _described((slice(n, None), n, slice(n + 1, n + 1)), shape)
    assert found is None  # of a length that changes
    found = _described((n, slice(1, 3), slice(n + 1, n + 1)), shape)
    assert found == ((WHOLE, slice(1, 3), WHOLE), [(0, 2, None), (2, 3, 0)])
    refused = [n + 2, slice(n, n + 3), slice(n, n + 2, 2), slice(0, n), [n], x]
    assert all(symbolic_index(each, shape) is None for each in refused)
    assert table.fit([2, 0.25])
    assert not table.fit([3, 0.5])  # another sign of `n - 3`
    table.indexing = False
    assert symbolic_index(n, shape) is None
    live.discard(table)
