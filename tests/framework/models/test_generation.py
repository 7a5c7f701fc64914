"""Generation: how tokens are chosen, where it ends, and what is replayed."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.models.small import small_llama
from tests.framework.ops.large import as_discrete, change_model
from tests.hardware import skip_where_it_crashes
from vkbackend.errors import ArgumentError
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.errors import ShapeError
from vkbackend.framework.kernels.gemm import register_gemv
from vkbackend.framework.kernels.gemm.gemv import skinny_gemm
from vkbackend.framework.models import generation
from vkbackend.framework.models.loading import FAMILIES

PROMPT = np.array([[1, 2, 3], [4, 5, 6]])


def test_greedy_text_is_that_of_whole_passes(place: Any) -> None:
    model = small_llama().to(place)
    tokens = fw.tensor(PROMPT, device=place)
    found = fw.models.generate(model, tokens, 7)
    for _ in range(7):
        newest = model(tokens)[:, -1].argmax(-1, keepdim=True)
        tokens = fw.cat([tokens, newest], 1)
    np.testing.assert_array_equal(found.numpy(), tokens.numpy())


@pytest.mark.parametrize(
    "settings",
    [{}, {"repetition_penalty": 1.5}, {"temperature": 1.0, "min_p": 0.1, "seed": 0}],
    ids=["greedy", "penalty", "drawn"],
)
def test_steps_are_replayed(
    settings: dict[str, Any], gpu: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def kept(function: Any) -> Any:
        made.append(fw.jit(function))
        return made[-1]

    monkeypatch.setattr(generation, "jit", kept)
    tokens = fw.tensor(PROMPT, device=gpu)
    fw.models.generate(small_llama().to(gpu), tokens, 8, **settings)
    (step,) = made
    assert (step.traces, step.replays) == (1, 6)


def test_a_cache_is_longer_in_its_memory(gpu: Any) -> None:
    model = small_llama().to(gpu)
    cache = model.new_cache(1, 6)
    token = fw.tensor([[1]], device=gpu)
    with fw.no_grad():
        model(token, cache).numpy()
        before = [each.array.value.buffer for each in cache.pair(1)]
        model(token, cache).numpy()
        assert [each.array.value.buffer for each in cache.pair(1)] == before


def test_a_sequence_that_ended_is_filled() -> None:
    model = small_llama()
    tokens = fw.tensor(PROMPT)
    whole = fw.models.generate(model, tokens, 7).numpy()
    end = int(whole[0, 4])
    found = fw.models.generate(model, tokens, 7, stop=[end]).numpy()
    for row, expected in zip(found, whole, strict=True):
        ended = np.flatnonzero(expected[3:] == end)
        place = 3 + ended[0] if len(ended) else len(row)
        np.testing.assert_array_equal(
            row[: place + 1], expected[: place + 1][: len(row)]
        )
        assert (row[place:] == end).all()


@pytest.mark.parametrize("penalty", [1.0, 1.7])
def test_a_prompt_in_chunks(penalty: float, place: Any) -> None:
    model = small_llama().to(place)
    tokens = fw.tensor(PROMPT, device=place)
    mask = fw.tensor([[0, 1, 1], [1, 1, 1]], device=place)
    settings = {"mask": mask, "repetition_penalty": penalty}
    whole = fw.models.generate(model, tokens, 5, **settings)
    chunks = fw.models.generate(model, tokens, 5, prefill_chunk=2, **settings)
    np.testing.assert_array_equal(chunks.numpy(), whole.numpy())


def test_padding_is_not_penalised() -> None:
    model = small_llama()
    settings = {"repetition_penalty": 3.0}
    mask = fw.tensor([[0, 0, 1], [1, 1, 1]])
    padded = fw.models.generate(model, fw.tensor(PROMPT), 6, mask=mask, **settings)
    alone = fw.models.generate(model, fw.tensor(PROMPT[:1, 2:]), 6, **settings)
    np.testing.assert_array_equal(padded.numpy()[0, 2:], alone.numpy()[0])


def test_a_stream_computes_what_is_asked_for() -> None:
    model = small_llama()
    whole = fw.models.generate(model, fw.tensor(PROMPT), 5).numpy()[:, 3:]
    calls = []
    model.register_forward_hook(lambda *_: calls.append(fw.is_grad_enabled()))
    stream = fw.models.generate_stream(model, fw.tensor(PROMPT), 5)
    assert not calls
    for number, newest in enumerate(stream):
        assert calls == [False] * (number + 1)
        assert fw.is_grad_enabled()
        np.testing.assert_array_equal(newest.numpy()[:, 0], whole[:, number])
    assert len(calls) == 5


def test_one_seed_draws_one_text(place: Any) -> None:
    model = small_llama().to(place)
    tokens = fw.tensor(PROMPT, device=place)
    settings = {"temperature": 1.0, "top_k": 9, "top_p": 0.95, "min_p": 0.01}
    first, second = (
        fw.models.generate(model, tokens, 6, seed=3, **settings).numpy()
        for _ in range(2)
    )
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"count": -1}, ArgumentError, "count is -1"),
        ({"temperature": -1.0}, ArgumentError, r"temperature is -1\.0"),
        ({"top_k": 0}, ArgumentError, "top_k is 0"),
        ({"top_p": 0.0}, ArgumentError, r"top_p is 0\.0"),
        ({"min_p": 1.5}, ArgumentError, r"min_p is 1\.5"),
        ({"repetition_penalty": 0.0}, ArgumentError, r"repetition_penalty is 0\.0"),
        ({"prefill_chunk": 0}, ArgumentError, "prefill_chunk is 0"),
        ({"seed": 1, "generator": fw.Generator(2)}, ArgumentError, "seed is 1"),
        ({"mask": fw.ones(2, 2)}, ShapeError, r"mask is \(2, 2\), tokens \(2, 3\)"),
        (
            {"mask": fw.tensor([[1, 1, 1], [1, 0, 0]])},
            ArgumentError,
            "prompt 1 ends with padding",
        ),
        (
            {"mask": fw.tensor([[1, 0, 1], [1, 1, 1]])},
            ArgumentError,
            "prompt 0 has padding at 1, after a token",
        ),
        ({"tokens": fw.zeros(3, dtype=fw.int64)}, ShapeError, r"tokens is \(3,\)"),
    ],
)
def test_arguments_are_checked(
    settings: dict[str, Any], error: type[Exception], message: str
) -> None:
    given = {"tokens": fw.tensor(PROMPT), "count": 2, **settings}
    with pytest.raises(error, match=message):
        fw.models.generate(small_llama(), **given)


def test_no_token_to_add() -> None:
    tokens = fw.tensor(PROMPT)
    found = fw.models.generate(small_llama(), tokens, 0)
    np.testing.assert_array_equal(found.numpy(), PROMPT)


SIZES = {
    "vocab_size": 32,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 512,
    "n_embd": 64,
    "n_head": 4,
    "n_positions": 512,
    "query_pre_attn_scalar": 16,
    "hidden_activation": "gelu_pytorch_tanh",
}

# By family: of float32, of Q8_0, and of bfloat16 with activations in registers. Llama
# has projections of queries, keys and values with the norm before; attention, which
# rotates and writes; the projection of what it finds with the residual; the gated
# product with the second norm; and the last with its residual. Floats leave the norms
# and the gate to kernels of their own, unless activations are in registers. The others
# have norms of heads, of products, or with means, which have kernels; and biases.
COUNTS = {
    "llama": (8, 5, 5),
    "qwen2": (10, 5, 7),
    "qwen3": (8, 5, 5),
    "phi3": (8, 6, 6),
    "phi": (8, 6, 8),
    "gpt2": (7, 7, 7),
    "gemma2": (12, 9, 9),
    "gemma3_text": (12, 9, 9),
}
FORMATS = ("float32", "q8_0", "bfloat16")
IN_GATE = {("llama", "float32"), ("llama", "q8_0"), ("llama", "bfloat16")}
IN_GATE |= {("qwen2", "q8_0"), ("phi3", "q8_0")}


@pytest.fixture
def as_gpu(gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch) -> Iterator[GpuDevice]:
    """Return the device, whose products of few rows have the kernels of hardware."""
    skip_where_it_crashes(gpu.gpu.info)
    # Queries alone are as many workgroups of 16 columns, keys of 8.
    change_model(monkeypatch, gemv_smallest=1, gemv_groups=4)
    few = as_discrete(monkeypatch, "register_gemv", register_gemv.register_gemv)
    for _, _ in zip(few, as_discrete(monkeypatch, "skinny_gemm", skinny_gemm)):
        yield gpu


def dispatches(gpu: GpuDevice, family: str, layers: int, format: str) -> int:
    """Return the dispatches of a replayed step."""
    sizes: dict[str, Any] = {**SIZES, "model_type": family, "num_hidden_layers": layers}
    sizes |= {"n_layer": layers, "layer_types": ["full_attention"] * layers}
    model = FAMILIES[family](fw.models.ModelConfig(sizes)).eval()
    dtype = fw.bfloat16 if format == "bfloat16" else fw.float32
    fw.models.initialize(model, gpu, dtype)
    if format == "q8_0":
        fw.nn.quantize(model, format)
    cache = model.new_cache(1, 300)

    def step(newest: fw.Tensor) -> fw.Tensor:
        return model(newest, cache)[:, -1].argmax(-1, keepdim=True)

    following, newest = fw.jit(step), fw.tensor([[1]], device=gpu)
    with fw.no_grad():
        for _ in range(2):
            newest = following(newest)
        newest.numpy()
        before = gpu.gpu.counters.snapshot()
        following(newest).numpy()
    assert (following.traces, following.replays) == (1, 2)
    return (gpu.gpu.counters.snapshot() - before).dispatches


@pytest.mark.parametrize(
    ("family", "format", "most"),
    [
        pytest.param(
            family,
            format,
            most,
            marks=() if (family, format) in IN_GATE else pytest.mark.wide,
        )
        for family, counts in COUNTS.items()
        for format, most in zip(FORMATS, counts, strict=True)
    ],
)
def test_a_layer_is_few_dispatches(
    family: str,
    format: str,
    most: int,
    as_gpu: GpuDevice,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    registers = format == "bfloat16"
    if registers and not as_gpu.gpu.info.storage_16bit:
        pytest.skip("the device cannot store 16-bit floats")
    monkeypatch.setattr(register_gemv, "MOST_DEFAULT_ROWS", 8 if registers else 0)
    monkeypatch.setattr(register_gemv, "takes_gate", lambda *_: registers)
    counts = [dispatches(as_gpu, family, layers, format) for layers in (1, 3)]
    assert counts[1] - counts[0] == 2 * most
