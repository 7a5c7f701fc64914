"""Interruptions of the device layer, some of them; `tests.interruption` makes all."""

import sys
import threading

import pytest

from tests import interruption
from tests.interruption import Interrupter, each_interruption

# Of the 1,800 lines that the work runs; a prime, so that loops are met at all places.
STEP = 23


@pytest.mark.core
def test_work_interrupted_at_any_line_harms_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status = interruption.main(["--step", str(STEP)])
    said = capsys.readouterr().out
    assert status == 0, said
    assert int(said.split()[0]) > 50


def test_what_is_wrong_is_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(step: int, first: int) -> tuple[int, list[str]]:
        return 1, ["somewhere: ValueError: something"]

    monkeypatch.setattr(interruption, "sweep", broken)
    assert interruption.main([]) == 1
    assert "somewhere" in capsys.readouterr().out


def test_each_line_is_met_once() -> None:
    seen: list[int] = []

    def action() -> None:
        for number in range(3):
            seen.append(number)

    def found() -> list[str]:
        return [one.where for one in each_interruption(action)]

    assert found() == []
    one = Interrupter(3, sources=__file__)
    one.run(action)
    assert one.where == f"{__file__}:{action.__code__.co_firstlineno + 1}"
    assert one.lines == 3
    assert sys.gettrace() is None


def test_a_lock_is_left_where_it_was_taken() -> None:
    lock = threading.Lock()

    def action() -> int:
        with lock:
            return len("x")

    places = 0
    while True:
        one = Interrupter(places + 1, sources=__file__)
        one.run(action)
        assert not lock.locked()
        if not one.where:
            break
        places += 1
    assert places == 2
