"""The command, from its arguments to the table and the file."""

import json
from pathlib import Path

import pytest

import vkbackend
from vkbackend.tools.bench.cli import main

QUICK = ["--peer", "numpy", "--size", "small", "--rounds", "1"]


def test_one_workload(
    device: vkbackend.Device, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "out.jsonl"
    only = ["--only", "sum_rows", "--output", str(path), "--commit", "abc"]
    assert main([*QUICK, *only, "--device", device.name]) == 0
    (line,) = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    assert line["workload"] == "sum_rows_1024x1024"
    assert line["commit"] == "abc"
    assert line["relative_error"] <= line["tolerance"]
    assert "sum_rows_1024x1024" in capsys.readouterr().out


def test_a_failure_is_said(
    device: vkbackend.Device,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fails(*_: object) -> None:
        raise ValueError("no such thing")

    monkeypatch.setattr("vkbackend.tools.bench.cli.measure", fails)
    assert main([*QUICK, "--only", "sum_rows", "--no-output"]) == 1
    assert "FAILED: ValueError: no such thing" in capsys.readouterr().out


def test_a_name_that_nothing_has(
    device: vkbackend.Device, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*QUICK, "--only", "sum_rows_of_what", "--no-output"]) == 1
    assert "no workload of size small fits sum_rows_of_what" in capsys.readouterr().err


def test_without_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*QUICK, "--device", "cpu"]) == 1
    assert "no Vulkan device" in capsys.readouterr().err
