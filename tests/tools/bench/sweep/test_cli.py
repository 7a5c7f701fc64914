"""Command line of the sweep."""

from pathlib import Path

import pytest

from vkbackend.tools.bench import cli, results
from vkbackend.tools.bench.sweep import processes, report


@pytest.mark.device
def test_cases_are_chosen_measured_and_not_measured_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "sweep.jsonl"
    command = ["sweep", "--peer", "numpy", "--size", "small", "--only", "cosh"]
    command += ["--output", str(path), "--seconds", "1e-6", "--shard", "0/2"]
    assert cli.main(command) == 0
    found = report.read(path)
    assert [each["workload"] for each in found] == ["cosh contiguous forward"]
    assert cli.main(command) == 0
    assert report.read(path) == found
    assert cli.main(["sweep", "--report", str(path)]) == 0
    assert cli.main(["sweep", "--compare", str(path), str(path)]) == 0
    assert "0 changed" in capsys.readouterr().out


@pytest.mark.device
@pytest.mark.parametrize(
    ("error", "again"), [("OutOfDeviceMemory", True), ("ShapeError", False)]
)
def test_what_found_no_memory_beside_others_is_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: str, again: bool
) -> None:
    path = tmp_path / "sweep.jsonl"
    command = ["sweep", "--peer", "numpy", "--size", "small", "--only", "cosh"]
    command += ["--output", str(path), "--seconds", "1e-6", "--shard", "0/2"]
    assert cli.main(command) == 0
    (measured,) = report.read(path)
    failed = measured | {"ratio": None, "failure": f"{error}: of another process"}

    def beside(given: list[str], shard: str, count: int) -> int:
        path.write_text("", encoding="utf-8")
        results.append(failed, path)
        return 0

    monkeypatch.setattr(processes, "run", beside)
    assert cli.main([*command, "--processes", "2"]) == int(not again)
    assert report.read(path)[0] == failed
    assert len(report.read(path)) == 1 + again
