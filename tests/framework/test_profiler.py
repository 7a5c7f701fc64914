"""PyTorch's profiler: which steps it records, and what it has then."""

import json
from pathlib import Path

import pytest
import torch

import vkbackend.framework as fw
from vkbackend.framework import profiler


@pytest.mark.parametrize("repeat", [0, 1, 2])
def test_schedule(repeat: int) -> None:
    options = {"wait": 1, "warmup": 1, "active": 2, "repeat": repeat, "skip_first": 1}
    ours, theirs = profiler.schedule(**options), torch.profiler.schedule(**options)
    for step in range(12):
        assert ours(step).name == theirs(step).name


def test_recorded_steps() -> None:
    ended = []
    steps = profiler.schedule(wait=1, warmup=0, active=1, repeat=2)
    with profiler.profile(
        schedule=steps, on_trace_ready=lambda p: ended.append(p.step_num)
    ) as found:
        for at in range(6):
            with profiler.record_function(f"step {at}"):
                fw.ones(1).sum()
            found.step()
    assert len(ended) == 2
    assert [each.key for each in found.events() if each.key[:4] == "step"] == ["step 3"]


@pytest.mark.device
def test_kernels_and_regions(tmp_path: Path) -> None:
    x = fw.ones(5, device="gpu")
    x.tolist()
    with profiler.profile() as found, profiler.record_function("region"):
        for _ in range(2):
            (x + 1).tolist()
    rows = found.key_averages()
    assert {each.key: each.count for each in rows}["region"] == 1
    assert sum(each.device_time_total for each in rows) > 0
    assert "region" in rows.table(sort_by="cpu_time_total", row_limit=50)
    found.export_chrome_trace(str(tmp_path / "trace.json"))
    text = (tmp_path / "trace.json").read_text(encoding="utf-8")
    assert json.loads(text)["traceEvents"]
