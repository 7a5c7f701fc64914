"""The character model in small: what it learns, writes, goes on from and reports."""

import argparse
from pathlib import Path
from typing import Any

import pytest

import vkbackend.framework as fw
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.examples import characters

TEXT = "the cat sat on the mat\n" * 40


@pytest.fixture
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take a text of a few words and a model of a few parameters."""

    def model(size: int) -> characters.CharacterModel:
        return whole(size, width=16, layers=1, heads=2, context=16)

    whole = characters.CharacterModel
    monkeypatch.setattr(characters, "topics", lambda: TEXT)
    monkeypatch.setattr(characters, "CharacterModel", model)


@pytest.mark.wide
@pytest.mark.usefixtures("_small")
def test_it_learns_goes_on_and_writes(
    gpu: GpuDevice,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checkpoint, page = tmp_path / "a.ckpt", tmp_path / "page.md"
    arguments = ["--device", gpu.name, "--prompt", "the cat", "--length", "5"]
    arguments += ["--epochs", "4", "--checkpoint", str(checkpoint)]
    say = characters._say

    def say_or_end(loop: Any) -> None:
        say(loop)
        if loop.epoch == 3:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(characters, "_say", say_or_end)
        with pytest.raises(KeyboardInterrupt):
            characters.main(arguments)
    # The third epoch was ended before it was saved.
    characters.main([*arguments, "--report", str(page)])
    said = [line for line in capsys.readouterr().out.splitlines() if "epoch" in line]
    assert [line.split()[1] for line in said] == ["1", "2", "3", "3", "4"]
    losses = [float(line.split()[3]) for line in said]
    assert losses[3] == losses[2]
    assert losses[-1] < 0.9 * losses[0]
    written = page.read_text(encoding="utf-8")
    assert f"| device | {gpu.description} |" in written
    assert written.count("█` |") == 4
    sample = written.rpartition("```text\n")[2].removesuffix("\n```\n")
    assert sample.startswith("the cat")
    assert set(sample) <= set(TEXT)


def test_the_text_is_split_into_windows() -> None:
    text = characters.Text("abcab" * 4)
    assert text.alphabet == "abc"
    assert text.decoded(text.encoded("cab").tolist()) == "cab"
    assert (len(text.training), len(text.validation)) == (18, 2)
    pairs = characters.windows(text.training, 4)
    assert len(pairs) == 4
    codes, following = pairs[1]
    assert text.decoded(codes.tolist()) == "babc"
    assert text.decoded(following.tolist()) == "abca"


def test_a_causal_model_does_not_look_ahead() -> None:
    model = characters.CharacterModel(5, width=8, layers=1, heads=2, context=6)
    codes = fw.tensor([[1, 2, 3, 4, 0, 1]], dtype="int32")
    changed = fw.tensor([[1, 2, 3, 0, 4, 2]], dtype="int32")
    assert model(codes)[:, :3].tolist() == model(changed)[:, :3].tolist()


@pytest.mark.parametrize("epochs", ["0", "few"])
def test_bad_epochs(epochs: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises((SystemExit, argparse.ArgumentTypeError)):
        characters.main(["--epochs", epochs])
    assert "argument --epochs" in capsys.readouterr().err


@pytest.mark.usefixtures("gpu")
def test_an_unknown_device_is_named() -> None:
    with pytest.raises(SystemExit, match=r"characters: .*no-such-device"):
        characters.main(["--device", "no-such-device"])
