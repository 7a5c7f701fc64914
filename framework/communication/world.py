"""The processes that mpirun has started together, of which this is one."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from ..base.errors import DistributedError
from .progress import Progress
from .shared_pages import ENDED, ControlPages

SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE")
"""Environment variables with the number of processes, by launcher."""

REMEDY = "install them with: pip install 'vkbackend[mpi]'"
_SEGMENTS = ("mpich_", "ucx_")
"""Beginnings of the names that `_unlink_segments` removes.

Open MPI removes its own: some as it has mapped them, others at its end, where it
complains of one that is gone, or mpirun does so after a rank was killed.
"""

_PAUSE = 1e-3

TIMEOUT = 1800.0
"""Seconds that processes wait for each other, as PyTorch's do."""


def launched_size() -> int:
    """Return how many processes the launcher has started; 1 without one."""
    for name in SIZES:
        if os.environ.get(name, "").isdigit():
            return int(os.environ[name])
    return 1


def import_mpi() -> Any:
    """Return `mpi4py.MPI`, which initialises MPI.

    Raises
    ------
    DistributedError
        If there is no mpi4py, or no MPI library for it.
    """
    try:
        import mpi4py

        if "mpi4py.MPI" not in sys.modules:
            mpi4py.rc.finalize = False  # `World` does, where nobody has failed
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise DistributedError(
            f"distributed: several processes need mpi4py and an MPI library, which"
            f" cannot be loaded ({error}); {REMEDY}"
        ) from None
    return MPI


def library_version() -> str:
    """Return name and version of the MPI library that mpi4py loads."""
    text: str = import_mpi().Get_library_version()
    return " ".join(text.splitlines()[0].rstrip("\0").split())


class World:
    """All processes of the job.

    Parameters
    ----------
    timeout : float
        Seconds that they wait for each other.

    Attributes
    ----------
    comm : mpi4py.MPI.Comm
        All of them.
    rank, size : int
        Number of this process, and of all.
    local_rank, local_size : int
        The same among those of this machine.
    neighbours : tuple of int
        Ranks of those of this machine.
    control : ControlPages
        Their status.
    progress : Progress
        Operations of this process.
    at_end : list of callable
        Called before this process leaves MPI together with the others.
    """

    def __init__(self, timeout: float) -> None:
        self._finalizes_itself = "mpi4py.MPI" in sys.modules
        mpi = import_mpi()
        self._mpi = mpi
        self.comm = mpi.COMM_WORLD.Dup()
        self.comm.Set_errhandler(mpi.ERRORS_RETURN)
        self.rank, self.size = self.comm.rank, self.comm.size
        self._local = self.comm.Split_type(mpi.COMM_TYPE_SHARED)
        self.local_rank, self.local_size = self._local.rank, self._local.size
        self.neighbours = tuple(self._local.allgather(self.rank))
        self.control = ControlPages(self._local, self.neighbours)
        self.progress = Progress(self.rank, self.control, timeout)
        self.machine = self.comm.allgather(self.neighbours[0])
        self._process = os.getpid()
        self.at_end: list[Callable[[], object]] = []
        self._failed = False
        self._hook = sys.excepthook
        sys.excepthook = self._note_failure
        _unlink_segments()
        atexit.register(self._end)

    def are_neighbours(self, ranks: Any) -> bool:
        """Return whether some ranks are on one machine."""
        return len({self.machine[rank] for rank in ranks}) == 1

    def _note_failure(
        self,
        kind: type[BaseException],
        error: BaseException,
        traceback: TracebackType | None,
    ) -> None:
        """Let the others know why this process ends."""
        if os.getpid() == self._process:
            self._failed = True
            text = " ".join(str(error).split())
            self.control.end(f"{kind.__name__}: {text}")
        self._hook(kind, error, traceback)

    def _end(self) -> None:
        """Leave MPI with the others, or without it where that is not possible."""
        if os.getpid() != self._process:
            return
        if self._failed:
            self._leave()
            return
        self.control.end()
        others = [rank for rank in self.neighbours if rank != self.rank]
        while True:
            waiting = [rank for rank in others if self.control.state(rank) != ENDED]
            # One may end well between the two looks.
            gone = [rank for rank in waiting if self.control.obituary(rank)]
            if any([self.control.state(rank) != ENDED for rank in gone]):
                self._leave()
                return
            if not waiting:
                break
            time.sleep(_PAUSE)
        for each in self.at_end:
            each()
        if not self._mpi.Is_finalized():
            self._mpi.Finalize()

    def _leave(self) -> None:
        """End the process now if MPI would wait for the others at its end."""
        if not self._finalizes_itself:
            return
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(1)


def _unlink_segments() -> None:
    """Remove the names of MPICH's segments, which would stay if a process is killed.

    All processes of the machine have mapped them by now.
    """
    try:
        lines = Path("/proc/self/maps").read_text("utf-8").splitlines()
    except OSError:
        return
    for path in {line.split(maxsplit=5)[-1] for line in lines if "/dev/shm/" in line}:
        if os.path.basename(path).startswith(_SEGMENTS):
            with contextlib.suppress(OSError):
                os.unlink(path)


_worlds: list[World] = []


def world(timeout: float = TIMEOUT) -> World:
    """Return the processes of the job; the first call makes it.

    Parameters
    ----------
    timeout : float
        Seconds that processes wait for each other.
    """
    if not _worlds:
        _worlds.append(World(timeout))
    return _worlds[0]
