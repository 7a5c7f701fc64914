"""The size that differs from sequence to sequence."""

import vkbackend.framework as fw
from vkbackend.framework.nested.ragged import RaggedSize


def test_it_equals_itself_alone() -> None:
    offsets = fw.tensor([0, 2, 5])
    one, other = RaggedSize(offsets), RaggedSize(offsets)
    assert one == one
    assert one != other
    assert repr(one).startswith("j")
    assert one.longest() == 3
    assert one.rows(4, offsets).tolist() == [0, 1, 4, 5, 6]
    assert one.owners(offsets).tolist() == [0, 0, 1, 1, 1]
