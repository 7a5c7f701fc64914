"""The server of a model, as clients of OpenAI's API see it."""

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.tools.models.serving import (
    served,
    small_worker,
    write_chat_model,
    written_alone,
)
from vkbackend.tools.models.worker import Worker

httpx = pytest.importorskip("httpx")
openai = pytest.importorskip("openai")
pytest.importorskip("fastapi")

ROUNDS = 20
"""Seconds after which a test fails that waits."""


class Server(NamedTuple):
    """A server, and what it writes with."""

    worker: Worker
    url: str


@pytest.fixture(scope="module")
def chat_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a small model that chats."""
    folder = tmp_path_factory.mktemp("served")
    write_chat_model(folder)
    return folder


@pytest.fixture(scope="module")
def server(chat_folder: Path) -> Iterator[Server]:
    """Give a server of a small model."""
    worker = small_worker(chat_folder)
    with served(worker) as url:
        yield Server(worker, url)
    assert worker.open_jobs == 0
    assert worker.engine.load.free_pages == worker.engine.pages


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[Any]:
    """Give OpenAI's client of the server."""
    with openai.OpenAI(
        base_url=f"{server.url}/v1", api_key="none", max_retries=0
    ) as made:
        yield made


def test_models(client: Any) -> None:
    assert [each.id for each in client.models.list()] == ["small"]
    assert client.models.retrieve("small").max_model_len == 64
    with pytest.raises(openai.NotFoundError, match="no model 'a/b'"):
        client.models.retrieve("a/b")


@pytest.mark.parametrize("streams", [False, True])
def test_completions(server: Server, client: Any, streams: bool) -> None:
    prompts = ["the cat", "sat on the mat"]
    wanted = [written_alone(server.worker, each, 7) for each in prompts]
    asked = {"model": "small", "prompt": prompts, "max_tokens": 7, "temperature": 0}
    texts, finishes = ["", ""], [None, None]
    if streams:
        options = {"include_usage": True}
        with client.completions.create(
            **asked, stream=True, stream_options=options
        ) as parts:
            for part in parts:
                usage = part.usage
                for each in part.choices:
                    texts[each.index] += each.text
                    finishes[each.index] = each.finish_reason
    else:
        found = client.completions.create(**asked)
        usage = found.usage
        for each in found.choices:
            texts[each.index], finishes[each.index] = each.text, each.finish_reason
    assert texts == wanted
    assert finishes == ["length", "length"]
    held = sum(len(server.worker.tokenizer.encode(each)) for each in prompts)
    assert (usage.prompt_tokens, usage.completion_tokens) == (held, 14)


@pytest.mark.parametrize("streams", [False, True])
def test_chats(server: Server, client: Any, streams: bool) -> None:
    tokens = server.worker.tokenizer.encode("<s>the dog", special_tokens=False)
    wanted = written_alone(server.worker, tokens, 6)
    word = wanted[2:4]
    asked = {"model": "small", "messages": [{"role": "user", "content": "the dog"}]}
    asked |= {"temperature": 0, "stop": [word]}
    if streams:
        with client.chat.completions.create(**asked, stream=True) as parts:
            choices = [part.choices[0] for part in parts]
        assert choices[0].delta.role == "assistant"
        text = "".join(each.delta.content or "" for each in choices)
        finish = choices[-1].finish_reason
    else:
        choice = client.chat.completions.create(**asked).choices[0]
        text, finish = choice.message.content, choice.finish_reason
    assert (text, finish) == (wanted[: wanted.index(word)], "stop")


def test_drawn_texts(client: Any) -> None:
    asked = {"model": "small", "prompt": [5, 6, 7], "n": 2, "seed": 3}
    first, again = (
        [each.text for each in client.completions.create(**asked).choices]
        for _ in range(2)
    )
    assert first == again
    assert first[0] != first[1]


def test_what_is_wrong(client: Any) -> None:
    asked = {"model": "small", "prompt": "a"}
    for settings, message, code in (
        ({"model": "x"}, "this server has 'small'", "model_not_found"),
        ({"max_tokens": 100}, "has at most 64", "context_length_exceeded"),
        ({"top_p": 2}, "top_p is 2.0; it must be in", None),
        ({"prompt": [300]}, "has token 300", None),
        ({"n": 99}, "99 texts are asked for", None),
        ({"logprobs": 2}, "it is not supported", "unsupported_parameter"),
    ):
        with pytest.raises(openai.APIStatusError, match=message) as caught:
            client.completions.create(**{**asked, **settings})
        assert caught.value.code == code
        assert caught.value.status_code == (404 if "model" in settings else 400)


def test_errors_have_the_form_of_openai(server: Server) -> None:
    with httpx.Client(base_url=server.url) as client:
        for method, path, content, status in (
            ("POST", "/v1/completions", b"{", 400),
            ("POST", "/v1/completions", b"\xff", 400),
            ("POST", "/v1/completions", b"[" * 100_000, 400),
            ("POST", "/v1/completions", b" " * ((1 << 24) + 1), 413),
            ("GET", "/v1/completions", b"", 405),
            ("GET", "/nowhere", b"", 404),
        ):
            answer = client.request(method, path, content=content)
            assert answer.status_code == status
            assert answer.json()["error"]["type"] == "invalid_request_error"


