"""The main job in small: what it prints, leaves behind and refuses."""

import re
from pathlib import Path

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.examples import digits


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def _untrained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digits, "train", lambda *_: [2.0, 1.0])


def test_the_whole_job(
    place: Device, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    epochs = 1 if place.is_gpu else 2
    digits.main(["--device", place.name, "--epochs", str(epochs)])
    said = capsys.readouterr().out.splitlines()
    assert said[0] == f"device     {place.description}"
    assert said[1] == "images     1437 to train, 360 to test"
    losses = [float(line.split()[-1]) for line in said if line.startswith("epoch")]
    # The draws are the same on every device: measured 1.470 and 0.412.
    assert losses == pytest.approx([1.47, 0.41][:epochs], abs=0.03)
    timed = rf"time +\d+\.\d\d s for {epochs} epochs"
    assert any(re.fullmatch(timed, line) for line in said)
    found = re.fullmatch(r"test accuracy (\d\.\d{3})", said[-1])
    assert found is not None
    assert float(found[1]) > 0.85
    state = fw.load(folder / "digits.safetensors")
    assert state["0.weight"].shape == (16, 1, 3, 3)
    assert state["1.num_batches_tracked"].item() == 23 * epochs


def test_the_images_are_split_in_equal_shares() -> None:
    parts = digits.Digits()
    assert parts.train_images.shape == (1437, 1, 8, 8)
    assert parts.train_images.dtype == np.float32
    assert 0 <= parts.train_images.min() < parts.train_images.max() == 1
    assert parts.test_labels.dtype == np.int32
    assert set(np.bincount(parts.test_labels)) <= {35, 36, 37}


@pytest.mark.usefixtures("_untrained")
def test_options(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    digits.main(
        ["--device", "cpu", "--seed", "3", "--output", "a.bin", "--plot", "b.png"]
    )
    assert (folder / "b.png").read_bytes().startswith(b"\x89PNG")
    assert "0.weight" in fw.load("a.bin")
    assert "plotted    b.png" in capsys.readouterr().out


@pytest.mark.usefixtures("_untrained", "folder")
def test_a_model_that_predicts_otherwise_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = digits.make_model().state_dict()
    monkeypatch.setattr(fw, "load", lambda _: other)
    with pytest.raises(SystemExit, match=r"from digits\.safetensors predicts otherwi"):
        digits.main(["--device", "cpu"])


@pytest.mark.usefixtures("gpu")
def test_an_unknown_device_is_named() -> None:
    with pytest.raises(SystemExit, match=r"digits: .*no-such-device"):
        digits.main(["--device", "no-such-device"])


@pytest.mark.usefixtures("_untrained", "folder")
def test_an_unwritable_output_is_named() -> None:
    with pytest.raises(SystemExit, match=r"digits: .*missing"):
        digits.main(["--device", "cpu", "--output", "missing/model.safetensors"])


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digits, "find_spec", lambda _: None)
    with pytest.raises(SystemExit) as raised:
        digits.main(["--plot", "x.png"])
    assert raised.value.code == (
        "digits: scikit-learn and matplotlib not found;"
        " pip install 'vkbackend[examples]'"
    )


@pytest.mark.parametrize("epochs", ["0", "many"])
def test_bad_epochs(epochs: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        digits.main(["--epochs", epochs])
    assert "argument --epochs" in capsys.readouterr().err


@pytest.mark.wide
def test_no_step_reads_from_the_device(gpu: GpuDevice) -> None:
    """Every epoch reads its loss, once."""
    parts = digits.Digits()
    parts.train_images = parts.train_images[:200]
    parts.train_labels = parts.train_labels[:200]
    model = digits.make_model().to(gpu)
    before = gpu.gpu.counters.snapshot()
    digits.train(model, parts, gpu, epochs=3)
    assert (gpu.gpu.counters.snapshot() - before).host_reads == 3
