"""What a head sees of a prompt."""

from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.models.small import small_llama
from tests.framework.models.test_engine import FAMILIES, small_model
from vkbackend.errors import ArgumentError
from vkbackend.framework.models.engine import Engine

TOKENS = [[1, 2, 3, 4, 5], [5, 6, 7, 8, 9]]


def shapes_seen(model: Any) -> list[tuple[int, ...]]:
    """Return a list that gets the shape of the states of each use of the head."""
    seen: list[tuple[int, ...]] = []
    model.lm_head.register_forward_pre_hook(
        lambda _, given: seen.append(tuple(given[0].shape))
    )
    return seen


@pytest.mark.parametrize("name", ["llama", *FAMILIES])
def test_the_head_sees_one_token_of_a_prompt(name: str) -> None:
    model = small_model(name)
    seen = shapes_seen(model)
    fw.models.generate(model, fw.tensor(TOKENS), 3, prefill_chunk=3)
    width = seen[0][-1]
    assert seen == [(2, 1, width)] * 4


@pytest.mark.parametrize("name", ["llama", "gemma2"])
def test_logits_that_are_kept_are_those_of_all(name: str) -> None:
    model = small_model(name)
    tokens = fw.tensor(TOKENS)
    whole = model(tokens).detach().numpy()
    for keep in (1, 2, 5, 6):
        found = model(tokens, logits_to_keep=keep).detach().numpy()
        np.testing.assert_allclose(found, whole[:, -keep:], rtol=1e-5, atol=1e-5)
    found = model(tokens, logits_to_keep=fw.tensor([3, 0])).detach().numpy()
    np.testing.assert_allclose(found, whole[:, [3, 0]], rtol=1e-5, atol=1e-5)


def test_an_engine_computes_no_further_logits() -> None:
    model = small_llama()
    engine = Engine(model, rows=2, length=32, page=4)
    seen = shapes_seen(model)
    engine.submit(TOKENS[0], 2)
    engine.run()
    assert seen == [(1, 1, 8)] + [(2, 1, 8)] * 2


def test_a_device_computes_logits_of_one_token(gpu: Any) -> None:
    model = small_llama().to(gpu)
    seen = shapes_seen(model)
    fw.models.generate(model, fw.tensor(TOKENS[:1], device=gpu), 1)
    assert seen == [(1, 1, 8)]


def test_what_keeps_no_tokens_is_refused() -> None:
    with pytest.raises(ArgumentError, match="logits_to_keep is -1; it must be at"):
        small_llama()(fw.tensor(TOKENS), logits_to_keep=-1)
