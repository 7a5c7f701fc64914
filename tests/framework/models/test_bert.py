"""BERT, RoBERTa and XLM-R beside transformers."""

from pathlib import Path
from typing import Any

import pytest

import vkbackend.framework as fw
from tests.framework.models.encoders import (
    SHARED,
    check_other_head,
    check_scores,
    check_states,
)
from tests.framework.models.saved import saved
from vkbackend.framework.base.errors import ShapeError

COUNTED = {**SHARED, "hidden_act": "gelu_new", "pad_token_id": 1}


def test_bert(tmp_path: Path, place: Any) -> None:
    ours = check_states(tmp_path, place, "Bert", True, **SHARED)
    assert type(ours) is fw.models.Bert


def test_xlm_roberta(tmp_path: Path, place: Any) -> None:
    ours = check_states(tmp_path, place, "XLMRoberta", **COUNTED)
    assert type(ours) is fw.models.Roberta


def test_rerankers(tmp_path: Path, place: Any) -> None:
    ours = check_scores(tmp_path / "bert", place, "Bert", **SHARED)
    assert type(ours) is fw.models.BertClassifier
    ours = check_scores(tmp_path / "roberta", place, "Roberta", **COUNTED)
    assert type(ours) is fw.models.RobertaClassifier


def test_checkpoints_with_heads_for_training(tmp_path: Path) -> None:
    check_other_head(tmp_path / "bert", "Bert", **SHARED)
    check_other_head(tmp_path / "roberta", "XLMRoberta", **COUNTED)


@pytest.mark.parametrize("kind", ["Bert", "XLMRoberta"])
def test_more_tokens_than_positions(tmp_path: Path, kind: str) -> None:
    saved(tmp_path, kind, task="AutoModel", **(SHARED if kind == "Bert" else COUNTED))
    ours = fw.models.load(tmp_path)
    longest = 40 if kind == "Bert" else 38
    ours(fw.ones(1, longest, dtype=fw.int64) + 1)
    with pytest.raises(ShapeError, match=f"positions for {longest} tokens"):
        ours(fw.ones(1, longest + 1, dtype=fw.int64) + 1)
