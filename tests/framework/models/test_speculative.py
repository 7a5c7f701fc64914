"""Text with a draft is that without: the same tokens, or the same distribution."""

from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.models.small import CONFIG, small_llama
from vkbackend.errors import ArgumentError
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.models.sampling import Sampler, Sampling
from vkbackend.framework.models.speculative import judged

PROMPT = [[3, 1, 4, 1, 5], [0, 0, 9, 2, 6]]
MASK = [[1, 1, 1, 1, 1], [0, 0, 1, 1, 1]]


class Counted:
    """A model that counts how often it is called."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.calls = 0
        self.new_cache = model.new_cache

    def __call__(self, *args: Any, **settings: Any) -> Any:
        self.calls += 1
        return self.model(*args, **settings)


def drafting() -> fw.models.Llama:
    """Return a model that agrees with the small one at times."""
    model = small_llama()
    rng = np.random.default_rng(1)
    with fw.no_grad():
        for each in model.parameters():
            noise = 0.3 * rng.standard_normal(each.shape, np.float32)
            each.add_(fw.tensor(noise))
    return model


@pytest.mark.parametrize(
    ("guesses", "options"),
    [
        (1, {"prefill_chunk": 2}),
        (3, {}),
        (3, {"repetition_penalty": 1.5}),
        (20, {"stop": [2, 7]}),
    ],
)
def test_greedy_text_is_the_same(guesses: int, options: dict[str, Any]) -> None:
    model, tokens, mask = small_llama(), fw.tensor(PROMPT), fw.tensor(MASK)
    wanted = fw.models.generate(model, tokens, 12, mask=mask, **options)
    found = fw.models.generate(
        model,
        tokens,
        12,
        mask=mask,
        draft=drafting(),
        draft_tokens=guesses,
        **options,
    )
    assert found.tolist() == wanted.tolist()


def test_a_draft_that_is_right_saves_calls() -> None:
    model = Counted(small_llama())
    tokens = fw.tensor(PROMPT)
    # The prompt, and 3 rounds of 4 tokens; the first token is the prompt's.
    fw.models.generate(model, tokens, 13, draft=small_llama(), draft_tokens=3)
    assert model.calls == 1 + 3
    # Of the last 3 tokens a round would write too many.
    model.calls = 0
    fw.models.generate(model, tokens, 16, draft=small_llama(), draft_tokens=3)
    assert model.calls == 1 + 3 + 3


def chi_square(found: np.ndarray, wanted: np.ndarray) -> float:
    counts = np.bincount(found, minlength=len(wanted))
    expected = len(found) * wanted
    return float(((counts - expected) ** 2 / expected).sum())


def test_tokens_are_of_the_models_distribution() -> None:
    rows, count, words = 40_000, 2, 5
    rng = np.random.default_rng(0)
    chances = rng.dirichlet(np.ones(words), count + 1)
    drafted = rng.dirichlet(np.ones(words), count)
    guesses = np.stack([rng.choice(words, rows, p=each) for each in drafted], 1)
    found = judged(
        fw.tensor(guesses),
        fw.tensor(chances, dtype=fw.float32).expand(rows, -1, -1),
        fw.tensor(drafted, dtype=fw.float32).expand(rows, -1, -1),
        Sampler(Sampling(1.0), fw.Generator(0)),
    )
    tokens = found.tokens.numpy()
    assert found.kept.item() == 0
    kept = np.ones(rows, bool)
    for place in range(count + 1):
        # Of 4 degrees of freedom: above 23.5 once in 10,000 times.
        assert chi_square(tokens[kept, place], chances[place]) < 23.5
        if place < count:
            # A rejected guess is never drawn in its own place.
            kept &= tokens[:, place] == guesses[:, place]
            assert 0.1 < kept.mean() < 0.9


def test_certain_guesses() -> None:
    chances = fw.tensor([[[0.0, 1.0], [0.5, 0.5], [1.0, 0.0]]] * 9)
    sampler = Sampler(Sampling(1.0), fw.Generator(0))
    same = judged(fw.ones(9, 2, dtype=fw.int64), chances, chances[:, :2], sampler)
    assert (same.kept.item(), same.tokens[:, 2].tolist()) == (2, [0] * 9)
    wrong = fw.tensor([[0, 1]] * 9)
    other = judged(wrong, chances, fw.full((9, 2, 2), 0.5), sampler)
    assert (other.kept.item(), other.tokens[:, 0].tolist()) == (0, [1] * 9)


def test_one_seed_draws_one_text() -> None:
    texts = [
        fw.models.generate(
            small_llama(),
            fw.tensor(PROMPT),
            9,
            draft=drafting(),
            draft_tokens=2,
            temperature=3.0,
            top_k=5,
            repetition_penalty=1.2,
            seed=seed,
        ).tolist()
        for seed in (3, 3, 4)
    ]
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.wide
def test_texts_are_of_the_models_distribution() -> None:
    model, tokens = small_llama(), fw.tensor([PROMPT[0]])
    drawn = []
    for seed in range(600):
        text = fw.models.generate(
            model,
            tokens,
            3,
            draft=drafting(),
            draft_tokens=1,
            temperature=4.0,
            seed=seed,
        )
        drawn.append(text[0, 5:].tolist())
    found = np.array(drawn)
    words = CONFIG["vocab_size"]
    assert isinstance(words, int)
    first = fw.softmax(model(tokens)[0, -1] / 4, -1).detach().numpy()
    # Of 10 degrees of freedom: above 35.6 once in 10,000 times.
    assert chi_square(found[:, 0], first) < 35.6
    common = int(np.bincount(found[:, 0]).argmax())
    longer = fw.cat([tokens, fw.tensor([[common]])], 1)
    second = fw.softmax(model(longer)[0, -1] / 4, -1).detach().numpy()
    assert chi_square(found[found[:, 0] == common, 1], second) < 35.6


@pytest.mark.wide
def test_a_round_is_one_read(gpu: GpuDevice) -> None:
    model, draft = small_llama().to(gpu), small_llama(num_hidden_layers=1).to(gpu)
    tokens = fw.tensor(PROMPT[:1], device=gpu)
    wanted = fw.models.generate(small_llama(), fw.tensor(PROMPT[:1]), 13)
    counters = gpu.gpu.counters
    stream = fw.models.generate_stream(
        model, tokens, 13, draft=draft, draft_tokens=2, stop=[99]
    )
    found = [next(stream)]
    reads: list[int] = []
    for _ in range(12):
        before = counters.snapshot()
        found.append(next(stream))
        reads.append((counters.snapshot() - before).host_reads)
    assert fw.cat(found, 1).tolist() == wanted[:, 5:].tolist()
    # A token has a read of its own, or comes with the round before.
    assert set(reads) <= {0, 1}


def test_refusals() -> None:
    model, tokens = small_llama(), fw.tensor(PROMPT)
    with pytest.raises(ArgumentError, match="draft_tokens is 0; it must be at least 1"):
        fw.models.generate_stream(model, tokens, 3, draft=model, draft_tokens=0)
    other = small_llama(vocab_size=12)
    with pytest.raises(ArgumentError, match="the draft has 12 words, the model 11"):
        fw.models.generate(model, tokens, 3, draft=other)
