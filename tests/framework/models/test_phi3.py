"""Phi-3 and Phi-4 beside transformers."""

from pathlib import Path
from typing import Any

import pytest

import vkbackend.framework as fw
from tests.framework.models.agreement import check_family, check_prompts
from tests.framework.models.saved import SIZES
from vkbackend.framework.base.errors import FileFormatError

SHARED = {**SIZES, "num_key_value_heads": 2, "pad_token_id": 0, "eos_token_id": 0}
LONG = {
    "rope_type": "longrope",
    "rope_theta": 10000.0,
    "partial_rotary_factor": 0.5,
    "short_factor": [1.0, 1.5],
    "long_factor": [2.0, 5.0],
}


@pytest.mark.parametrize(
    "settings",
    [
        {"sliding_window": 8},
        {
            "rope_parameters": {**LONG, "original_max_position_embeddings": 64},
            "max_position_embeddings": 256,
            "original_max_position_embeddings": 64,
        },
        {
            "rope_parameters": {**LONG, "original_max_position_embeddings": 16},
            "max_position_embeddings": 256,
            "original_max_position_embeddings": 16,
            "tie_word_embeddings": True,
        },
    ],
    ids=["window", "short", "long"],
)
def test_agrees_with_transformers(
    tmp_path: Path, place: Any, settings: dict[str, Any]
) -> None:
    model = check_family(tmp_path, place, "Phi3", 8, **SHARED, **settings)
    assert type(model) is fw.models.Phi3


@pytest.mark.wide
def test_prompts_of_several_lengths(tmp_path: Path, place: Any) -> None:
    check_prompts(tmp_path, place, "Phi3", **SHARED)


def test_factors_that_do_not_fit() -> None:
    scaling = {**LONG, "long_factor": [1.0], "original_max_position_embeddings": 8}
    settings = {**SHARED, "rope_parameters": scaling}
    with pytest.raises(FileFormatError, match=r"`long_factor` is .* 2 numbers"):
        fw.models.Phi3(fw.models.ModelConfig(settings))
