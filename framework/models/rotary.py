"""Rotary position embedding (Su et al. 2021, arXiv:2104.09864, section 3.4)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import ops
from ..base.dtype import float32
from ..base.errors import FileFormatError
from ..tensor.from_data import tensor
from ..tensor.tensor import Tensor
from .config import ModelConfig


def frequencies(config: ModelConfig, head: int, theta: float = 10000.0) -> np.ndarray:
    """Return the angle per position of each pair of elements, float32 (head / 2,).

    Parameters
    ----------
    config : ModelConfig
        With `rope_parameters`, or `rope_theta` and `rope_scaling`.
    head : int
        Elements that are turned.
    theta : float
        Base where the configuration has none.

    Raises
    ------
    FileFormatError
        If the scaling is of another type than default, linear or llama3, or lacks a
        number.
    """
    scaling: dict[str, Any] = {
        "rope_theta": config.get("rope_theta", float, theta),
        **(config.settings.get("rope_scaling") or {}),
        **(config.settings.get("rope_parameters") or {}),
    }
    given = ModelConfig(scaling, f"{config.where}: rope_parameters")
    kind = given.get("rope_type", str, given.get("type", str, "default"))
    base = given.get("rope_theta", float)
    turns = 1.0 / base ** (np.arange(0, head, 2, dtype=np.float32) / np.float32(head))
    if kind == "linear":
        turns = turns / given.get("factor", float)
    elif kind == "llama3":
        turns = _llama3(given, turns)
    elif kind != "default":
        raise FileFormatError(
            f"{given.where}: the type is {kind!r}; accepted: 'default', 'linear',"
            " 'llama3'"
        )
    return np.asarray(turns, np.float32)


def _llama3(given: ModelConfig, turns: np.ndarray) -> np.ndarray:
    """Return the frequencies of Llama 3.1, of which the slow ones are scaled."""
    factor = given.get("factor", float)
    low = given.get("low_freq_factor", float)
    high = given.get("high_freq_factor", float)
    length = given.size("original_max_position_embeddings")
    wavelengths = 2 * math.pi / turns
    share = np.clip((length / wavelengths - low) / (high - low), 0, 1)
    scaled: np.ndarray = share * turns + (1 - share) * turns / factor
    return scaled


class Rotary:
    """Rotation of queries and keys by their positions.

    Parameters
    ----------
    turns : ndarray, shape (head / 2,)
        Angle per position, as `frequencies` returns it.
    """

    def __init__(self, turns: np.ndarray) -> None:
        self._turns = turns

    def angles(self, places: Tensor, like: Tensor) -> tuple[Tensor, Tensor]:
        """Return cosines and sines for positions, of `like`'s dtype.

        Positions (length,) give (length, head), those of a batch, (batch, length), give
        (batch, 1, length, head).
        """
        turns = tensor(self._turns, device=places.device)
        angle = ops.unsqueeze(places.to(float32), -1) * turns
        if angle.ndim == 3:
            angle = ops.unsqueeze(angle, 1)
        angle = ops.cat([angle, angle], -1)
        return ops.cos(angle).to(like.dtype), ops.sin(angle).to(like.dtype)


def rotated(x: Tensor, angles: tuple[Tensor, Tensor]) -> Tensor:
    """Return queries or keys (..., length, head) rotated by their angles.

    Element i of the first half and element i of the second are a pair.
    """
    cosine, sine = angles
    first, second = ops.chunk(x, 2, -1)
    return x * cosine + ops.cat([-second, first], -1) * sine
