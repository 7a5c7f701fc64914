"""Rotary position embedding (Su et al. 2021, arXiv:2104.09864, section 3.4)."""

from __future__ import annotations

import math
import weakref
from typing import Any, NamedTuple

import numpy as np

from .. import ops
from ..base import trace_hooks
from ..base.device import Device
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
        If the scaling is of another type than default, linear, llama3 or factors, or
        lacks a number.
    """
    given = _parameters(config, theta)
    kind = _kind(given)
    turns = _plain(given, head)
    if kind == "linear":
        turns = turns / given.get("factor", float)
    elif kind == "llama3":
        turns = _llama3(given, turns)
    elif kind == "factors":
        turns = turns / _factors(given, "factors", len(turns))
    elif kind != "default":
        raise FileFormatError(
            f"{given.where}: the type is {kind!r}; accepted: 'default', 'linear',"
            " 'llama3', 'factors'"
        )
    return np.asarray(turns, np.float32)


def _parameters(config: ModelConfig, theta: float) -> ModelConfig:
    """Return the settings of rotary positions, wherever they are."""
    scaling: dict[str, Any] = {
        "rope_theta": config.get("rope_theta", float, theta),
        **(config.settings.get("rope_scaling") or {}),
        **(config.settings.get("rope_parameters") or {}),
    }
    return ModelConfig(scaling, f"{config.where}: rope_parameters")


def _kind(given: ModelConfig) -> str:
    found: str = given.get("rope_type", str, given.get("type", str, "default"))
    return found


def _plain(given: ModelConfig, head: int) -> np.ndarray:
    """Return the angles per position without scaling, float32."""
    shares = np.arange(0, head, 2, dtype=np.float32) / np.float32(head)
    found: np.ndarray = 1.0 / given.get("rope_theta", float) ** shares
    return found


def rotary_size(config: ModelConfig, head: int, share: float = 1.0) -> int:
    """Return how many elements of a head are turned, where a part of it is.

    Parameters
    ----------
    config : ModelConfig
        With `partial_rotary_factor`, there or in `rope_parameters`.
    head : int
        Elements of a head.
    share : float
        The factor where the configuration has none.
    """
    given = _parameters(config, 10000.0)
    share = config.get("partial_rotary_factor", float, share)
    return int(head * given.get("partial_rotary_factor", float, share))


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
    scale : float, default 1
        What cosines and sines are multiplied with.
    """

    def __init__(self, turns: np.ndarray, scale: float = 1.0) -> None:
        self._turns = turns
        self.scale = scale

    def base(self) -> tuple[float, np.ndarray | None]:
        """Return the base of the frequencies, and what they are divided by, or None.

        The first frequencies, which are the quickest, are those that scaling leaves, or
        divides by one number.
        """
        count = len(self._turns)
        theta = 10000.0
        if count > 1:
            theta = (float(self._turns[0]) / float(self._turns[1])) ** count
        theta = float(np.float32(theta))
        steps = np.arange(0, 2 * count, 2, dtype=np.float32) / np.float32(2 * count)
        factors = 1.0 / theta**steps / self._turns
        plain = np.allclose(factors, 1, rtol=1e-5)
        return theta, None if plain else factors.astype(np.float32)

    def angles(self, places: Tensor, like: Tensor) -> tuple[Tensor, Tensor]:
        """Return cosines and sines for positions, of `like`'s dtype.

        Positions (length,) give (length, head), those of a batch, (batch, length), give
        (batch, 1, length, head).
        """
        turns = self._turns_on(places.device)
        angle = ops.unsqueeze(places.to(float32), -1) * turns
        if angle.ndim == 3:
            angle = ops.unsqueeze(angle, 1)
        cosine, sine = ops.cos(angle), ops.sin(angle)
        if self.scale != 1.0:
            cosine, sine = cosine * self.scale, sine * self.scale
        return cosine.to(like.dtype), sine.to(like.dtype)

    def _turns_on(self, device: Device) -> Tensor:
        """Return angles per position on a device: the same tensor in each call.

        In a trace it is a new one, which is a part of it.
        """
        placed = None if trace_hooks.running else _placed.get(self)
        if placed is None or placed.device is not device:
            # Both halves from the start: the angles are then made in one kernel.
            placed = tensor(np.tile(self._turns, 2), device=device)
            if not trace_hooks.running:
                _placed[self] = placed
        return placed


# Not an attribute, which a trace would guard, and a copy of the model have, too.
_placed: weakref.WeakKeyDictionary[Rotary, Tensor] = weakref.WeakKeyDictionary()


class Rotaries(NamedTuple):
    """Rotations for short and for long texts (Ding et al. 2024, arXiv:2402.13753).

    Attributes
    ----------
    short, long : Rotary
    limit : int or None
        Number of tokens up to which a text is short; None if all are.
    """

    short: Rotary
    long: Rotary
    limit: int | None

    @classmethod
    def of_config(cls, config: ModelConfig, head: int) -> Rotaries:
        """Return what a configuration says, of type longrope or as of `frequencies`.

        Parameters
        ----------
        config : ModelConfig
        head : int
            Elements of a head, of which a part may be turned.

        Raises
        ------
        FileFormatError
            As of `frequencies`; if factors are missing, or not as many as frequencies.
        """
        size = rotary_size(config, head)
        given = _parameters(config, 10000.0)
        if _kind(given) not in ("longrope", "su"):
            rotary = Rotary(frequencies(config, size))
            return cls(rotary, rotary, None)
        limit = given.size(
            "original_max_position_embeddings",
            config.size("original_max_position_embeddings", None),
        )
        if limit is None:
            raise FileFormatError(
                f"{given.where}: `original_max_position_embeddings` is missing"
            )
        ratio = config.size("max_position_embeddings", limit) / limit
        factor = given.get("factor", float, ratio)
        grown = 1.0 if factor <= 1 else math.sqrt(1 + math.log(factor, limit))
        scale = given.get("attention_factor", float, grown)
        turns = _plain(given, size)
        short = turns / _factors(given, "short_factor", len(turns))
        long = turns / _factors(given, "long_factor", len(turns))
        return cls(Rotary(short, scale), Rotary(long, scale), limit)

    def of(self, length: int) -> Rotary:
        """Return the rotation for a text of so many tokens in all."""
        return self.long if self.limit and length > self.limit else self.short


def _factors(given: ModelConfig, name: str, count: int) -> np.ndarray:
    """Return what each frequency is divided by, float32 (count,)."""
    found = given.settings.get(name)
    if not isinstance(found, list) or len(found) != count:
        raise FileFormatError(
            f"{given.where}: `{name}` is {found!r}; it must be {count} numbers"
        )
    return np.asarray(found, np.float32)


def rotated(x: Tensor, angles: tuple[Tensor, Tensor]) -> Tensor:
    """Return queries or keys (..., length, head) rotated by their angles.

    Element i of the first half and element i of the second are a pair. Where there are
    fewer angles than elements, the last elements stay as they are.
    """
    cosine, sine = angles
    size = cosine.shape[-1]
    if size < x.shape[-1]:
        turned, rest = ops.split(x, [size, x.shape[-1] - size], -1)
        return ops.cat([rotated(turned, angles), rest], -1)
    first, second = ops.chunk(x, 2, -1)
    return x * cosine + ops.cat([-second, first], -1) * sine
