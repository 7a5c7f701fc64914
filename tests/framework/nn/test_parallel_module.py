"""Parts of parameters that have projections side by side."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from vkbackend.framework.base.errors import ShapeError
from vkbackend.framework.nn.parallel_module import section_sizes, shard_of


def group(rank: int, size: int) -> Any:
    return SimpleNamespace(rank=rank, size=size)


@pytest.mark.parametrize("dim", [0, 1])
def test_parts_are_the_whole_together(dim: int) -> None:
    whole = np.arange(60).reshape((12, 5) if dim == 0 else (5, 12))
    sizes, found = (6, 2, 4), np.zeros_like(whole)
    for rank in range(2):
        shard = shard_of(whole.shape, dim, sizes, group(rank, 2))
        part = shard.of(whole)
        assert part.shape == shard.own_shape
        places = np.r_[3 * rank : 3 * rank + 3, 6 + rank, 8 + 2 * rank : 10 + 2 * rank]
        np.testing.assert_array_equal(part, whole.take(places, dim))
        shard.put(found, part.reshape(-1))
    np.testing.assert_array_equal(found, whole)
    assert shard_of(whole.shape, dim, sizes, group(0, 1)).ranges == ((0, 12),)


def test_sizes_of_sections() -> None:
    assert section_sizes("it", 12, 3, group(0, 2)) == (4, 4, 4)
    with pytest.raises(ShapeError, match="it: a section is 9; it must be a multiple"):
        section_sizes("it", 12, (9, 3), group(0, 2))
    with pytest.raises(ShapeError, match="it: sections is 0 for 12 features"):
        section_sizes("it", 12, 0, group(0, 2))
