"""Unigram tokenizers of GGUF files beside that of transformers."""

import struct
from pathlib import Path
from typing import Any

import pytest

from tests.framework.models.saved import transformers
from vkbackend.framework.base.errors import FileFormatError
from vkbackend.framework.models.gguf_tokenizer import tokenizer_of

TOKENS = ["<s>", "<pad>", "</s>", "<unk>", "\u2581", *"abcdehst", "\u2581the", "at"]
SCORES = [*[0.0] * 4, *(-float(place) for place in range(1, len(TOKENS) - 3))]
TYPES = [3, 3, 3, 2, *[1] * (len(TOKENS) - 4)]
TEXTS = ["the cat", "  the\tb\u00e0d  \u00e0 ", "", " ", "sea \u732b", "that\u2581cat"]


def trie(keys: dict[bytes, int]) -> bytes:
    """Return a double array: a unit of 32 bits for each byte that leads on."""
    units: dict[int, int] = {0: 0}

    def add(at: int, rest: dict[bytes, int]) -> None:
        labels = sorted({key[0] if key else 0 for key in rest})
        base = next(
            each for each in range(1, 512)
            if not any(each ^ label in units for label in labels)
        )  # fmt: skip
        units[at] |= (base ^ at) << 10 | (0 in labels) << 8
        units.update({base ^ label: label for label in labels})
        for label in labels:
            if label == 0:
                units[base] = 1 << 31 | rest[b""]
                continue
            mine = {
                key: each for key, each in rest.items() if key[:1] == bytes([label])
            }
            add(base ^ label, {key[1:]: each for key, each in mine.items()})

    add(0, keys)
    return b"".join(struct.pack("<I", units.get(at, 0)) for at in range(1024))


UNITS = trie({b"\t": 0, "\u00e0".encode(): 2, "\u3000".encode(): 0})
CHARSMAP = struct.pack("<I", len(UNITS)) + UNITS + b" \0a\0"


def read(**changed: Any) -> Any:
    """Return the tokenizer of an encoder with some entries changed."""
    found = {
        "model": "t5",
        "tokens": TOKENS,
        "scores": SCORES,
        "token_type": TYPES,
        "precompiled_charsmap": list(CHARSMAP),
        "remove_extra_whitespaces": True,
        **{f"{name}_token_id": at for at, name in enumerate(("bos", "padding", "eos"))},
        **changed,
    }
    metadata = {f"tokenizer.ggml.{name}": each for name, each in found.items()}
    metadata["general.architecture"] = "bert"
    return tokenizer_of(Path("a.gguf"), metadata)[0]


@pytest.mark.parametrize("charsmap", [b"", CHARSMAP])
def test_numbers_are_those_of_transformers(charsmap: bytes) -> None:
    theirs = transformers.XLMRobertaTokenizer(
        vocab=list(zip(TOKENS, SCORES, strict=True)),
        _spm_precompiled_charsmap=charsmap or None,
    )
    signed = [each - 256 if each > 127 else each for each in charsmap]
    for given in (list(charsmap), signed):
        ours = read(precompiled_charsmap=given)
        for text in TEXTS:
            numbers = theirs(text)["input_ids"]
            assert ours.encode(text).ids == numbers
            assert ours.decode(numbers) == theirs.decode(
                numbers, skip_special_tokens=True
            )


def test_spaces_and_bytes() -> None:
    """What SentencePiece makes of them with each of its settings."""
    ours = read(add_space_prefix=False, precompiled_charsmap=None)
    assert ours.encode("  the  at ", add_special_tokens=False).tokens == [
        *("t", "h", "e", "\u2581", "at")
    ]
    kept = read(remove_extra_whitespaces=False, precompiled_charsmap=None)
    assert kept.encode("at  at", add_special_tokens=False).tokens == [
        *("\u2581", "at", "\u2581", "\u2581", "at")
    ]
    every = [f"<0x{byte:02X}>" for byte in range(256)]
    bytewise = read(
        tokens=[*TOKENS, *every],
        scores=[*SCORES, *[-20.0] * 256],
        token_type=[*TYPES, *[6] * 256],
    )
    found = bytewise.encode("at \u732b", add_special_tokens=False)
    assert found.tokens[-3:] == ["<0xE7>", "<0x8C>", "<0xAB>"]
    assert bytewise.decode(found.ids) == "at \u732b"


OUTSIDE = struct.pack("<I", 1 << 20 << 10)
LATE = struct.pack("<I", 1 << 31 | 99)


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"scores": [1.0]}, "scores` must be a list of 15 numbers"),
        ({"scores": [float("nan")] * 15}, "scores` has nan; they must be finite"),
        ({"scores": ["a"] * 15}, "scores` has 'a'; they must be finite"),
        ({"token_type": [1] * 15}, "unknown_token_id` is missing; a unigram"),
        ({"precompiled_charsmap": "text"}, "precompiled_charsmap` is damaged"),
        ({"precompiled_charsmap": [1, 2]}, "precompiled_charsmap` is damaged"),
        ({"precompiled_charsmap": list(CHARSMAP[:-1])}, "charsmap` is damaged"),
        ({"precompiled_charsmap": list(CHARSMAP[:400])}, "charsmap` is damaged"),
        ({"precompiled_charsmap": list(CHARSMAP[:4] + OUTSIDE + CHARSMAP[8:])},
         "charsmap` is damaged"),
        ({"precompiled_charsmap": list(CHARSMAP[:4] + LATE + CHARSMAP[8:])},
         "charsmap` is damaged"),
    ],
)  # fmt: skip
def test_damage_is_named(changed: dict[str, Any], problem: str) -> None:
    with pytest.raises(FileFormatError, match=problem):
        read(**changed)
