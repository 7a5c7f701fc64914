"""Programs in several processes, started by mpirun."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

LONG = 300
"""Seconds after which a program that hangs fails its test."""


def run_ranks(
    count: int, program: Path, *args: str
) -> subprocess.CompletedProcess[str]:
    """Run a program of Python's in several processes."""
    pytest.importorskip("mpi4py")
    beside = str(Path(sys.executable).parent)
    mpirun = shutil.which("mpirun", path=os.pathsep.join((beside, os.environ["PATH"])))
    if mpirun is None:
        pytest.skip("there is no mpirun")
    command = [mpirun, "-n", str(count), sys.executable, "-W", "ignore", str(program)]
    return subprocess.run(
        [*command, *args],
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )
