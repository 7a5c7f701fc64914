"""Llama, Mistral and SmolLM beside transformers."""

from pathlib import Path
from typing import Any

import pytest

import vkbackend.framework as fw
from tests.framework.models.agreement import check_family, check_prompts
from tests.framework.models.saved import SIZES
from vkbackend.framework.base.errors import FileFormatError

LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("Llama", {"num_key_value_heads": 2, "rope_parameters": LLAMA3}),
        pytest.param("Llama", {"tie_word_embeddings": True}, marks=pytest.mark.wide),
        pytest.param(
            "Llama",
            {"attention_bias": True, "mlp_bias": True, "head_dim": 16},
            marks=pytest.mark.wide,
        ),
        ("Mistral", {"num_key_value_heads": 2, "sliding_window": 8, "head_dim": 16}),
        pytest.param(
            "Mixtral",
            {"num_key_value_heads": 2, "num_local_experts": 4},
            marks=pytest.mark.wide,
        ),
    ],
    ids=["llama3", "tied", "biases", "mistral", "mixtral"],
)
def test_agrees_with_transformers(
    tmp_path: Path, place: Any, kind: str, settings: dict[str, Any]
) -> None:
    model = check_family(tmp_path, place, kind, **SIZES, **settings)
    assert type(model) is fw.models.Llama


def test_prompts_of_several_lengths(tmp_path: Path, place: Any) -> None:
    check_prompts(
        tmp_path, place, "Mistral", **SIZES, num_key_value_heads=2, sliding_window=8
    )


def test_names_what_it_does_not_have() -> None:
    config = fw.models.ModelConfig({**SIZES, "hidden_act": "gelu"}, "config.json")
    with pytest.raises(FileFormatError, match=r"`hidden_act` is 'gelu'; accepted"):
        fw.models.Llama(config)
