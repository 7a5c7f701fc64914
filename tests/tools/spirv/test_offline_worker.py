"""The process that opens a null device and compiles."""

import io
import os
import pickle
import subprocess
import sys
from typing import Any

import pytest

from vkbackend.driver.device_info import DeviceInfo
from vkbackend.tools import drivers

from .shaders import SHARED, compiled

pytestmark = pytest.mark.usefixtures("radv")

PROGRAM = "from vkbackend.tools.spirv.offline_worker import main; main()"


def answers(sent: bytes) -> list[Any]:
    """Return what the worker says of navi31 and of a request."""
    settings = {**os.environ, **drivers.environment("radv")}
    settings |= {"RADV_FORCE_FAMILY": "navi31", "VKBACKEND_VALIDATION": "0"}
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(
        command, input=sent, env=settings, capture_output=True, check=True
    )
    stream, found = io.BytesIO(done.stdout), []
    while stream.tell() < len(done.stdout):
        found.append(pickle.load(stream))
    return found


def test_without_a_request_it_tells_its_device() -> None:
    (info,) = answers(b"")
    assert isinstance(info, DeviceInfo)
    assert "NAVI31" in info.name


def test_each_kernel_has_an_answer() -> None:
    words = compiled(SHARED)
    requests = [(words, {"ROWS": 16}), (words, {"UNKNOWN": 1})]
    _, first, second = answers(pickle.dumps((requests, True)))
    executable, problem, refused = first
    assert (problem, refused) == ("", False)
    names = [form.name for form in executable.representations]
    assert "Assembly" in names
    assert second[0] is None
    assert "UNKNOWN" in second[1]
    assert second[2]
