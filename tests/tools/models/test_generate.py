import json
from pathlib import Path

import pytest

import vkbackend.framework as fw
from vkbackend.tools.models.cli import main


def test_the_text_is_that_of_generate(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["generate", str(folder), "--device", "cpu", "--prompt", "the cat sat"]
    assert main([*given, "--tokens", "6", "--greedy", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    tokenizer = fw.models.Tokenizer(folder)
    tokens = tokenizer.encode("the cat sat")
    whole = fw.models.generate(
        fw.models.load(folder, "cpu"), fw.tensor([tokens]), 6, stop=tokenizer.stop
    )
    added = whole[0, len(tokens) :].tolist()
    assert found["tokens"] == len(added)
    assert found["text"] == tokenizer.decode(added)
    assert set(found) == {
        "text",
        "tokens",
        "prompt_tokens_per_second",
        "tokens_per_second",
        "peak_memory",
    }
    assert main([*given, "--tokens", "6", "--greedy"]) == 0
    written = capsys.readouterr()
    assert written.out == found["text"] + "\n"
    assert written.err.startswith(f"{len(added)} tokens; prompt")
    drafted = ["--draft", str(folder), "--draft-tokens", "2"]
    assert main([*given, "--tokens", "6", "--greedy", *drafted]) == 0
    assert capsys.readouterr().out == written.out
