"""The example of a language model, in small: what it leaves can be used."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework import lora
from vkbackend.framework.examples.language_model import main, questions

pytest.importorskip("tokenizers")
pytest.importorskip("jinja2")


def test_what_it_leaves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "small"
    assert main(["--quick", "--device", "cpu", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    for part in ("mean loss", "it writes:", "of 4 bits it writes:", "fine-tuned:"):
        assert part in printed
    tokenizer = fw.models.Tokenizer(out)
    text = "The statement"
    tokens = fw.tensor([tokenizer.encode(text)])
    model = fw.models.load(out)
    logits = model(tokens).detach().numpy()
    transformers = pytest.importorskip("transformers")
    torch: Any = pytest.importorskip("torch")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(out).eval()
    with torch.no_grad():
        wanted = theirs(torch.from_numpy(tokens.numpy())).logits.numpy()
    if hasattr(torch.nn.Module, "smart_apply"):
        # Left on PyTorch's own class, whose names another test compares.
        del torch.nn.Module.smart_apply
    np.testing.assert_allclose(logits, wanted, rtol=1e-4, atol=1e-4)
    file = out / "model.gguf"
    assert fw.models.Tokenizer(file).encode(text) == tokenizer.encode(text)
    of_file = fw.models.load(file)
    kinds = [type(each) for each in of_file.modules()]
    assert kinds.count(fw.nn.QLinear) == 8
    lora.load(of_file, out / "adapter")
    assert not np.array_equal(of_file(tokens).detach().numpy(), logits)
    (line, *_) = (out / "questions.jsonl").read_text().splitlines()
    assert json.loads(line).keys() == {"prompt", "completion"}


def test_answers_are_first_sentences() -> None:
    text = "Title\n*****\n\nThe first\n  line. Another one.\n\nMore"
    (found,) = questions({"with": text})
    assert found == {"prompt": "What is with?", "completion": "The first line."}


def test_a_wrong_device(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--quick", "--device", "nowhere", "--out", str(tmp_path / "a")]
    assert main(given) == 1
    error = capsys.readouterr().err
    assert error.startswith("language_model: ")
    assert error.count("\n") == 1
