"""DistilBert beside transformers."""

from pathlib import Path
from typing import Any

import vkbackend.framework as fw
from tests.framework.models.encoders import (
    check_other_head,
    check_scores,
    check_states,
)

SIZES = {
    "vocab_size": 61,
    "dim": 32,
    "hidden_dim": 48,
    "n_layers": 2,
    "n_heads": 4,
    "max_position_embeddings": 40,
    "initializer_range": 0.3,
}


def test_states(tmp_path: Path, place: Any) -> None:
    ours = check_states(tmp_path, place, "DistilBert", **SIZES)
    assert type(ours) is fw.models.DistilBert


def test_rerankers(tmp_path: Path, place: Any) -> None:
    ours = check_scores(tmp_path, place, "DistilBert", **SIZES)
    assert type(ours) is fw.models.DistilBertClassifier


def test_checkpoints_with_heads_for_training(tmp_path: Path) -> None:
    check_other_head(tmp_path, "DistilBert", **SIZES)
