"""Texts of a request, in the loop that answers it."""

import asyncio
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import pytest

from tests.tools.models.serving import small_worker
from vkbackend.errors import ArgumentError
from vkbackend.tools.models.job_group import JobGroup
from vkbackend.tools.models.worker import Worker, WorkerClosedError


@pytest.fixture
def worker(folder: Path) -> Any:
    """Give a worker that writes."""
    made = small_worker(folder)
    made.start()
    yield made
    made.close()


async def stays() -> MutableMapping[str, Any]:
    """Wait for a client that does not go away."""
    await asyncio.Event().wait()
    return {}


def group(worker: Worker, *counts: int) -> JobGroup:
    """Return texts of one prompt."""
    prompts = [worker.tokenizer.encode("the cat")] * len(counts)
    return JobGroup(worker, prompts, counts, [{}] * len(counts), ())


def test_texts_come_side_by_side(worker: Worker) -> None:
    async def answered() -> list[tuple[int, int]]:
        texts = group(worker, 3, 9, 5)
        await texts.ask(stays)
        found = [each async for each in texts.pieces()]
        texts.close()
        return [(index, len(piece.tokens)) for index, piece in found if piece.finish]

    assert sorted(asyncio.run(answered())) == [(0, 3), (1, 9), (2, 5)]


def test_one_that_is_refused_ends_all(worker: Worker) -> None:
    async def asks() -> None:
        texts = group(worker, 3, 1000)
        try:
            await texts.ask(stays)
        finally:
            texts.close()

    with pytest.raises(ArgumentError, match="1000 are to be added"):
        asyncio.run(asks())
    worker.close()
    assert worker.open_jobs == 0


def test_a_client_goes_away(worker: Worker) -> None:
    async def asks() -> None:
        gone = asyncio.Event()

        async def receive() -> MutableMapping[str, Any]:
            await gone.wait()
            return {"type": "http.disconnect"}

        texts = group(worker, 50)
        await texts.ask(receive)
        async for _ in texts.pieces():
            gone.set()

    with pytest.raises(WorkerClosedError, match="cancelled"):
        asyncio.run(asks())
