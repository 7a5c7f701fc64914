"""Environment switches."""

from pathlib import Path

import pytest

from vkbackend import ArgumentError, config


@pytest.mark.parametrize("value", ["", "0", "no", "off", "FALSE"])
def test_off(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(config.POISON.name, value)
    assert not config.POISON.enabled()


@pytest.mark.parametrize("value", ["1", "yes", " On ", "TRUE"])
def test_on(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(config.POISON.name, value)
    assert config.POISON.enabled()


@pytest.mark.parametrize(
    ("switch", "choices"),
    [
        (config.POISON, {"1": "1", "off": "0"}),
        (config.VALIDATION, {"sync": "sync", "Sync": "sync", "yes": "1", "": "0"}),
        (config.AUTOTUNE, {"kept": "kept", "true": "1", "no": "0"}),
    ],
)
def test_choices(
    switch: config.Switch, choices: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for value, choice in choices.items():
        monkeypatch.setenv(switch.name, value)
        assert switch.choice() == choice
    for value in ("garbage", "2", "1.0", "synchronous"):
        monkeypatch.setenv(switch.name, value)
        accepted = ", ".join(("1", "0", *switch.words))
        with pytest.raises(
            ArgumentError,
            match=f"^{switch.name}: '{value}' is not accepted; give {accepted}$",
        ):
            switch.choice()


def test_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(config.CACHE.name, str(tmp_path))
    assert config.cache_folder() == tmp_path
    monkeypatch.delenv(config.CACHE.name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert config.cache_folder() == tmp_path / "vkbackend"


def test_a_cache_folder_in_a_home(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(config.CACHE.name, "~/kept")
    assert config.cache_folder() == tmp_path / "kept"
    monkeypatch.setenv(config.CACHE.name, "~nobody-of-this-name/kept")
    with pytest.raises(ArgumentError, match="lies in a home that is not known"):
        config.cache_folder()


@pytest.mark.parametrize("base", ["", "relative", "./relative", "~/relative"])
def test_a_relative_cache_home_is_ignored(
    base: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv(config.CACHE.name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", base)
    assert config.cache_folder() == tmp_path / ".cache" / "vkbackend"


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("4096", 4096), ("2K", 2048), ("3 mb", 3 << 20), ("1GiB", 1 << 30)],
)
def test_sizes(text: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(config.CACHE_SIZE.name, text)
    assert config.cache_size() == size


@pytest.mark.parametrize("text", ["", "much", "-1", "1.5G", "1X", "9" * 40, "1e9"])
def test_what_is_no_size(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(config.CACHE_SIZE.name, text)
    with pytest.raises(ArgumentError, match="is no size; give bytes"):
        config.cache_size()


def test_switches_are_listed() -> None:
    listed = {row.name for row in config.SWITCHES}
    declared = {
        value.name
        for value in vars(config).values()
        if isinstance(value, config.Switch)
    }
    assert listed == declared
    assert all(row.meaning.endswith(".") for row in config.SWITCHES)
