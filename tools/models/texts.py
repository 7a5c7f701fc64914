"""Texts that a language model learns: lines of JSON as tokens.

Each line is an object with "text"; with "prompt" and "completion"; or with "messages"
of a chat. Of the last two only what the model is to answer counts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from vkbackend.framework import models
from vkbackend.framework.base.errors import FileFormatError


class Example(NamedTuple):
    """Tokens of a text, and which of them are to be learned."""

    tokens: list[int]
    counted: list[bool]


def read_examples(path: Path, tokenizer: models.Tokenizer) -> list[Example]:
    """Return the examples of a file of JSON lines.

    Raises
    ------
    FileFormatError
        If a line is no object of one of the three kinds, or there is none.
    """
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            entry = json.loads(line)
        except ValueError as error:
            raise FileFormatError(f"{where}: it is no JSON: {error}") from error
        found.append(_example(where, entry, tokenizer))
    if not found:
        raise FileFormatError(f"{path}: it has no example")
    return found


def _example(where: str, entry: Any, tokenizer: models.Tokenizer) -> Example:
    has = entry.keys() if isinstance(entry, dict) else ()
    if "messages" in has:
        parts = _chat(where, entry["messages"], tokenizer)
        tokens = [tokenizer.encode(text, special_tokens=False) for text, _ in parts]
        kinds = [learned for _, learned in parts]
    elif "prompt" in has and "completion" in has:
        end = [*tokenizer.stop[:1]]
        answer = tokenizer.encode(_text(where, entry, "completion"), False) + end
        tokens = [tokenizer.encode(_text(where, entry, "prompt")), answer]
        kinds = [False, True]
    elif "text" in has:
        end = [*tokenizer.stop[:1]]
        tokens = [tokenizer.encode(_text(where, entry, "text")) + end]
        kinds = [True]
    else:
        raise FileFormatError(
            f"{where}: it has {[*has]}; it must be an object with 'text', with 'prompt'"
            " and 'completion', or with 'messages'"
        )
    counted = [
        kind for part, kind in zip(tokens, kinds, strict=True) for _ in range(len(part))
    ]
    return Example([each for part in tokens for each in part], counted)


def _text(where: str, entry: Mapping[str, Any], name: str) -> str:
    found = entry[name]
    if not isinstance(found, str):
        raise FileFormatError(
            f"{where}: {name} is a {type(found).__name__}; it must be a string"
        )
    return found


def _chat(
    where: str, messages: Any, tokenizer: models.Tokenizer
) -> list[tuple[str, bool]]:
    """Return the parts of a chat, and which of them are answers."""
    if not isinstance(messages, list) or not all(
        isinstance(each, dict) and "role" in each for each in messages
    ):
        raise FileFormatError(
            f"{where}: messages must be a list of objects with 'role' and 'content'"
        )
    parts: list[tuple[str, bool]] = []
    done = ""
    for count, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        asked = tokenizer.apply_chat_template(messages[:count])
        whole = tokenizer.apply_chat_template(
            messages[: count + 1], add_generation_prompt=False
        )
        if not (asked.startswith(done) and whole.startswith(asked)):
            raise FileFormatError(
                f"{where}: the chat template changes what was before message {count};"
                " give each answer a line of its own"
            )
        parts += [(asked[len(done) :], False), (whole[len(asked) :], True)]
        done = whole
    if not parts:
        raise FileFormatError(f"{where}: messages have none of the role 'assistant'")
    return parts
