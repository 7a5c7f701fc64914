"""Settings in GGUF files: what is read of them, and what they cannot say."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.models.small import CONFIG
from vkbackend.errors import ArgumentError
from vkbackend.framework.models.gguf_file import GGUFFile, GGUFTensor, read_gguf
from vkbackend.framework.models.gguf_settings import settings_of

GEMMA = {
    **CONFIG,
    "model_type": "gemma3_text",
    "head_dim": 4,
    "query_pre_attn_scalar": 4,
    "num_key_value_heads": 1,
}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
LINEAR = {"rope_type": "linear", "factor": 8.0}


def gemma(**settings: Any) -> fw.models.Gemma:
    model = fw.models.Gemma(fw.models.ModelConfig(GEMMA | settings)).eval()
    fw.models.initialize(model, "cpu", std=0.3)
    return model


def test_bases_and_factor_of_gemma(tmp_path: Path) -> None:
    model = gemma(rope_theta=5e5, rope_local_base_freq=2e4, rope_scaling=LINEAR)
    path = tmp_path / "a.gguf"
    fw.models.save_gguf(model, path, "float32", context_length=99)
    found = read_gguf(path).metadata
    named = ("rope.freq_base", "rope.freq_base_swa", "rope.scaling.factor")
    assert [found[f"gemma3.{name}"] for name in named] == [5e5, 2e4, 8.0]
    again: Any = fw.models.load(path)
    assert again.settings["max_position_embeddings"] == 99
    tokens = fw.tensor([[1, 2, 3, 4, 5]])
    wanted, got = model(tokens).detach().numpy(), again(tokens).detach().numpy()
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"query_pre_attn_scalar": 5}, "query_pre_attn_scalar is 5 .* take 4"),
        ({"layer_types": ["full_attention"] * 2}, "a layer of full attention in 6"),
        ({"rope_scaling": LLAMA3}, "scaled as 'llama3'"),
        (
            {"model_type": "gemma2", "attn_logit_softcapping": None},
            "attn_logit_softcapping is None; files of gemma2 have a limit",
        ),
    ],
)
def test_what_files_cannot_say(
    tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ArgumentError, match=message):
        fw.models.save_gguf(gemma(**settings), tmp_path / "a.gguf")
    assert not [*tmp_path.iterdir()]


def test_scaled_positions_of_phi3(tmp_path: Path) -> None:
    config = fw.models.ModelConfig(CONFIG | {"rope_scaling": LINEAR, "head_dim": 8})
    model = fw.models.Phi3(config)
    with pytest.raises(ArgumentError, match="accepted: 'default', 'longrope'"):
        fw.models.save_gguf(model, tmp_path / "a.gguf")


EXPERTS = {
    "model_type": "qwen3_moe",
    "num_experts": 2,
    "moe_intermediate_size": 8,
    "norm_topk_prob": True,
}


@pytest.mark.parametrize(
    "settings", [{"norm_topk_prob": False}, {"mlp_only_layers": [0]}]
)
def test_experts_that_files_have_not(tmp_path: Path, settings: dict[str, Any]) -> None:
    config = fw.models.ModelConfig(CONFIG | EXPERTS | settings)
    with pytest.raises(ArgumentError, match="files take True, and have experts in all"):
        fw.models.save_gguf(fw.models.Qwen(config), tmp_path / "a.gguf")


def test_encoders_that_files_have_not(tmp_path: Path) -> None:
    config = fw.models.ModelConfig(CONFIG | {"hidden_act": "relu"})
    with pytest.raises(ArgumentError, match="hidden_act of the Bert is 'relu'"):
        fw.models.save_gguf(fw.models.Bert(config), tmp_path / "a.gguf")


def test_the_turned_part_of_phi(tmp_path: Path) -> None:
    # 3 of 5 elements: a share that is no binary fraction.
    given = CONFIG | {"hidden_size": 20, "num_attention_heads": 2}
    share = {"partial_rotary_factor": 0.6, "rope_theta": 500.0}
    model = fw.models.Phi(fw.models.ModelConfig(given | share))
    fw.models.initialize(model, "cpu", std=0.3)
    fw.models.save_gguf(model, tmp_path / "a.gguf", "float32")
    found = read_gguf(tmp_path / "a.gguf").metadata
    assert found["phi2.rope.dimension_count"] == 6
    again: Any = fw.models.load(tmp_path / "a.gguf")
    tokens = fw.tensor([[1, 2, 3, 4, 5]])
    wanted, got = model(tokens).detach().numpy(), again(tokens).detach().numpy()
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)
    for changed in ({"rope_scaling": LINEAR}, {"hidden_act": "relu"}):
        other = fw.models.Phi(fw.models.ModelConfig(given | changed))
        with pytest.raises(ArgumentError, match="accepted: 'default', False, 'gelu_"):
            fw.models.save_gguf(other, tmp_path / "b.gguf")


def read(kind: str, **metadata: Any) -> dict[str, Any]:
    """Return the settings of a file with the metadata that are needed, and others."""
    table = GGUFTensor("float32", (11, 8), 0, 352)
    needed = {
        "embedding_length": 8,
        "feed_forward_length": 12,
        "block_count": 2,
        "attention.head_count": 2,
    }
    named = {f"{kind}.{name}": each for name, each in (needed | metadata).items()}
    every = {"general.architecture": kind, **named}
    file = GGUFFile(Path("a.gguf"), every, {"token_embd.weight": table})
    return settings_of(file).settings


def test_what_is_read() -> None:
    assert read("phi3", **{"attention.sliding_window": 0})["sliding_window"] is None
    found = read("phi2", **{"embedding_length": 98, "rope.dimension_count": 29})
    assert int(49 * found["partial_rotary_factor"]) == 29
    assert read("llama", context_length=77)["max_position_embeddings"] == 77
    found = read("gemma2", **{"attention.key_length": 16})
    assert (found["query_pre_attn_scalar"], found["head_dim"]) == (16, 16)
    assert found["attn_logit_softcapping"] == 50
    # The largest model divides by another number.
    found = read("gemma2", block_count=46, **{"attention.key_length": 16})
    assert found["query_pre_attn_scalar"] == 4