def test_tokens_without_text(server: Server) -> None:
    with httpx.Client(base_url=server.url) as client:
        asked = {"token_ids": [5, 6, 7], "max_new_tokens": 4}
        found = client.post("/v1/generate", json=asked).json()
        assert found["generated_ids"][:3] == [5, 6, 7]
        assert len(found["generated_ids"]) == 7
        assert found["latency_ms"] > 0
        for wrong, message in (
            ({"token_ids": []}, "token_ids must not be empty"),
            ({"token_ids": [1], "max_new_tokens": "a"}, "must be whole numbers"),
            ({"token_ids": [1], "max_new_tokens": 99}, "room for 64 in all"),
        ):
            answer = client.post("/v1/generate", json=wrong)
            assert answer.status_code == 400
            assert message in answer.json()["error"]


def test_health(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        raise MemoryError("no room")

    with httpx.Client(base_url=server.url) as client:
        found = client.get("/health")
        assert found.status_code == 200
        assert found.json() == {
            **{"status": "ok", "error": None, "model": "small", "open": 0, "most": 10},
            **{"waiting": 0, "running": 0, "free_pages": 16, "pages": 16},
        }
        with monkeypatch.context() as patch:
            patch.setattr(server.worker.engine, "step", fails)
            asked = {"prompt": "a", "stream": True}
            found = client.post("/v1/completions", json=asked)
            event = json.loads(found.text.removeprefix("data: "))
            assert event["error"]["message"] == "MemoryError: no room"
            assert client.post("/v1/completions", json={"prompt": "a"}).is_server_error
            assert client.get("/health").status_code == 503
        assert client.post("/v1/completions", json={"prompt": "a"}).is_success
        assert client.get("/health").json()["status"] == "ok"


def test_many_clients(chat_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of 64 gets its whole text, or is told that the queue is full."""
    worker = small_worker(chat_folder, queue=12, rows=4, pages=6)
    words = ["the", "cat", "sat", "on", "mat", "dog", "too", "and"]
    wanted = [written_alone(worker, word, 5) for word in words]
    step, is_full = worker.engine.step, threading.Event()
    most = worker.engine.pages

    def held() -> Any:
        is_full.wait(ROUNDS)
        found = step()
        load = worker.engine.load
        assert load.running <= 4
        assert 0 <= load.free_pages <= most
        return found

    monkeypatch.setattr(worker.engine, "step", held)

    async def all_of_them(url: str) -> list[tuple[int, str]]:
        refused = 0

        async def one(client: Any, number: int) -> tuple[int, str]:
            nonlocal refused
            asked = {"prompt": words[number % 8], "max_tokens": 5, "temperature": 0}
            asked["stream"] = number % 3 == 0
            answer = await client.post("/v1/completions", json=asked)
            if answer.status_code != 200:
                refused += 1
                if refused == 64 - worker.most:
                    is_full.set()
                assert answer.headers["Retry-After"] == "1"
                return answer.status_code, answer.json()["error"]["code"]
            if not asked["stream"]:
                return 200, answer.json()["choices"][0]["text"]
            parts = [line[6:] for line in answer.text.splitlines() if line]
            assert parts.pop() == "[DONE]"
            texts = [json.loads(part)["choices"][0]["text"] for part in parts]
            return 200, "".join(texts)

        limits = httpx.Limits(max_connections=64)
        async with httpx.AsyncClient(
            base_url=url, limits=limits, timeout=ROUNDS
        ) as client:
            return await asyncio.gather(*(one(client, number) for number in range(64)))

    with served(worker) as url:
        found = asyncio.run(all_of_them(url))
    assert [status for status, _ in found].count(200) == worker.most
    for number, (status, text) in enumerate(found):
        assert (status, text) in ((200, wanted[number % 8]), (503, "queue_full"))
    assert worker.open_jobs == 0
    assert worker.engine.load == (0, 0, most, most)


@pytest.mark.parametrize("streams", [False, True])
def test_a_client_goes_away(
    chat_folder: Path, monkeypatch: pytest.MonkeyPatch, streams: bool
) -> None:
    worker = small_worker(chat_folder)
    step, cancel = worker.engine.step, worker.engine.cancel
    has_gone, freed = threading.Event(), threading.Event()
    found: list[tuple[str, int]] = []
    steps = []

    def held() -> Any:
        # Some tokens are written; the others wait for the client to go away.
        steps.append(1)
        if len(steps) == 20:
            has_gone.wait(ROUNDS)
        elif len(steps) > 20:
            freed.wait(0.1)
        return step()

    def cancelled(generation: Any) -> None:
        cancel(generation)
        found.append((generation.finish, worker.engine.load.free_pages))
        freed.set()

    monkeypatch.setattr(worker.engine, "step", held)
    monkeypatch.setattr(worker.engine, "cancel", cancelled)
    asked = {"prompt": [5], "max_tokens": 60, "temperature": 0, "stream": streams}
    with served(worker) as url:
        if streams:
            with (
                httpx.Client() as client,
                client.stream("POST", f"{url}/v1/completions", json=asked) as answer,
            ):
                next(answer.iter_lines())
        else:
            with (
                httpx.Client(timeout=0.5) as client,
                pytest.raises(httpx.ReadTimeout),
            ):
                client.post(f"{url}/v1/completions", json=asked)
        has_gone.set()
        assert freed.wait(ROUNDS)
    assert found == [("cancelled", worker.engine.pages)]
