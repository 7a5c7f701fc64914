"""Requests and answers of OpenAI's API for completions and chats."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

COMPLETION_TOKENS = 16
"""Tokens of a completion that says no number, as OpenAI has it."""

MOST_STOPS, MOST_STOP = 16, 1024
"""Stop words of a request, and characters of one, at most: all are looked for in each
part of a text."""

NEUTRAL: dict[str, tuple[Any, ...]] = {
    "best_of": (1,),
    "echo": (False,),
    "frequency_penalty": (0,),
    "function_call": ("none",),
    "functions": ([],),
    "logit_bias": ({},),
    "logprobs": (False, 0),
    "modalities": (["text"],),
    "presence_penalty": (0,),
    "response_format": ({"type": "text"},),
    "suffix": ("",),
    "tool_choice": ("none", "auto"),
    "tools": ([],),
    "top_logprobs": (0,),
}
"""What is not supported, with the values that change nothing, beside None."""

WITHOUT_MEANING = {
    "metadata",
    "parallel_tool_calls",
    "prompt_cache_key",
    "safety_identifier",
    "service_tier",
    "store",
    "user",
}
"""Fields that change no text here."""

SHARED = {
    "min_p",
    "model",
    "n",
    "repetition_penalty",
    "seed",
    "stop",
    "stream",
    "stream_options",
    "temperature",
    "top_k",
    "top_p",
    "max_tokens",
}


class RequestError(ValueError):
    """A request that is answered with an error of OpenAI's form.

    Parameters
    ----------
    message : str
    param : str or None
        Field that is wrong.
    status : int
        Of HTTP.
    kind, code : str
        `type` and `code` of the error.
    """

    def __init__(
        self,
        message: str,
        param: str | None = None,
        status: int = 400,
        kind: str = "invalid_request_error",
        code: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.body = {
            "error": {"message": message, "type": kind, "param": param, "code": code}
        }


class Asked(NamedTuple):
    """What a request asks for.

    Attributes
    ----------
    prompts : list of str, list of int, or chats
        A text or its tokens each; of a chat its messages.
    is_chat : bool
    tokens : int or None
        Number to add at most, if the request says.
    copies : int
        Texts of each prompt.
    settings : dict
        Further arguments of `Engine.submit`.
    stop : tuple of str
    stream, counts : bool
        Whether the text comes in parts, and at last how many tokens it has.
    """

    prompts: list[Any]
    is_chat: bool
    tokens: int | None
    copies: int
    settings: dict[str, Any]
    stop: tuple[str, ...]
    stream: bool
    counts: bool

    @classmethod
    def of(cls, body: Any, model: str, is_chat: bool) -> Asked:
        """Return what the body of a request says.

        Raises
        ------
        RequestError
            If a field is missing, wrong, unknown or not supported; of another model.
        """
        if not isinstance(body, dict):
            raise RequestError("the body is no JSON object; it must be one")
        fields = {name: value for name, value in body.items() if value is not None}
        _check_names(fields, is_chat)
        if fields.get("model", model) != model:
            raise RequestError(
                f"model is {fields['model']!r}; this server has {model!r}",
                "model",
                404,
                code="model_not_found",
            )
        count = _number(fields, "max_tokens", int)
        if is_chat:
            count = _number(fields, "max_completion_tokens", int, count)
        elif count is None:
            count = COMPLETION_TOKENS
        settings = {
            "temperature": _number(fields, "temperature", float, 1.0),
            "top_p": _number(fields, "top_p", float),
            "top_k": _number(fields, "top_k", int),
            "min_p": _number(fields, "min_p", float),
            "repetition_penalty": _number(fields, "repetition_penalty", float, 1.0),
            "seed": _number(fields, "seed", int),
        }
        copies = _number(fields, "n", int, 1)
        if copies < 1:
            raise RequestError(f"n is {copies}; it must be at least 1", "n")
        options = _of_kind(fields, "stream_options", dict, {})
        return cls(
            [_messages(fields)] if is_chat else _prompts(fields),
            is_chat,
            count,
            copies,
            settings,
            _stop(fields),
            _of_kind(fields, "stream", bool, False),
            bool(options.get("include_usage")),
        )


def _check_names(fields: Mapping[str, Any], is_chat: bool) -> None:
    """Refuse what is unknown or not supported."""
    own = {"messages", "max_completion_tokens"} if is_chat else {"prompt"}
    for name, value in fields.items():
        if name in NEUTRAL:
            if not any(value == each for each in NEUTRAL[name]):
                raise RequestError(
                    f"{name} is {json.dumps(value)[:100]}; it is not supported here,"
                    " leave it out",
                    name,
                    code="unsupported_parameter",
                )
        elif name not in SHARED | own | WITHOUT_MEANING:
            raise RequestError(
                f"{name[:100]!r} is no argument of the request; leave it out",
                name[:100],
                code="unknown_parameter",
            )


def _number(
    fields: Mapping[str, Any], name: str, kind: type, default: Any = None
) -> Any:
    """Return a number, whole if `kind` is int."""
    value = fields.get(name, default)
    allowed = (int, float) if kind is float else (int,)
    if value is not None and (
        isinstance(value, bool) or not isinstance(value, allowed)
    ):
        wanted = "a number" if kind is float else "a whole number"
        raise RequestError(f"{name} is {value!r}; it must be {wanted}"[:200], name)
    try:
        return float(value) if kind is float and value is not None else value
    except OverflowError as error:
        raise RequestError(f"{name} is too large; it must be a number", name) from error


def _of_kind(fields: Mapping[str, Any], name: str, kind: type, default: Any) -> Any:
    value = fields.get(name, default)
    if not isinstance(value, kind):
        words = {bool: "true or false", dict: "an object", list: "an array"}
        raise RequestError(
            f"{name} is {value!r}"[:100] + f"; it must be {words[kind]}", name
        )
    return value


def _stop(fields: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the words at which a text ends."""
    given = fields.get("stop", [])
    words = [given] if isinstance(given, str) else given
    if not isinstance(words, list) or not all(
        isinstance(each, str) and each for each in words
    ):
        raise RequestError(
            "stop must be a text, or an array of texts, not empty", "stop"
        )
    if len(words) > MOST_STOPS or any(len(each) > MOST_STOP for each in words):
        raise RequestError(
            f"stop must be at most {MOST_STOPS} texts of {MOST_STOP} characters", "stop"
        )
    return tuple(words)


