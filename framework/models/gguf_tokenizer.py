"""Tokenizers in GGUF files: byte pairs, unigrams, pieces with scores and of words."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.errors import FileFormatError
from .gguf_file import read_gguf
from .gguf_tokens import CONTROL, SPACE, UNKNOWN, UNUSED, USER_DEFINED
from .gguf_unigram import scores_of, unigrams

if TYPE_CHECKING:
    import tokenizers

SPECIAL = ("bos", "eos", "unknown", "padding", "eot", "eom", "cls", "seperator")
"""Tokens with roles, as files spell them."""
INSIDE = "##"
"""What a piece that begins no word begins with in the vocabulary of BERT."""
_ENDINGS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
_OTHERS = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
WORDS: dict[str, str | None] = {
    "default": None,
    "gpt-2": None,
    "smollm": None,
    "roberta-bpe": None,
    "llama-bpe": _ENDINGS + r"\p{N}{1,3}" + _OTHERS,
    "qwen2": _ENDINGS + r"\p{N}" + _OTHERS,
}
"""Patterns of words by `tokenizer.ggml.pre`; None is that of GPT-2.

With "smollm" each digit is a word, too.
"""


def gguf_tokenizer(path: Path) -> tuple[tokenizers.Tokenizer, dict[str, Any]]:
    """Return the tokenizer of a GGUF file, with settings as of a folder's.

    Parameters
    ----------
    path : Path

    Returns
    -------
    tuple of tokenizers.Tokenizer and dict
        Settings are as in `tokenizer_config.json`, and `eos_token_id`: a list.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    FileFormatError
        If the file has no tokenizer, or one of another kind, or a damaged one.
    ImportError
        If the package `tokenizers` is missing.
    """
    return tokenizer_of(path, read_gguf(path).metadata)


def tokenizer_of(
    path: Path, metadata: Mapping[str, Any]
) -> tuple[tokenizers.Tokenizer, dict[str, Any]]:
    """Return the tokenizer that metadata of a file describe; see `gguf_tokenizer`."""
    prefix = "tokenizer.ggml."
    found: dict[str, Any] = {
        name.removeprefix(prefix): value
        for name, value in metadata.items()
        if name.startswith(prefix)
    }
    kind, tokens = found.get("model"), found.get("tokens")
    makers = {
        "gpt2": _byte_pairs,
        "llama": _scored_pieces,
        "bert": _word_pieces,
        "t5": unigrams,
    }
    if kind not in makers:
        raise FileFormatError(
            f"{path}: `tokenizer.ggml.model` is {kind!r}; accepted:"
            f" {', '.join(map(repr, makers))}"
        )
    if not isinstance(tokens, list) or not all(
        isinstance(each, str) for each in tokens
    ):
        raise FileFormatError(
            f"{path}: `tokenizer.ggml.tokens` must be a list of texts"
        )
    types = found.setdefault("token_type", [1] * len(tokens))
    if not isinstance(types, list) or len(types) != len(tokens):
        raise FileFormatError(
            f"{path}: `tokenizer.ggml.token_type` must be a list of {len(tokens)}"
            " numbers, as there are tokens"
        )
    special = {name: _special(path, found, name) for name in SPECIAL}
    made = makers[kind](path, found)
    _add_tokens(made, tokens, types)
    encoder = metadata.get("general.architecture") == "bert"
    begins = kind in ("llama", "bert") or found.get("pre") == "llama-bpe" or encoder
    first, last = special["bos"], special["eos"]
    if encoder or kind == "bert":
        first = special["cls"] if first is None else first
        last = special["seperator"] if last is None else last
    counted = encoder and kind != "bert"
    _add_ends(
        made,
        tokens,
        first if found.get("add_bos_token", begins) else None,
        last if found.get("add_eos_token", encoder or kind in ("bert", "t5")) else None,
        "roberta" if counted else "bert" if kind == "bert" else None,
    )
    settings: dict[str, Any] = {
        f"{ours}_token": tokens[number]
        for ours, name in (
            ("bos", "bos"),
            ("eos", "eos"),
            ("pad", "padding"),
            ("unk", "unknown"),
        )
        if (number := special[name]) is not None
    }
    ends = [special["eos"], special["eot"], special["eom"]]
    settings["eos_token_id"] = [each for each in ends if each is not None]
    settings["chat_template"] = metadata.get("tokenizer.chat_template")
    return made, settings


def _special(path: Path, found: dict[str, Any], name: str) -> int | None:
    """Return the number of a special token, if there is one."""
    number = found.get(f"{name}_token_id")
    if number is None:
        return None
    count = len(found["tokens"])
    if not isinstance(number, int) or not 0 <= number < count:
        raise FileFormatError(
            f"{path}: `tokenizer.ggml.{name}_token_id` is {number!r}; it must be a"
            f" number below {count}, as there are tokens"
        )
    return number


def _byte_pairs(path: Path, found: dict[str, Any]) -> tokenizers.Tokenizer:
    """Return a tokenizer whose letters are bytes, as that of GPT-2."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers
    from tokenizers import pre_tokenizers as words

    pre = found.get("pre", "default")
    if pre not in WORDS:
        raise FileFormatError(
            f"{path}: `tokenizer.ggml.pre` is {pre!r}; accepted:"
            f" {', '.join(map(repr, WORDS))}"
        )
    given = found.get("merges")
    if not isinstance(given, list) or any(str(each).count(" ") != 1 for each in given):
        raise FileFormatError(
            f"{path}: `tokenizer.ggml.merges` must be a list of pairs, with a space"
            " between two tokens"
        )
    parts = [each.partition(" ") for each in given]
    merges = [(left, right) for left, _, right in parts]
    numbers = {token: number for number, token in enumerate(found["tokens"])}
    try:
        model = models.BPE(numbers, merges, ignore_merges=pre == "llama-bpe")
    except Exception as error:  # the package raises no narrower class
        raise FileFormatError(f"{path}: it has no tokenizer: {error}") from error
    made = Tokenizer(model)
    pattern = WORDS[pre]
    bytes_of_words = words.ByteLevel(add_prefix_space=False, use_regex=pattern is None)
    made.pre_tokenizer = bytes_of_words
    if pre == "smollm":
        digits = words.Digits(individual_digits=True)
        made.pre_tokenizer = words.Sequence([digits, bytes_of_words])
    if pattern is not None:
        split = words.Split(Regex(pattern), "isolated")
        made.pre_tokenizer = words.Sequence([split, bytes_of_words])
    if pre == "qwen2":
        made.normalizer = normalizers.NFC()
    made.decoder = decoders.ByteLevel()
    return made


