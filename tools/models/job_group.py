"""Texts of a request, from the worker's thread to the loop that answers it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping, Sequence
from contextlib import suppress
from typing import Any

from .worker import Job, Piece, Worker, WorkerClosedError

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


class JobGroup:
    """The texts of a request, piece by piece as the worker delivers them.

    Parameters
    ----------
    worker : Worker
    prompts : sequence of list of int
    counts : sequence of int
        Tokens to add at most.
    settings : sequence of dict
        Further arguments of `Engine.submit`.
    stop_words : sequence of str
    """

    def __init__(
        self,
        worker: Worker,
        prompts: Sequence[list[int]],
        counts: Sequence[int],
        settings: Sequence[dict[str, Any]],
        stop_words: Sequence[str],
    ) -> None:
        self._worker = worker
        self._loop = asyncio.get_running_loop()
        self._pieces: asyncio.Queue[tuple[int, Piece]] = asyncio.Queue()
        self._early: deque[tuple[int, Piece]] = deque()
        self._watch: asyncio.Task[None] | None = None
        self._jobs = [
            self._job(index, *given, stop_words)
            for index, given in enumerate(zip(prompts, counts, settings, strict=True))
        ]

    def _job(
        self,
        index: int,
        prompt: list[int],
        count: int,
        settings: dict[str, Any],
        stop_words: Sequence[str],
    ) -> Job:
        def deliver(piece: Piece) -> None:
            # The loop is closed when a server ends by force: nobody waits then.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._pieces.put_nowait, (index, piece))

        return Job(prompt, count, settings, stop_words, deliver)

    async def ask(self, receive: Receive) -> None:
        """Return once all texts are accepted; they end when the client goes away.

        Raises
        ------
        Exception
            If one is not: none is written then.
        """
        self._worker.ask(self._jobs)
        self._watch = asyncio.create_task(self._until_gone(receive))
        waiting = set(range(len(self._jobs)))
        while waiting:
            index, piece = await self._pieces.get()
            if piece.error is not None:
                self.close()
                raise piece.error
            if index in waiting:
                waiting.remove(index)
            else:
                self._early.append((index, piece))

    async def pieces(self) -> AsyncIterator[tuple[int, Piece]]:
        """Yield pieces, with the number of their text, until all texts are over.

        Raises
        ------
        Exception
            If the engine fails, or the worker is closed.
        """
        left = len(self._jobs)
        while left:
            if self._early:
                index, piece = self._early.popleft()
            else:
                index, piece = await self._pieces.get()
            if piece.finish == "cancelled":
                raise WorkerClosedError("the text was cancelled")
            if piece.error is not None:
                raise piece.error
            left -= piece.finish is not None
            yield index, piece

    def close(self) -> None:
        """Cancel what is not over, and wait no more for the client to go away."""
        self._worker.drop(self._jobs)
        if self._watch is not None:
            self._watch.cancel()

    async def _until_gone(self, receive: Receive) -> None:
        """Cancel the texts when the client has gone."""
        while (await receive())["type"] != "http.disconnect":
            pass
        self._worker.drop(self._jobs)
