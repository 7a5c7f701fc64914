"""History: numbers by name, and their picture."""

from pathlib import Path

import pytest

from vkbackend.framework import optim


def test_numbers_and_plot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    history = optim.History()
    with pytest.raises(ValueError, match="no epoch"):
        history.plot(tmp_path / "a.png")
    for value in (float("nan"), 1.0, 2.0):
        history.append({"loss": value, "val_loss": value})
    assert (history.best("loss"), history.best("val_loss", "max")) == (1, 2)
    with pytest.raises(KeyError, match="no 'x'; there are loss, val_loss"):
        history["x"]
    with monkeypatch.context() as patched:
        patched.setitem(__import__("sys").modules, "matplotlib.figure", None)
        with pytest.raises(ImportError, match="matplotlib not found"):
            history.plot(tmp_path / "a.png")
    pytest.importorskip("matplotlib")
    history.plot(tmp_path / "a.png")
    history.plot(tmp_path / "b.svg", [3.0, 2.0, 1.0, 1.5])
    assert "steps" in (tmp_path / "b.svg").read_text()
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