def _scored_pieces(path: Path, found: dict[str, Any]) -> tokenizers.Tokenizer:
    """Return a tokenizer that joins pieces by their scores, as that of Llama 2."""
    from tokenizers import Tokenizer, decoders, models, normalizers

    tokens, types, scores = found["tokens"], found["token_type"], scores_of(path, found)
    numbers = {token: number for number, token in enumerate(tokens)}
    unknown = [tokens[place] for place, kind in enumerate(types) if kind == UNKNOWN]
    model = models.BPE(
        numbers,
        _merges(tokens, types, scores),
        byte_fallback=True,
        fuse_unk=True,
        unk_token=unknown[0] if unknown else None,
    )
    made = Tokenizer(model)
    spaces: list[Any] = [normalizers.Replace(" ", SPACE)]
    parts: list[Any] = [
        decoders.Replace(SPACE, " "),
        decoders.ByteFallback(),
        decoders.Fuse(),
    ]
    if found.get("add_space_prefix", True):
        spaces.insert(0, normalizers.Prepend(SPACE))
        parts.append(decoders.Strip(" ", 1, 0))
    made.normalizer = normalizers.Sequence(spaces)
    made.decoder = decoders.Sequence(parts)
    return made


def _word_pieces(path: Path, found: dict[str, Any]) -> tokenizers.Tokenizer:
    """Return a tokenizer that takes the longest pieces of words, as that of BERT.

    Files have a mark before pieces that begin words, not within them. They do not say
    whether letters are made small: they are where no piece has a capital.
    """
    from tokenizers import Tokenizer, decoders, models, normalizers
    from tokenizers import pre_tokenizers as words

    types = found["token_type"]
    pieces = [
        token
        if kind in (UNKNOWN, CONTROL, UNUSED)
        else token.removeprefix(SPACE)
        if token.startswith(SPACE)
        else INSIDE + token
        for token, kind in zip(found["tokens"], types, strict=True)
    ]
    ordinary = (each for each, kind in zip(pieces, types, strict=True) if kind == 1)
    has_capitals = any(each != each.lower() for each in ordinary)
    numbers = {piece: number for number, piece in enumerate(pieces)}
    unknown = found.get("unknown_token_id")
    name = "[UNK]" if unknown is None else pieces[unknown]
    if name not in numbers:
        raise FileFormatError(
            f"{path}: `tokenizer.ggml.tokens` has no {name!r}, which unknown words are"
        )
    made = Tokenizer(models.WordPiece(numbers, unk_token=name))
    made.normalizer = normalizers.BertNormalizer(lowercase=not has_capitals)
    made.pre_tokenizer = words.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    return made


def _merges(
    tokens: list[str], types: list[int], scores: list[float]
) -> list[tuple[str, str]]:
    """Return pairs of pieces that make another, those of the highest score first."""
    numbers = {token: n for n, token in enumerate(tokens) if types[n] == 1}
    found: list[tuple[float, int, int, str, str]] = []
    for token, number in numbers.items():
        for place in range(1, len(token)):
            left, right = token[:place], token[place:]
            if left in numbers and right in numbers:
                order = numbers[left], numbers[right]
                found.append((-scores[number], *order, left, right))
    return [(left, right) for *_, left, right in sorted(found)]


def _add_tokens(
    made: tokenizers.Tokenizer, tokens: list[str], types: list[int]
) -> None:
    """Make whole tokens of roles and ends, and those that a user has defined."""
    from tokenizers import AddedToken

    special = [
        AddedToken(token, normalized=False, special=kind != USER_DEFINED)
        for token, kind in zip(tokens, types, strict=True)
        if kind in (UNKNOWN, CONTROL, USER_DEFINED)
    ]
    made.add_tokens(special)


def _add_ends(
    made: tokenizers.Tokenizer,
    tokens: list[str],
    first: int | None,
    last: int | None,
    pairs: str | None,
) -> None:
    """Let encoded texts begin and end with tokens.

    The second of a pair does so, too; with `pairs` "bert" it does not begin anew, and
    with "roberta" it begins with the last token, and its type is that of the first.
    """
    from tokenizers.processors import TemplateProcessing

    ends = [(tokens[each], each) for each in (first, last) if each is not None]
    if not ends:
        return
    start = [] if first is None else [tokens[first]]
    end = [] if last is None else [tokens[last]]
    again = {"bert": [], "roberta": end}.get(pairs or "", start)
    second = 0 if pairs == "roberta" else 1
    one = [f"{each}:0" for each in (*start, "$A", *end)]
    two = [f"{each}:{second}" for each in (*again, "$B", *end)]
    made.post_processor = TemplateProcessing(
        single=one, pair=[*one, *two], special_tokens=list(dict.fromkeys(ends))
    )
