"""Requests of OpenAI's API, and what is wrong with them."""

from typing import Any

import pytest

from vkbackend.tools.models.completion import Answer, Asked, RequestError, usage_of


def test_a_completion() -> None:
    body = {"model": "m", "prompt": "a", "temperature": 0, "stop": "x", "user": "u"}
    asked = Asked.of(body | {"top_p": None, "logprobs": 0, "n": 2}, "m", False)
    assert (asked.prompts, asked.tokens, asked.copies) == (["a"], 16, 2)
    assert (asked.stop, asked.stream, asked.counts) == (("x",), False, False)
    assert asked.settings["temperature"] == 0
    assert asked.settings["top_p"] is None
    for prompt, wanted in (
        ([1, 2], [[1, 2]]),
        (["a", "b"], ["a", "b"]),
        ([[1], "b"], [[1], "b"]),
    ):
        assert Asked.of({"prompt": prompt}, "m", False).prompts == wanted


def test_a_chat() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": parts}]
    body = {"messages": messages, "stream": True, "tools": []}
    options = {"include_usage": True}
    asked = Asked.of(body | {"stream_options": options}, "m", True)
    assert asked.prompts == [[messages[0], {"role": "user", "content": "ab"}]]
    assert (asked.tokens, asked.stream, asked.counts) == (None, True, True)
    assert Asked.of(body | {"max_completion_tokens": 5}, "m", True).tokens == 5
    assert Asked.of(body | {"max_tokens": 6}, "m", True).tokens == 6


@pytest.mark.parametrize(
    ("body", "param", "message"),
    [
        ([], None, "the body is no JSON object"),
        ({}, "prompt", "prompt must be a text, tokens, or an array"),
        ({"prompt": []}, "prompt", "prompt must be a text"),
        ({"prompt": [True]}, "prompt", "prompt has True; it must be a text or tokens"),
        ({"prompt": "a", "n": 0}, "n", "n is 0; it must be at least 1"),
        ({"prompt": "a", "n": 1.5}, "n", r"n is 1\.5; it must be a whole number"),
        ({"prompt": "a", "seed": True}, "seed", "seed is True"),
        ({"prompt": "a", "top_p": "1"}, "top_p", "top_p is '1'; it must be a number"),
        ({"prompt": "a", "stop": [""]}, "stop", "stop must be a text, or an array"),
        ({"prompt": "a", "stop": ["x"] * 17}, "stop", "stop must be at most 16 texts"),
        ({"prompt": "a", "stream": 1}, "stream", "stream is 1; it must be true or"),
        ({"prompt": "a", "echo": True}, "echo", "echo is true; it is not supported"),
        ({"prompt": "a", "best": 1}, "best", "'best' is no argument of the request"),
        ({"prompt": "a", "model": "x"}, "model", "model is 'x'; this server has 'm'"),
        ({"prompt": "a", "temperature": 10**400}, "temperature", "must be a number"),
    ],
)
def test_wrong_completions(body: Any, param: str | None, message: str) -> None:
    with pytest.raises(RequestError, match=message) as caught:
        Asked.of(body, "m", False)
    error = caught.value.body["error"]
    assert error["param"] == param
    assert error["type"] == "invalid_request_error"
    assert caught.value.status == (404 if param == "model" else 400)


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        (None, "messages is None; it must be an array"),
        ([], "messages is empty"),
        (["a"], r"messages\[0\] must be an object with `role`"),
        ([{"role": "user"}], r"messages\[0\]\.content must be a text"),
        ([{"role": "user", "content": [{"type": "image_url"}]}], "only texts are"),
    ],
)
def test_wrong_chats(messages: Any, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        Asked.of({"messages": messages}, "m", True)


def test_answers() -> None:
    chat, text = Answer("m", True), Answer("m", False)
    whole = chat.whole([("a", "stop")], usage_of(2, 3))
    assert whole["object"] == "chat.completion"
    assert whole["usage"]["total_tokens"] == 5
    assert whole["choices"][0]["message"] == {"role": "assistant", "content": "a"}
    first, part = chat.begin(1), chat.part(1, "b", None)
    assert first is not None
    assert first["id"] == part["id"] == whole["id"]
    assert part["object"] == "chat.completion.chunk"
    assert part["choices"][0]["delta"] == {"content": "b"}
    assert chat.part(1, "", "length")["choices"][0]["finish_reason"] == "length"
    assert text.begin(0) is None
    assert text.part(0, "b", None)["choices"][0]["text"] == "b"
    assert text.usage(usage_of(1, 1))["choices"] == []
