"""Sweeps by several processes."""

import math
import multiprocessing
from pathlib import Path

import pytest

from vkbackend.tools.bench import cli
from vkbackend.tools.bench.sweep import processes, report
from vkbackend.tools.bench.sweep.processes import Turns, shares


def test_shares_are_all_cases_once() -> None:
    for shard, cases in ((None, range(50)), ("1/3", range(1, 50, 3))):
        taken = []
        for share in shares(shard, 4):
            index, count = map(int, share.split("/"))
            taken += range(50)[index % count :: count]
        assert sorted(taken) == list(cases)


def _write(path: Path, turns: Path) -> None:
    for _ in range(50):
        with Turns(turns).taken():
            count = int(path.read_text())
            path.write_text(str(count + 1))


def test_one_process_at_a_time_has_the_turn(tmp_path: Path) -> None:
    path = tmp_path / "count"
    path.write_text("0")
    context = multiprocessing.get_context("spawn")
    started = [
        context.Process(target=_write, args=(path, tmp_path / "turns"))
        for _ in range(3)
    ]
    for process in started:
        process.start()
    for process in started:
        process.join()
    assert path.read_text() == "150"


def test_a_turn_knows_how_long_a_gpu_was_idle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 5.0
    monkeypatch.setattr(processes.time, "monotonic", lambda: now)
    turns, others = Turns(tmp_path / "turns"), Turns(tmp_path / "turns")
    found = []
    for each, busy, after in (
        (turns, True, 2.0),
        (others, False, 1.0),
        (turns, True, 0),
    ):
        with each.taken():
            found.append(each.idle)
            each.left_busy = busy
        now += after
    with turns.taken():
        found.append(turns.idle)
    assert found == [math.inf, 2.0, math.inf, 0.0]


@pytest.mark.device
@pytest.mark.wide
def test_processes_measure_all_cases(tmp_path: Path) -> None:
    path = tmp_path / "sweep.jsonl"
    command = ["sweep", "--peer", "numpy", "--size", "small", "--seconds", "1e-6"]
    command += ["--output", str(path), "--only", "cosh", "--only", "sinh"]
    assert cli.main([*command, "--processes", "2"]) == 0
    found = {report.key(each) for each in report.read(path)}
    assert {name for name, _ in found} >= {
        "cosh contiguous forward",
        "sinh contiguous both",
    }
    before = report.read(path)
    assert cli.main(command) == 0
    assert report.read(path) == before
