"""Tokenizers in GGUF files beside those that they were written from."""

import json
from pathlib import Path
from typing import Any

import pytest

import vkbackend.framework as fw
from tests.framework.models.small import small_llama
from tests.framework.models.test_gguf_tokenizer import (
    TEMPLATE,
    TEXTS,
    byte_pairs,
    scored_pieces,
)
from tests.framework.models.words import word_pieces
from vkbackend.errors import ArgumentError
from vkbackend.framework.models.gguf_tokenizer import WORDS

tokenizers = pytest.importorskip("tokenizers")
gguf = pytest.importorskip("gguf")


def of_folder(folder: Path, made: Any, **settings: Any) -> fw.models.Tokenizer:
    folder.mkdir()
    made.save(str(folder / "tokenizer.json"))
    named = {"bos_token": "<s>", "eos_token": "</s>", "chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(named | settings))
    ends = {"eos_token_id": [2, 3]}
    (folder / "generation_config.json").write_text(json.dumps(ends))
    return fw.models.Tokenizer(folder)


@pytest.mark.parametrize("kind", [*WORDS, "llama"])
def test_numbers_are_those_of_the_original(tmp_path: Path, kind: str) -> None:
    made, metadata = scored_pieces() if kind == "llama" else byte_pairs(kind)
    tokenizer = of_folder(tmp_path / "folder", made, unk_token="<unk>")
    path, words = tmp_path / "model.gguf", made.get_vocab_size() + 2
    model = small_llama(vocab_size=words)
    fw.models.save_gguf(model, path, "float32", tokenizer=tokenizer)
    found = fw.models.Tokenizer(path)
    for text in TEXTS:
        assert found.encode(text) == tokenizer.encode(text)
        plain = tokenizer.encode(text, special_tokens=False)
        assert found.encode(text, special_tokens=False) == plain
        assert found.decode(plain) == tokenizer.decode(plain)
    assert (found.stop, found.template) == ((2, 3), TEMPLATE)
    assert found.special == tokenizer.special
    # As another program reads it.
    fields = gguf.GGUFReader(path).fields
    read = {name: field.contents() for name, field in fields.items()}
    tokens = read["tokenizer.ggml.tokens"]
    assert len(tokens) == len(read["tokenizer.ggml.token_type"]) == words
    assert tokens[-1] == f"[PAD{words - 1}]"
    assert read["tokenizer.ggml.token_type"][:4] == [2, 3, 3, 3]
    assert read["tokenizer.ggml.token_type"][-1] == 5
    assert read["tokenizer.ggml.model"] == metadata["model"]
    wanted = "default" if kind in ("gpt-2", "roberta-bpe") else metadata.get("pre")
    assert read.get("tokenizer.ggml.pre") == wanted
    assert read["tokenizer.ggml.add_bos_token"] is True
    assert read["llama.vocab_size"] == words


def test_the_whole_model_is_read_again(tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    tokenizer = of_folder(tmp_path / "folder", byte_pairs("default")[0])
    model = small_llama(vocab_size=len(tokenizer), max_position_embeddings=77)
    fw.models.save_gguf(model, tmp_path / "a.gguf", "float32", tokenizer=tokenizer)
    again = fw.models.load(tmp_path / "a.gguf")
    assert again.settings["max_position_embeddings"] == 77
    read = fw.models.Tokenizer(tmp_path / "a.gguf")
    fw.models.save(again, tmp_path / "saved", read)
    text = read.apply_chat_template([{"role": "user", "content": "the cat"}])
    tokens = fw.tensor([fw.models.Tokenizer(tmp_path / "saved").encode(text, False)])
    wanted = model(tokens).detach().numpy()
    found = fw.models.load(tmp_path / "saved")(tokens).detach().numpy()
    assert found == pytest.approx(wanted, rel=1e-5, abs=1e-5)


def test_pieces_of_words(tmp_path: Path) -> None:
    word_pieces(tmp_path)
    tokenizer = fw.models.Tokenizer(tmp_path)
    sizes = {"vocab_size": 15, "hidden_size": 32, "num_attention_heads": 2}
    sizes |= {"intermediate_size": 32, "num_hidden_layers": 1}
    model = fw.models.Bert(fw.models.ModelConfig(sizes))
    fw.models.initialize(model, "cpu")
    path = tmp_path / "a.gguf"
    fw.models.save_gguf(model, path, "float32", tokenizer=tokenizer)
    found = fw.models.Tokenizer(path)
    for text in ("The cats sat.", "a dog", "", ("the cat", "a mat")):
        assert found.encode(text) == tokenizer.encode(text)
    assert found.decode(found.encode("The cats")) == "the cats"
    fields = gguf.GGUFReader(path).fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    assert tokens[:5] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "\u2581a"]
    assert tokens[12:] == ["s", "[PAD13]", "[PAD14]"]
    assert fields["tokenizer.ggml.seperator_token_id"].contents() == 3
    texts = ["the cat", "the dog sat on a mat"]
    vectors = [
        fw.models.embed(each, of, texts).numpy()
        for each, of in ((model, tokenizer), (fw.models.load(path, "cpu"), found))
    ]
    assert vectors[1] == pytest.approx(vectors[0], rel=1e-5, abs=1e-5)


def test_refusals(tmp_path: Path) -> None:
    def write(tokenizer: fw.models.Tokenizer, words: int = 400) -> None:
        model = small_llama(vocab_size=words)
        fw.models.save_gguf(model, tmp_path / "a.gguf", tokenizer=tokenizer)

    made = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0}))
    with pytest.raises(ArgumentError, match="of the kind WordLevel; accepted: BPE"):
        write(of_folder(tmp_path / "words", made))
    made, _ = byte_pairs("default")
    tokenizer = of_folder(tmp_path / "fits", made)
    count = len(tokenizer)
    with pytest.raises(ArgumentError, match=f"has {count} tokens, the model 99 words"):
        write(tokenizer, 99)
    spaced = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=True)
    made.pre_tokenizer = spaced
    with pytest.raises(ArgumentError, match="cuts or changes texts as no tokenizer"):
        write(of_folder(tmp_path / "spaced", made))
    assert not (tmp_path / "a.gguf").exists()
