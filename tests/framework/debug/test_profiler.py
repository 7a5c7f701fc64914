"""Profiles: what ran, how often, and a trace."""

import json
from pathlib import Path

import numpy as np
import pytest

import vkbackend
import vkbackend.framework as fw
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.errors import StateError
from vkbackend.framework.debug.profiler import Profile


def test_what_the_block_asked_for(gpu: GpuDevice) -> None:
    x = fw.tensor(np.ones((30, 40), np.float32), device=gpu)
    before = x + 1
    with fw.profile(gpu) as profile:
        for _ in range(3):
            fw.eval(before.exp())
        last = before.sum(1)
    after = x * 3
    fw.eval()
    assert np.isfinite(after.numpy()).all()
    assert last.numpy().sum() == 2400
    calls = {row.name.split()[0]: row.calls for row in profile.kernels()}
    assert calls["fused/exp"] == 3
    assert sum(calls.values()) == len(profile.spans) == 4
    assert not any("mul" in name for name in calls)


def spans(*each: tuple[str, float, float]) -> Profile:
    profile = Profile("a device")
    profile.spans = [
        vkbackend.Span(name, (1, 1, 1), 0, start, end) for name, start, end in each
    ]
    return profile


def test_table() -> None:
    long = "x" * 200
    profile = spans(("a", 1, 1.002), ("b", 2, 2.001), ("a", 3, 3.003), (long, 4, 4.001))
    lines = profile.table(limit=2).splitlines()
    assert lines[0] == "a device: 7.000 ms in 4 runs"
    assert lines[2].split() == ["5.000", "71.4%", "2", "2500.0", "a"]
    assert lines[-1].split() == ["1.000", "in", "1", "other", "kernels"]
    assert max(map(len, str(profile).splitlines())) <= 108


def test_nothing_ran(tmp_path: Path) -> None:
    profile = spans()
    assert "0.000 ms in 0 runs" in str(profile)
    profile.export_chrome_trace(tmp_path / "trace.json")


def test_chrome_trace(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    spans(("a", 1.0, 1.5), ("b", 2.0, 2.25)).export_chrome_trace(path)
    first, second = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    assert (first["name"], first["ts"], first["dur"]) == ("a", 0, 500_000)
    assert (second["ts"], second["dur"]) == (1_000_000, 250_000)


def test_the_host_has_no_kernels() -> None:
    with pytest.raises(StateError, match="the device is cpu; only a Vulkan device"):
        with fw.profile("cpu"):
            pass


def test_an_error_inside_leaves_the_device_usable(gpu: GpuDevice) -> None:
    with pytest.raises(ZeroDivisionError), fw.profile(gpu):
        raise ZeroDivisionError
    with fw.profile(gpu) as profile:
        fw.zeros(3, device=gpu).exp().numpy()
    assert profile.spans
