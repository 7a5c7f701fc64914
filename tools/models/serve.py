"""`vkmodels serve`: answer requests of OpenAI's API."""

from __future__ import annotations

import argparse
import contextlib
import signal
import socket
import sys
import threading
from typing import Any

from vkbackend.errors import ArgumentError
from vkbackend.framework import models

from .loaded import add_model_arguments, language_model, opened
from .worker import Worker

HELP = "answer requests of OpenAI's API for completions and chats"

GRACE = 10
"""Seconds that open requests have to end when the server is told to."""

KEEP_ALIVE = 75
"""Seconds after which a connection without requests is closed: longer than clients keep
theirs (httpx 5), or the server may close one just as a request is sent on it."""

SERVED = b"\0"
"""What the server's thread says at its end; of a signal, its number is said."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_model_arguments(parser)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000, help="0 takes a free one")
    parser.add_argument("--name", help="of the model; that of its folder by default")
    parser.add_argument("--batch", type=int, default=8, help="texts of a step")
    parser.add_argument("--queue", type=int, default=64, help="texts that wait at most")
    parser.add_argument("--length", type=int, help="tokens of a text, with its prompt")
    parser.add_argument("--pages", type=int, help="of the pool of keys and values")
    parser.add_argument("--page", type=int, default=64, help="tokens of a page")
    parser.add_argument("--tokens", type=int, default=512, help="of a chat's answer")
    parser.add_argument("--prefill-chunk", type=int, default=512)


def run(args: argparse.Namespace) -> int:
    """Serve until a signal ends it."""
    import uvicorn

    from .http_api import Api

    for name, least in (("queue", 0), ("tokens", 1)):
        if (value := getattr(args, name)) < least:
            raise ArgumentError(f"{name} is {value}; it must be at least {least}")
    worker = make_worker(args)
    name = args.name or args.model.resolve().stem
    config = uvicorn.Config(
        Api(worker, name, args.tokens).app(),
        log_level="warning",
        timeout_graceful_shutdown=2 * GRACE,
        timeout_keep_alive=KEEP_ALIVE,
    )
    with socket.create_server((args.host, args.port)) as listening:
        host, port = listening.getsockname()[:2]
        print(f"{name} at http://{host}:{port}/v1", file=sys.stderr, flush=True)
        _until_a_signal(uvicorn.Server(config), listening, worker)
    return 0


def _until_a_signal(server: Any, listening: socket.socket, worker: Worker) -> None:
    """Serve in a thread, so that a signal first lets open requests end.

    After `GRACE`, or at a second signal, clients are told that their texts are
    cancelled, which uvicorn by itself does not.
    """
    # Any thread may get a signal, and only the byte that Python then writes wakes this.
    reader, writer = socket.socketpair()
    writer.setblocking(False)

    def serve() -> None:
        try:
            server.run(sockets=[listening])
        finally:
            writer.send(SERVED)

    before = {
        number: signal.signal(number, lambda *_: None)
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    descriptor = signal.set_wakeup_fd(writer.fileno())
    thread = threading.Thread(target=serve, name="server")
    try:
        thread.start()
        if reader.recv(1) != SERVED:
            server.should_exit = True
            reader.settimeout(GRACE)
            with contextlib.suppress(TimeoutError):
                reader.recv(1)
        worker.close()
        thread.join()
    finally:
        signal.set_wakeup_fd(descriptor)
        for number, handler in before.items():
            signal.signal(number, handler)
        reader.close()
        writer.close()


def make_worker(args: argparse.Namespace) -> Worker:
    """Return a worker that writes with the model of the arguments."""
    loaded = opened(args)
    engine = models.Engine(
        language_model(loaded, args).eval(),
        rows=args.batch,
        length=args.length,
        page=args.page,
        pages=args.pages,
        prefill_chunk=args.prefill_chunk,
    )
    return Worker(engine, loaded.tokenizer, args.queue)
