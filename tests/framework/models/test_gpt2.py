"""GPT-2 beside transformers."""

from pathlib import Path
from typing import Any

import pytest

import vkbackend.framework as fw
from tests.framework.models.agreement import check_family, check_prompts
from vkbackend.framework.base.errors import FileFormatError

SIZES = {
    "vocab_size": 61,
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 64,
    "bos_token_id": 0,
    "eos_token_id": 0,
    "initializer_range": 0.3,
}


@pytest.mark.parametrize(
    "settings",
    [
        {},
        pytest.param(
            {"activation_function": "relu", "n_inner": 24}, marks=pytest.mark.wide
        ),
    ],
    ids=["plain", "relu"],
)
def test_agrees_with_transformers(
    tmp_path: Path, place: Any, settings: dict[str, Any]
) -> None:
    model = check_family(tmp_path, place, "GPT2", **SIZES, **settings)
    assert type(model) is fw.models.GPT2


def test_prompts_of_several_lengths(tmp_path: Path, place: Any) -> None:
    check_prompts(tmp_path, place, "GPT2", **SIZES)


def test_names_what_it_does_not_have() -> None:
    settings = {**SIZES, "scale_attn_by_inverse_layer_idx": True}
    with pytest.raises(FileFormatError, match=r"`scale_attn_by_inverse_layer_idx`"):
        fw.models.GPT2(fw.models.ModelConfig(settings, "config.json"))
