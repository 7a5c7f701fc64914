"""HTTP server of a model: OpenAI's API for completions and chats, on FastAPI."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, Response, StreamingResponse

from vkbackend.errors import ArgumentError

from .completion import Answer, Asked, RequestError, usage_of
from .job_group import JobGroup
from .worker import QueueFullError, Worker, WorkerClosedError

_LOG = logging.getLogger("uvicorn.error")

MOST_BODY = 1 << 24
"""Bytes of a request at most."""

GENERATE_TOKENS = 50
"""Tokens that `/v1/generate` adds where the request says no number."""


class Api:
    """Routes of a server.

    Parameters
    ----------
    worker : Worker
    name : str
        Name of the model.
    tokens : int
        Tokens that a chat's answer has at most, where the request says no number.
    """

    def __init__(self, worker: Worker, name: str, tokens: int) -> None:
        self._worker, self._name, self._tokens = worker, name, tokens
        self._created = int(time.time())

    def app(self) -> Any:
        """Return the application, which starts and closes the worker."""
        app = FastAPI(title=self._name, lifespan=self._lifespan, openapi_url=None)
        for path, handler, method in (
            ("/health", self.health, "GET"),
            ("/v1/models", self.models, "GET"),
            ("/v1/models/{name:path}", self.model, "GET"),
            ("/v1/completions", self.completions, "POST"),
            ("/v1/chat/completions", self.chat, "POST"),
            ("/v1/generate", self.generate, "POST"),
        ):
            app.add_api_route(path, handler, methods=[method], response_model=None)
        for status in (404, 405):
            app.add_exception_handler(status, _no_route)
        app.add_exception_handler(Exception, _refused)
        for kind in (RequestError, ArgumentError, QueueFullError, WorkerClosedError):
            app.add_exception_handler(kind, _refused)
        return app

    @asynccontextmanager
    async def _lifespan(self, _: Any) -> AsyncIterator[None]:
        self._worker.start()
        yield
        await run_in_threadpool(self._worker.close)

    async def health(self, _: Request) -> Response:
        """Say whether texts are written, and how much there is to do."""
        failure, load = self._worker.failure, self._worker.engine.load
        state = {"status": "ok" if failure is None else "failing", "error": failure}
        counts = {"open": self._worker.open_jobs, "most": self._worker.most}
        body = state | {"model": self._name} | load._asdict() | counts
        return JSONResponse(body, 200 if failure is None else 503)

    async def models(self, _: Request) -> Response:
        """List the one model."""
        return JSONResponse({"object": "list", "data": [self._model()]})

    async def model(self, request: Request) -> Response:
        """Describe the model."""
        name = request.path_params["name"]
        if name != self._name:
            raise RequestError(
                f"there is no model {name[:100]!r}; this server has {self._name!r}",
                "model",
                404,
                code="model_not_found",
            )
        return JSONResponse(self._model())

    def _model(self) -> dict[str, Any]:
        return {
            "id": self._name,
            "object": "model",
            "created": self._created,
            "owned_by": "vkbackend",
            "max_model_len": self._worker.engine.length,
        }

    async def completions(self, request: Request) -> Response:
        """Go on with texts."""
        return await self._replied(request, is_chat=False)

    async def chat(self, request: Request) -> Response:
        """Answer a chat."""
        return await self._replied(request, is_chat=True)

    async def _replied(self, request: Request, is_chat: bool) -> Response:
        """Answer, also where the engine fails.

        An error that leaves the application would close the connection behind its
        answer, perhaps only once the client's next request is under way.
        """
        try:
            return await self._answer(request, is_chat)
        except Exception as error:
            if as_refusal(error).status == 500:
                _LOG.exception("a request failed")
            return await _refused(request, error)

    async def generate(self, request: Request) -> Response:
        """Go on with tokens, greedily; errors are texts here."""
        began = time.perf_counter()
        try:
            body = await _body(request)
            tokens = body.get("token_ids") if isinstance(body, dict) else None
            if not isinstance(tokens, list) or not tokens:
                raise RequestError("token_ids must not be empty")
            count = body.get("max_new_tokens", GENERATE_TOKENS)
            if type(count) is not int or not all(type(each) is int for each in tokens):
                raise RequestError("token_ids and max_new_tokens must be whole numbers")
            stop = {"stop": self._worker.tokenizer.stop}
            texts = JobGroup(self._worker, [tokens], [count], [stop], ())
            await texts.ask(request.receive)
            added: tuple[int, ...] = ()
            try:
                async for _, piece in texts.pieces():
                    added += piece.tokens
            finally:
                texts.close()
        except Exception as error:
            refused = as_refusal(error)
            said = {"error": str(refused)}
            return JSONResponse(said, refused.status, _headers(refused))
        milliseconds = 1e3 * (time.perf_counter() - began)
        return JSONResponse(
            {"generated_ids": [*tokens, *added], "latency_ms": milliseconds}
        )

    async def _answer(self, request: Request, is_chat: bool) -> Response:
        asked = Asked.of(await _body(request), self._name, is_chat)
        texts_asked = len(asked.prompts) * asked.copies
        if texts_asked > self._worker.most:
            raise RequestError(
                f"{texts_asked} texts are asked for; a request has at most"
                f" {self._worker.most}",
                "n",
            )
        # Before the work of encoding, which a full queue makes useless.
        self._worker.check_room(texts_asked)
        prompts = await run_in_threadpool(self._encoded, asked)
        counts = [self._count(prompt, asked) for prompt in prompts]
        copies, seed = range(asked.copies), asked.settings["seed"]
        stop = {**asked.settings, "stop": self._worker.tokenizer.stop}
        seeds = [None if seed is None else seed + copy for copy in copies]
        texts = JobGroup(
            self._worker,
            [prompt for prompt in prompts for _ in copies],
            [count for count in counts for _ in copies],
            [{**stop, "seed": each} for _ in prompts for each in seeds],
            asked.stop,
        )
        await texts.ask(request.receive)
        answer, held = Answer(self._name, is_chat), sum(map(len, prompts))
        if asked.stream:
            parts = _events(texts, answer, held, asked)
            return StreamingResponse(parts, media_type="text/event-stream")
        said = [""] * len(prompts) * asked.copies
        finishes, added = ["stop"] * len(said), 0
        try:
            async for index, piece in texts.pieces():
                said[index] += piece.text
                finishes[index] = piece.finish or finishes[index]
                added += len(piece.tokens)
        finally:
            texts.close()
        whole = [*zip(said, finishes, strict=True)]
        return JSONResponse(answer.whole(whole, usage_of(held, added)))

    def _encoded(self, asked: Asked) -> list[list[int]]:
        """Return the tokens of the prompts."""
        tokenizer = self._worker.tokenizer
        if asked.is_chat:
            chats = [tokenizer.apply_chat_template(each) for each in asked.prompts]
            return [tokenizer.encode(each, special_tokens=False) for each in chats]
        return [
            tokenizer.encode(each) if isinstance(each, str) else each
            for each in asked.prompts
        ]

    def _count(self, prompt: list[int], asked: Asked) -> int:
        """Return how many tokens a text gets at most."""
        length = self._worker.engine.length
        room = length - len(prompt)
        wanted = 1 if asked.tokens is None else asked.tokens
        if room < max(1, wanted):
            raise RequestError(
                f"the prompt has {len(prompt)} tokens and {wanted} are asked for; a"
                f" text has at most {length}",
                "messages" if asked.is_chat else "prompt",
                code="context_length_exceeded",
            )
        return min(room, self._tokens) if asked.tokens is None else asked.tokens


async def _events(
    texts: JobGroup, answer: Answer, held: int, asked: Asked
) -> AsyncIterator[str]:
    """Yield server-sent events, one for each part of a text."""
    added, begun = 0, set[int]()
    try:
        async for index, piece in texts.pieces():
            first = None if index in begun else answer.begin(index)
            begun.add(index)
            if first is not None:
                yield _event(first)
            if piece.text:
                yield _event(answer.part(index, piece.text, None))
            if piece.finish is not None:
                yield _event(answer.part(index, "", piece.finish))
            added += len(piece.tokens)
        if asked.counts:
            yield _event(answer.usage(usage_of(held, added)))
        yield "data: [DONE]\n\n"
    except Exception as error:  # the status is sent, so that an event tells it
        yield _event(as_refusal(error).body)
    finally:
        texts.close()


def _event(body: dict[str, Any]) -> str:
    return f"data: {json.dumps(body, ensure_ascii=False)}\n\n"


async def _body(request: Request) -> Any:
    """Return the JSON value of a request.

    Raises
    ------
    RequestError
        If it is too large, or no JSON.
    """
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > MOST_BODY:
            raise RequestError(
                f"the request has more than {MOST_BODY} bytes; send less", status=413
            )
        parts.append(part)
    try:
        return json.loads(b"".join(parts))
    except (ValueError, RecursionError) as error:
        raise RequestError(f"the body is no JSON: {error}") from error


def as_refusal(error: Exception) -> RequestError:
    """Return an error as a client is told it."""
    if isinstance(error, RequestError):
        return error
    if isinstance(error, ArgumentError):
        return RequestError(str(error))
    if isinstance(error, QueueFullError):
        kind, code = "overloaded_error", "queue_full"
        return RequestError(str(error), status=503, kind=kind, code=code)
    status = 503 if isinstance(error, WorkerClosedError) else 500
    return RequestError(
        f"{type(error).__name__}: {error}", status=status, kind="server_error"
    )


def _headers(refused: RequestError) -> dict[str, str]:
    return {"Retry-After": "1"} if refused.status == 503 else {}


async def _refused(_: Request, error: Exception) -> Response:
    refused = as_refusal(error)
    return JSONResponse(refused.body, refused.status, _headers(refused))


async def _no_route(request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 404)
    said = f"there is no {request.method} {request.url.path[:100]} here"
    return JSONResponse(RequestError(said, status=status).body, status)
