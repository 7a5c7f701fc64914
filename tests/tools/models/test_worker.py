"""The worker: what clients are told, whatever happens."""

import queue
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.tools.models.serving import small_worker, written_alone
from vkbackend.errors import ArgumentError
from vkbackend.tools.models.worker import (
    Job,
    Piece,
    QueueFullError,
    Worker,
    WorkerClosedError,
)


class Client:
    """Asks for a text, and keeps its pieces."""

    def __init__(self, worker: Worker, count: int = 4, **settings: Any) -> None:
        self.pieces: queue.Queue[Piece] = queue.Queue()
        prompt = worker.tokenizer.encode("the cat")
        words = settings.pop("words", ())
        self.job = Job(prompt, count, settings, words, self.pieces.put)

    def next(self) -> Piece:
        """Return the next piece."""
        return self.pieces.get(timeout=20)

    def all(self) -> list[Piece]:
        """Return the pieces up to the last."""
        found = [self.next()]
        while found[-1].finish is None and found[-1].error is None:
            found.append(self.next())
        return found


@pytest.fixture
def worker(folder: Path) -> Any:
    """Give a worker of one row and two texts that wait."""
    made = small_worker(folder, queue=2, rows=1)
    yield made
    made.close()


def test_a_text_in_pieces(worker: Worker) -> None:
    whole = written_alone(worker, "the cat", 12)
    clients = [Client(worker, 12), Client(worker, 12, words=(whole[2:4],))]
    worker.start()
    worker.ask([client.job for client in clients])
    pieces = clients[0].all()
    assert pieces[0] == Piece()
    assert "".join(piece.text for piece in pieces) == whole
    assert (pieces[-1].finish, len(pieces[-1].tokens)) == ("length", 12)
    pieces = clients[1].all()
    assert "".join(piece.text for piece in pieces) == whole[: whole.index(whole[2:4])]
    assert pieces[-1].finish == "stop"


def test_more_texts_than_there_is_room_for(worker: Worker) -> None:
    clients = [Client(worker) for _ in range(3)]
    worker.ask([client.job for client in clients[:2]])
    with pytest.raises(QueueFullError, match="2 texts are being written or wait, 2 mo"):
        worker.ask([clients[2].job, Client(worker).job])
    worker.ask([clients[2].job])
    worker.start()
    assert {client.all()[-1].finish for client in clients} == {"length"}


def test_what_an_engine_refuses_is_told(worker: Worker) -> None:
    worker.start()
    bad = Client(worker, count=100)
    worker.ask([bad.job])
    assert isinstance(bad.next().error, ArgumentError)


def test_a_text_is_dropped(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    running, waiting = Client(worker, 30), Client(worker, 30)
    step, goes_on = worker.engine.step, threading.Event()

    def held() -> Any:
        found = step()
        goes_on.wait(20)
        return found

    monkeypatch.setattr(worker.engine, "step", held)
    worker.start()
    worker.ask([running.job, waiting.job])
    assert running.next() == waiting.next() == Piece()
    worker.drop([running.job, waiting.job])
    goes_on.set()
    for client in (running, waiting):
        assert client.all()[-1].finish == "cancelled"
    after = Client(worker)
    worker.ask([after.job])
    assert after.all()[-1].finish == "length"
    worker.close()
    assert worker.open_jobs == 0
    assert worker.engine.load.free_pages == worker.engine.pages


def test_an_error_of_the_engine(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = worker.engine.step

    def fails() -> Any:
        monkeypatch.setattr(worker.engine, "step", step)
        raise MemoryError("no room")

    monkeypatch.setattr(worker.engine, "step", fails)
    client, after = Client(worker), Client(worker)
    worker.start()
    worker.ask([client.job])
    assert isinstance(client.all()[-1].error, MemoryError)
    assert worker.failure == "MemoryError: no room"
    worker.ask([after.job])
    assert after.all()[-1].finish == "length"
    worker.close()
    assert worker.failure is None
    assert worker.engine.load.free_pages == worker.engine.pages


def test_an_error_of_the_tokenizer(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> str:
        raise ValueError("no such token")

    client, after = Client(worker), Client(worker)
    monkeypatch.setattr(client.job._words, "add", fails)
    worker.start()
    worker.ask([client.job, after.job])
    assert isinstance(client.all()[-1].error, ValueError)
    assert after.all()[-1].finish == "length"


def test_the_end(worker: Worker) -> None:
    clients = [Client(worker, 50) for _ in range(2)]
    worker.start()
    worker.ask([client.job for client in clients])
    assert clients[0].next() == Piece()
    worker.close()
    for client in clients:
        last = client.all()[-1]
        assert last.finish == "cancelled" or isinstance(last.error, WorkerClosedError)
    with pytest.raises(WorkerClosedError, match="shutting down"):
        worker.ask([Client(worker).job])
    assert worker.open_jobs == 0
