"""Subprocess isolation of probes: a broken driver may crash or hang them, not us.

A child answers a list of requests in order, one line of JSON each. When it dies or is
silent for too long, the request that it was at is blamed, and a new child goes on with
those after it.
"""

import contextlib
import json
import os
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

MAX_CHILDREN = 4
"""Children that may break before the rest of a list is given up."""

# The child finds the same modules, also those of a checkout that is not installed.
_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]);"
    "from vkbackend.tools.doctor.worker import main; main(json.loads(sys.argv[2]))"
)
# One that has answered everything, or crashed, ends at once.
_GRACE_SECONDS = 1.0
# Of the interpreter and its imports, which no probe is to blame for.
_START_SECONDS = 60.0
_TAIL_BYTES = 4096
# The lines of faulthandler about the thread that crashed.
_CRASHED_IN = re.compile(r"most recent call first\):\s+File .*? in (\w+)")


@dataclass(frozen=True)
class Request:
    """Request to a child process.

    Parameters
    ----------
    probe : str
        A name of `probes.PROBES` or `selftest.TESTS`.
    arguments : dict, optional
        What it takes; ready for JSON.
    """

    probe: str
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """Outcome of a request.

    Parameters
    ----------
    status : str
        `ok`, `failed`, `skipped`, `crashed`, `hung` or `unasked`.
    value : object
        What the probe returned, if `ok`.
    reason : str
        Why it is not `ok`.
    seconds : float
        What the probe took, without the child's start.
    """

    status: str
    value: Any = None
    reason: str = ""
    seconds: float = 0.0


def ask(
    requests: Sequence[Request],
    *,
    limit_seconds: float,
    environment: Mapping[str, str] | None = None,
    progress: Callable[[str], None] = lambda name: None,
) -> list[Outcome]:
    """Return the outcome of each request.

    Parameters
    ----------
    requests : sequence of Request
        Asked in order, of one process as long as it lives.
    limit_seconds : float
        Longest time for one answer.
    environment : mapping of str to str, optional
        What to add to the children's environment.
    progress : callable, optional
        Told the name of each probe before it is asked.
    """
    outcomes: list[Outcome] = []
    for _ in range(MAX_CHILDREN):
        if len(outcomes) == len(requests):
            break
        rest = requests[len(outcomes) :]
        with _Child(rest, environment or {}) as child:
            child.await_start()
            for request in rest:
                progress(request.probe)
                outcome = child.answer(limit_seconds)
                outcomes.append(outcome)
                if outcome.status in ("crashed", "hung"):
                    break
    reason = f"not asked: {MAX_CHILDREN} processes broke before"
    missing = len(requests) - len(outcomes)
    return outcomes + [Outcome("unasked", reason=reason)] * missing


class _Child:
    """Child process that answers requests; stopped when the context ends."""

    def __init__(
        self, requests: Sequence[Request], environment: Mapping[str, str]
    ) -> None:
        asked = [[row.probe, row.arguments] for row in requests]
        arguments = (json.dumps(sys.path), json.dumps(asked))
        self._errors = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            (sys.executable, "-c", _PROGRAM, *arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, **environment},
            # Of its own, so that what it has started can be ended with it.
            start_new_session=True,
        )
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        assert self._process.stdout is not None
        reader = threading.Thread(
            target=self._read, args=(self._process.stdout,), daemon=True
        )
        reader.start()

    def __enter__(self) -> "_Child":
        return self

    def __exit__(self, *unused: object) -> None:
        self._stop()
        self._errors.close()

    def _read(self, stream: IO[bytes]) -> None:
        with stream:
            for line in stream:
                self._lines.put(line)
        self._lines.put(b"")

    def await_start(self) -> None:
        """Wait until the process is ready for requests, or has ended."""
        with contextlib.suppress(queue.Empty):
            line = self._lines.get(timeout=_START_SECONDS)
            if not line.endswith(b"\n"):
                self._lines.put(line)

    def answer(self, limit_seconds: float) -> Outcome:
        """Return the next answer, or what became of the process."""
        start = time.perf_counter()
        try:
            line = self._lines.get(timeout=limit_seconds)
        except queue.Empty:
            reason = f"no answer in {limit_seconds:g} s"
            return Outcome("hung", reason=reason, seconds=limit_seconds)
        if not line.endswith(b"\n"):
            self._stop()
            seconds = time.perf_counter() - start
            return Outcome("crashed", reason=self._crash(), seconds=seconds)
        return Outcome(**json.loads(line))

    def _stop(self) -> None:
        """End the process and wait, but not for one that the kernel holds."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE_SECONDS)
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if hasattr(os, "killpg"):
                    os.killpg(self._process.pid, signal.SIGKILL)
                else:
                    self._process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_GRACE_SECONDS)

    def _crash(self) -> str:
        """Say how the process ended, and the last that it said."""
        code = self._process.returncode
        how = f"the process ended with {code}"
        if code is not None and code < 0:
            with contextlib.suppress(ValueError):
                how = f"the process was ended by {signal.Signals(-code).name}"
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - _TAIL_BYTES))
        said = self._errors.read().decode("utf-8", "replace")
        where = _CRASHED_IN.search(said)
        if where is not None:
            return f"{how} in {where[1]}"
        last = said.strip().splitlines()[-1:]
        return f"{how}: {last[0].strip()}" if last else how
