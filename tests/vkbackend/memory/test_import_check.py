"""The first import of an unknown driver is another process's."""

import dataclasses
import subprocess
from types import SimpleNamespace
from typing import Any

import pytest

from vkbackend import ArgumentError, Device, HostPages, VulkanError
from vkbackend.driver.physical_device import choose
from vkbackend.memory import import_check
from vkbackend.memory.import_check import failure_in_child, is_known


@pytest.mark.device
def test_a_child_imports_what_this_process_does(device: Device) -> None:
    if not device.memory.import_alignment:
        pytest.skip("the driver imports no host memory")
    assert failure_in_child(device.info) == ""


@pytest.mark.device
def test_a_child_that_fails_is_believed(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    unknown = dataclasses.replace(device.info, driver_name="unknown")
    assert not is_known(unknown)
    asked: list[Any] = []

    def run(command: list[str], **options: object) -> object:
        asked.append(command[-1])
        return SimpleNamespace(returncode=1, stderr="Traceback\nVulkanError: refused\n")

    monkeypatch.setattr(import_check, "_failure", import_check._failure.__wrapped__)
    monkeypatch.setattr(subprocess, "run", run)
    opened = Device(choose())
    if opened.memory.import_alignment:
        opened.memory.imports_checked = False
        opened.logical.info = unknown
        with pytest.raises(VulkanError, match=r"a child process.*1: VulkanError: ref"):
            opened.import_pages(HostPages.anonymous(1))
        assert asked == ["unknown"]
        with pytest.raises(ArgumentError, match="imports no host pages"):
            opened.import_pages(HostPages.anonymous(1))
    opened.close()


def test_a_child_that_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: list[str], **options: object) -> object:
        raise subprocess.TimeoutExpired(command, 60)

    monkeypatch.setattr(subprocess, "run", run)
    failure = import_check._failure.__wrapped__("", "unknown")
    assert failure == "the child process was not to be had: TimeoutExpired"
