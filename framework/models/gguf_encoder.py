"""Encoders of texts in GGUF files: BERT, RoBERTa and XLM-R, and what is made of them.

All three are of the architecture "bert"; the tokenizer tells them apart. Positions of
the last two begin after that of padding, and files have no rows before these.

Source: the package gguf, `constants.py`; llama.cpp's `convert_hf_to_gguf.py`.
"""

from __future__ import annotations

from typing import Any

from vkbackend.errors import ArgumentError

from .. import nn
from ..base.errors import FileFormatError
from .bert import Bert, BertConfig, Roberta, RobertaClassifier
from .config import ModelConfig
from .gguf_file import GGUFFile
from .sentence import SentenceEncoder
from .tokenizer import Tokenizer

Encoder = Bert | Roberta | RobertaClassifier

POOLING = "bert.pooling_type"
NORMALIZED = "vkbackend.normalized"
"""Whether vectors have the length 1: an entry of ours, as there is none for it."""

RANK = 4
_POOLINGS = {1: "mean", 2: "cls", 3: "lasttoken"}
"""How states become a vector; 0 is that they do not, `RANK` that they become scores."""

_KINDS = {"bert": "bert", "gpt2": "roberta", "t5": "xlm-roberta"}
"""Values of `model_type` by `tokenizer.ggml.model`."""


def encoder_settings(
    file: GGUFFile, given: ModelConfig, found: dict[str, Any]
) -> ModelConfig:
    """Return what a file says of an encoder, sizes included.

    Raises
    ------
    FileFormatError
        If the tokenizer is of another kind, a tensor of the embedding is missing, or
        the file is a reranker of BERT.
    """
    kind = given.get("tokenizer.ggml.model", str, "bert")
    if kind not in _KINDS:
        raise FileFormatError(
            f"{file.path}: `tokenizer.ggml.model` is {kind!r}; of encoders those of"
            f" BERT, RoBERTa and XLM-R are read, {', '.join(map(repr, _KINDS))}"
        )
    for name in ("position_embd.weight", "token_types.weight"):
        if name not in file.tensors:
            raise FileFormatError(f"{file.path}: tensor `{name}` is missing")
    rows = file.tensors["position_embd.weight"].shape[0]
    found |= {
        "model_type": _KINDS[kind],
        "hidden_act": "gelu",
        "layer_norm_eps": given.get("bert.attention.layer_norm_epsilon", float, 1e-12),
        "max_position_embeddings": rows,
        "type_vocab_size": file.tensors["token_types.weight"].shape[0],
    }
    if kind != "bert":
        padding = given.get("tokenizer.ggml.padding_token_id", int, 1)
        if not 0 <= padding < found["vocab_size"]:
            raise FileFormatError(
                f"{file.path}: `tokenizer.ggml.padding_token_id` is {padding}; it must"
                f" be a number below {found['vocab_size']}, as there are words"
            )
        found["pad_token_id"] = padding
        found["max_position_embeddings"] += padding + 1
    pooling = given.get(POOLING, int, 0)
    if pooling not in (0, RANK, *_POOLINGS):
        raise FileFormatError(
            f"{file.path}: `{POOLING}` is {pooling}; accepted: 0 (none), 1 (mean), 2"
            " (first token), 3 (last token), 4 (score)"
        )
    if "cls.output.weight" in file.tensors:
        if kind == "bert":
            raise FileFormatError(
                f"{file.path}: it is a reranker of BERT, whose pooler files have not;"
                " give the folder of the checkpoint"
            )
        found["architectures"] = ["RobertaForSequenceClassification"]
        found["num_labels"] = file.tensors["cls.output.weight"].shape[0]
    return ModelConfig(found, str(file.path))


def with_pooling(file: GGUFFile, model: nn.Module) -> nn.Module:
    """Return an encoder with the pooling of its file, if there is one."""
    given = ModelConfig(file.metadata, str(file.path))
    kind = _POOLINGS.get(given.get(POOLING, int, 0))
    if kind is None or not isinstance(model, Bert | Roberta):
        return model
    longest = BertConfig.of(ModelConfig(model.settings)).max_position_embeddings
    longest -= leading_rows(model)
    longest = min(longest, given.size("bert.context_length", longest))
    is_normalized = given.get(NORMALIZED, bool, False)
    return SentenceEncoder(model, (kind,), (), is_normalized, longest)


def leading_rows(model: nn.Module) -> int:
    """Return how many rows of positions a file has not."""
    if not isinstance(model, Roberta | RobertaClassifier):
        return 0
    padding = BertConfig.of(ModelConfig(model.settings)).padding
    return 0 if padding is None else padding + 1


def pooling_described(model: SentenceEncoder) -> tuple[nn.Module, dict[str, Any]]:
    """Return the encoder of texts in one with pooling, and metadata of the pooling.

    Raises
    ------
    ArgumentError
        If files have no such pooling, or layers come after it.
    """
    encoder = model.encoder
    if not isinstance(encoder, Bert | Roberta):
        return encoder, {}
    numbers = {name: number for number, name in _POOLINGS.items()}
    if [*model.dense] or len(model.poolings) != 1 or model.poolings[0] not in numbers:
        raise ArgumentError(
            f"save_gguf: the pooling is {', '.join(model.poolings)}, with"
            f" {len(model.dense)} linear layers after it; files have one of"
            f" {', '.join(map(repr, numbers))}, and no layers"
        )
    found: dict[str, Any] = {POOLING: numbers[model.poolings[0]]}
    room = BertConfig.of(ModelConfig(encoder.settings)).max_position_embeddings
    room -= leading_rows(encoder)
    found["bert.context_length"] = min(room, model.longest)
    if model.normalized:
        found[NORMALIZED] = True
    return encoder, found


def encoder_described(model: Encoder, tokenizer: Tokenizer | None) -> dict[str, Any]:
    """Return metadata of an encoder of texts.

    Raises
    ------
    ArgumentError
        If its activation is another one, or it is no BERT and there is no tokenizer,
        which tells so, or this pads with another token.
    """
    config = BertConfig.of(ModelConfig(model.settings))
    name = type(model).__name__
    if config.hidden_act != "gelu":
        raise ArgumentError(
            f"save_gguf: hidden_act of the {name} is {config.hidden_act!r}; files have"
            " none but 'gelu'"
        )
    if not isinstance(model, Bert):
        padding = None if tokenizer is None else tokenizer.padding
        if padding != config.padding:
            raise ArgumentError(
                f"save_gguf: the {name} pads with token {config.padding}, the tokenizer"
                f" with {padding}; files say of the tokenizer what the model is: give"
                " that of the model"
            )
    sizes = {
        "context_length": config.max_position_embeddings - leading_rows(model),
        "embedding_length": config.hidden_size,
        "feed_forward_length": config.intermediate_size,
        "block_count": config.num_hidden_layers,
        "attention.head_count": config.num_attention_heads,
        "attention.layer_norm_epsilon": config.layer_norm_eps,
        "attention.causal": False,
        "vocab_size": config.vocab_size,
    }
    if isinstance(model, RobertaClassifier):
        sizes["pooling_type"] = RANK
    named = {f"bert.{name}": value for name, value in sizes.items()}
    types = {"tokenizer.ggml.token_type_count": config.type_vocab_size}
    return {"general.architecture": "bert", **named, **types}
