"""Command line of the sweep."""

from pathlib import Path

import pytest

from vkbackend.tools.bench import cli
from vkbackend.tools.bench.sweep import report


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
