"""Rates of transfers by staging."""

import pytest

import vkbackend
from vkbackend.tools.bench import staging


def test_a_row_for_each_way(
    device: vkbackend.Device,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(vkbackend, "open_device", lambda: device)
    was = device.transfer.staging
    few = ["--size", "1", "--rounds", "1"]
    staging.main([*few, "--threads", "1", "2", "--chunks", "1"])
    assert device.transfer.staging is was
    lines = capsys.readouterr().out.splitlines()
    names = [line.split("|")[1].strip() for line in lines[4:7]]
    assert names == ["NumPy's copy", "1, 1 MiB", "2, 1 MiB"]
    kinds = [line.split(":")[0] for line in lines[7:]]
    ways = ["upload", "upload pinned", "read", "read into", "both"]
    assert kinds == [f"best {way}" for way in ways]
