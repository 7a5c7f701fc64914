"""Launcher of several processes: calls mpirun with what it needs."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..base.errors import DistributedError
from . import rank_process
from .world import REMEDY

OPEN_MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    # For windows; without a network it complains, and shared pages need none.
    "OMPI_MCA_osc": "^ucx",
}
"""Environment variables that Open MPI reads: what root has to say, and choices."""


def find_mpirun() -> str:
    """Return the path of mpirun: beside this Python, or else on the path.

    Raises
    ------
    DistributedError
        If there is none.
    """
    beside = str(Path(sys.executable).parent)
    places = os.pathsep.join((beside, os.environ.get("PATH", os.defpath)))
    found = shutil.which("mpirun", path=places)
    if found is None:
        raise DistributedError(
            f"there is no mpirun beside {sys.executable} or on PATH; {REMEDY}"
        )
    return found


def options_of(mpirun: str, hosts: str = "") -> list[str]:
    """Return the options that one of MPI's launchers needs, by what it says of itself.

    Parameters
    ----------
    mpirun : str
        Its path.
    hosts : str
        Machines, with commas between them; empty means this one.
    """
    asked = [mpirun, "--version"]
    told = subprocess.run(asked, capture_output=True, text=True, check=False)
    if "Open MPI" in told.stdout + told.stderr:
        place = ["--host", hosts] if hosts else []
        return ["--bind-to", "none", "--oversubscribe", *place]
    return ["-hosts", hosts] if hosts else []


def launch(
    command: Sequence[str],
    count: int,
    *,
    hosts: str = "",
    plain: bool = False,
    variables: Mapping[str, str] | None = None,
) -> int:
    """Run a program in several processes, and return its status once all have ended.

    A rank that fails ends the others within seconds.

    Parameters
    ----------
    command : sequence of str
        The program and its arguments.
    count : int
        Number of processes.
    hosts : str
        Machines, with commas between them; empty means this one.
    plain : bool, default False
        Leave the output as it is, rather than begin each line with the rank.
    variables : mapping of str to str, optional
        Further environment variables of the program.

    Returns
    -------
    int
        0 if all ranks have ended well.

    Raises
    ------
    DistributedError
        If there is no mpirun, or no mpi4py.
    ValueError
        If there are to be no processes.
    """
    if count < 1:
        raise ValueError(f"{count} processes are asked for; at least one runs")
    if importlib.util.find_spec("mpi4py") is None:
        raise DistributedError(f"several processes need mpi4py; {REMEDY}")
    mpirun = find_mpirun()
    with tempfile.TemporaryDirectory(prefix="vkbackend-launch-") as folder:
        wrapper = [sys.executable, "-S", rank_process.__file__]
        wrapper += ["--plain"] if plain else []
        wrapper += [] if hosts else ["--status", folder]
        whole = [mpirun, *options_of(mpirun, hosts), "-n", str(count), *wrapper]
        environment = {**os.environ, **OPEN_MPI, **(variables or {})}
        done = subprocess.run([*whole, "--", *command], env=environment, check=False)
        failed = _failures(Path(folder))
    for rank, status in failed:
        print(f"launch: rank {rank} {_told(status)}", file=sys.stderr)
    return done.returncode or int(bool(failed))


def _failures(folder: Path) -> list[tuple[int, int]]:
    """Return the ranks that have failed, in this order, and their statuses."""
    found = sorted(folder.glob("rank.*"), key=lambda path: path.stat().st_mtime_ns)
    each = [(int(path.suffix[1:]), int(path.read_text("utf-8"))) for path in found]
    return [(rank, status) for rank, status in each if status]


def _told(status: int) -> str:
    if status < 0:
        return f"was killed by signal {-status}"
    return f"ended with status {status}"
