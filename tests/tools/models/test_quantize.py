import json
from pathlib import Path

import pytest

import vkbackend.framework as fw
from tests.framework.models.small import CONFIG, small_llama
from vkbackend.framework import nn
from vkbackend.framework.base.errors import FileFormatError
from vkbackend.tools.models.cli import main


def test_a_file_of_quantized_weights(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = {"hidden_size": 64, "intermediate_size": 96}
    (tmp_path / "config.json").write_text(json.dumps(CONFIG | sizes))
    fw.save(small_llama(**sizes).state_dict(), tmp_path / "model.safetensors")
    out = tmp_path / "small.gguf"
    given = ["quantize", str(tmp_path), str(out), "--format", "q8_0"]
    assert main([*given, "--skip", "lm_head"]) == 0
    printed = capsys.readouterr().out
    assert "lm_head  kept: skipped" in printed
    assert "bytes" in printed.splitlines()[-1]
    model = fw.models.load(out, "cpu")
    kinds = {name: type(each) for name, each in model.named_modules()}
    assert kinds["lm_head"] is nn.Linear
    assert kinds["model.layers.0.mlp.up_proj"] is nn.QLinear


def test_the_tokenizer_is_written(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "small.gguf"
    assert main(["quantize", str(folder), str(out)]) == 0
    text = "the cat sat, too"
    tokenizer = fw.models.Tokenizer(folder)
    assert fw.models.Tokenizer(out).encode(text) == tokenizer.encode(text)
    given = ["--device", "cpu", "--prompt", "the cat", "--tokens", "2", "--greedy"]
    assert main(["generate", str(out), *given]) == 0
    assert main(["quantize", str(out), str(tmp_path / "again.gguf")]) == 0
    assert main(["quantize", str(folder), str(out), "--no-tokenizer"]) == 0
    with pytest.raises(FileFormatError, match=r"`tokenizer\.ggml\.model` is None"):
        fw.models.Tokenizer(out)


def test_another_name(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["quantize", str(folder), "small.bin"]) == 1
    assert "must end with .gguf" in capsys.readouterr().err
