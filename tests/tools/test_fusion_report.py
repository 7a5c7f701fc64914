"""The command that reports on a program's fusion."""

from pathlib import Path

import pytest

from vkbackend.tools import fusion_report

pytestmark = pytest.mark.device

PROGRAM = """
import sys
import vkbackend.framework as fw
x = fw.ones(int(sys.argv[1]), device="gpu")
print("the program speaks", (x * 3 + 4).relu().sum().item())
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM, encoding="utf-8")
    return path


def test_report(
    script: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "picture.svg"
    assert fusion_report.main(["--glsl", "--svg", str(picture), str(script), "77"]) == 0
    said = capsys.readouterr()
    assert "the program speaks 539.0" in said.err
    assert said.out.startswith("fusion: ")
    assert "add (77,) float32" in said.out
    assert "| void main()" in said.out
    assert picture.read_text(encoding="utf-8").startswith("<svg ")


def test_without_glsl(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert fusion_report.main([str(script), "78"]) == 0
    assert "void main()" not in capsys.readouterr().out


def test_a_program_that_fails(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert fusion_report.main([str(script), "many"]) == 1
    said = capsys.readouterr()
    assert "ValueError" in said.err
    assert said.out.startswith("fusion: ")


def test_a_file_that_is_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fusion_report.main([str(tmp_path / "none.py")]) == 2
    assert "there is no file" in capsys.readouterr().err
