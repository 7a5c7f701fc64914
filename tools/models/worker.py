"""Worker: the thread in which an engine writes the texts that a server is asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from vkbackend.errors import Error
from vkbackend.framework import models

from .stop_words import StopWords


class QueueFullError(Error, RuntimeError):
    """As many texts are asked for as a worker takes."""


class WorkerClosedError(Error, RuntimeError):
    """The worker writes no more."""


class Piece(NamedTuple):
    """What a text has more; the first one, which may be empty, says it is accepted.

    Attributes
    ----------
    text : str
    finish : str or None
        "stop", "length" or "cancelled" of the last piece.
    tokens : tuple of int
        Of the last piece all that were added, that at which the text ended included.
    error : Exception or None
        Why there is no further piece.
    """

    text: str = ""
    finish: str | None = None
    tokens: tuple[int, ...] = ()
    error: Exception | None = None


class Job:
    """A text that a client asks for.

    Parameters
    ----------
    prompt : sequence of int
    count : int
        Tokens to add at most.
    settings : dict
        Further arguments of `Engine.submit`.
    stop_words : sequence of str
        Texts at which it ends, without them.
    deliver : callable
        Gets each `Piece`, in the worker's thread: it must not wait.
    """

    def __init__(
        self,
        prompt: Sequence[int],
        count: int,
        settings: dict[str, Any],
        stop_words: Sequence[str],
        deliver: Callable[[Piece], None],
    ) -> None:
        self.prompt, self.count, self.settings = prompt, count, settings
        self.deliver = deliver
        self._words = StopWords(stop_words)
        self._stream: models.TokenStream | None = None

    def begin(self, tokenizer: models.Tokenizer) -> None:
        """Tell the client that the text will be written."""
        self._stream = tokenizer.stream()
        self.deliver(Piece())

    def advance(self, generation: models.Generation) -> bool:
        """Deliver what the newest token adds; return whether the text is over."""
        assert self._stream is not None
        ended, tokens = generation.finish, generation.tokens
        text = "" if ended == "stop" else self._stream.add(tokens[-1])
        text += self._stream.end() if ended else ""
        text = self._words.add(text, is_last=ended is not None)
        finish = "stop" if self._words.found else ended
        if text or finish:
            self.deliver(Piece(text, finish, tuple(tokens) if finish else ()))
        return finish is not None


class Worker:
    """Writes texts in a thread of its own, which alone touches the engine.

    Parameters
    ----------
    engine : Engine
    tokenizer : Tokenizer
    queue : int
        Texts that wait for a row of the engine at most.

    Attributes
    ----------
    failure : str or None
        Error of the last step, if it has failed.
    """

    def __init__(
        self, engine: models.Engine, tokenizer: models.Tokenizer, queue: int
    ) -> None:
        self.engine, self.tokenizer = engine, tokenizer
        self.most = engine.rows + queue
        self.failure: str | None = None
        self._changed = threading.Condition()
        self._open: set[Job] = set()
        self._asked: list[Job] = []
        self._dropped: set[Job] = set()
        self._writing: dict[models.Generation, Job] = {}
        self._is_closed = False
        self._thread = threading.Thread(target=self._work, name="engine", daemon=True)

    @property
    def open_jobs(self) -> int:
        """Texts that are asked for, and not over."""
        return len(self._open)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def close(self) -> None:
        """Cancel what is being written, and wait for the thread to end."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join()

    def check_room(self, count: int) -> None:
        """Raise the error of `ask` if that took no further texts now."""
        if self._is_closed:
            raise WorkerClosedError("the server is shutting down; ask another one")
        if len(self._open) + count > self.most:
            raise QueueFullError(
                f"the queue is full: {len(self._open)} texts are being written or wait,"
                f" {count} more are asked for, {self.most} are possible; ask again"
                " later"
            )

    def ask(self, jobs: Sequence[Job]) -> None:
        """Have texts written, all of them or none; waits for nothing.

        Raises
        ------
        QueueFullError
            If there are too many.
        WorkerClosedError
            After `close`.
        """
        with self._changed:
            self.check_room(len(jobs))
            self._open.update(jobs)
            self._asked += jobs
            self._changed.notify()

    def drop(self, jobs: Sequence[Job]) -> None:
        """Cancel texts, if they are not over; waits for nothing."""
        with self._changed:
            self._dropped.update(job for job in jobs if job in self._open)
            self._changed.notify()

    def _work(self) -> None:
        """Write until the end."""
        while self._take():
            try:
                moved = self.engine.step()
            except Exception as error:  # whatever it is, clients are told
                self._fail(error)
                continue
            self.failure = None
            for generation in moved:
                self._advance(generation)
        for generation, job in [*self._writing.items()]:
            self._cancel(generation, job)
        for job in [*self._open]:
            job.deliver(Piece(error=WorkerClosedError("the server is shutting down")))
            self._forget(job)

    def _take(self) -> bool:
        """Wait for something to do, and begin and cancel texts; False at the end."""
        with self._changed:
            while not (self._asked or self._dropped or self._is_closed):
                if not self.engine.is_idle:
                    break
                self._changed.wait()
            asked, self._asked = self._asked, []
            dropped, self._dropped = self._dropped, set()
            if self._is_closed:
                return False
        for job in asked:
            self._begin(job)
        for generation, job in [*self._writing.items()]:
            if job in dropped:
                self._cancel(generation, job)
        return True

    def _begin(self, job: Job) -> None:
        try:
            made = self.engine.submit(job.prompt, job.count, **job.settings)
        except Exception as error:  # a client's mistake, which it is told
            self._forget(job)
            job.deliver(Piece(error=error))
            return
        self._writing[made] = job
        job.begin(self.tokenizer)

    def _advance(self, generation: models.Generation) -> None:
        job = self._writing[generation]
        try:
            is_over = job.advance(generation)
        except Exception as error:  # of the tokenizer, in this text alone
            job.deliver(Piece(error=error))
            is_over = True
        if is_over:
            self.engine.cancel(generation)
            self._forget(job, generation)

    def _cancel(self, generation: models.Generation, job: Job) -> None:
        self.engine.cancel(generation)
        job.deliver(Piece(finish="cancelled", tokens=tuple(generation.tokens)))
        self._forget(job, generation)

    def _fail(self, error: Exception) -> None:
        """Tell everybody of an error of the engine, which begins anew."""
        self.failure = f"{type(error).__name__}: {error}"
        self.engine.reset()
        for generation, job in [*self._writing.items()]:
            job.deliver(Piece(error=error))
            self._forget(job, generation)

    def _forget(self, job: Job, generation: models.Generation | None = None) -> None:
        if generation is not None:
            del self._writing[generation]
        with self._changed:
            self._open.discard(job)
