"""The command that starts several processes."""

from typing import Any

import pytest

from vkbackend.framework.base.errors import DistributedError
from vkbackend.tools import launch


def test_what_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    def start(command: list[str], count: int, **options: Any) -> int:
        calls.append((command[1:], count, options))
        return 7

    monkeypatch.setattr(launch, "launch", start)
    options = ["-n", "2", "--hosts", "a,b", "--plain", "-m", "json.tool", "--x", "1"]
    assert launch.main(options) == 7
    expected = ["-m", "json.tool", "--x", "1"], 2, {"hosts": "a,b", "plain": True}
    assert calls == [expected]


def test_what_cannot_be_started(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert launch.main(["-n", "2", "nowhere.py"]) == 2
    assert launch.main(["-n", "0", __file__]) == 2

    def refuse(*given: Any, **options: Any) -> int:
        raise DistributedError("there is no mpirun")

    monkeypatch.setattr(launch, "launch", refuse)
    assert launch.main(["-n", "2", __file__]) == 2
    told = capsys.readouterr().err.splitlines()
    assert "no file or module nowhere.py" in told[0]
    assert "-n is 0; it must be at least 1" in told[1]
    assert told[2] == "launch: there is no mpirun"
