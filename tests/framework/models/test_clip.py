"""CLIP beside transformers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.models.saved import saved, torch
from tests.framework.models.vision import SIZES, pixels
from vkbackend.framework.base.errors import ShapeError

VISION = {**SIZES, "intermediate_size": 48}
TEXT = {
    "vocab_size": 61,
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 12,
    "initializer_range": 0.3,
}
TOKENS = np.random.default_rng(0).integers(3, 59, (3, 9))
TOKENS[[0, 1, 2], [8, 5, 3]] = 60
TOKENS[1, 7] = 60


def model(folder: Path, end: int) -> Any:
    """Return a model of transformers, saved to a folder."""
    text = {**TEXT, "eos_token_id": end}
    settings = {"text_config": text, "vision_config": VISION, "projection_dim": 8}
    return saved(folder, "CLIP", task="AutoModel", **settings)


@pytest.mark.parametrize("end", [60, 2])
def test_agrees_with_transformers(tmp_path: Path, place: Any, end: int) -> None:
    theirs = model(tmp_path, end)
    images = pixels(2, 3, 16, 16)
    mask = np.arange(9) <= np.array([[8], [5], [3]])
    ours = fw.models.load(tmp_path, place)
    assert type(ours) is fw.models.CLIP
    with torch.no_grad():
        out = theirs(
            torch.from_numpy(TOKENS),
            torch.from_numpy(images),
            attention_mask=torch.from_numpy(mask.astype(np.int64)),
        )
    given = (fw.tensor(each, device=place) for each in (TOKENS, images, mask))
    tokens, seen, kept = given
    found = ours(tokens, seen, kept).detach().numpy()
    wanted = out.logits_per_image.numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
    texts = fw.nn.functional.normalize(ours.text_features(tokens), dim=-1)
    np.testing.assert_allclose(
        texts.detach().numpy(), out.text_embeds.numpy(), rtol=1e-4, atol=1e-4
    )


def test_more_tokens_than_positions(tmp_path: Path) -> None:
    model(tmp_path, 60)
    ours = fw.models.load(tmp_path)
    with pytest.raises(ShapeError, match="positions for 12 tokens"):
        ours.text_features(fw.zeros((1, 13), dtype=fw.int64))
