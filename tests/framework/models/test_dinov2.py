"""DINOv2 beside transformers."""

from pathlib import Path
from typing import Any

import vkbackend.framework as fw
from tests.framework.models.vision import SIZES, check_images, pixels


def test_states_of_images_of_another_size(tmp_path: Path, place: Any) -> None:
    images = pixels(1, 3, 21, 24)
    ours = check_images(tmp_path, place, "Dinov2", "AutoModel", images, **SIZES)
    assert type(ours) is fw.models.Dinov2


def test_classes(tmp_path: Path, place: Any) -> None:
    task = "AutoModelForImageClassification"
    images = pixels(2, 3, 16, 16)
    ours = check_images(tmp_path, place, "Dinov2", task, images, **SIZES)
    assert type(ours) is fw.models.Dinov2Classifier


def test_registers(tmp_path: Path, place: Any) -> None:
    kind, images = "Dinov2WithRegisters", pixels(2, 3, 16, 16)
    ours = check_images(tmp_path, place, kind, "AutoModel", images, **SIZES)
    assert type(ours) is fw.models.Dinov2Registers
