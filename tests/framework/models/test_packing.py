import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.models.small import small_llama
from vkbackend.errors import ArgumentError
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.errors import ShapeError

SEQUENCES = [[1, 2, 3, 4], [5, 6, 7], [8, 9, 10, 1, 2, 3], [4, 4]]


def test_sequences_fill_rows() -> None:
    packed = fw.models.pack(SEQUENCES, 8)
    assert packed.tokens.tolist() == [
        [1, 2, 3, 4, 5, 6, 7, 0],
        [8, 9, 10, 1, 2, 3, 4, 4],
    ]
    assert packed.targets.tolist() == [
        [2, 3, 4, -100, 6, 7, -100, -100],
        [9, 10, 1, 2, 3, -100, 4, -100],
    ]
    assert packed.positions.tolist()[1] == [0, 1, 2, 3, 4, 5, 0, 1]
    assert packed.documents.tolist() == [
        [0, 0, 0, 0, 1, 1, 1, -1],
        [0, 0, 0, 0, 0, 0, 1, 1],
    ]


def test_long_sequences_are_cut_and_targets_chosen() -> None:
    counted = [[False, False, True, True, False]]
    packed = fw.models.pack([[1, 2, 3, 4, 5]], 3, counted=counted)
    assert packed.tokens.tolist() == [[1, 2, 3], [4, 5, 0]]
    assert packed.targets.tolist() == [[-100, 3, -100], [-100, -100, -100]]


def test_wrong_use_is_refused() -> None:
    with pytest.raises(ArgumentError, match="length is 0"):
        fw.models.pack(SEQUENCES, 0)
    with pytest.raises(ArgumentError, match="2 sequences have no token"):
        fw.models.pack([[], []], 4)
    with pytest.raises(ArgumentError, match="counted has other lengths"):
        fw.models.pack([[1, 2]], 4, counted=[[True]])
    with pytest.raises(ShapeError, match="must be integers"):
        fw.models.Documents(fw.zeros((1, 3)))
    documents = fw.models.Documents(fw.zeros((1, 3), dtype=fw.int64))
    with pytest.raises(ShapeError, match="tokens are 4 a row; numbers are 3"):
        small_llama()(fw.zeros((1, 4), dtype=fw.int64), documents)


def test_positions_are_those_of_pack(place: Device) -> None:
    packed = fw.models.pack(SEQUENCES, 8, place)
    documents = fw.models.Documents(packed.documents)
    got = documents.positions(documents.places(8))
    np.testing.assert_array_equal(got.cpu().numpy(), packed.positions.cpu().numpy())
