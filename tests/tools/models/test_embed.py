import json
from pathlib import Path

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.models.words import PIECES, word_pieces
from vkbackend.tools.models.cli import main


def test_the_vector_is_that_of_embed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {
        "model_type": "bert",
        "vocab_size": len(PIECES),
        "hidden_size": 8,
        "intermediate_size": 12,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "max_position_embeddings": 16,
        "type_vocab_size": 2,
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-12,
    }
    word_pieces(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(settings))
    made = fw.models.Bert(fw.models.ModelConfig(settings))
    fw.save(made.state_dict(), tmp_path / "model.safetensors")
    given = ["embed", str(tmp_path), "--device", "cpu", "--text", "the cat"]
    assert main([*given, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["embedding"]
    model, tokenizer = fw.models.load(tmp_path, "cpu"), fw.models.Tokenizer(tmp_path)
    expected = fw.models.embed(model, tokenizer, ["the cat"]).numpy()[0]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert main(["generate", *given[1:4], "--prompt", "the cat"]) == 1
    assert "writes no text" in capsys.readouterr().err


def test_a_model_of_texts(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["embed", str(folder), "--device", "cpu", "--text", "a"]) == 1
    assert "give an encoder" in capsys.readouterr().err
