"""The paged cache: what rows at positions of their own attend to."""

from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.models.small import small_llama
from vkbackend.errors import ArgumentError
from vkbackend.framework.base.errors import GradError, IndexRangeError
from vkbackend.framework.models.paged_cache import PagedCache

PROMPTS = [[1, 2, 3, 4, 5], [6], [7, 8, 9, 2, 5]]


def alone(model: Any, tokens: list[int]) -> np.ndarray:
    """Return the logits of a sequence without a cache."""
    found: np.ndarray = model(fw.tensor([tokens])).detach().numpy()[0]
    return found


def test_rows_have_positions_of_their_own(place: Any) -> None:
    model = small_llama()
    wanted = [alone(model, [*prompt, 10, 3]) for prompt in PROMPTS]
    model = model.to(place)
    pool = model.new_cache(11, 2, place)
    tables = [[5, 1, 7, 3], [2, 6, 0, 0], [8, 4, 9, 10]]
    with fw.no_grad():
        for table, prompt, logits in zip(tables, PROMPTS, wanted, strict=True):
            given = fw.tensor([table], device=place), fw.tensor([0], device=place)
            row = PagedCache(pool, *given)
            found = model(fw.tensor([prompt], device=place), row).numpy()[0]
            np.testing.assert_allclose(found, logits[:-2], rtol=2e-4, atol=2e-4)
            assert row.position.tolist() == [len(prompt)]
        lengths = fw.tensor([*map(len, PROMPTS)], device=place)
        cache = PagedCache(pool, fw.tensor(tables, device=place), lengths)
        for number, token in enumerate((10, 3)):
            newest = fw.tensor([[token]] * 3, device=place)
            found = model(newest, cache).numpy()[:, 0]
            rows = np.stack([logits[number - 2] for logits in wanted])
            np.testing.assert_allclose(found, rows, rtol=2e-4, atol=2e-4)
    assert cache.position.tolist() == [7, 3, 7]


def test_a_long_prompt_attends_to_pages(place: Any) -> None:
    """More tokens than the kernel of few queries takes, in pieces."""
    tokens = (np.arange(41) * 7 % 11).tolist()
    model = small_llama(num_hidden_layers=1)
    wanted = alone(model, tokens)
    model = model.to(place)
    table = fw.tensor([[3, 9, 1, 11, 5, 7, 2, 10, 4, 6, 8]], device=place)
    pool = model.new_cache(12, 4, place)
    cache = PagedCache(pool, table, fw.tensor([0], device=place))
    with fw.no_grad():
        pieces = [
            model(fw.tensor([tokens[a:b]], device=place), cache).numpy()[0]
            for a, b in ((0, 20), (20, 41))
        ]
    found = np.concatenate(pieces)
    np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-4)


def test_a_window_and_a_row_without_a_sequence() -> None:
    model = small_llama(sliding_window=3)
    wanted = alone(model, [1, 2, 3, 4, 5, 6])
    tables, steps = fw.tensor([[4, 2, 1], [0, 0, 0]]), fw.tensor([1, 0])
    position = fw.tensor([0, 0])
    cache = PagedCache(model.new_cache(5, 2), tables, position, steps)
    with fw.no_grad():
        for number in range(6):
            newest = fw.tensor([[number + 1], [0]])
            found = model(newest, cache).numpy()[0, 0]
            np.testing.assert_allclose(found, wanted[number], rtol=2e-4, atol=2e-4)
    assert cache.position.tolist() == [6, 0]


def test_what_is_refused() -> None:
    model = small_llama()
    pool, table = model.new_cache(3, 2), fw.tensor([[1, 2]])
    cache = PagedCache(pool, table, fw.tensor([0]))
    tokens = fw.tensor([[1]])
    with pytest.raises(GradError, match="call it under no_grad"):
        model(tokens, cache)
    with pytest.raises(ArgumentError, match=r"5 tokens .* room for 4 in all"):
        cache.places(5)
    cache = PagedCache(pool, table, fw.tensor([4]))
    with fw.no_grad(), pytest.raises(IndexRangeError, match=r"index 4 .* size 4"):
        model(tokens, cache)


def test_a_cache_is_cleared() -> None:
    cache = PagedCache(small_llama().new_cache(3, 2), fw.tensor([[1]]), fw.tensor([1]))
    cache.clear()
    assert cache.position.tolist() == [0]
