"""Encoders of texts beside transformers: states, scores, and other checkpoints."""

from pathlib import Path
from typing import Any

import numpy as np

import vkbackend.framework as fw
from tests.framework.models.saved import SIZES, TOKENS, saved, torch

SHARED = {**SIZES, "max_position_embeddings": 40}
MASK = np.arange(17) < np.array([[17], [9]])
PADDED = np.where(MASK, np.maximum(TOKENS, 2), 1)
TYPES = (np.arange(17) > 6).astype(np.int64) + np.zeros((2, 1), np.int64)


def theirs(model: Any, **given: np.ndarray) -> Any:
    """Return what a model of transformers gives."""
    with torch.no_grad():
        return model(**{name: torch.from_numpy(each) for name, each in given.items()})


def check_states(
    folder: Path, place: Any, kind: str, has_types: bool = False, **settings: Any
) -> fw.nn.Module:
    """Check the states of tokens, and return the model that was loaded."""
    model = saved(folder, kind, task="AutoModel", **settings)
    ours = fw.models.load(folder, place)
    given = {"input_ids": PADDED, "attention_mask": MASK.astype(np.int64)}
    if has_types:
        given["token_type_ids"] = TYPES
    wanted = theirs(model, **given).last_hidden_state.numpy()
    tokens, mask = fw.tensor(PADDED, device=place), fw.tensor(MASK, device=place)
    types = fw.tensor(TYPES, device=place) if has_types else None
    found = ours(tokens, mask, types).detach().numpy()
    np.testing.assert_allclose(found[MASK], wanted[MASK], rtol=1e-4, atol=1e-4)
    return ours


def check_scores(folder: Path, place: Any, kind: str, **settings: Any) -> fw.nn.Module:
    """Check the score of a reranker, and return the model that was loaded."""
    task = "AutoModelForSequenceClassification"
    model = saved(folder, kind, task=task, **settings, num_labels=1)
    ours = fw.models.load(folder, place)
    wanted = theirs(model, input_ids=PADDED, attention_mask=MASK.astype(np.int64))
    tokens, mask = fw.tensor(PADDED, device=place), fw.tensor(MASK, device=place)
    found = ours(tokens, mask).detach().numpy()
    np.testing.assert_allclose(found, wanted.logits.numpy(), rtol=1e-4, atol=1e-4)
    return ours


def check_other_head(folder: Path, kind: str, **settings: Any) -> None:
    """Check the states of a checkpoint that has a head for training."""
    model = saved(folder, kind, task="AutoModelForMaskedLM", **settings)
    ours = fw.models.load(folder)
    wanted = theirs(model.base_model, input_ids=PADDED).last_hidden_state.numpy()
    found = ours(fw.tensor(PADDED)).detach().numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
