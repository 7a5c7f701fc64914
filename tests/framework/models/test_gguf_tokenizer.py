"""Tokenizers of GGUF files beside those that they were written from."""

import json
from pathlib import Path
from typing import Any

import pytest

import vkbackend.framework as fw
from vkbackend.framework.base.errors import FileFormatError
from vkbackend.framework.models.gguf_file import write_gguf
from vkbackend.framework.models.gguf_tokenizer import WORDS
from vkbackend.framework.models.gguf_tokens import SPACE

tokenizers = pytest.importorskip("tokenizers")

TEXTS = [
    "the cat sat on the mat",
    "The dog's  12345 hats,\n\n too!",
    "  été \u00e9 e\u0301 猫 🐈\t",
    "<|user|>the cat</s> sat",
    "",
]
SAID = [{"role": "user", "content": "the cat"}]
TEMPLATE = "{{ bos_token }}{% for m in messages %}<|user|>{{ m.content }}{% endfor %}"
SPECIAL = ["<unk>", "<s>", "</s>", "<|user|>"]


def trained(model: Any, normalizer: Any, words: Any, **settings: Any) -> Any:
    """Return a tokenizer that begins texts with <s>."""
    made = tokenizers.Tokenizer(model)
    if normalizer is not None:
        made.normalizer = normalizer
    if words is not None:
        made.pre_tokenizer = words
    trainer = tokenizers.trainers.BpeTrainer(
        special_tokens=SPECIAL, show_progress=False, **settings
    )
    made.train_from_iterator(
        ["the cat sat on the mat, the dogs' hats 123"] * 3, trainer
    )
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)]
    )
    return made


def byte_pairs(pre: str) -> tuple[Any, dict[str, Any]]:
    """Return a tokenizer of bytes, and its metadata."""
    parts, pattern = tokenizers.pre_tokenizers, WORDS[pre]
    words = parts.ByteLevel(add_prefix_space=False, use_regex=pattern is None)
    if pre == "smollm":
        words = parts.Sequence([parts.Digits(individual_digits=True), words])
    if pattern is not None:
        split = parts.Split(tokenizers.Regex(pattern), "isolated")
        words = parts.Sequence([split, words])
    made = trained(
        tokenizers.models.BPE(ignore_merges=pre == "llama-bpe"),
        tokenizers.normalizers.NFC() if pre == "qwen2" else None,
        words,
        vocab_size=310,
        initial_alphabet=parts.ByteLevel.alphabet(),
    )
    made.decoder = tokenizers.decoders.ByteLevel()
    merges = json.loads(made.to_str())["model"]["merges"]
    joined = [each if isinstance(each, str) else " ".join(each) for each in merges]
    return made, {"model": "gpt2", "pre": pre, "merges": joined, "add_bos_token": True}


def scored_pieces() -> tuple[Any, dict[str, Any]]:
    """Return a tokenizer of pieces, as Llama 2 has them, and its metadata."""
    parts = tokenizers.normalizers
    spaces = parts.Sequence([parts.Prepend(SPACE), parts.Replace(" ", SPACE)])
    learned = trained(tokenizers.models.BPE(), spaces, None, vocab_size=60)
    given = json.loads(learned.to_str())["model"]
    every = [f"<0x{byte:02X}>" for byte in range(256)]
    names = sorted(given["vocab"], key=given["vocab"].get)
    tokens = [*names[:4], *every, *names[4:]]
    merges = [
        tuple(each.split(" ") if isinstance(each, str) else each)
        for each in given["merges"]
    ]
    numbers = {token: number for number, token in enumerate(tokens)}
    model = tokenizers.models.BPE(
        numbers, merges, byte_fallback=True, fuse_unk=True, unk_token="<unk>"
    )
    made = tokenizers.Tokenizer(model)
    made.normalizer = spaces
    made.post_processor = learned.post_processor
    made.add_tokens([tokenizers.AddedToken(x, normalized=False) for x in SPECIAL])
    made.add_special_tokens(
        [tokenizers.AddedToken(x, normalized=False, special=True) for x in SPECIAL]
    )
    of = tokenizers.decoders
    replaced, stripped = of.Replace(SPACE, " "), of.Strip(" ", 1, 0)
    made.decoder = of.Sequence([replaced, of.ByteFallback(), of.Fuse(), stripped])
    ranks = {"".join(pair): rank for rank, pair in enumerate(merges)}
    scores = [-float(ranks.get(token, 1000)) for token in tokens]
    return made, {"model": "llama", "scores": scores}


def written(folder: Path, made: Any, found: dict[str, Any]) -> Path:
    """Return a GGUF file with a tokenizer."""
    tokens = [made.id_to_token(number) for number in range(made.get_vocab_size())]
    kinds = {"<unk>": 2, "<s>": 3, "</s>": 3, "<|user|>": 3}
    types = [6 if each[:3] == "<0x" else kinds.get(each, 1) for each in tokens]
    named = {"bos_token_id": 1, "eos_token_id": 2, "eot_token_id": 3}
    every = {"tokens": tokens, "token_type": types, **named, **found}
    metadata = {f"tokenizer.ggml.{name}": value for name, value in every.items()}
    metadata["tokenizer.chat_template"] = TEMPLATE
    write_gguf(folder / "model.gguf", metadata, {})
    return folder / "model.gguf"


@pytest.mark.parametrize("kind", [*WORDS, "llama"])
def test_numbers_are_those_of_the_original(tmp_path: Path, kind: str) -> None:
    made, metadata = scored_pieces() if kind == "llama" else byte_pairs(kind)
    found = fw.models.Tokenizer(written(tmp_path, made, metadata))
    for text in TEXTS:
        expected = made.encode(text).ids
        assert found.encode(text) == expected
        plain = made.encode(text, add_special_tokens=False).ids
        assert found.encode(text, special_tokens=False) == plain
        assert found.decode(expected) == made.decode(expected)
    pair = made.encode("the cat", "sat")
    assert found.encode(("the cat", "sat")) == pair.ids
    assert (len(found), found.stop) == (made.get_vocab_size(), (2, 3))


def test_the_template_of_chats_is_the_files(tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    found = fw.models.Tokenizer(written(tmp_path, *byte_pairs("default")))
    assert found.apply_chat_template(SAID) == "<s><|user|>the cat"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"model": "rwkv"}, r"`tokenizer\.ggml\.model` is 'rwkv'; accepted: 'gpt2'"),
        ({"model": "bert"}, r"`tokenizer\.ggml\.tokens` has no '\[UNK\]'"),
        ({"pre": "strange"}, r"`tokenizer\.ggml\.pre` is 'strange'; accepted"),
        ({"merges": ["a"]}, r"`tokenizer\.ggml\.merges` must be a list of pairs"),
        ({"merges": ["a strange"]}, "it has no tokenizer"),
        ({"token_type": [1]}, r"`tokenizer\.ggml\.token_type` must be a list of"),
        ({"eos_token_id": 9999}, r"eos_token_id` is 9999; it must be a number below"),
        ({"tokens": [1]}, r"`tokenizer\.ggml\.tokens` must be a list of texts"),
        ({"model": "llama"}, r"`tokenizer\.ggml\.scores` must be a list of"),
    ],
)
def test_damage_is_named(tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    made, metadata = byte_pairs("default")
    path = written(tmp_path, made, {**metadata, **changed})
    with pytest.raises(FileFormatError, match=message):
        fw.models.Tokenizer(path)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        fw.models.Tokenizer(tmp_path / "none.gguf")
