"""Embeddings of texts: what is made of an encoder's states."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.models.encoders import MASK, PADDED, SHARED, theirs
from tests.framework.models.saved import saved
from tests.framework.models.words import word_pieces
from vkbackend.errors import ArgumentError
from vkbackend.framework.base.errors import FileFormatError


def sentence_folder(folder: Path, pooling: dict[str, Any], *others: str) -> Any:
    """Return the model of a folder as sentence-transformers saves it."""
    model = saved(folder, "Bert", task="AutoModel", **SHARED)
    kinds = ("Transformer", "Pooling", *others)
    modules = [
        {
            "idx": i,
            "name": str(i),
            "path": f"{i}_{kind}" if i else "",
            "type": f"sentence_transformers.models.{kind}",
        }
        for i, kind in enumerate(kinds)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    return model


def vectors(folder: Path, place: Any) -> np.ndarray:
    ours = fw.models.load(folder, place)
    assert type(ours) is fw.models.SentenceEncoder
    tokens, mask = fw.tensor(PADDED, device=place), fw.tensor(MASK, device=place)
    found: np.ndarray = ours(tokens, mask).detach().numpy()
    return found


def test_folders_of_sentence_transformers(tmp_path: Path, place: Any) -> None:
    pooling = {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}
    model = sentence_folder(tmp_path, pooling, "Dense", "Normalize")
    dense = tmp_path / "2_Dense"
    dense.mkdir()
    settings = {
        "in_features": 32,
        "out_features": 5,
        "bias": True,
        "activation_function": "torch.nn.modules.activation.Tanh",
    }
    (dense / "config.json").write_text(json.dumps(settings))
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((5, 32)).astype(np.float32)
    bias = rng.standard_normal(5).astype(np.float32)
    state = {"linear.weight": fw.tensor(weight), "linear.bias": fw.tensor(bias)}
    fw.save(state, dense / "model.safetensors")
    given = {"input_ids": PADDED, "attention_mask": MASK.astype(np.int64)}
    states = theirs(model, **given).last_hidden_state.numpy()
    mean = np.stack([row[seen].mean(0) for row, seen in zip(states, MASK, strict=True)])
    wanted = np.tanh(mean @ weight.T + bias)
    wanted /= np.linalg.norm(wanted, axis=1, keepdims=True)
    np.testing.assert_allclose(vectors(tmp_path, place), wanted, rtol=1e-4, atol=1e-4)


def test_poolings_are_joined(tmp_path: Path) -> None:
    named = ["cls", "max", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"]
    model = sentence_folder(tmp_path, {"pooling_mode": named})
    given = {"input_ids": PADDED, "attention_mask": MASK.astype(np.int64)}
    states = theirs(model, **given).last_hidden_state.numpy()
    wanted = []
    for row, seen in zip(states, MASK, strict=True):
        real = row[seen]
        total = real.sum(0) / np.sqrt(len(real))
        later = np.average(real, 0, np.arange(len(real)) + 1)
        wanted.append(np.concatenate([row[0], real.max(0), total, later, real[-1]]))
    found = vectors(tmp_path, "cpu")
    np.testing.assert_allclose(found, np.stack(wanted), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("pooling", "others", "message"),
    [
        ({}, (), r"the pooling is \(\); it must be of 'cls'"),
        ({"pooling_mode": "median"}, (), r"the pooling is \('median',\)"),
        ({"pooling_mode": "mean"}, ("LSTM",), "the type of a module is 'LSTM'"),
    ],
)
def test_folders_that_do_not_fit(
    tmp_path: Path, pooling: dict[str, Any], others: tuple[str, ...], message: str
) -> None:
    sentence_folder(tmp_path, pooling, *others)
    with pytest.raises(FileFormatError, match=message):
        fw.models.load(tmp_path)
    (tmp_path / "modules.json").write_text("{}")
    with pytest.raises(FileFormatError, match="must be a list of JSON objects"):
        fw.models.load(tmp_path)


TEXTS = ["a cat sat", "the dog", "a cat sat on the mat and the dog sat on a cat", "mat"]


def test_texts(tmp_path: Path, place: Any) -> None:
    model = sentence_folder(tmp_path, {"pooling_mode": "mean"})
    word_pieces(tmp_path)
    (tmp_path / "sentence_bert_config.json").write_text('{"max_seq_length": 9}')
    ours = fw.models.load(tmp_path, place)
    tokenizer = fw.models.Tokenizer(tmp_path)
    wanted = []
    for text in TEXTS:
        numbers = tokenizer.encode(text)
        # The last token, which ends a text, is kept.
        numbers = numbers if len(numbers) <= 9 else [*numbers[:8], numbers[-1]]
        states = theirs(model, input_ids=np.array([numbers])).last_hidden_state
        wanted.append(states[0].mean(0).numpy())
    found = fw.models.embed(ours, tokenizer, TEXTS, 2)
    assert found.device is place
    np.testing.assert_allclose(found.numpy(), np.stack(wanted), rtol=1e-4, atol=1e-4)
    plain = fw.models.embed(ours.encoder, tokenizer, TEXTS[:2]).numpy()
    np.testing.assert_allclose(plain, np.stack(wanted[:2]), rtol=1e-4, atol=1e-4)
    with pytest.raises(ArgumentError, match="texts has no text"):
        fw.models.embed(ours, tokenizer, [])
    with pytest.raises(ArgumentError, match="batch_size is 0"):
        fw.models.embed(ours, tokenizer, TEXTS, 0)
