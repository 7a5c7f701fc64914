"""Vision Transformer beside transformers."""

from pathlib import Path
from typing import Any

import pytest

import vkbackend.framework as fw
from tests.framework.models.vision import SIZES, check_images, pixels
from vkbackend.framework.base.errors import FileFormatError, ShapeError
from vkbackend.framework.models.vit import two_sizes

SHARED = {**SIZES, "intermediate_size": 48}


def test_classes(tmp_path: Path, place: Any) -> None:
    task = "AutoModelForImageClassification"
    images = pixels(2, 3, 16, 16)
    ours = check_images(tmp_path, place, "ViT", task, images, **SHARED, num_labels=3)
    assert type(ours) is fw.models.ViTClassifier


def test_states_of_images_of_another_size(tmp_path: Path, place: Any) -> None:
    images = pixels(1, 3, 21, 24)
    settings = {**SHARED, "interpolate": {"interpolate_pos_encoding": True}}
    ours = check_images(tmp_path, place, "ViT", "AutoModel", images, **settings)
    assert type(ours) is fw.models.ViT


@pytest.mark.parametrize("shape", [(3, 16, 16), (1, 1, 16, 16), (1, 3, 16, 3)])
def test_what_are_no_images(shape: tuple[int, ...]) -> None:
    model = fw.models.ViT(fw.models.ModelConfig(SHARED))
    with pytest.raises(ShapeError, match=r"images is .* \(batch, 3, height, width\)"):
        model(fw.zeros(shape))


def test_one_size_or_two() -> None:
    config = fw.models.ModelConfig({"a": 5, "b": [3, 4], "c": [3, 0]})
    assert two_sizes(config, "a", 1) == (5, 5)
    assert two_sizes(config, "b", 1) == (3, 4)
    assert two_sizes(config, "d", 1) == (1, 1)
    with pytest.raises(FileFormatError, match=r"`c` is \[3, 0\]; it must be one or"):
        two_sizes(config, "c", 1)
