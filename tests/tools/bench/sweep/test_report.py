"""Lines, means, counts, and what changed."""

import json
from pathlib import Path
from typing import Any

import pytest

from vkbackend.tools.bench.sweep import report


def line(name: str, ours: float | None, theirs: float = 1.0, **more: Any) -> Any:
    return {
        "workload": name,
        "dtype": "float32",
        "milliseconds": ours,
        "peer_milliseconds": theirs,
        "ratio": ours and theirs / ours,
        "alone_milliseconds": ours,
        "peer_alone_milliseconds": theirs,
        "alone_ratio": ours and theirs / ours,
        "relative_error": 0.0,
        "tolerance": 1e-4,
    } | more


def test_summary_counts_and_names_the_worst() -> None:
    shown: list[str] = []
    lines = [
        line("quick", 0.5),
        line("slow", 4.0, relative_error=1.0),
        line("broken", None, failure="RuntimeError: no"),
    ]
    report.summary(lines, shown.append)
    assert "geometric mean of peer/ours 0.707; 1 below 0.5, 1 below 0.8" in shown[0]
    assert shown[1].split()[0] == "slow"
    assert "WRONG: 1" in shown
    assert "failed: 1" in shown
    report.table(lines, shown.append)
    assert shown[-1].split()[:3] == ["broken", "float32", "FAILED"]


def test_only_what_changed_is_listed() -> None:
    shown: list[str] = []
    before = [line("same", 1.0), line("slower", 1.0), line("gone", 1.0)]
    after = [line("same", 1.02), line("slower", 2.0), line("new", 1.0)]
    report.compare(before, after, shown.append)
    assert "2 cases in both, 1 changed" in shown[0]
    assert "slower" in shown[1]
    assert "2.00" in shown[1]
    assert not any("same" in text for text in shown)


def test_a_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_text(json.dumps(line("whole", 1.0)) + '\n{"workload": "cu')
    assert [each["workload"] for each in report.read(path)] == ["whole"]
    assert report.read(tmp_path / "none") == []
    assert report.geometric_mean([1.0, 4.0]) == pytest.approx(2.0)
