"""Preprocessing of images: `preprocessor_config.json` of Hugging Face's layout."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..base.errors import DTypeError, FileFormatError, ShapeError
from ..tensor.factories import DeviceLike
from ..tensor.from_data import tensor
from ..tensor.tensor import Tensor
from .checkpoint import read_json
from .config import ModelConfig

BILINEAR, BICUBIC = 2, 3
"""Numbers of the ways to resize, as Pillow has them."""

_RESNET_SIZE = 384
"""From this size on, a processor with `crop_pct` cuts nothing off."""


class ImageProcessor:
    """What makes the input of a model of images: resized, cropped, normalised.

    Parameters
    ----------
    config : ModelConfig
        Settings `do_resize`, `size`, `resample`, `crop_pct`, `do_center_crop`,
        `crop_size`, `do_rescale`, `rescale_factor`, `do_normalize`, `image_mean` and
        `image_std`; missing ones are as of `transformers`' processor for CLIP.

    Raises
    ------
    FileFormatError
        If a setting is of another kind, or not supported.

    Notes
    -----
    Images are resized by Pillow, which is needed for that only.
    """

    def __init__(self, config: ModelConfig) -> None:
        config.require("do_pad", False)
        self._size = _size(config, "size", {"shortest_edge": 224})
        self._share = config.get("crop_pct", float, None)
        self._resample = config.get("resample", int, BICUBIC)
        resized = config.get("do_resize", bool, True)
        cropped = config.get("do_center_crop", bool, "crop_size" in config.settings)
        self._resized = resized
        self._crop = _size(config, "crop_size", {"height": 224, "width": 224})
        self._cropped = cropped
        rescaled = config.get("do_rescale", bool, True)
        factor = config.get("rescale_factor", float, 1 / 255)
        self._factor = factor if rescaled else 1.0
        normalized = config.get("do_normalize", bool, True)
        self._mean = _colours(config, "image_mean") if normalized else np.zeros(3)
        self._std = _colours(config, "image_std") if normalized else np.ones(3)

    @classmethod
    def of_folder(cls, path: str | Path) -> ImageProcessor:
        """Return the processor of a model's folder.

        Raises
        ------
        FileNotFoundError
            If the folder has no `preprocessor_config.json`.
        FileFormatError
            If a setting is not supported.
        """
        where = Path(path) / "preprocessor_config.json"
        return cls(ModelConfig(read_json(where), str(where)))

    def __call__(
        self, images: Sequence[Any] | Any, device: DeviceLike = None
    ) -> Tensor:
        """Return the input of a model.

        Parameters
        ----------
        images : image or sequence of images
            Of Pillow, or arrays of uint8, (height, width, 3) or (height, width).
        device : Device, str or None
            Where the result goes.

        Returns
        -------
        Tensor, float32, shape (images, 3, height, width)

        Raises
        ------
        DTypeError
            If an array is not of uint8.
        ShapeError
            If an array is no image, or the results have several sizes.
        """
        given = images if isinstance(images, list | tuple) else [images]
        found = [self._processed(_pixels(image)) for image in given]
        shapes = {each.shape for each in found}
        if len(shapes) != 1:
            raise ShapeError(
                f"ImageProcessor: the results have the shapes {sorted(shapes)}; they"
                " must have one, by `do_center_crop` or a `size` of height and width"
            )
        return tensor(np.stack(found), device=device)

    def _processed(self, pixels: np.ndarray) -> np.ndarray:
        """Return one image, float32 (3, height, width)."""
        size, crop = self._size, self._crop if self._cropped else None
        shortest = size.get("shortest_edge")
        if self._share is not None and shortest is not None:
            if shortest < _RESNET_SIZE:
                size = {"shortest_edge": int(shortest / self._share)}
                crop = {"height": shortest, "width": shortest}
            else:
                size = {"height": shortest, "width": shortest}
        if self._resized:
            pixels = _resized(pixels, size, self._resample)
        if crop is not None:
            pixels = _cropped(pixels, crop["height"], crop["width"])
        values = (pixels * self._factor).astype(np.float32)
        values = (values - self._mean.astype(np.float32)) / self._std.astype(np.float32)
        return np.ascontiguousarray(values.transpose(2, 0, 1))


def _size(config: ModelConfig, name: str, default: dict[str, int]) -> dict[str, int]:
    """Return a size: the shorter edge, or height and width."""
    found = config.settings.get(name) or default
    if isinstance(found, int):
        square = {"height": found, "width": found}
        found = square if name == "crop_size" else {"shortest_edge": found}
    needed = {"shortest_edge"}, {"height", "width"}
    if not isinstance(found, dict) or {*found} not in needed:
        raise FileFormatError(
            f"{config.where}: `{name}` is {found!r}; it must have `shortest_edge`, or"
            " `height` and `width`"
        )
    sizes = ModelConfig(found, f"{config.where}: {name}")
    return {each: sizes.size(each) for each in found}


def _colours(config: ModelConfig, name: str) -> np.ndarray:
    """Return a number for each of the three colours."""
    found = config.settings.get(name)
    if not isinstance(found, list) or len(found) != 3:
        raise FileFormatError(
            f"{config.where}: `{name}` is {found!r}; it must be 3 numbers"
        )
    return np.asarray(found, np.float64)


def _pixels(image: Any) -> np.ndarray:
    """Return the pixels of an image, uint8 (height, width, 3)."""
    if hasattr(image, "convert"):
        image = image.convert("RGB")
    pixels = np.asarray(image)
    if pixels.dtype != np.uint8:
        raise DTypeError(f"ImageProcessor: an image is {pixels.dtype}; accepted: uint8")
    if pixels.ndim == 2:
        pixels = np.repeat(pixels[..., None], 3, -1)
    if pixels.ndim != 3 or pixels.shape[-1] != 3 or not pixels.size:
        raise ShapeError(
            f"ImageProcessor: an image is {pixels.shape}; it must be (height, width, 3)"
        )
    return pixels


def _resized(pixels: np.ndarray, size: dict[str, int], resample: int) -> np.ndarray:
    """Return an image resized by Pillow."""
    from PIL import Image

    height, width = pixels.shape[:2]
    if "shortest_edge" in size:
        edge, short = size["shortest_edge"], min(height, width)
        longer = int(edge * max(height, width) / short)
        height, width = (edge, longer) if height <= width else (longer, edge)
    else:
        height, width = size["height"], size["width"]
    resized = Image.fromarray(pixels).resize(
        (width, height), resample=Image.Resampling(resample)
    )
    return np.asarray(resized)


def _cropped(pixels: np.ndarray, height: int, width: int) -> np.ndarray:
    """Return the centre of an image; what it lacks is 0."""
    top, left = pixels.shape[0] - height, pixels.shape[1] - width
    if top >= 0 and left >= 0:
        top, left = top // 2, left // 2
        return pixels[top : top + height, left : left + width]
    whole = (max(height, pixels.shape[0]), max(width, pixels.shape[1]), 3)
    padded = np.zeros(whole, pixels.dtype)
    above = -(-(whole[0] - pixels.shape[0]) // 2)
    before = -(-(whole[1] - pixels.shape[1]) // 2)
    padded[above:, before:][: pixels.shape[0], : pixels.shape[1]] = pixels
    top, left = (whole[0] - height) // 2, (whole[1] - width) // 2
    return padded[top : top + height, left : left + width]
