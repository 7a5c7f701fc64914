"""Preprocessing of speech beside transformers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.models.saved import transformers
from vkbackend.framework.base.errors import ShapeError
from vkbackend.framework.models.speech import mel_filters

SETTINGS = {"feature_size": 16, "chunk_length": 1}
SOUND = np.sin(np.arange(9000) ** 1.2 / 300).astype(np.float32)


@pytest.mark.parametrize(("bands", "size"), [(80, 400), (128, 400), (16, 64)])
def test_bands(bands: int, size: int) -> None:
    extractor = transformers.WhisperFeatureExtractor(feature_size=bands, n_fft=size)
    found = mel_filters(bands, size // 2 + 1, 16000)
    np.testing.assert_allclose(found, extractor.mel_filters.T, rtol=1e-5, atol=1e-7)


def test_agrees_with_transformers(tmp_path: Path, place: Any) -> None:
    extractor = transformers.WhisperFeatureExtractor(**SETTINGS)
    extractor.save_pretrained(tmp_path)
    sounds = [SOUND, np.tile(SOUND, 3)]
    given = {"sampling_rate": 16000, "return_tensors": "np"}
    wanted = extractor(sounds, **given).input_features
    ours = fw.models.SpeechProcessor.of_folder(tmp_path)
    found = ours(sounds, place)
    assert found.device is place
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(ours(SOUND).numpy()[0], wanted[0], rtol=1e-4, atol=1e-4)


def test_what_is_no_sound() -> None:
    processor = fw.models.SpeechProcessor(fw.models.ModelConfig(SETTINGS))
    with pytest.raises(ShapeError, match=r"a sound is \(2, 3\); it must be"):
        processor([np.zeros((2, 3))])
