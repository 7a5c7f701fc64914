"""Importing is quick and touches nothing that it does not need."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .pace import PACE, scaled

LIMIT_SECONDS = 0.3

PROGRAM = f"""
import sys, time
{PACE}
start = time.thread_time()  # NumPy's own threads spin while they wait for work
import vkbackend.framework
print(time.thread_time() - start, pace())
foreign = ("torch", "sklearn", "matplotlib", "scipy", "slangpy", "vulkan", "tqdm")
print([name for name in foreign if name in sys.modules])
try:
    maps = open("/proc/self/maps").read()
except FileNotFoundError:
    maps = ""
print([word for word in ("libvulkan", "lvp", "glslang") if word in maps])
"""


def run(folder: Path) -> list[str]:
    """Return what a fresh interpreter prints; like a user, it may keep bytecode."""
    variables = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder)}
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
        env=variables,
    )
    return done.stdout.splitlines()


@pytest.mark.timing
def test_import_is_quick_and_loads_no_library(tmp_path: Path) -> None:
    taken: list[float] = []
    # The first has no bytecode; a machine that does other work too may need several.
    while len(taken) < 12 and min(taken, default=LIMIT_SECONDS) >= LIMIT_SECONDS:
        seconds, foreign, libraries = run(tmp_path)
        assert (foreign, libraries) == ("[]", "[]")
        taken.append(scaled(*map(float, seconds.split())))
    assert min(taken) < LIMIT_SECONDS