def _prompts(fields: Mapping[str, Any]) -> list[Any]:
    """Return the prompts of a completion: texts, or lists of tokens."""
    given = fields.get("prompt")
    if isinstance(given, str) or (isinstance(given, list) and _are_tokens(given)):
        return [given]
    if not isinstance(given, list) or not given:
        raise RequestError(
            "prompt must be a text, tokens, or an array of texts or of tokens", "prompt"
        )
    for each in given:
        if not isinstance(each, str) and not (
            isinstance(each, list) and _are_tokens(each)
        ):
            raise RequestError(
                f"prompt has {each!r}"[:100] + "; it must be a text or tokens", "prompt"
            )
    return given


def _are_tokens(given: Sequence[Any]) -> bool:
    return bool(given) and all(type(each) is int for each in given)


def _messages(fields: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the messages of a chat, whose contents are texts."""
    given = _of_kind(fields, "messages", list, None)
    if not given:
        raise RequestError("messages is empty; it must have one at least", "messages")
    return [_message(number, each) for number, each in enumerate(given)]


def _message(number: int, given: Any) -> dict[str, str]:
    where = f"messages[{number}]"
    if not isinstance(given, dict) or not isinstance(given.get("role"), str):
        raise RequestError(f"{where} must be an object with `role`", where)
    content = given.get("content")
    if isinstance(content, list):
        parts = [
            each.get("text")
            if isinstance(each, dict) and each.get("type") == "text"
            else None
            for each in content
        ]
        if not all(isinstance(each, str) for each in parts):
            raise RequestError(
                f"{where}.content has a part that is no text; only texts are supported",
                where,
            )
        content = "".join(map(str, parts))
    if not isinstance(content, str):
        raise RequestError(f"{where}.content must be a text", where)
    return {"role": given["role"], "content": content}


class Answer:
    """Bodies of the answer to a request.

    Parameters
    ----------
    model : str
    is_chat : bool
    """

    def __init__(self, model: str, is_chat: bool) -> None:
        kind = "chat.completion" if is_chat else "text_completion"
        prefix = "chatcmpl" if is_chat else "cmpl"
        self._is_chat, self._kind = is_chat, kind
        self._head = {
            "id": f"{prefix}-{uuid.uuid4().hex}",
            "created": int(time.time()),
            "model": model,
        }

    def whole(
        self, texts: Sequence[tuple[str, str]], usage: dict[str, int]
    ) -> dict[str, Any]:
        """Return the body for texts that are over, each with why it ended."""
        choices = []
        for index, (text, finish) in enumerate(texts):
            said: dict[str, Any] = {"text": text}
            if self._is_chat:
                said = {"message": {"role": "assistant", "content": text}}
            choices.append(self._choice(index, said, finish))
        return self._body(self._kind, choices) | {"usage": usage}

    def begin(self, index: int) -> dict[str, Any] | None:
        """Return the first part of a text that comes in parts, if there is one."""
        if not self._is_chat:
            return None
        said = {"delta": {"role": "assistant", "content": ""}}
        return self._part([self._choice(index, said, None)])

    def part(self, index: int, text: str, finish: str | None) -> dict[str, Any]:
        """Return a further part of a text."""
        said: dict[str, Any] = {"text": text}
        if self._is_chat:
            said = {"delta": {"content": text} if text else {}}
        return self._part([self._choice(index, said, finish)])

    def usage(self, usage: dict[str, int]) -> dict[str, Any]:
        """Return the part that counts tokens, after all others."""
        return self._part([]) | {"usage": usage}

    def _part(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        kind = "chat.completion.chunk" if self._is_chat else self._kind
        return self._body(kind, choices)

    def _body(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {**self._head, "object": kind, "choices": choices}

    def _choice(
        self, index: int, said: dict[str, Any], finish: str | None
    ) -> dict[str, Any]:
        return {"index": index, **said, "logprobs": None, "finish_reason": finish}


def usage_of(prompt: int, added: int) -> dict[str, int]:
    """Return the counts of tokens of a request."""
    return {
        "prompt_tokens": prompt,
        "completion_tokens": added,
        "total_tokens": prompt + added,
    }
