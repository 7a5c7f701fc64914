"""Preprocessing of images beside transformers."""

import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.models.saved import transformers
from vkbackend.framework.base.errors import DTypeError, FileFormatError, ShapeError
from vkbackend.framework.models import ImageProcessor, ModelConfig

IMAGE = np.random.default_rng(0).integers(0, 256, (37, 53, 3), dtype=np.uint8)
COLOURS = {"image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.3, 0.4]}


def theirs(folder: Path, family: str, kind: str, **settings: Any) -> Any:
    """Return a processor of transformers that uses Pillow, saved to a folder."""
    where = f"{transformers.__name__}.models.{family}.image_processing_pil_{family}"
    processor = getattr(importlib.import_module(where), kind)(**settings)
    processor.save_pretrained(folder)
    return processor


@pytest.mark.parametrize(
    ("family", "kind", "settings"),
    [
        ("clip", "CLIPImageProcessorPil", {"size": 24, "crop_size": 20}),
        ("clip", "CLIPImageProcessorPil", {"size": 16, "crop_size": 29}),
        ("vit", "ViTImageProcessorPil", {"size": {"height": 19, "width": 23}}),
        ("convnext", "ConvNextImageProcessorPil", {"size": {"shortest_edge": 28}}),
        ("convnext", "ConvNextImageProcessorPil", {"size": {"shortest_edge": 400}}),
    ],
    ids=["clip", "larger crop", "vit", "resnet", "large resnet"],
)
def test_agrees_with_transformers(
    tmp_path: Path, family: str, kind: str, settings: dict[str, Any]
) -> None:
    processor = theirs(tmp_path, family, kind, **settings)
    ours = ImageProcessor.of_folder(tmp_path)
    image = pytest.importorskip("PIL.Image").fromarray(IMAGE)
    wanted = processor([image, image], return_tensors="np")["pixel_values"]
    found = ours([image, IMAGE])
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5, atol=1e-5)


def test_arrays_without_resizing(place: Any) -> None:
    config = ModelConfig({"do_resize": False, "do_normalize": False})
    found = ImageProcessor(config)(IMAGE[..., 0], place)
    assert found.device is place
    wanted = np.repeat(IMAGE[None, None, :, :, 0], 3, 1) / np.float32(255)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-6)


@pytest.mark.parametrize(
    ("image", "error", "message"),
    [
        (IMAGE.astype(np.float32), DTypeError, "an image is float32; accepted: uint8"),
        (IMAGE[..., :2], ShapeError, r"an image is \(37, 53, 2\); it must be"),
        ([IMAGE, IMAGE[:9]], ShapeError, "the results have the shapes"),
    ],
)
def test_what_are_no_images(image: Any, error: type[Exception], message: str) -> None:
    processor = ImageProcessor(ModelConfig({"do_resize": False, **COLOURS}))
    with pytest.raises(error, match=message):
        processor(image)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"size": {"height": 3}}, r"`size` is {'height': 3}; it must have"),
        ({"image_mean": [0.5]}, r"`image_mean` is \[0.5\]; it must be 3 numbers"),
        ({"do_pad": True}, "`do_pad` is True"),
    ],
)
def test_settings_that_do_not_fit(
    tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    where = tmp_path / "preprocessor_config.json"
    where.write_text(json.dumps({**COLOURS, **settings}))
    with pytest.raises(FileFormatError, match=message):
        fw.models.ImageProcessor.of_folder(tmp_path)
