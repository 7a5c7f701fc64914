"""Phi-2 beside transformers."""

from pathlib import Path
from typing import Any

import pytest

import vkbackend.framework as fw
from tests.framework.models.agreement import check_family, check_prompts
from tests.framework.models.saved import SIZES


@pytest.mark.parametrize(
    "settings",
    [
        {},
        pytest.param(
            {"qk_layernorm": True, "num_key_value_heads": 2}, marks=pytest.mark.wide
        ),
    ],
    ids=["plain", "norms"],
)
def test_agrees_with_transformers(
    tmp_path: Path, place: Any, settings: dict[str, Any]
) -> None:
    model = check_family(tmp_path, place, "Phi", 8, **SIZES, **settings)
    assert type(model) is fw.models.Phi


@pytest.mark.wide
def test_prompts_of_several_lengths(tmp_path: Path, place: Any) -> None:
    check_prompts(tmp_path, place, "Phi", **SIZES)
