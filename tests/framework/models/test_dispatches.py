"""Dispatches of a decoder's layer for each token, by family and format of weights."""

from collections.abc import Iterator
from typing import Any

import pytest

import vkbackend.framework as fw
from tests.framework.ops.large import as_discrete, change_model
from tests.hardware import skip_where_it_crashes
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.kernels.gemm import register_gemv
from vkbackend.framework.kernels.gemm.gemv import skinny_gemm
from vkbackend.framework.models.loading import FAMILIES

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
    "qwen3": (10, 7, 7),
    "phi3": (8, 6, 6),
    "phi": (8, 6, 8),
    "gpt2": (7, 7, 7),
    "gemma2": (12, 9, 13),
    "gemma3_text": (14, 11, 18),
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
