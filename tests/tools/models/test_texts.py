import json
from pathlib import Path

import pytest

import vkbackend.framework as fw
from tests.framework.models.words import byte_pairs
from vkbackend.framework.base.errors import FileFormatError
from vkbackend.tools.models.texts import read_examples

LINES = [
    {"text": "the cat sat on the mat"},
    {"prompt": "the cat", "completion": " sat on the mat"},
]


def write(path: Path, *entries: object) -> Path:
    path.write_text("\n".join(map(json.dumps, entries)))
    return path


def test_only_completions_count(folder: Path, tmp_path: Path) -> None:
    tokenizer = fw.models.Tokenizer(folder)
    whole, answer = read_examples(write(tmp_path / "a.jsonl", *LINES), tokenizer)
    assert all(whole.counted)
    prompt = tokenizer.encode("the cat")
    assert answer.tokens[: len(prompt)] == prompt
    assert answer.counted.index(True) == len(prompt)
    assert tokenizer.decode(answer.tokens) == "the cat sat on the mat"


def test_answers_of_a_chat_count(tmp_path: Path) -> None:
    template = (
        "{% for m in messages %}<|user|>{{ m['content'] }}</s>{% endfor %}"
        "{% if add_generation_prompt %}<|user|>{% endif %}"
    )
    byte_pairs(tmp_path, template)
    tokenizer = fw.models.Tokenizer(tmp_path)
    roles = ["user", "assistant", "user", "assistant"]
    chat = [{"role": role, "content": f"cat {n}"} for n, role in enumerate(roles)]
    path = write(tmp_path / "a.jsonl", {"messages": chat})
    (found,) = read_examples(path, tokenizer)
    learned = [
        token
        for token, counts in zip(found.tokens, found.counted, strict=True)
        if counts
    ]
    assert tokenizer.decode(learned, False) == "cat 1</s>cat 3</s>"
    path = write(tmp_path / "a.jsonl", {"messages": chat[:1]})
    with pytest.raises(FileFormatError, match="none of the role 'assistant'"):
        read_examples(path, tokenizer)


def test_wrong_lines_are_named(folder: Path, tmp_path: Path) -> None:
    tokenizer = fw.models.Tokenizer(folder)
    for entry, problem in (
        ({"words": 1}, r"line 1: it has \['words'\]; it must be"),
        ({"text": 3}, "line 1: text is a int; it must be a string"),
        ({"messages": "hello"}, "line 1: messages must be a list"),
    ):
        with pytest.raises(FileFormatError, match=problem):
            read_examples(write(tmp_path / "a.jsonl", entry), tokenizer)
    with pytest.raises(FileFormatError, match="it has no example"):
        read_examples(write(tmp_path / "a.jsonl"), tokenizer)
