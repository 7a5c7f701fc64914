"""A sweep by processes that prepare cases beside each other and time in turns.

Most of a case's time goes to its inputs, the kernels' compilation and the comparison of
results, on the host. Whoever times holds a lock meanwhile, so that no two do.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from vkbackend import Error

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


class Turns:
    """Lock by which processes take turns.

    Parameters
    ----------
    path : Path or None
        File that all of them lock, and that says since when a GPU is idle; None for a
        process that is by itself.

    Attributes
    ----------
    idle : float
        Seconds since the turn before, if it left the GPU busy; otherwise infinite.
    left_busy : bool
        Whether this turn did; set within it.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.idle = math.inf
        self.left_busy = False

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Hold the lock inside."""
        if self.path is None:
            yield
            return
        with self.path.open("a+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            # The clock of all processes, from the start of the machine.
            self.idle = time.monotonic() - float(file.read() or -math.inf)
            self.left_busy = False
            try:
                yield
            finally:
                file.truncate(0)
                if self.left_busy:
                    file.write(repr(time.monotonic()))


def shares(shard: str | None, count: int) -> list[str]:
    """Return the parts of a shard "I/N", or of everything, for so many processes.

    Examples
    --------
    >>> shares(None, 2), shares("1/3", 2)
    (['0/2', '1/2'], ['1/6', '4/6'])
    """
    index, parts = map(int, (shard or "0/1").split("/"))
    return [f"{index % parts + parts * each}/{parts * count}" for each in range(count)]


def run(arguments: Sequence[str], shard: str | None, count: int) -> int:
    """Sweep by so many processes; return how many of them failed.

    Parameters
    ----------
    arguments : sequence of str
        Of the command, without what chooses processes and the shard.
    shard : str or None
        What is swept of all cases.
    count : int

    Raises
    ------
    Error
        Where files cannot be locked.
    """
    if fcntl is None:
        raise Error(
            f"bench sweep: {count} processes need locks of files, which {sys.platform}"
            " has not; one would be right"
        )
    threads = str(max(1, (os.cpu_count() or 1) // count // 2))
    environment = {"OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads}
    environment |= os.environ
    with tempfile.TemporaryDirectory(prefix="vkbackend-sweep-") as folder:
        command = [sys.executable, "-m", "vkbackend.tools.bench", "sweep", *arguments]
        command += ["--turns", str(Path(folder) / "turns")]
        started = [
            subprocess.Popen(
                [*command, "--shard", each],
                env=environment,
                stdout=subprocess.DEVNULL,
            )
            for each in shares(shard, count)
        ]
        # 1 says that a result was wrong, which its line tells.
        return sum(process.wait() not in (0, 1) for process in started)
