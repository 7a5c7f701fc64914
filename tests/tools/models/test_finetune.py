import json
from pathlib import Path
from typing import Any

import pytest

import vkbackend.framework as fw
from tests.framework.models.small import small_llama
from vkbackend.framework import lora
from vkbackend.framework.optim.training.loop import TrainingLoop
from vkbackend.tools.models.cli import main
from vkbackend.tools.models.finetune import StepLosses, _adapters

LINES = [
    {"text": "the cat sat on the mat"},
    {"prompt": "the cat", "completion": " sat on the mat"},
]


@pytest.fixture
def given(folder: Path, tmp_path: Path) -> list[str]:
    """Return what all commands have."""
    lines = tmp_path / "a.jsonl"
    lines.write_text("\n".join(map(json.dumps, LINES * 4)))
    common = ["finetune", str(folder), "--data", str(lines), "--device", "cpu"]
    common += ["--dtype", "float32", "--rank", "2", "--lr", "0.01", "--length", "24"]
    return [*common, "--quiet"]


def test_trains_and_resumes(
    folder: Path,
    given: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "out"
    common = [*given, "--out", str(out), "--checkpointing", "--sample", "4"]
    common += ["--accumulate", "2"]
    assert main([*common, "--epochs", "2"]) == 0
    assert main([*common, "--epochs", "4", "--resume", "--merge"]) == 0
    assert "the adapter is in" in capsys.readouterr().out
    model = fw.models.load(folder)
    lora.load(model, out)
    tokens = fw.tensor([[1, 2, 3, 4]])
    merged = fw.models.load(out)
    want = model(tokens).detach().numpy()
    assert merged(tokens).detach().numpy() == pytest.approx(want, rel=1e-3, abs=1e-3)
    losses = fw.models.loss(fw.models.load(folder), tokens).item()
    assert fw.models.loss(merged, tokens).item() != losses


def test_resumed_within_an_epoch_it_has_the_same_bits(
    given: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[list[float]] = []
    read = StepLosses.read

    def recorded(losses: StepLosses) -> list[float]:
        found.append(list(read(losses)))
        return found[-1]

    monkeypatch.setattr(StepLosses, "read", recorded)
    common = [*given, "--sample", "0", "--dropout", "0.2", "--epochs", "2", "--out"]
    assert main([*common, str(tmp_path / "whole")]) == 0
    losses = found[-1]
    assert len(losses) == 6
    left = 6
    save = TrainingLoop._save_within

    def interrupted(loop: Any, done: int) -> None:
        nonlocal left
        save(loop, done)
        left -= 1
        if not left:
            raise KeyboardInterrupt

    monkeypatch.setattr(TrainingLoop, "_save_within", interrupted)
    common += [str(tmp_path / "parts"), "--checkpoint-every", "2"]
    assert main(common) == 130
    assert main([*common, "--resume"]) == 0
    one, other = (
        (tmp_path / name / "adapter_model.safetensors").read_bytes()
        for name in ("whole", "parts")
    )
    assert one == other
    assert found[-1] == losses


def test_quantized_weights_are_not_merged(
    given: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ["--out", str(tmp_path), "--merge", "--format", "q8_0"]
    assert main([*given, *more]) == 1
    assert "--merge beside --format" in capsys.readouterr().err


def test_checkpoints_hold_the_adapters_of_experts() -> None:
    model = small_llama(model_type="mixtral", num_local_experts=3)  # type: ignore[arg-type]
    lora.add(model, 2)
    kept = {id(each) for each in _adapters(model).parameters()}
    assert kept == {id(each) for each in lora.parameters(model)}
