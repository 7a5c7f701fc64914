"""Environment switches."""

from pathlib import Path

import pytest

from vkbackend import config


@pytest.mark.parametrize("value", ["", "0", "no", "off", "FALSE"])
def test_off(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(config.POISON.name, value)
    assert not config.POISON.enabled()


@pytest.mark.parametrize("value", ["1", "yes", "sync"])
def test_on(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(config.POISON.name, value)
    assert config.POISON.enabled()


def test_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(config.CACHE.name, str(tmp_path))
    assert config.cache_folder() == tmp_path
    monkeypatch.delenv(config.CACHE.name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert config.cache_folder() == tmp_path / "vkbackend"


def test_switches_are_listed() -> None:
    listed = {row.name for row in config.SWITCHES}
    declared = {
        value.name
        for value in vars(config).values()
        if isinstance(value, config.Switch)
    }
    assert listed == declared
    assert all(row.meaning.endswith(".") for row in config.SWITCHES)
