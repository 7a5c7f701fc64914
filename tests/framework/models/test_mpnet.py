"""MPNet beside transformers."""

from pathlib import Path
from typing import Any

import numpy as np

import vkbackend.framework as fw
from tests.framework.models.encoders import (
    SHARED,
    check_other_head,
    check_scores,
    check_states,
    theirs,
)
from tests.framework.models.saved import saved


def test_states(tmp_path: Path, place: Any) -> None:
    ours = check_states(tmp_path, place, "MPNet", **SHARED)
    assert type(ours) is fw.models.MPNet


def test_rerankers(tmp_path: Path, place: Any) -> None:
    ours = check_scores(tmp_path, place, "MPNet", **SHARED)
    assert type(ours) is fw.models.MPNetClassifier


def test_checkpoints_with_heads_for_training(tmp_path: Path) -> None:
    check_other_head(tmp_path, "MPNet", **SHARED)


def test_words_far_apart(tmp_path: Path) -> None:
    settings = {**SHARED, "max_position_embeddings": 310, "num_hidden_layers": 1}
    model = saved(tmp_path, "MPNet", task="AutoModel", **settings)
    tokens = np.random.default_rng(0).integers(2, 61, (1, 300))
    wanted = theirs(model, input_ids=tokens).last_hidden_state.numpy()
    found = fw.models.load(tmp_path)(fw.tensor(tokens)).detach().numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
