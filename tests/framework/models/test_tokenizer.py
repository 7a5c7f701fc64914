"""Tokenizers and templates of chats beside transformers."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.framework.models.saved import transformers
from tests.framework.models.words import byte_pairs, word_pieces
from vkbackend.errors import ArgumentError
from vkbackend.framework.base.errors import FileFormatError
from vkbackend.framework.models import Tokenizer

TEXTS = ["the cat sat", "naïve 猫 👩‍💻 text", "a"]
TEMPLATE = """{{ bos_token }}
{%- for message in messages %}
    {%- if message.role not in ("user", "assistant") %}
        {{- raise_exception("no role " + message.role) }}
    {%- endif %}
    <|{{ message.role }}|>{% generation %}{{ message.content }}{% endgeneration %}
    {%- if tools %}{{ tools | tojson }}{% endif %}
{% endfor %}
{%- if add_generation_prompt %}<|assistant|>{% endif %}"""
CHAT = [{"role": "user", "content": "the <cat>"}, {"role": "assistant", "content": "é"}]


def test_agrees_with_transformers(tmp_path: Path, place: Any) -> None:
    byte_pairs(tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    ours = Tokenizer(tmp_path)
    assert len(ours) == len(theirs)
    for text in TEXTS:
        numbers = theirs(text).input_ids
        assert ours.encode(text) == numbers
        assert ours.encode(text, special_tokens=False) == numbers[1:]
        assert ours.decode(numbers) == theirs.decode(numbers, skip_special_tokens=True)
        assert ours.decode(numbers, skip_special_tokens=False) == "<s>" + text
    theirs.pad_token = theirs.eos_token
    wanted = theirs(TEXTS, padding=True, padding_side="left", return_tensors="np")
    tokens, mask, _ = ours.batch(TEXTS, place)
    assert tokens.device is place
    np.testing.assert_array_equal(tokens.numpy(), wanted.input_ids)
    np.testing.assert_array_equal(mask.numpy(), wanted.attention_mask)


def test_pairs_and_padding_at_the_right(tmp_path: Path) -> None:
    word_pieces(tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    pairs = [("a cat", "the dogs sat"), ("the mat", "a dog")]
    wanted = theirs(
        [first for first, _ in pairs],
        [second for _, second in pairs],
        padding=True,
        return_tensors="np",
        return_token_type_ids=True,
    )
    tokens, mask, types = Tokenizer(tmp_path).batch(pairs, side="right")
    np.testing.assert_array_equal(tokens.numpy(), wanted.input_ids)
    np.testing.assert_array_equal(mask.numpy(), wanted.attention_mask)
    np.testing.assert_array_equal(types.numpy(), wanted.token_type_ids)


def test_text_comes_token_by_token(tmp_path: Path) -> None:
    byte_pairs(tmp_path)
    tokenizer = Tokenizer(tmp_path)
    for text in TEXTS:
        stream = tokenizer.stream()
        parts = [stream.add(token) for token in tokenizer.encode(text)]
        assert "\ufffd" not in "".join(parts)
        assert "".join(parts) + stream.end() == text
    stream = tokenizer.stream()
    cut = [stream.add(token) for token in tokenizer.encode("猫")[:-1]]
    assert "".join(cut) == ""
    assert stream.end() == "\ufffd"


@pytest.mark.parametrize("settings", [{}, {"tools": [{"name": "é"}]}])
def test_chats(tmp_path: Path, settings: dict[str, Any]) -> None:
    byte_pairs(tmp_path, TEMPLATE)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    given = {"add_generation_prompt": True, **settings}
    wanted = theirs.apply_chat_template(CHAT, tokenize=False, **given)
    assert Tokenizer(tmp_path).apply_chat_template(CHAT, **settings) == wanted
    (tmp_path / "chat_template.jinja").write_text("{{ messages | length }}")
    assert Tokenizer(tmp_path).apply_chat_template(CHAT) == "2"


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (None, "has no template of chats"),
        (TEMPLATE, "refuses the messages: no role system"),
        ("{% for %}", "refuses the messages"),
        ("{{ ''.__class__.__mro__[1].__subclasses__() }}", "is unsafe"),
    ],
)
def test_chats_that_are_refused(
    tmp_path: Path, template: str | None, message: str
) -> None:
    byte_pairs(tmp_path, template)
    chat = [{"role": "system", "content": "be brief"}]
    with pytest.raises(ArgumentError, match=message):
        Tokenizer(tmp_path).apply_chat_template(chat)


def test_tokens_that_end_a_text(tmp_path: Path) -> None:
    byte_pairs(tmp_path)
    assert Tokenizer(tmp_path).stop == (1,)
    where = tmp_path / "generation_config.json"
    where.write_text(json.dumps({"eos_token_id": [2, 1]}))
    assert Tokenizer(tmp_path).stop == (1, 2)
    assert Tokenizer(tmp_path).padding == 1


def test_what_does_not_fit(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"has no tokenizer\.json"):
        Tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(FileFormatError, match="it is no tokenizer"):
        Tokenizer(tmp_path)
    byte_pairs(tmp_path)
    with pytest.raises(ArgumentError, match="texts has no text"):
        Tokenizer(tmp_path).batch([])
    with pytest.raises(ArgumentError, match="side is 'top'"):
        Tokenizer(tmp_path).batch(["a"], side="top")
