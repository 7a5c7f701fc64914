"""The whole report, gathered on this machine."""

import json

import pytest

from vkbackend import config
from vkbackend.tools.doctor import diagnosis, requirements, selftest
from vkbackend.tools.doctor.report import Options, gather


@pytest.mark.device
def test_report_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    report = gather(Options(), told.append)
    assert json.loads(json.dumps(report)) == report
    assert report["loader"]["value"]["version"][:2] >= [1, 1]
    assert len(report["extensions"]) == len(requirements.EXTENSIONS)
    device = diagnosis.chosen_device(report)
    assert device is not None
    assert device["features"].keys() == requirements.LOSSES.keys()
    broken = [row for row in report["tests"] if row["status"] in diagnosis.BROKEN]
    assert broken == []
    assert {row["name"] for row in report["tests"] if row["required"]} == {
        *selftest.CORE
    }
    assert {"loader", "devices", "copy", "close"} <= set(told)


@pytest.mark.device
def test_the_host_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(config.DEVICE.name, "cpu")
    report = gather(Options(tests=False))
    assert report["host_chosen"]
    assert report["devices"]["value"]["chosen"] == 0
    assert report["tests"] == []


def test_without_a_loader_nothing_else_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(config.LOADER.name, "/nowhere/libvulkan.so")
    report = gather(Options())
    assert report["loader"]["status"] == "failed"
    assert report["devices"]["status"] == "unasked"
    assert report["drivers"] == report["tests"] == []
    assert report["caches"]["status"] == "ok"
