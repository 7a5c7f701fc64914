"""Sampling: which tokens are drawn, beside the processors of transformers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework.models.sampling import Sampler, Sampling, processed


def test_drawn_tokens() -> None:
    logits = fw.tensor(np.log(np.array([[0.5, 0.3, 0.15, 0.05]], np.float32)))
    rows = logits.expand(2000, 4)

    def shares(**settings: Any) -> np.ndarray:
        sampler = Sampler(Sampling(1.0, **settings), fw.Generator(0))
        return np.bincount(sampler.draw(rows).numpy()[:, 0], minlength=4) / 2000

    np.testing.assert_allclose(shares(), [0.5, 0.3, 0.15, 0.05], atol=0.05)
    np.testing.assert_allclose(shares(top_k=2), [0.625, 0.375, 0, 0], atol=0.05)
    np.testing.assert_allclose(shares(top_p=0.6), [0.625, 0.375, 0, 0], atol=0.05)
    np.testing.assert_allclose(shares(top_p=0.5), [1, 0, 0, 0])
    np.testing.assert_allclose(shares(min_p=0.5), [0.625, 0.375, 0, 0], atol=0.05)


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(1.0, min_p=0.2),
        Sampling(1.0, min_p=1.0),
        Sampling(0.7, repetition_penalty=1.3),
        Sampling(1.3, top_k=20, top_p=0.8, min_p=0.1, repetition_penalty=0.8),
    ],
)
def test_logits_are_those_of_transformers(sampling: Sampling, place: Any) -> None:
    torch, transformers = map(pytest.importorskip, ("torch", "transformers"))
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((3, 37), np.float32) * 2
    tokens = rng.integers(0, 37, (3, 11))
    names = [("RepetitionPenalty", sampling.repetition_penalty)]
    names += [("TopK", sampling.top_k), ("TopP", sampling.top_p)]
    names += [("MinP", sampling.min_p)]
    expected = torch.tensor(logits)
    for name, value in names:
        kind = "Processor" if name == "RepetitionPenalty" else "Warper"
        if value is not None:
            made = getattr(transformers, f"{name}Logits{kind}")(value)
            expected = made(torch.tensor(tokens), expected)
        if name == "RepetitionPenalty":
            expected = expected / sampling.temperature
    sampler = Sampler(sampling)
    sampler.begin(fw.tensor(tokens, device=place), 37, None)
    given = fw.tensor(logits, device=place)
    found = processed(given, sampling, sampler._seen)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)


def test_greedy_text_with_a_penalty_is_that_of_transformers(
    tmp_path: Path, place: Any
) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from tests.framework.models.saved import SIZES, TOKENS, saved

    other = saved(tmp_path, "Llama", **SIZES)
    with torch.no_grad():
        expected = other.generate(
            torch.from_numpy(TOKENS),
            attention_mask=torch.ones(TOKENS.shape, dtype=torch.int64),
            max_new_tokens=9,
            do_sample=False,
            repetition_penalty=1.8,
            pad_token_id=0,
            eos_token_id=None,
        )
    model = fw.models.load(tmp_path, place)
    tokens = fw.tensor(TOKENS, device=place)
    found = fw.models.generate(model, tokens, 9, repetition_penalty=1.8)
    np.testing.assert_array_equal(found.numpy(), expected.numpy())
    plain = fw.models.generate(model, tokens, 9)
    assert (found.numpy() != plain.numpy()).any()
