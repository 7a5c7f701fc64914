"""Metadata of GGUF files that describe a tokenizer: what `gguf_tokenizer` reads."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vkbackend.errors import ArgumentError

from ..base.errors import FileFormatError
from .gguf_tokenizer import INSIDE, WORDS, tokenizer_of
from .gguf_tokens import (
    BYTE,
    CONTROL,
    NORMAL,
    SPACE,
    UNKNOWN,
    UNUSED,
    USER_DEFINED,
)
from .tokenizer import Tokenizer

if TYPE_CHECKING:
    import tokenizers

UNUSED_SCORE = -10000.0
"""Of a number without a token."""

SAMPLES = (
    "The dog's  12345 hats,\n\n they'll do 3.14!",
    "  \u00e9t\u00e9 e\u0301\t\u732b \U0001f408 \u041f\u0440\u0438\u0432\u0435\u0442,"
    " \u0645\u0631\u062d\u0628\u0627 \r\n  x",
    "\uff21\uff22 \ufb01nd \u00bd\u00a0\u2028x",
    "if (a[0] != b) { return -1; }   # done\n\tfor x in y: print('%s' % x)",
    "",
)
"""Texts that must have the same tokens when a file is read again."""


def tokenizer_metadata(
    tokenizer: Tokenizer, words: int, architecture: str
) -> dict[str, Any]:
    """Return the entries of a GGUF file for a tokenizer.

    Parameters
    ----------
    tokenizer : Tokenizer
        Of byte pairs, of pieces that fall back to bytes, of unigrams, or of pieces of
        words. Of the tokens that end a text three are kept.
    words : int
        Rows of the model's embedding; numbers without a token get one that is unused.
    architecture : str
        Of the model, which decides how pairs of texts are joined.

    Raises
    ------
    ArgumentError
        If it is of another kind, cuts texts as no known `tokenizer.ggml.pre` says, or
        has more tokens than the model has words.
    """
    described: dict[str, Any] = json.loads(tokenizer.backend.to_str())
    model = described["model"]
    if model["type"] not in ("BPE", "WordPiece", "Unigram"):
        raise ArgumentError(
            f"save_gguf: the tokenizer is of the kind {model['type']}; accepted: BPE,"
            " WordPiece, Unigram"
        )
    common = _special(tokenizer) | _tokens(described, tokenizer, words)
    is_encoder = architecture == "bert"
    if is_encoder and model["type"] != "WordPiece":
        roles = {"cls": "bos", "seperator": "eos"}
        common |= {
            f"{role}_token_id": common[f"{other}_token_id"]
            for role, other in roles.items()
            if f"{other}_token_id" in common
        }
    for found in _candidates(described, common, is_encoder):
        metadata = {f"tokenizer.ggml.{name}": value for name, value in found.items()}
        if tokenizer.template is not None:
            metadata["tokenizer.chat_template"] = tokenizer.template
        if _is_same(tokenizer.backend, metadata, architecture):
            return metadata
    raise ArgumentError(
        "save_gguf: the tokenizer cuts or changes texts as no tokenizer of GGUF files"
        f" does that is known here: 'llama', 'bert', 't5',"
        f" {', '.join(map(repr, WORDS))};"
        " leave it out"
    )


def _special(tokenizer: Tokenizer) -> dict[str, Any]:
    """Return special tokens, and which of them texts begin and end with."""
    numbers = tokenizer.numbers()
    first, pad = numbers.get("bos_token_id"), numbers.get("pad_token_id")
    named = dict(zip(("eos", "eot", "eom"), tokenizer.stop))
    found: dict[str, Any] = {f"{name}_token_id": each for name, each in named.items()}
    if first is not None:
        found["bos_token_id"] = first
    if pad is not None:
        found["padding_token_id"] = pad
    whole = tokenizer.encode("a")
    plain = tokenizer.encode("a", special_tokens=False)
    found["add_bos_token"] = len(whole) > len(plain) and whole[0] == first
    found["add_eos_token"] = len(whole) > len(plain) and whole[-1] == found.get(
        "eos_token_id"
    )
    return found


def _tokens(
    described: Mapping[str, Any], tokenizer: Tokenizer, words: int
) -> dict[str, Any]:
    """Return all tokens in their order, with their types."""
    model = described["model"]
    if model["type"] == "Unigram":
        by_number = dict(enumerate(token for token, _ in model["vocab"]))
    else:
        by_number = {number: token for token, number in model["vocab"].items()}
    types = dict.fromkeys(by_number, NORMAL)
    if model.get("byte_fallback"):
        names = {f"<0x{byte:02X}>" for byte in range(256)}
        types |= {at: BYTE for at, token in by_number.items() if token in names}
    for added in described["added_tokens"]:
        by_number[added["id"]] = added["content"]
        types[added["id"]] = CONTROL if added["special"] else USER_DEFINED
    count = 1 + max(by_number, default=-1)
    if count > words:
        raise ArgumentError(
            f"save_gguf: the tokenizer has {count} tokens, the model {words} words; it"
            " must have as many at least"
        )
    found: dict[str, Any] = {}
    unknown = tokenizer.special.get("unk_token", model.get("unk_token"))
    if model["type"] == "Unigram":
        unknown = by_number.get(model["unk_id"])
    for number, token in by_number.items():
        if token == unknown:
            types[number] = UNKNOWN
            found["unknown_token_id"] = number
    found["tokens"] = [by_number.get(at, f"[PAD{at}]") for at in range(words)]
    found["token_type"] = [types.get(at, UNUSED) for at in range(words)]
    return found


def _candidates(
    described: Mapping[str, Any], common: Mapping[str, Any], is_encoder: bool
) -> Iterator[dict[str, Any]]:
    """Yield what may describe a tokenizer."""
    model = described["model"]
    if model["type"] == "WordPiece":
        yield _word_pieces(common)
        return
    if model["type"] == "Unigram":
        yield from _unigrams(described, common)
        return
    merges = [
        (each if isinstance(each, str) else " ".join(each)) for each in model["merges"]
    ]
    if not model.get("byte_fallback"):
        for pre in ("roberta-bpe",) if is_encoder else WORDS:
            yield {"model": "gpt2", "pre": pre, **common, "merges": merges}
        return
    ranks: dict[str, int] = {}
    for rank, pair in enumerate(merges):
        ranks.setdefault(pair.replace(" ", "", 1), rank)
    scores = [-float(ranks.get(token, len(merges))) for token in common["tokens"]]
    for prefix in (True, False):
        spaces = {"add_space_prefix": prefix, "scores": scores}
        yield {"model": "llama", **common, **spaces}


def _word_pieces(common: Mapping[str, Any]) -> dict[str, Any]:
    """Return what describes pieces of words, marked where they begin one."""
    tokens, types = common["tokens"], common["token_type"]
    marked = [
        token
        if kind != NORMAL
        else token.removeprefix(INSIDE)
        if token.startswith(INSIDE)
        else SPACE + token
        for token, kind in zip(tokens, types, strict=True)
    ]
    found = {**common, "model": "bert", "tokens": marked}
    # Texts have the tokens of their ends, whatever these are called.
    for name in ("add_bos_token", "add_eos_token"):
        del found[name]
    for name, token in (("cls", "[CLS]"), ("seperator", "[SEP]"), ("mask", "[MASK]")):
        if token in tokens:
            found[f"{name}_token_id"] = tokens.index(token)
    return found


def _unigrams(
    described: Mapping[str, Any], common: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """Yield what may describe unigrams, by what is done with spaces."""
    scores = [float(each) for _, each in described["model"]["vocab"]]
    scores += [UNUSED_SCORE] * (len(common["tokens"]) - len(scores))
    found = {"model": "t5", "pre": "default", **common, "scores": scores}
    charsmap = _charsmap(described["normalizer"])
    if charsmap is not None:
        found["precompiled_charsmap"] = charsmap
    for removes, begins in ((True, True), (True, False), (False, True), (False, False)):
        spaces = {"remove_extra_whitespaces": removes, "add_space_prefix": begins}
        yield {**found, **spaces}


def _charsmap(normalizer: Any) -> bytes | None:
    """Return SentencePiece's map of characters, if a normalizer has one."""
    if not isinstance(normalizer, dict):
        return None
    if normalizer["type"] == "Precompiled":
        return base64.b64decode(normalizer["precompiled_charsmap"])
    inner = map(_charsmap, normalizer.get("normalizers", []))
    return next((each for each in inner if each is not None), None)


