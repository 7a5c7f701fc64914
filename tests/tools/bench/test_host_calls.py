"""Costs of calls: what is timed runs, in turns, and the table says it."""

from pathlib import Path

import pytest

import vkbackend.framework as fw
from vkbackend.tools.bench import host_calls


def test_every_call_runs() -> None:
    for call in host_calls.calls(fw, "cpu").values():
        call()


def test_a_burst_waits_for_nothing_within() -> None:
    told: list[str] = []
    host_calls.burst(lambda: told.append("x"), lambda: told.append("-"), 3)
    assert "".join(told) == "-xxx-"


def test_the_ratio_is_that_of_turns() -> None:
    words = host_calls.line("abs", [[2e-6, 6e-6, 3e-6], [1e-6, 2e-6, 1e-6]]).split()
    assert words == ["abs", "3.00", "1.00", "3.000"]


@pytest.mark.wide
@pytest.mark.checkout
def test_beside_another_checkout(capsys: pytest.CaptureFixture[str]) -> None:
    root = Path(__file__).parents[3]
    options = ["--against", str(root), "--device", "cpu", "--rounds", "1"]
    assert host_calls.main(options) == 0
    heading, *rows = capsys.readouterr().out.splitlines()
    assert heading.split()[-3:] == ["here", "there", "ratio"]
    assert len(rows) == len(host_calls.calls(fw, "cpu"))


@pytest.mark.checkout
def test_what_is_no_checkout_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        host_calls.main(["--against", str(tmp_path)])
    assert f"{tmp_path} is no checkout" in capsys.readouterr().err
