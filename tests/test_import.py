"""Importing is quick and touches nothing that it does not need."""

import os
import subprocess
import sys
from pathlib import Path

LIMIT_SECONDS = 0.3

PROGRAM = """
import sys, time
start = time.thread_time()  # NumPy's own threads spin while they wait for work
import vkbackend.framework
print(time.thread_time() - start)
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


def test_import_is_quick_and_loads_no_library(tmp_path: Path) -> None:
    runs = [run(tmp_path) for _ in range(5)]
    for _, foreign, libraries in runs:
        assert (foreign, libraries) == ("[]", "[]")
    assert min(float(seconds) for seconds, _, _ in runs) < LIMIT_SECONDS
