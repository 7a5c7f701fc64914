"""RoBERTa and XLM-R in GGUF files, beside transformers and the package gguf."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.models.encoders import theirs
from tests.framework.models.saved import SIZES, saved, torch, transformers
from tests.framework.models.test_gguf_model import changed
from vkbackend.errors import ArgumentError
from vkbackend.framework import nn
from vkbackend.framework.base.errors import FileFormatError
from vkbackend.framework.models.gguf_encoder import NORMALIZED, POOLING
from vkbackend.framework.models.gguf_file import read_gguf

gguf = pytest.importorskip("gguf")
tokenizers = pytest.importorskip("tokenizers")

TEXTS = ["the cat sat", "a dog", "The cats  sat on\ta m\u00e0t too, zq!"]
ENDS = ["<s>", "<pad>", "</s>", "<unk>"]
PIECES = ["\u2581", "\u2581the", "\u2581cat", "\u2581sat", "\u2581on", "s", "at", "og"]
SCORES = [-float(place) for place in range(1, len(PIECES) + 27)]
KINDS = {"Roberta": "gpt2", "XLMRoberta": "t5"}


def tokenizer_of(kind: str) -> Any:
    """Return a tokenizer of transformers with few words."""
    if kind == "XLMRoberta":
        pieces = [*PIECES, *map(chr, range(97, 123))]
        vocab = [(token, 0.0) for token in ENDS] + list(zip(pieces, SCORES))
        return transformers.XLMRobertaTokenizer(vocab=[*vocab, ("<mask>", 0.0)])
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    merges = [("a", "t"), ("t", "h"), ("th", "e"), ("\u0120", "c"), ("\u0120c", "at")]
    tokens = [*ENDS, *letters, *map("".join, merges), "<mask>"]
    numbers = {token: number for number, token in enumerate(tokens)}
    return transformers.RobertaTokenizer(vocab=numbers, merges=merges)


def folder_of(folder: Path, kind: str, task: str = "AutoModel", **further: Any) -> Any:
    """Return a model of transformers and its tokenizer, saved to a folder."""
    words = tokenizer_of(kind)
    sizes = {**SIZES, "vocab_size": len(words), "max_position_embeddings": 40}
    sizes |= {"hidden_size": 64, "intermediate_size": 96, "type_vocab_size": 1}
    model = saved(folder, kind, task=task, **{**sizes, "pad_token_id": 1, **further})
    words.save_pretrained(folder)
    return model, words


def converted(path: Path, model: Any, words: Any, pooling: int) -> set[str]:
    """Write a file by the package gguf, as llama.cpp converts a checkpoint.

    The rows of positions of padding, and before it, are left out.
    """
    is_unigram = isinstance(words, transformers.XLMRobertaTokenizer)
    writer, config = gguf.GGUFWriter(path, "bert"), model.config
    writer.add_context_length(config.max_position_embeddings - 2)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_head_count(config.num_attention_heads)
    writer.add_layer_norm_eps(config.layer_norm_eps)
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType(pooling))
    writer.add_tokenizer_model("t5" if is_unigram else "gpt2")
    tokens = [words.convert_ids_to_tokens(at) for at in range(len(words))]
    writer.add_token_list(tokens)
    types = {"<unk>": 2, **dict.fromkeys(("<s>", "<pad>", "</s>", "<mask>"), 3)}
    writer.add_token_types([types.get(token, 1) for token in tokens])
    if is_unigram:
        writer.add_tokenizer_pre("default")
        writer.add_token_scores([0.0] * 4 + SCORES + [0.0])
        writer.add_add_space_prefix(True)
        writer.add_remove_extra_whitespaces(True)
    else:
        writer.add_tokenizer_pre("roberta-bpe")
        writer.add_token_merges([" ".join(pair) for pair in words._merges])
    for role, number in (("bos", 0), ("eos", 2), ("pad", 1), ("unk", 3), ("sep", 2)):
        getattr(writer, f"add_{role}_token_id")(number)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.BERT, config.num_hidden_layers)
    written = set()
    for name, each in model.state_dict().items():
        if ".pooler." in f".{name}":
            continue
        known = names.get_name(name.removeprefix("roberta."), (".weight", ".bias"))
        is_of_positions = "position_embeddings" in name
        values = each.numpy()[2:] if is_of_positions else each.numpy()
        writer.add_tensor(known, values)
        written.add(known)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return written


@pytest.mark.parametrize("kind", [*KINDS])
def test_vectors_are_those_of_transformers(tmp_path: Path, kind: str) -> None:
    """Of a file that another program has written, with its tokenizer and pooling."""
    model, words = folder_of(tmp_path / "folder", kind)
    pooling = 1 if kind == "Roberta" else 2
    converted(tmp_path / "a.gguf", model, words, pooling)
    ours = fw.models.load(tmp_path / "a.gguf", "cpu")
    assert type(ours) is fw.models.SentenceEncoder
    assert (type(ours.encoder), ours.longest) == (fw.models.Roberta, 38)
    tokenizer = fw.models.Tokenizer(tmp_path / "a.gguf")
    wanted = []
    for text in TEXTS:
        numbers = words(text)["input_ids"]
        assert tokenizer.encode(text) == numbers
        states = theirs(model, input_ids=np.array([numbers])).last_hidden_state[0]
        wanted.append((states[0] if pooling == 2 else states.mean(0)).numpy())
    found = fw.models.embed(ours, tokenizer, TEXTS).numpy()
    np.testing.assert_allclose(found, np.stack(wanted), rtol=1e-4, atol=1e-4)
    pair = words("the cat", "a dog")["input_ids"]
    tokens, mask, types = tokenizer.batch([("the cat", "a dog")], side="left")
    assert tokens[0].tolist() == pair
    assert not types.any()
    # Padding on the left takes no positions either.
    tokens, mask, _ = tokenizer.batch(TEXTS, side="left")
    given = {"input_ids": tokens.numpy(), "attention_mask": mask.numpy()}
    states = theirs(model, **given).last_hidden_state.numpy()
    real = mask.numpy() != 0
    found = ours.encoder(tokens, mask).detach().numpy()
    np.testing.assert_allclose(found[real], states[real], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", [*KINDS])
def test_what_is_written_is_what_was_read(tmp_path: Path, kind: str) -> None:
    """Names as the package gguf has them; states the same, quantized, too."""
    theirs, words = folder_of(tmp_path / "folder", kind)
    names = converted(tmp_path / "theirs.gguf", theirs, words, 3)
    encoder = fw.models.load(tmp_path / "folder", "cpu")
    model = fw.models.SentenceEncoder(encoder, ("lasttoken",), (), True, 17).eval()
    tokenizer = fw.models.Tokenizer(tmp_path / "folder")
    want = fw.models.embed(model, tokenizer, TEXTS).numpy()
    for format, atol in (("float32", 1e-5), ("q8_0", 0.1)):
        path = tmp_path / f"{format}.gguf"
        fw.models.save_gguf(model, path, format, tokenizer=tokenizer)
        file, other = read_gguf(path), read_gguf(tmp_path / "theirs.gguf")
        assert {*file.tensors} == names
        shapes = {name: each.shape for name, each in file.tensors.items()}
        assert shapes == {name: each.shape for name, each in other.tensors.items()}
        assert file.metadata["tokenizer.ggml.model"] == KINDS[kind]
        again: Any = fw.models.load(path, "cpu")
        assert (again.poolings, again.normalized) == (("lasttoken",), True)
        assert again.longest == 17
        read = fw.models.Tokenizer(path)
        assert [*map(read.encode, TEXTS)] == [*map(tokenizer.encode, TEXTS)]
        found = fw.models.embed(again, read, TEXTS).numpy()
        np.testing.assert_allclose(found, want, atol=atol)
    nn.quantize(encoder, "q8_0")
    rounded = fw.models.embed(model, tokenizer, TEXTS).numpy()
    np.testing.assert_allclose(found, rounded, atol=1e-5)
    fw.models.save(fw.models.load(tmp_path / "float32.gguf").encoder, tmp_path / "b")
    again = transformers.AutoModel.from_pretrained(tmp_path / "b")
    named = dict(theirs.named_parameters())
    for name, each in again.named_parameters():
        if "pooler" not in name:
            rows = 2 if "position" in name else 0
            torch.testing.assert_close(each[rows:], named[name][rows:])


def test_rerankers(tmp_path: Path) -> None:
    task = "AutoModelForSequenceClassification"
    model, words = folder_of(tmp_path / "folder", "XLMRoberta", task, num_labels=1)
    converted(tmp_path / "a.gguf", model, words, 4)
    tokenizer = fw.models.Tokenizer(tmp_path / "a.gguf")
    pairs = [("the cat", "a dog"), ("cats", "the cat sat on a mat")]
    tokens, mask, types = tokenizer.batch(pairs, side="right")
    given = {"input_ids": tokens.numpy(), "attention_mask": mask.numpy()}
    want = theirs(model, **given).logits.numpy()
    ours = fw.models.load(tmp_path / "a.gguf", "cpu")
    assert type(ours) is fw.models.RobertaClassifier
    found = ours(tokens, mask, types).detach().numpy()
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-4)
    fw.models.save_gguf(ours, tmp_path / "b.gguf", "float32", tokenizer=tokenizer)
    first, second = (read_gguf(tmp_path / f"{name}.gguf") for name in "ab")
    assert first.tensors.keys() == second.tensors.keys()
    assert second.metadata[POOLING] == 4
    found = fw.models.load(tmp_path / "b.gguf", "cpu")(tokens, mask).detach().numpy()
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-4)


SCORE = ("float32", (1, 64), np.ones(64, np.float32))


@pytest.mark.parametrize(
    ("tensors", "metadata", "problem"),
    [
        ({}, {"tokenizer.ggml.model": "llama"}, "model` is 'llama'; of encoders those"),
        ({}, {POOLING: 9}, "pooling_type` is 9; accepted: 0"),
        ({}, {"tokenizer.ggml.padding_token_id": 99}, "padding_token_id` is 99; it"),
        ({}, {NORMALIZED: 1}, "`vkbackend.normalized` is 1; it must be bool"),
        ({"cls.output.weight": SCORE}, {}, "tensor `cls.weight` is missing"),
        ({"cls.output.weight": SCORE}, {"tokenizer.ggml.model": "bert"},
         "it is a reranker of BERT, whose pooler files have not"),
        ({"position_embd.weight": None}, {}, "tensor `position_embd.weight` is miss"),
    ],
)  # fmt: skip
def test_files_that_do_not_fit(
    tmp_path: Path, tensors: dict[str, Any], metadata: dict[str, Any], problem: str
) -> None:
    converted(tmp_path / "a.gguf", *folder_of(tmp_path / "folder", "XLMRoberta"), 1)
    changed(tmp_path / "a.gguf", tensors, metadata)
    with pytest.raises(FileFormatError, match=problem):
        fw.models.load(tmp_path / "a.gguf", "cpu")


def test_what_files_have_not(tmp_path: Path) -> None:
    folder_of(tmp_path / "folder", "XLMRoberta")
    model = fw.models.load(tmp_path / "folder", "cpu")
    path = tmp_path / "a.gguf"
    with pytest.raises(ArgumentError, match="pads with token 1, the tokenizer with No"):
        fw.models.save_gguf(model, path)
    several = fw.models.SentenceEncoder(model, ("cls", "mean"))
    with pytest.raises(ArgumentError, match="the pooling is cls, mean, with 0 linear"):
        fw.models.save_gguf(several, path)
    other = fw.models.SentenceEncoder(nn.Linear(3, 3))
    with pytest.raises(ArgumentError, match="the model is Linear; accepted: Llama"):
        fw.models.save_gguf(other, path)
    assert not path.exists()
