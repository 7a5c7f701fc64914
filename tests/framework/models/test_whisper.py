"""Whisper beside transformers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.models.saved import saved, torch
from tests.framework.models.vision import pixels
from vkbackend.errors import ArgumentError
from vkbackend.framework.base.errors import ShapeError

SETTINGS = {
    "vocab_size": 61,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 40,
    "num_mel_bins": 8,
    "max_source_positions": 10,
    "max_target_positions": 16,
    "init_std": 0.3,
    "pad_token_id": 0,
    "bos_token_id": 0,
    "eos_token_id": 0,
    "decoder_start_token_id": 1,
    "suppress_tokens": None,
    "begin_suppress_tokens": None,
}
FEATURES = pixels(2, 8, 20)
PROMPT = np.array([[3, 4], [5, 6]])


def model(folder: Path) -> Any:
    """Return a model of transformers, saved to a folder."""
    return saved(folder, "Whisper", task="AutoModelForSpeechSeq2Seq", **SETTINGS)


def logits(theirs: Any, tokens: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        given = {"decoder_input_ids": torch.from_numpy(tokens)}
        found: np.ndarray = theirs(torch.from_numpy(FEATURES), **given).logits.numpy()
    return found


def test_agrees_with_transformers(tmp_path: Path, place: Any) -> None:
    theirs = model(tmp_path)
    ours = fw.models.load(tmp_path, place)
    assert type(ours) is fw.models.Whisper
    features = fw.tensor(FEATURES, device=place)
    tokens = PROMPT
    for _ in range(8):
        wanted = logits(theirs, tokens)
        wanted[..., 7] = -np.inf
        tokens = np.hstack([tokens, wanted[:, -1:].argmax(-1)])
    prompt = fw.tensor(PROMPT, device=place)
    found = ours(features, prompt).detach().numpy()
    np.testing.assert_allclose(found, logits(theirs, PROMPT), rtol=1e-4, atol=1e-4)
    text = fw.models.transcribe(ours, features, prompt, 8, suppressed=[7])
    np.testing.assert_array_equal(text.numpy(), tokens)


def test_a_text_ends() -> None:
    ours = fw.models.Whisper(fw.models.ModelConfig(SETTINGS)).eval()
    features, prompt = fw.tensor(FEATURES[:1]), fw.tensor(PROMPT[:1])
    whole = fw.models.transcribe(ours, features, prompt, 5)
    end = int(whole[0, 2])
    text = fw.models.transcribe(ours, features, prompt, 5, stop=[end])
    np.testing.assert_array_equal(text.numpy(), whole[:, :3].numpy())


def test_what_does_not_fit() -> None:
    ours = fw.models.Whisper(fw.models.ModelConfig(SETTINGS))
    features, prompt = fw.tensor(FEATURES), fw.tensor(PROMPT)
    with pytest.raises(ShapeError, match=r"features is \(2, 8, 19\); it must be"):
        ours(features[..., 1:], prompt)
    with pytest.raises(ArgumentError, match=r"count is 15 after 2 tokens; .* 16 pos"):
        fw.models.transcribe(ours, features, prompt, 15)
