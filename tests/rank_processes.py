"""Programs in several processes, started by the launcher."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

LONG = 300
"""Seconds after which a program that hangs fails its test."""


def run_ranks(
    count: int, program: Path, *args: str
) -> subprocess.CompletedProcess[str]:
    """Run a program of Python's in several processes, which share one device."""
    pytest.importorskip("mpi4py")
    launch = [sys.executable, "-m", "vkbackend.tools.launch", "-n", str(count)]
    return subprocess.run(
        [*launch, str(program), *args],
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
        env={"VKBACKEND_DEVICE": "0", **os.environ},
    )
