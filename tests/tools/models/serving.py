"""A server of a small model in a thread of this process."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import vkbackend.framework as fw
from tests.framework.models.small import CONFIG, small_llama
from tests.framework.models.words import byte_pairs
from vkbackend.tools.models.worker import Worker

TEMPLATE = "<s>{% for each in messages %}{{ each.content }}{% endfor %}"


def write_chat_model(folder: Path) -> None:
    """Write a checkpoint whose tokenizer has a template of chats."""
    byte_pairs(folder, TEMPLATE)
    (folder / "config.json").write_text(json.dumps(CONFIG | {"vocab_size": 300}))
    fw.save(small_llama(vocab_size=300).state_dict(), folder / "model.safetensors")


def small_worker(folder: Path, queue: int = 8, **sizes: Any) -> Worker:
    """Return a worker with the model of a folder, on the host."""
    model: Any = fw.models.load(folder, "cpu")
    engine = fw.models.Engine(model, **{"rows": 2, "length": 64, "page": 8, **sizes})
    return Worker(engine, fw.models.Tokenizer(folder), queue)


@contextmanager
def served(worker: Worker, tokens: int = 6) -> Iterator[str]:
    """Serve, and give the address."""
    uvicorn = pytest.importorskip("uvicorn")
    pytest.importorskip("fastapi")
    from vkbackend.tools.models.http_api import Api

    app = Api(worker, "small", tokens).app()
    config = uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=5)
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            server.should_exit = True
            thread.join()


def written_alone(
    worker: Worker, prompt: str | list[int], count: int, **settings: Any
) -> str:
    """Return the text that `generate` adds to a prompt."""
    tokenizer, model = worker.tokenizer, worker.engine._model
    tokens = tokenizer.encode(prompt) if isinstance(prompt, str) else prompt
    stream = tokenizer.stream()
    found = fw.models.generate(
        model, fw.tensor([tokens]), count, stop=tokenizer.stop, **settings
    )
    added = found[0, len(tokens) :].tolist()
    shown = [stream.add(each) for each in added if each not in tokenizer.stop]
    return "".join(shown) + stream.end()
