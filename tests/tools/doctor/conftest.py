"""Reports made up for the pure parts, and the doctor run as users run it."""

import copy
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.tools import kept_drivers
from vkbackend import config
from vkbackend.driver import features
from vkbackend.tools.doctor import requirements

DEVICE: dict[str, Any] = {
    "name": "Big GPU",
    "kind": "discrete",
    "driver_name": "maker",
    "driver_info": "1.2.3",
    "api_version": [1, 3, 250],
    "vendor_id": 0x1002,
    "score": 5,
    "lacks": [],
    "other_drivers": [],
    "pci_address": "",
    "features": dict.fromkeys(requirements.LOSSES, True),
    "cooperative_matrix": [],
    "max_push_size": 128,
    "max_shared_memory": 49152,
    "max_workgroup_invocations": 1024,
    "max_workgroup_size": [1024, 1024, 64],
    "max_workgroup_count": [65535, 65535, 65535],
    "max_allocation_size": 4 << 30,
    "subgroup_size": 32,
    "timestamp_period": 1.0,
    "heaps": [{"size": 8 << 30, "device_local": True}],
}
MANIFEST = "/usr/share/vulkan/icd.d/maker.json"


def answer(value: Any = None, status: str = "ok", reason: str = "") -> dict[str, Any]:
    return {"status": status, "value": value, "reason": reason, "seconds": 0.25}


HEALTHY: dict[str, Any] = {
    "format": 1,
    "library": {
        "vkbackend": "0.1.0",
        "python": "3.11.2",
        "numpy": "2.0.0",
        "slangpy": "0.40.1",
        "system": "Linux 6.1 x86_64",
        "processors": 4,
    },
    "switches": {row.name: None for row in config.SWITCHES},
    "variables": {},
    "selector": "",
    "host_chosen": False,
    "loader": answer(
        {
            "name": "libvulkan.so.1",
            "path": "/usr/lib/libvulkan.so.1.3.250",
            "version": [1, 3, 250],
            "layers": ["VK_LAYER_KHRONOS_validation"],
        }
    ),
    "hardware": answer([]),
    "drivers": [
        {
            "manifest": MANIFEST,
            **answer({"library": "lib.so", "devices": ["Big GPU"], "problem": ""}),
        }
    ],
    "devices": answer({"devices": [DEVICE], "chosen": 0, "refusal": ""}),
    "compiler": answer(
        {"name": "glslang", "version": "16.2", "path": "/usr/lib/g.so", "in_process": 1}
    ),
    "extensions": [
        {"name": row.name, **answer(True)} for row in requirements.EXTENSIONS
    ],
    "caches": answer(
        {
            "folder": "/home/alice/.cache/vkbackend",
            "exists": True,
            "unwritable": "",
            "refused": "",
            "spirv": {"files": 3, "bytes": 4096, "damaged": 0},
            "pipelines": {"files": 1, "bytes": 64},
            "tuning": {"files": 1, "bytes": 96},
            "leftovers": 0,
        }
    ),
    "pipeline_cache": answer({"bytes": 64, "damage": ""}),
    "processes": answer(
        {"mpi4py": "4.1.2", "mpirun": "/usr/bin/mpirun", "shared": 1 << 30}
    ),
    "cuda": answer({"obstacle": "", "version": "12.8"}),
    "tests": [{"name": "copy", "required": True, **answer("3 GB/s")}],
}


@pytest.fixture
def report() -> dict[str, Any]:
    """Return the report of a machine where all is well."""
    assert DEVICE["features"].keys() >= {row.flag for row in features.FEATURES}
    return copy.deepcopy(HEALTHY)


@dataclass(frozen=True)
class Told:
    """What a run of the doctor printed, and its exit status."""

    status: int
    text: str

    @property
    def report(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.text)
        return found

    @property
    def problems(self) -> dict[str, dict[str, str]]:
        """The problems by title."""
        return {row["title"]: row for row in self.report["diagnosis"]["problems"]}


@pytest.fixture
def doctor(tmp_path: Path) -> Callable[..., Told]:
    """Return a function that runs the doctor in a process with an environment."""

    def run(*arguments: str, search: str = "", **environment: str) -> Told:
        folders = [search] if search else []
        folders += [path or os.getcwd() for path in sys.path]
        done = subprocess.run(
            (sys.executable, "-m", "vkbackend.tools.doctor", *arguments),
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(folders), **environment},
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert done.stderr == ""
        return Told(done.returncode, done.stdout)

    return run


@pytest.fixture
def driver() -> Callable[[str], dict[str, str]]:
    """Return a function that gives the environment of a driver, or skips the test."""
    return kept_drivers.environment
