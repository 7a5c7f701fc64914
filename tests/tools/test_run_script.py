"""Programs that run inside a command."""

import sys
from pathlib import Path

import pytest

from vkbackend.tools.run_script import missing, run_as_main

PROGRAM = """
import sys
import beside
print(__name__, sys.argv[1:], beside.NUMBER)
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "beside.py").write_text("NUMBER = 3\n", encoding="utf-8")
    path = tmp_path / "program.py"
    path.write_text(PROGRAM, encoding="utf-8")
    return path


def test_a_program_finds_its_arguments_and_neighbours(
    script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sys.argv, [*sys.path]
    run_as_main(str(script), ["--one", "2"])
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "__main__ ['--one', '2'] 3\n")
    assert (sys.argv, sys.path) == before
    del sys.modules["beside"]


def test_a_module_by_its_name(
    script: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(script.parent))
    run_as_main("program", [])
    assert capsys.readouterr().err == "__main__ [] 3\n"
    del sys.modules["beside"]


@pytest.mark.parametrize(
    ("text", "error"), [("raise OSError(3)", OSError), ("exit(4)", SystemExit)]
)
def test_what_it_raises_comes_out(
    text: str, error: type[BaseException], tmp_path: Path
) -> None:
    path = tmp_path / "broken.py"
    path.write_text(text, encoding="utf-8")
    before = sys.argv, [*sys.path]
    with pytest.raises(error):
        run_as_main(str(path), [])
    assert (sys.argv, sys.path) == before


def test_programs_that_there_are_not(script: Path) -> None:
    assert missing(str(script)) == missing("json") == ""
    for name in ("none.py", "no.such.module", "/dev/null", ".", ""):
        assert missing(name) == f"there is no file or module {name}"
