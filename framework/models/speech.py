"""Preprocessing of speech: logarithms of energies in bands of the mel scale."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .. import ops
from ..base.errors import ShapeError
from ..tensor.factories import DeviceLike
from ..tensor.from_data import tensor
from ..tensor.tensor import Tensor
from .checkpoint import read_json
from .config import ModelConfig

HIGHEST = 8000.0
"""Highest frequency of the bands, in hertz."""

_LINEAR, _STEP = 1000.0, np.log(6.4) / 27
"""Where the mel scale turns from linear to logarithmic, and its step from there."""


def _mel(hertz: np.ndarray) -> np.ndarray:
    grown = 15 + np.log(np.maximum(hertz, _LINEAR) / _LINEAR) / _STEP
    found: np.ndarray = np.where(hertz < _LINEAR, hertz * 3 / 200, grown)
    return found


def _hertz(mel: np.ndarray) -> np.ndarray:
    grown = _LINEAR * np.exp(_STEP * (mel - 15))
    found: np.ndarray = np.where(mel < 15, mel * 200 / 3, grown)
    return found


def mel_filters(bands: int, bins: int, rate: int) -> np.ndarray:
    """Return the share of each frequency in each band, float32 (bands, bins).

    Parameters
    ----------
    bands, bins : int
        Number of bands and of frequencies, which go from 0 to half the rate.
    rate : int
        Samples per second.

    Notes
    -----
    Triangles on the mel scale, of one area each (Slaney 1998, Auditory Toolbox).
    """
    ends = _mel(np.array([0.0, HIGHEST]))
    edges = _hertz(np.linspace(ends[0], ends[1], bands + 2))
    frequencies = np.linspace(0, rate // 2, bins)
    distances = edges[:, None] - frequencies
    widths = np.diff(edges)[:, None]
    rising = -distances[:-2] / widths[:-1]
    falling = distances[2:] / widths[1:]
    shares = np.maximum(0, np.minimum(rising, falling))
    scaled: np.ndarray = shares * (2 / (edges[2:] - edges[:-2]))[:, None]
    return scaled.astype(np.float32)


class SpeechProcessor:
    """What makes the input of Whisper.

    Parameters
    ----------
    config : ModelConfig
        Settings `feature_size`, `sampling_rate`, `hop_length`, `chunk_length` and
        `n_fft`; missing ones are 80, 16000, 160, 30 seconds and 400.

    Raises
    ------
    FileFormatError
        If a setting is no size.
    """

    def __init__(self, config: ModelConfig) -> None:
        self.rate = config.size("sampling_rate", 16000)
        self._count = config.size("chunk_length", 30) * self.rate
        self._hop = config.size("hop_length", 160)
        self._size = config.size("n_fft", 400)
        bands = config.size("feature_size", 80)
        self._filters = mel_filters(bands, 1 + self._size // 2, self.rate)
        places = np.arange(self._size) / self._size
        self._window = (0.5 - 0.5 * np.cos(2 * np.pi * places)).astype(np.float32)

    @classmethod
    def of_folder(cls, path: str | Path) -> SpeechProcessor:
        """Return the processor of a model's folder.

        Raises
        ------
        FileNotFoundError
            If the folder has no `preprocessor_config.json`.
        FileFormatError
            If a setting is no size.
        """
        where = Path(path) / "preprocessor_config.json"
        return cls(ModelConfig(read_json(where), str(where)))

    def __call__(
        self, samples: np.ndarray | Sequence[Any], device: DeviceLike = None
    ) -> Tensor:
        """Return the input of a model.

        Parameters
        ----------
        samples : array of float, shape (samples,), or sequence of them
            Sound of `rate` samples per second. What is longer than a chunk is cut off,
            what is shorter is followed by silence.
        device : Device, str or None
            Where it is computed.

        Returns
        -------
        Tensor, float32, shape (sounds, feature_size, steps)

        Raises
        ------
        ShapeError
            If a sound has not one dimension, or no sample.
        """
        single = isinstance(samples, np.ndarray) and samples.ndim == 1
        sounds = [samples] if single else list(samples)
        whole = np.zeros((len(sounds), self._count), np.float32)
        for row, sound in zip(whole, sounds, strict=True):
            values = np.asarray(sound, np.float32)
            if values.ndim != 1 or not values.size:
                raise ShapeError(
                    f"SpeechProcessor: a sound is {values.shape}; it must be (samples,)"
                    " with at least one"
                )
            row[: len(values)] = values[: self._count]
        given = tensor(whole, device=device)
        window = tensor(self._window, device=device)
        found = ops.stft(
            given, self._size, self._hop, window=window, return_complex=True
        )
        energies = ops.square(ops.abs(found))[..., :-1]
        bands = tensor(self._filters, device=device) @ energies
        levels = ops.log10(ops.clamp(bands, 1e-10))
        loudest = ops.amax(levels, (1, 2), keepdim=True)
        return (ops.maximum(levels, loudest - 8.0) + 4.0) / 4.0
