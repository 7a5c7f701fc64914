"""Children that crash, hang and chatter do not harm the one who asks."""

import os

import pytest

from vkbackend.tools.doctor import subprocess_runner
from vkbackend.tools.doctor.subprocess_runner import Request, ask

# The real child with probes that misbehave.
PROGRAM = """
import json, os, sys, threading
sys.path[:] = json.loads(sys.argv[1])
from vkbackend.tools.doctor import probes, worker

def chatter():
    os.write(1, b"drivers print what they like\\n")
    print("on both levels", flush=True)
    return os.environ.get("WORD")

def crash():
    print("the last words", file=sys.stderr)
    os.kill(os.getpid(), 9)

def fault():
    import ctypes
    ctypes.string_at(1)

probes.PROBES.update(
    chatter=chatter,
    crash=crash,
    fault=fault,
    leave=lambda: os._exit(3),
    hang=lambda: threading.Event().wait(),
    process=os.getpid,
)
worker.main(json.loads(sys.argv[2]))
"""


@pytest.fixture(autouse=True)
def _misbehave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess_runner, "_PROGRAM", PROGRAM)


def test_answers_come_in_order_from_one_process() -> None:
    requests = [Request("process"), Request("chatter"), Request("process")]
    told: list[str] = []
    outcomes = ask(
        requests, limit_seconds=30, environment={"WORD": "yes"}, progress=told.append
    )
    assert [row.status for row in outcomes] == ["ok", "ok", "ok"]
    assert outcomes[1].value == "yes"
    assert outcomes[0].value == outcomes[2].value != os.getpid()
    assert told == ["process", "chatter", "process"]


@pytest.mark.parametrize(
    ("probe", "reason"),
    [
        ("crash", "the process was ended by SIGKILL: the last words"),
        ("fault", "the process was ended by SIGSEGV in string_at"),
        ("leave", "the process ended with 3"),
    ],
)
def test_a_crash_is_blamed_on_its_probe(probe: str, reason: str) -> None:
    requests = [Request("process"), Request(probe), Request("process")]
    before, broken, after = ask(requests, limit_seconds=30)
    assert (before.status, broken.status, after.status) == ("ok", "crashed", "ok")
    assert broken.reason == reason
    assert before.value != after.value


def test_a_hang_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first never answers; the second has time to start, however slow that is."""
    answer, limits = subprocess_runner._Child.answer, iter((0.01, 600.0))
    monkeypatch.setattr(
        subprocess_runner._Child, "answer", lambda child, _: answer(child, next(limits))
    )
    hung, after = ask([Request("hang"), Request("process")], limit_seconds=2)
    assert (hung.status, hung.reason) == ("hung", "no answer in 0.01 s")
    assert after.status == "ok"


def test_too_many_crashes_end_the_list() -> None:
    outcomes = ask([Request("leave")] * 6, limit_seconds=30)
    statuses = [row.status for row in outcomes]
    assert statuses == ["crashed"] * subprocess_runner.MAX_CHILDREN + ["unasked"] * 2
    assert "4 processes broke" in outcomes[-1].reason