def _is_same(
    original: tokenizers.Tokenizer, metadata: Mapping[str, Any], architecture: str
) -> bool:
    """Return whether what is read of the metadata cuts texts as the original."""
    whole = {"general.architecture": architecture, **metadata}
    try:
        read, _ = tokenizer_of(Path("written"), whole)
    except FileFormatError:
        return False
    kind = metadata["tokenizer.ggml.model"]
    if kind == "gpt2" and _words(read) != _words(original):
        return False
    if kind == "t5" and any(
        _characters(read, text) != _characters(original, text) for text in SAMPLES
    ):
        return False
    if architecture == "bert":
        pair = SAMPLES[:2]
        one, other = read.encode(*pair), original.encode(*pair)
        if (one.ids, one.type_ids) != (other.ids, other.type_ids):
            return False
    return all(
        read.encode(text).ids == original.encode(text).ids
        and read.decode(read.encode(text).ids) == original.decode(read.encode(text).ids)
        for text in SAMPLES
    )


def _characters(tokenizer: tokenizers.Tokenizer, text: str) -> str:
    """Return a text as its normalizer leaves it, without spaces."""
    if tokenizer.normalizer is not None:
        text = tokenizer.normalizer.normalize_str(text)
    return "".join(text.replace(SPACE, " ").split())


def _words(tokenizer: tokenizers.Tokenizer) -> list[Any]:
    """Return how a tokenizer changes texts and cuts them into words."""
    described = json.loads(tokenizer.to_str())

    def plain(part: Any) -> Any:
        if isinstance(part, dict):
            kept = {name: plain(each) for name, each in part.items()}
            kept.pop("trim_offsets", None)  # of no influence on tokens
            return kept
        return [plain(each) for each in part] if isinstance(part, list) else part

    return [plain(described["normalizer"]), plain(described["pre_tokenizer"])]
