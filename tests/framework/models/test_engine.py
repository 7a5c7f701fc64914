"""The engine: texts that join and leave a batch are those written alone."""

from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.models.small import CONFIG, small_llama
from vkbackend.errors import ArgumentError
from vkbackend.framework.models import engine as engine_module
from vkbackend.framework.models.engine import Engine, EngineLoad

PROMPTS = [
    [1, 2, 3],
    [4],
    [5, 6, 7, 8, 9, 10, 0, 1, 2, 3],
    [3, 3],
    [(7 * i) % 11 for i in range(21)],
]
COUNTS = [5, 9, 3, 1, 6]


ONE_KEY_HEAD = {"num_key_value_heads": 1}
GEMMA = {
    **ONE_KEY_HEAD,
    "head_dim": 4,
    "hidden_activation": "gelu_pytorch_tanh",
    "layer_types": ["sliding_attention", "full_attention"],
    "query_pre_attn_scalar": 4,
    "sliding_window": 3,
}
FAMILIES: dict[str, tuple[type, dict[str, Any]]] = {
    "qwen3": (fw.models.Qwen, {"head_dim": 4, **ONE_KEY_HEAD}),
    "qwen2": (fw.models.Qwen, ONE_KEY_HEAD),
    "qwen3_moe": (
        fw.models.Qwen,
        {"num_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 6},
    ),
    "mistral": (fw.models.Llama, {"sliding_window": 3}),
    "mixtral": (fw.models.Llama, {"num_local_experts": 3}),
    "gemma2": (fw.models.Gemma, {**GEMMA, "attn_logit_softcapping": 4.0}),
    "gemma3_text": (fw.models.Gemma, GEMMA),
    "phi": (
        fw.models.Phi,
        {"hidden_act": "gelu_new", "partial_rotary_factor": 0.5},
    ),
    "phi3": (fw.models.Phi3, {"sliding_window": 5, **ONE_KEY_HEAD}),
    "gpt2": (
        fw.models.GPT2,
        {"n_embd": 8, "n_head": 2, "n_layer": 2, "n_positions": 32},
    ),
}
FURTHER = [pytest.param(name, marks=pytest.mark.wide) for name in [*FAMILIES][1:]]


def small_model(name: str) -> Any:
    """Return a model of a family with random parameters."""
    if name == "llama":
        return small_llama()
    kind, settings = FAMILIES[name]
    config = fw.models.ModelConfig(CONFIG | settings | {"model_type": name})
    model = kind(config).eval()
    rng = np.random.default_rng(2)
    with fw.no_grad():
        for parameter in model.parameters():
            parameter.copy_(fw.tensor(rng.standard_normal(parameter.shape, np.float32)))
    return model


def alone(model: Any, prompt: list[int], count: int, **settings: Any) -> list[int]:
    """Return what a model adds to a prompt of its own."""
    found = fw.models.generate(model, fw.tensor([prompt]), count, **settings)
    added: list[int] = found[0, len(prompt) :].tolist()
    return added


@pytest.mark.parametrize("name", ["llama", "qwen3", *FURTHER])
def test_texts_are_those_written_alone(
    name: str, place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def kept(function: Any) -> Any:
        made.append(fw.jit(function))
        return made[-1]

    monkeypatch.setattr(engine_module, "jit", kept)
    model = small_model(name)
    wanted = [alone(model, *each) for each in zip(PROMPTS, COUNTS, strict=True)]
    engine = Engine(model.to(place), rows=3, length=32, page=4, pages=12)
    texts = [engine.submit(*each) for each in zip(PROMPTS, COUNTS, strict=True)]
    assert engine.load == EngineLoad(5, 0, 12, 12)
    while not engine.is_idle:
        engine.step()
        load = engine.load
        assert load.running <= 3
        assert load.free_pages >= 0
    assert [each.tokens for each in texts] == wanted
    assert {each.finish for each in texts} == {"length"}
    assert engine.load == EngineLoad(0, 0, 12, 12)
    for step in made[1:]:  # the first computes pieces of prompts
        assert step.traces == 1
        assert step.replays > max(COUNTS)


def test_pieces_of_a_size_that_recurs_are_replayed(gpu: Any) -> None:
    model = small_llama()
    prompts = [[(k * i + 1) % 11 for i in range(20)] for k in range(2, 9)]
    wanted = [alone(model, each, 2) for each in prompts]
    engine = Engine(model.to(gpu), rows=2, length=32, page=4)
    texts = [engine.submit(each, 2) for each in prompts]
    while not engine.is_idle:
        engine.step()
    assert [each.tokens for each in texts] == wanted
    replayed: Any = engine._fill_again
    assert replayed.traces == 1
    assert replayed.replays == len(prompts) - engine_module.PIECES_BEFORE_TRACE - 1


def test_a_text_ends_at_a_token() -> None:
    model = small_llama()
    whole = alone(model, [1, 2, 3], 9)
    engine = Engine(model, rows=2, length=16, page=4)
    text = engine.submit([1, 2, 3], 9, stop=[whole[4]])
    engine.run()
    assert text.tokens == whole[: whole.index(whole[4]) + 1]
    assert text.finish == "stop"


def test_drawn_texts_depend_on_their_seeds_alone() -> None:
    model = small_llama()
    settings = {"temperature": 1.0, "top_k": 6, "top_p": 0.9, "min_p": 0.01}
    engine = Engine(model, rows=1, length=16, page=4)
    first = engine.submit([1, 2], 8, seed=5, temperature=1.5)
    engine.run()
    crowd = Engine(model, rows=4, length=16, page=4)
    texts = [
        crowd.submit([7], 3),
        crowd.submit([1, 2], 8, seed=5, temperature=1.5),
        crowd.submit([1, 2], 8, seed=6, **settings),
        crowd.submit([4, 5], 8, repetition_penalty=1.7),
        crowd.submit([1, 2], 8, seed=6, **settings),
    ]
    crowd.run()
    assert texts[1].tokens == first.tokens
    assert texts[2].tokens == texts[4].tokens != first.tokens
    assert texts[3].tokens == alone(model, [4, 5], 8, repetition_penalty=1.7)


def test_a_step_is_launched_before_the_last_one_is_read(
    gpu: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for steps between which texts join or leave."""
    model = small_llama()
    wanted = [alone(model, [1, 2], 4), alone(model, [3], 2)]
    engine = Engine(model.to(gpu), rows=2, length=16, page=4)
    events = []

    def noted(name: str) -> Any:
        function = getattr(engine, name)

        def called(*given: Any) -> Any:
            events.append(name)
            return function(*given)

        return called

    for name in ("_launch", "_collect"):
        monkeypatch.setattr(engine, name, noted(name))
    first = engine.submit([1, 2], 4)
    engine.step()
    assert events == ["_launch", "_launch", "_collect"]
    second = engine.submit([3], 2)
    engine.step()
    assert events[3:] == ["_collect"]
    engine.run()
    assert events[4:] == ["_launch", "_launch", "_collect", "_collect"]
    assert [first.tokens, second.tokens] == wanted


def test_texts_wait_for_pages_in_their_order() -> None:
    engine = Engine(small_llama(), rows=3, length=16, page=4, pages=5)
    first = engine.submit([1] * 10, 2)  # 3 pages
    second = engine.submit([2] * 11, 5)  # 3 pages, and one more
    third = engine.submit([1], 2)  # 1 page, after the second
    engine.step()
    assert engine.load == EngineLoad(2, 1, 2, 5)
    engine.cancel(first)
    assert (first.finish, engine.load.free_pages) == ("cancelled", 5)
    engine.step()
    assert engine.load == EngineLoad(0, 2, 1, 5)
    engine.cancel(third)
    engine.cancel(first)
    waiting = [engine.submit([3] * 12, 4) for _ in range(2)]
    engine.cancel(waiting[0])
    engine.run()
    assert (len(second.tokens), len(waiting[1].tokens)) == (5, 4)
    assert engine.load == EngineLoad(0, 0, 5, 5)
    engine.submit([1], 12)
    engine.step()
    engine.reset()
    assert engine.load == EngineLoad(0, 0, 5, 5)
    assert engine.step() == []


def test_pages_are_taken_as_texts_grow(place: Any) -> None:
    model = small_llama()
    prompts = [[1, 2, 3], [4, 5], [6]]
    settings: dict[str, Any] = {"temperature": 1.1, "seed": 3}
    lone = Engine(model, rows=1, length=24, page=4)
    wanted = [lone.submit(prompt, 20, **settings) for prompt in prompts]
    lone.run()
    engine = Engine(model.to(place), rows=3, length=24, page=4, pages=8)
    texts = [engine.submit(prompt, 20, **settings) for prompt in prompts]
    engine.step()
    assert engine.load.free_pages >= 8 - 2 * 3
    running = []
    while not engine.is_idle:
        engine.step()
        running.append(engine.load.running)
    # Whole texts take 18 pages: the last ones gave theirs up, and went on later.
    assert min(running[:-1]) < 3
    assert [each.tokens for each in texts] == [each.tokens for each in wanted]
    assert engine.load == EngineLoad(0, 0, 8, 8)


def test_equal_prompts_share_pages(place: Any) -> None:
    model = small_llama()
    prompt = [(5 * i) % 11 for i in range(19)]
    others = [prompt, [*prompt[:17], 10, 1], [*prompt[:9], 0], [*prompt[:16], 3]]
    wanted = [alone(model, each, 6) for each in others]
    engine = Engine(model.to(place), rows=4, length=32, page=8)
    texts = [engine.submit(each, 6) for each in others]
    engine.step()
    # Whole pages are shared; of others the tokens that are alike are copied.
    assert [each.shared for each in texts] == [0, 16, 9, 16]
    later = engine.submit(prompt, 6)
    pages = {page for each in texts for page in each._pages}
    assert len(pages) == 3 + 1 + 1 + 1
    engine.run()
    assert [each.tokens for each in texts] == wanted
    assert (later.shared, later.tokens) == (18, wanted[0])
    # Of a text that is over, what it added is known, too.
    longer = engine.submit([*prompt, *wanted[0], 4], 2)
    engine.run()
    assert longer.shared == 24
    assert longer.tokens == alone(model.cpu(), [*prompt, *wanted[0], 4], 2)


def test_a_copy_leaves_the_page_as_it_was() -> None:
    model = small_llama()
    prompt = [(5 * i) % 11 for i in range(36)]
    other = [*prompt[:30], 1, 2]
    wanted = [alone(model, each, 12) for each in (prompt, other)]
    engine = Engine(model, rows=2, length=64, page=32)
    first = engine.submit(prompt, 12)
    engine.step()
    second = engine.submit(other, 12)
    engine.run()
    assert [first.tokens, second.tokens] == wanted
    assert second.shared == 30
    apart = Engine(model, rows=2, length=64, page=32, share_prefixes=False)
    texts = [apart.submit(prompt, 2) for _ in range(2)]
    apart.run()
    assert [each.shared for each in texts] == [0, 0]


def test_prompts_are_computed_in_pieces_between_steps() -> None:
    model = small_llama()
    engine = Engine(model, rows=2, length=64, page=8, prefill_chunk=16)
    short = engine.submit([1, 2], 6)
    engine.step()
    prompt = [(3 * i) % 11 for i in range(40)]
    long = engine.submit(prompt, 4)
    lengths = []
    while not engine.is_idle:
        engine.step()
        lengths.append((len(short.tokens), len(long.tokens)))
    assert lengths[:3] == [(2, 0), (3, 0), (4, 1)]
    assert long.tokens == alone(model, prompt, 4)
    cancelled = engine.submit(prompt, 4)
    engine.step()
    engine.cancel(cancelled)
    assert engine.is_idle
    assert engine.load.free_pages == engine.pages


@pytest.mark.parametrize(
    ("tokens", "settings", "message"),
    [
        ([], {}, r"the prompt is float64 \(0,\); it must be whole numbers"),
        ([1.5], {}, "the prompt is float64"),
        ([1 << 70], {}, "the prompt is object"),
        ([11], {}, "has token 11; the model has those from 0 to 10"),
        ([-1], {}, "has token -1"),
        ([1], {"count": 0}, "count is 0; it must be at least 1"),
        ([1] * 8, {"count": 9}, r"has 8 tokens and 9 are to be added; .* room for 16"),
        ([1] * 8, {"count": 8}, "needs 4 pages of 4; there are 3"),
        ([1], {"temperature": -1.0}, r"temperature is -1\.0"),
        ([1], {"seed": -1}, "seed is -1; it must be at least 0"),
    ],
)
def test_what_is_refused(
    tokens: list[int], settings: dict[str, Any], message: str
) -> None:
    engine = Engine(small_llama(), rows=1, length=16, page=4, pages=3)
    with pytest.raises(ArgumentError, match=message):
        engine.submit(tokens, **{"count": 1, **settings})
    assert engine.is_idle


def test_sizes_are_checked() -> None:
    with pytest.raises(ArgumentError, match="Engine: rows is 0; it must be at least 1"):
        Engine(small_llama(), rows=0)


def test_a_model_has_fewer_positions() -> None:
    model = small_model("gpt2")
    assert Engine(model, page=8).length == 32
    with pytest.raises(ArgumentError, match="length is 33; the GPT2 has 32 positions"):
        Engine(model, length=33)


@pytest.mark.parametrize("dtype", ["q8_0", "bfloat16"])
def test_weights_of_other_dtypes(dtype: str) -> None:
    sizes = {"hidden_size": 32, "intermediate_size": 32, "num_key_value_heads": 1}
    model: Any = small_llama(**sizes)
    if dtype == "q8_0":
        fw.nn.quantize(model, dtype)
    else:
        model = model.to(fw.bfloat16)
    wanted = alone(model, PROMPTS[4], 6)
    engine = Engine(model, rows=2, length=32, page=8)
    text = engine.submit(PROMPTS[4], 6)
    engine.run()
    assert text.tokens == wanted


@pytest.mark.wide
@pytest.mark.parametrize("seed", range(4))
def test_texts_that_come_and_go_at_random(seed: int, place: Any) -> None:
    rng = np.random.default_rng(seed)
    model = small_llama()
    settings: list[dict[str, Any]] = [
        {},
        {"temperature": 1.2, "top_p": 0.9},
        {"repetition_penalty": 1.4, "stop": [7]},
    ]
    sizes = {"rows": 3, "length": 40, "page": 4, "prefill_chunk": 8}
    crowd = Engine(small_llama().to(place), pages=14, **sizes)
    lone = Engine(model.to(place), **{**sizes, "rows": 1})
    texts, wanted = [], []
    for number in range(24):
        prompt = rng.integers(0, 11, rng.integers(1, 24)).tolist()
        count = int(rng.integers(1, 40 - len(prompt)))
        given = settings[rng.integers(3)] | {"seed": number}
        texts.append(crowd.submit(prompt, count, **given))
        wanted.append(lone.submit(prompt, count, **given))
        for _ in range(rng.integers(4)):
            crowd.step()
        if rng.random() < 0.3:
            crowd.cancel(texts[rng.integers(len(texts))])
        load = crowd.load
        held = len({page for each in texts for page in each._pages})
        assert load.free_pages == load.pages - held
    crowd.run()
    lone.run()
    assert crowd.load == EngineLoad(0, 0, 14, 14)
    for text, alone_text in zip(texts, wanted, strict=True):
        assert text.finish in ("cancelled", alone_text.finish)
        assert text.tokens == alone_text.tokens[: len(text.tokens)]
        if text.finish != "cancelled":
            assert len(text.tokens) == len(alone_text.tokens)
