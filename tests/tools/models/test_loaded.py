from pathlib import Path

import pytest

from vkbackend.tools.models.cli import main


def test_one_seed_draws_one_text_of_quantized_weights(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["generate", str(folder), "--device", "cpu", "--prompt", "the cat"]
    drawn = ["--tokens", "4", "--seed", "3", "--min-p", "0.01", "--format", "q8_0"]
    texts = []
    for _ in range(2):
        assert main([*given, *drawn]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]
