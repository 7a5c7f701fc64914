"""The key-value cache."""

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.models.small import small_llama
from vkbackend.errors import ArgumentError
from vkbackend.framework.models.cache import visible


def test_pieces_give_what_the_whole_gives() -> None:
    model = small_llama()
    tokens = fw.tensor(np.arange(12).reshape(2, 6) % 11)
    whole = model(tokens).detach().numpy()
    cache = model.new_cache(2, 6)
    parts = [model(tokens[:, a:b], cache) for a, b in ((0, 3), (3, 4), (4, 6))]
    assert cache.position.item() == 6
    found = fw.cat(parts, 1).detach().numpy()
    np.testing.assert_allclose(found, whole, rtol=1e-5, atol=1e-5)
    cache.clear()
    again = model(tokens, cache).detach().numpy()
    np.testing.assert_allclose(again, whole, rtol=1e-5, atol=1e-5)


def test_a_window_hides_what_is_far() -> None:
    places = fw.arange(4)
    seen = visible(places, places, 2).numpy()
    expected = [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]
    np.testing.assert_array_equal(seen, np.array(expected, bool))


def test_more_tokens_than_there_is_room_for() -> None:
    cache = small_llama().new_cache(1, 4)
    with pytest.raises(ArgumentError, match=r"5 tokens .* room for 4"):
        cache.places(5)
