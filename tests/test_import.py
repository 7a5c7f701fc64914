"""Importing does little, and touches nothing that it does not need."""

import subprocess
import sys
from pathlib import Path

from tests.work import COUNT

MOST_LINES = 620_000
"""Lines of Python that importing may run, without NumPy's: 520,000 do."""

PROGRAM = f"""
import sys
import numpy
before = set(sys.modules)
{COUNT}
sys.settrace(count)
import vkbackend.framework
sys.settrace(None)
print(lines)
foreign = ("torch", "sklearn", "matplotlib", "scipy", "slangpy", "vulkan", "tqdm")
print([name for name in foreign if name in sys.modules])
parts = ("codegen.partitioner", "jit.trace_cache", "scheduler.plan")
late = [f"vkbackend.framework.{{part}}" for part in parts]
late += ["hashlib", "importlib.resources", "json", "shutil", "subprocess", "tempfile"]
print([name for name in late if name in sys.modules and name not in before])
try:
    maps = open("/proc/self/maps").read()
except FileNotFoundError:
    maps = ""
print([word for word in ("libvulkan", "lvp", "glslang") if word in maps])
"""


def test_import_does_little_and_loads_no_library(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    lines, foreign, late, libraries = done.stdout.splitlines()
    assert (foreign, late, libraries) == ("[]", "[]", "[]")
    assert int(lines) < MOST_LINES
