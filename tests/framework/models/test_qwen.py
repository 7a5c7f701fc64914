"""Qwen 2.5 and Qwen 3 beside transformers."""

from pathlib import Path
from typing import Any

import pytest

import vkbackend.framework as fw
from tests.framework.models.agreement import check_family, check_prompts
from tests.framework.models.saved import SIZES
from vkbackend.framework.base.errors import FileFormatError

MIXTURE = {
    "num_key_value_heads": 2,
    "num_experts": 7,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 12,
}


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("Qwen2", {"num_key_value_heads": 2}),
        (
            "Qwen3",
            {"num_key_value_heads": 2, "head_dim": 16, "tie_word_embeddings": True},
        ),
        ("Qwen3Moe", MIXTURE),
        pytest.param(
            "Qwen3Moe",
            {
                **MIXTURE,
                "norm_topk_prob": True,
                "mlp_only_layers": [0],
                "num_experts": 20,
            },
            marks=pytest.mark.wide,
        ),
        pytest.param(
            "Qwen3",
            {"num_key_value_heads": 4, "attention_bias": True},
            marks=pytest.mark.wide,
        ),
    ],
    ids=["qwen2", "qwen3", "experts", "many experts", "biases"],
)
def test_agrees_with_transformers(
    tmp_path: Path, place: Any, kind: str, settings: dict[str, Any]
) -> None:
    model = check_family(tmp_path, place, kind, **SIZES, **settings)
    assert type(model) is fw.models.Qwen


def test_prompts_of_several_lengths(tmp_path: Path, place: Any) -> None:
    check_prompts(tmp_path, place, "Qwen3", **SIZES, num_key_value_heads=2)


def test_names_what_it_does_not_have() -> None:
    config = fw.models.ModelConfig({**SIZES, "use_sliding_window": True}, "config.json")
    with pytest.raises(FileFormatError, match=r"`use_sliding_window` is True"):
        fw.models.Qwen(config)
