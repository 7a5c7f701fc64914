"""Models of images beside transformers."""

from pathlib import Path
from typing import Any

import numpy as np

import vkbackend.framework as fw
from tests.framework.models.saved import saved, torch

SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 16,
    "patch_size": 4,
    "initializer_range": 0.3,
}


def pixels(*shape: int) -> np.ndarray:
    """Return what stands for images."""
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def check_images(
    folder: Path, place: Any, kind: str, task: str, images: np.ndarray, **settings: Any
) -> fw.nn.Module:
    """Check states or logits of images, and return the model that was loaded."""
    options = {} if "interpolate" not in settings else settings.pop("interpolate")
    theirs = saved(folder, kind, task=task, **settings)
    ours = fw.models.load(folder, place)
    with torch.no_grad():
        out = theirs(torch.from_numpy(images), **options)
    is_classifier = task == "AutoModelForImageClassification"
    wanted = (out.logits if is_classifier else out.last_hidden_state).numpy()
    found = ours(fw.tensor(images, device=place)).detach().numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
    return ours
