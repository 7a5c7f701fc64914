"""Growth of times: sizes, steps, flatness, and a run."""

import json
import math
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import vkbackend
from vkbackend.tools.bench import cli, growth
from vkbackend.tools.bench.growth import Point


def test_powers_come_before_sizes_between_them() -> None:
    assert growth.sizes(1024, 4096) == [1024, 2048, 4096, 1537, 3073]
    assert growth.sizes(3000, 4096) == [4096]


def test_steps_are_growth_beyond_that_of_work() -> None:
    points = {1: Point(1.0, 10), 2: Point(1.0, 20), 4: Point(8.0, 40)}
    assert growth.steps(points) == [(4.0, 2, 4), (0.5, 1, 2)]
    assert growth.steps({1: points[1]}) == []


def test_flatness_counts_from_one_mebi_on() -> None:
    points = {1 << 10: Point(1.0, 1), 1 << 20: Point(2.0, 2), 1 << 21: Point(2.0, 4)}
    assert growth.flatness(points) == (0.5, 2.0)
    assert growth.flatness({1 << 20: Point(1.0, 1)}) == (None, None)


def test_a_run_adds_a_line_for_each_class(
    device: vkbackend.Device, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "growth.jsonl"
    options = ["growth", "--only", "exp bfloat16", "--most", "3000", "--batch", "0"]
    options += ["--device", device.name, "--output", str(output)]
    assert cli.main(options) == 0
    (row,) = map(json.loads, output.read_text().splitlines())
    assert row["class"] == "exp bfloat16"
    assert list(row["microseconds"]) == ["1024", "1537", "2048"]
    assert row["largest"] == 2048
    assert row["flat"] is None
    table = capsys.readouterr().out.splitlines()
    assert table[2].split()[:4] == ["exp", "bfloat16", "2048", "-"]
    assert table[3].startswith("1 classes, ")


def test_steps_are_measured_again_until_none_is_new(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = object.__new__(growth.Bench)
    bench.most, bench.inputs = 8, SimpleNamespace(forget=list)
    monkeypatch.setattr(bench, "sizes", lambda _: [1, 2, 4, 8], raising=False)
    calls: Counter[int] = Counter()

    def point(kind: object, size: int, busy: bool = False) -> Point:
        calls[size] += 1
        slow = size >= 4 and not busy
        return Point(5.0 * size if slow else size, size)

    monkeypatch.setattr(bench, "point", point, raising=False)
    monkeypatch.setattr(bench, "keep_busy", lambda seconds: None, raising=False)
    kind: Any = SimpleNamespace(name="a class")
    found = bench.measured(kind, math.inf, 1.5)
    assert {each.cost for each in found.values()} == {1.0}
    assert calls == {1: 1, 2: 2, 4: 2, 8: 2}
