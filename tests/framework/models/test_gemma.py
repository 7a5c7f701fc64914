"""Gemma 2 and Gemma 3 beside transformers."""

from pathlib import Path
from typing import Any

import pytest

import vkbackend.framework as fw
from tests.framework.models.agreement import check_family, check_prompts
from tests.framework.models.saved import SIZES
from vkbackend.framework.base.errors import FileFormatError

SHARED = {
    "num_key_value_heads": 2,
    "head_dim": 16,
    "query_pre_attn_scalar": 20,
    "sliding_window": 6,
    "layer_types": ["sliding_attention", "full_attention"],
}


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("Gemma3Text", {**SHARED, "final_logit_softcapping": 5.0}),
        ("Gemma2", {**SHARED, "attn_logit_softcapping": 4.0}),
        pytest.param(
            "Gemma3Text",
            {"num_key_value_heads": 4, "head_dim": 8, "attention_bias": True},
            marks=pytest.mark.wide,
        ),
    ],
    ids=["gemma3", "gemma2", "defaults"],
)
def test_agrees_with_transformers(
    tmp_path: Path, place: Any, kind: str, settings: dict[str, Any]
) -> None:
    model = check_family(tmp_path, place, kind, 8, **SIZES, **settings)
    assert type(model) is fw.models.Gemma


@pytest.mark.parametrize("kind", ["Gemma3Text", "Gemma2"])
def test_prompts_of_several_lengths(tmp_path: Path, place: Any, kind: str) -> None:
    check_prompts(tmp_path, place, kind, **SIZES, **SHARED)


@pytest.mark.wide
def test_a_long_text(tmp_path: Path, place: Any) -> None:
    check_family(tmp_path, place, "Gemma3Text", 64, **SIZES, **SHARED)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"use_bidirectional_attention": True}, "`use_bidirectional_attention` is"),
        ({"layer_types": ["full_attention"]}, r"`layer_types` .* must be 2 of"),
    ],
)
def test_names_what_it_does_not_have(settings: dict[str, Any], message: str) -> None:
    config = fw.models.ModelConfig({**SIZES, **SHARED, **settings}, "config.json")
    with pytest.raises(FileFormatError, match=message):
        fw.models.Gemma(config)
