import sys
from pathlib import Path

import pytest

from vkbackend.tools.models.cli import main


def test_a_missing_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "no-such-folder", "--prompt", "a"]) == 1
    found = capsys.readouterr().err
    expected = "no-such-folder does not exist; give a folder or a file"
    assert found == f"vkmodels generate: {expected}\n"


def test_a_missing_package(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    assert main(["generate", str(folder), "--device", "cpu", "--prompt", "a"]) == 1
    assert "pip install 'vkbackend[text]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["--format", "q4_9"], "q4_9"),
        (["--dtype", "float17"], "float17"),
        (["--device", "nowhere"], "nowhere"),
        (["--top-p", "2"], r"top_p is 2.0; it must be in (0, 1]"),
    ],
)
def test_wrong_settings_are_one_line(
    folder: Path,
    settings: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = ["generate", str(folder), "--prompt", "a", "--device", "cpu"]
    assert main([*given, *settings]) == 1
    found = capsys.readouterr().err
    assert message in found
    assert found.count("\n") == 1
