"""Unigram tokenizers (Kudo 2018, arXiv:1804.10959) in GGUF files, as of XLM-R."""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base.errors import FileFormatError
from .gguf_tokens import BYTE, SPACE, UNKNOWN

if TYPE_CHECKING:
    import tokenizers

_IS_VALUE = np.uint32(1 << 31)


def scores_of(path: Path, found: dict[str, Any]) -> list[float]:
    """Return the scores of tokens, which a file must have of each.

    Raises
    ------
    FileFormatError
        If they are missing, of another number, or not finite.
    """
    scores, count = found.get("scores"), len(found["tokens"])
    if not isinstance(scores, list) or len(scores) != count:
        raise FileFormatError(
            f"{path}: `tokenizer.ggml.scores` must be a list of {count} numbers, as"
            " there are tokens"
        )
    strange = [
        each
        for each in scores
        if not isinstance(each, int | float) or not math.isfinite(each)
    ]
    if strange:
        raise FileFormatError(
            f"{path}: `tokenizer.ggml.scores` has {strange[0]!r}; they must be finite"
            " numbers"
        )
    return scores


def unigrams(path: Path, found: dict[str, Any]) -> tokenizers.Tokenizer:
    """Return a tokenizer that takes the likeliest pieces of a text.

    Parameters
    ----------
    path : Path
        For messages.
    found : dict
        Entries of `tokenizer.ggml`, without this prefix.

    Raises
    ------
    FileFormatError
        If no token stands for what is unknown, or the scores or the map of characters
        are damaged.
    """
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

    tokens, types = found["tokens"], found["token_type"]
    scores = scores_of(path, found)
    unknown = found.get("unknown_token_id")
    if unknown is None and UNKNOWN in types:
        unknown = types.index(UNKNOWN)
    if unknown is None:
        raise FileFormatError(
            f"{path}: `tokenizer.ggml.unknown_token_id` is missing; a unigram tokenizer"
            " must have a token for what is unknown"
        )
    pieces = [(token, float(each)) for token, each in zip(tokens, scores, strict=True)]
    try:
        model = models.Unigram(pieces, unknown, byte_fallback=BYTE in types)
    except Exception as error:  # the package raises no narrower class
        raise FileFormatError(f"{path}: it has no tokenizer: {error}") from error
    made = Tokenizer(model)
    parts: list[Any] = []
    charsmap = found.get("precompiled_charsmap")
    if charsmap:
        parts.append(normalizers.Precompiled(checked_charsmap(path, charsmap)))
    begins = "always" if found.get("add_space_prefix", True) else "never"
    spaces = pre_tokenizers.Metaspace(SPACE, prepend_scheme=begins)
    made.pre_tokenizer = spaces
    if found.get("remove_extra_whitespaces", False):
        if begins == "always":
            words = [pre_tokenizers.WhitespaceSplit(), spaces]
            made.pre_tokenizer = pre_tokenizers.Sequence(words)
        else:
            parts += _single_spaces()
    if parts:
        made.normalizer = normalizers.Sequence(parts)
    made.decoder = decoders.Metaspace(SPACE, prepend_scheme=begins)
    if BYTE in types:
        bytes_of_text = [decoders.ByteFallback(), decoders.Metaspace(SPACE, begins)]
        made.decoder = decoders.Sequence(bytes_of_text)
    return made


def _single_spaces() -> list[Any]:
    """Return what takes spaces away but for one between two words."""
    from tokenizers import Regex, normalizers

    return [
        normalizers.Replace(Regex(" {2,}"), " "),
        normalizers.Replace(Regex(r"\A | \z"), ""),
    ]


def checked_charsmap(path: Path, charsmap: Any) -> bytes:
    """Return the map of characters to what stands for them, as SentencePiece has it.

    It is the size of a double-array trie, the trie, and the texts that its values are
    the beginnings of. The package `tokenizers` reads it without looking at its bounds.

    Raises
    ------
    FileFormatError
        If it is no list of bytes, or a place that it names is outside of it.
    """
    damaged = FileFormatError(
        f"{path}: `tokenizer.ggml.precompiled_charsmap` is damaged; it must be a trie"
        " and its texts, as SentencePiece writes them"
    )
    try:
        # Some writers have signed bytes.
        found = bytes(each & 0xFF for each in charsmap)
        (size,) = struct.unpack_from("<I", found)
        units = np.frombuffer(found, "<u4", size // 4, 4)
        texts = found[4 + size :]
        texts.decode("utf-8")
    except (TypeError, ValueError, struct.error) as error:
        raise damaged from error
    if size % 4 or not size or not texts.endswith(b"\0"):
        raise damaged
    values = (units & _IS_VALUE) != 0
    shift = (units & np.uint32(1 << 9)) >> np.uint32(6)
    last = (np.arange(len(units)) ^ ((units >> np.uint32(10)) << shift)) | 0xFF
    starts = (units & ~_IS_VALUE)[values]
    if np.any(last[~values] >= len(units)) or np.any(starts >= len(texts)):
        raise damaged
    inside = np.frombuffer(texts, np.uint8)[starts] & 0xC0 == 0x80
    if np.any(inside):
        raise damaged
    return found
