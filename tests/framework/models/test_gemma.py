"""Gemma 2 and Gemma 3 beside transformers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.models.agreement import check_family, check_prompts
from tests.framework.models.saved import SIZES, TOKENS, logits, saved, torch
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


def test_texts_of_a_model_with_images(tmp_path: Path) -> None:
    vision = {
        "hidden_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 8,
        "image_size": 16,
        "patch_size": 8,
    }
    settings = {
        "text_config": {**SIZES, **SHARED},
        "vision_config": vision,
        "image_token_index": 60,
        "mm_tokens_per_image": 4,
        "task": "AutoModelForImageTextToText",
    }
    theirs = saved(tmp_path, "Gemma3", **settings)
    tokens = TOKENS % 60
    found = fw.models.load(tmp_path)(fw.tensor(tokens)).detach().numpy()
    np.testing.assert_allclose(found, logits(theirs, tokens), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["Gemma3Text", "Gemma2"])
def test_prompts_of_several_lengths(tmp_path: Path, place: Any, kind: str) -> None:
    check_prompts(tmp_path, place, kind, **SIZES, **SHARED)


@pytest.mark.wide
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision(tmp_path: Path, place: Any, dtype: str) -> None:
    theirs = saved(tmp_path, "Gemma3Text", torch.bfloat16, **SIZES, **SHARED)
    ours = fw.models.load(tmp_path, place, dtype)
    tokens = fw.tensor(TOKENS, device=place)
    found = ours(tokens)
    assert found.dtype is getattr(fw, dtype)
    error = found.detach().to(fw.float32).numpy() - logits(theirs.float())
    assert abs(error).mean() < 0.1
    text = fw.models.generate(ours, tokens, 3)
    assert text.shape == (2, 20)


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
