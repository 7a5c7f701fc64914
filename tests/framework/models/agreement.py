"""A family of models beside transformers: logits, and text with a cache."""

from pathlib import Path
from typing import Any

import numpy as np

import vkbackend.framework as fw
from tests.framework.models.saved import MASK, TOKENS, continued, logits, saved


def check_family(
    folder: Path, place: Any, kind: str, count: int = 20, **settings: Any
) -> fw.nn.Module:
    """Check one configuration, and return the model that was loaded."""
    theirs = saved(folder, kind, **settings)
    ours = fw.models.load(folder, place)
    tokens = fw.tensor(TOKENS, device=place)
    wanted = logits(theirs)
    found = ours(tokens).detach().numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
    text = fw.models.generate(ours, tokens, count).numpy()
    np.testing.assert_array_equal(text, continued(theirs, count))
    return ours


def check_prompts(
    folder: Path, place: Any, kind: str, count: int = 8, **settings: Any
) -> None:
    """Check what is added to prompts of several lengths, padded at the left."""
    theirs = saved(folder, kind, **settings)
    ours = fw.models.load(folder, place)
    tokens, mask = fw.tensor(TOKENS, device=place), fw.tensor(MASK, device=place)
    text = fw.models.generate(ours, tokens, count, mask=mask).numpy()
    np.testing.assert_array_equal(text, continued(theirs, count, MASK))
