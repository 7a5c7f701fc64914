"""The command that warms a program; times are made up."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import vkbackend
import vkbackend.framework as fw
from vkbackend import config
from vkbackend.framework.autotune import autotune
from vkbackend.framework.base.device import opened_devices
from vkbackend.framework.scheduler import kernel_search
from vkbackend.tools import autotune as command

pytestmark = pytest.mark.device

PROGRAM = """
import sys
import vkbackend.framework as fw
x = fw.ones(int(sys.argv[1]), device="gpu")
fw.eval(x)
print("the program speaks", x.sum().item())
if len(sys.argv) > 2:
    sys.exit(sys.argv[2])
"""


@pytest.fixture(autouse=True)
def _fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(autotune, "_settings", None)
    monkeypatch.setattr(autotune, "measured", [])
    monkeypatch.setenv(config.CACHE.name, str(tmp_path / "cache"))
    monkeypatch.delenv(config.AUTOTUNE.name, raising=False)
    for device in opened_devices():
        device.plans.clear()
    monkeypatch.setattr(kernel_search, "seconds_of", lambda *_: 1e-3)
    yield
    fw.eval()
    for device in opened_devices():
        device.plans.clear()


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM, encoding="utf-8")
    return str(path)


def test_a_program_is_tuned_once(
    script: str, device: vkbackend.Device, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main([script, "50000"]) == 0
    said = capsys.readouterr()
    assert "the program speaks 50000.0" in said.err
    lines = said.out.splitlines()
    assert lines[0].startswith("sum x=float32[65536/16] dims=(0,)")
    [chosen] = [line for line in lines if line.startswith("  *")]
    assert " ms  1.00x  default: chunks for " in chosen
    file = autotune.verdicts(device.info).file
    assert lines[-1] == f"kept in {file}"
    assert ": questions measured: 1, in " in lines[-2]
    assert lines[-2].endswith("better than the default: 0; known before: 0")
    assert file.exists()
    autotune.measured.clear()
    assert command.main([script, "50000"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert ": questions measured: 0, in " in lines[0]
    assert lines[0].endswith("known before: 1")


def test_a_module_by_its_name(
    script: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(Path(script).parent))
    assert command.main(["program", "5"]) == 0
    assert "the program speaks 5.0" in capsys.readouterr().err


def test_verdicts_are_listed_and_forgotten(
    script: str, device: vkbackend.Device, capsys: pytest.CaptureFixture[str]
) -> None:
    command.main([script, "50000"])
    capsys.readouterr()
    assert command.main(["--list"]) == 0
    first, question, *rest = capsys.readouterr().out.splitlines()
    file = autotune.verdicts(device.info).file
    assert first == f"verdicts: 1, in {file}"
    assert question.startswith("sum x=float32[65536/16]")
    assert len(rest) > 1
    assert command.main(["--forget", "--list"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said == [f"forgotten: {file}", f"verdicts: 0, in {file}"]
    assert not file.exists()


def test_a_budget_that_is_spent(
    script: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["--budget", "0", script, "50000"]) == 0
    said = capsys.readouterr().out
    assert ": questions measured: 0, in " in said
    assert " s of 0 s" in said
    assert "the budget is spent: what is still open takes the default" in said


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [(["50000", "oops"], 1, ""), (["many"], 1, "ValueError"), (["5"], 0, "speaks 5.0")],
)
def test_the_status_is_that_of_the_program(
    arguments: list[str],
    status: int,
    text: str,
    script: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert command.main([script, *arguments]) == status
    said = capsys.readouterr()
    assert text in said.err
    assert "kept in" in said.out


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "give a script, or --list"),
        (["none.py"], "there is no file or module none.py"),
        (["../none"], "there is no file or module ../none"),
        ([""], "there is no file or module \n"),
        (["--budget", "-1", "none.py"], "the budget is -1.0; it must be at least 0"),
        (["--budget", "nan", "none.py"], "the budget is nan; it must be at least 0"),
    ],
)
def test_refusals(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(arguments) == 2
    assert capsys.readouterr().err.startswith(f"tune: {text}")


def test_the_host_has_no_choice(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(config.DEVICE.name, "cpu")
    assert command.main(["--list"]) == 2
    assert "there is no Vulkan device" in capsys.readouterr().err
