import io
import json
from pathlib import Path

import pytest

from tests.framework.models.small import CONFIG, small_llama
from tests.framework.models.words import byte_pairs
from vkbackend import framework as fw
from vkbackend.tools.models.cli import main

TEMPLATE = "<s>{% for each in messages %}{{ each.content }}{% endfor %}"


def test_lines_are_answered(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("jinja2")
    byte_pairs(tmp_path, TEMPLATE)
    (tmp_path / "config.json").write_text(json.dumps(CONFIG | {"vocab_size": 300}))
    fw.save(small_llama(vocab_size=300).state_dict(), tmp_path / "model.safetensors")
    monkeypatch.setattr("sys.stdin", io.StringIO("the cat\nthe dog\n\nnever"))
    given = ["chat", str(tmp_path), "--device", "cpu", "--system", "sat", "--greedy"]
    assert main([*given, "--tokens", "3"]) == 0
    assert capsys.readouterr().err.count("peak memory") == 2


def test_a_missing_template(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("the cat\n"))
    assert main(["chat", str(folder), "--device", "cpu"]) == 1
    assert "no template of chats" in capsys.readouterr().err
