"""The parent of one rank: what mpirun starts, and what starts the program.

    python rank_process.py [--status FOLDER] [--plain] -- program arguments ...

It begins each line of the program's output with the rank, and tells the program what
PyTorch's launcher would: `RANK`, `LOCAL_RANK` and so on. If the program fails it ends
only once the others have had time to say what they know, as mpirun kills them then.

It is run as a file, and imports nothing but Python's own, as each rank has one.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import subprocess
import sys
import threading
import time
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import IO

GRACE_SECONDS = 5.0
"""How long other ranks may go on once one has failed."""

_LOOK_SECONDS = 0.02
_PIECE = 1 << 16
_UNFINISHED_SECONDS = 0.2
_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n)")

_NAMES = {
    "RANK": ("PMI_RANK", "OMPI_COMM_WORLD_RANK"),
    "WORLD_SIZE": ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE"),
    "LOCAL_RANK": ("MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK"),
    "LOCAL_WORLD_SIZE": ("MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE"),
}
"""Environment variables of the program, and of launchers."""


def environment() -> dict[str, str]:
    """Return the environment of the program."""
    found = dict(os.environ)
    for name, sources in _NAMES.items():
        values = [os.environ[each] for each in sources if each in os.environ]
        if values:
            found[name] = values[0]
    found.setdefault("PYTHONUNBUFFERED", "1")
    if found.get("RANK", "0") != "0":
        found.setdefault("TQDM_DISABLE", "1")  # one progress bar
    return found


def _forward(source: IO[bytes], target: int, prefix: bytes) -> None:
    """Copy lines, each with a prefix; a carriage return ends one, too.

    Lines are written whole, so that those of several ranks do not mix; what has no end
    is written after a while, as questions have none.
    """
    descriptor, left, begins = source.fileno(), b"", True
    while True:
        patience = _UNFINISHED_SECONDS if left else None
        ready = select.select([descriptor], [], [], patience)
        data = os.read(descriptor, _PIECE) if ready[0] else b""
        left += data
        lines = _LINE.findall(left)
        left = left[sum(map(len, lines)) :]
        if not data and left:
            lines, left = [*lines, left], b""
        out = b""
        for line in lines:
            out += (prefix if begins else b"") + line
            begins = line[-1:] in b"\r\n"
        with contextlib.suppress(OSError):
            os.write(target, out)
        if ready[0] and not data:
            return


def _wait_for_others(folder: Path | None, size: int) -> None:
    """Return once all ranks have ended, or after a while."""
    deadline = time.monotonic() + GRACE_SECONDS
    while time.monotonic() < deadline:
        if folder is not None and len(list(folder.glob("rank.*"))) >= size:
            return
        time.sleep(_LOOK_SECONDS)


def _run(command: Sequence[str], plain: bool) -> int:
    """Run the program; return its status, negative for a signal."""
    streams = None if plain else subprocess.PIPE
    found = environment()
    child = subprocess.Popen(
        command,
        stdout=streams,
        stderr=streams,
        env=found,
        close_fds=False,  # mpirun is reached through one of them
    )
    signal.signal(signal.SIGTERM, lambda *_: child.terminate())
    prefix = f"[{found.get('RANK', '0')}] ".encode()
    threads = [
        threading.Thread(target=_forward, args=(source, target, prefix))
        for source, target in ((child.stdout, 1), (child.stderr, 2))
        if source is not None
    ]
    for each in threads:
        each.start()
    status = child.wait()
    for each in threads:
        each.join()
    return status


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a program as one rank, and return its status.

    Parameters
    ----------
    arguments : sequence of str, optional
        By default those of the command line.
    """
    parser = ArgumentParser(prog="rank_process")
    parser.add_argument("--status", help="folder in which ranks say how they ended")
    parser.add_argument("--plain", action="store_true", help="output without ranks")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args(arguments)
    # What mpirun sends to the others when one has ended.
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    status = _run(options.command, options.plain)
    found = environment()
    folder = Path(options.status) if options.status else None
    if folder is not None:
        name = f"rank.{found.get('RANK', '0')}"
        (folder / f".{name}").write_text(str(status), encoding="utf-8")
        (folder / f".{name}").rename(folder / name)
    if status:
        _wait_for_others(folder, int(found.get("WORLD_SIZE", "1")))
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main())
