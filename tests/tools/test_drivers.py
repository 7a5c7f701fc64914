"""Fetching drivers: what can be said without the network."""

import json
import shutil
from pathlib import Path

import pytest

from vkbackend import config
from vkbackend.tools import drivers


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(config.CACHE.name, str(tmp_path))
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    monkeypatch.setattr(drivers, "MANIFEST_FOLDERS", ())
    return tmp_path


def test_system_driver_changes_nothing() -> None:
    assert drivers.environment("system") == {}


def test_installed_driver_is_used(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = cache / "lvp_icd.x86_64.json"
    manifest.touch()
    monkeypatch.setattr(drivers, "MANIFEST_FOLDERS", (cache,))
    assert drivers.environment("lavapipe")["VK_DRIVER_FILES"] == str(manifest)


def test_fetched_driver_is_used_again(cache: Path) -> None:
    folder = cache / "drivers" / "swiftshader"
    folder.mkdir(parents=True)
    assert drivers.environment("swiftshader") == {
        "VK_DRIVER_FILES": str(folder / "icd.json"),
        "VK_ICD_FILENAMES": str(folder / "icd.json"),
        "LD_LIBRARY_PATH": str(folder / "lib"),
    }


def test_no_apt_is_a_clear_error(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(drivers.DriverError, match=r"swiftshader: .* no apt here"):
        drivers.environment("swiftshader")
    assert list(cache.iterdir()) == []


def test_a_cache_out_of_reach_is_a_clear_error(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As the home of another user, which root may look into: hence a name too long.
    monkeypatch.setenv(config.CACHE.name, str(cache / ("x" * 300)))
    with pytest.raises(drivers.DriverError, match="swiftshader: cannot fetch the dr"):
        drivers.environment("swiftshader")


def test_sources_are_the_machines_mirrors(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = (
        "http://mirror/debian/ bookworm main\n"
        "http://mirror/security/ bookworm-security main\n"
        "http://elsewhere/ nodistro main\n"
    )
    monkeypatch.setattr(drivers, "_run", lambda *command: listed)
    sources = drivers._sources("bookworm", "-backports").splitlines()
    assert [line.split("] ")[1] for line in sources] == [
        "http://mirror/debian/ bookworm main",
        "http://mirror/debian/ bookworm-backports main",
        "http://mirror/security/ bookworm-security main",
    ]
    with pytest.raises(drivers.DriverError, match="no mirror of release 'trixie'"):
        drivers._sources("trixie", "")


def test_only_what_is_needed_is_kept(tmp_path: Path) -> None:
    unpacked, kept = tmp_path / "unpacked", tmp_path / "kept"
    unpacked.mkdir()
    for name in ("libvulkan_lvp.so", "libvulkan_intel.so", "libdrm.so.2", "notes.txt"):
        (unpacked / name).touch()
    manifest = {"ICD": {"library_path": "libvulkan_lvp.so"}}
    (unpacked / "lvp_icd.json").write_text(json.dumps(manifest))
    drivers._keep(drivers.DRIVERS["lavapipe"], unpacked, kept, tmp_path / "final")
    names = sorted(path.name for path in (kept / "lib").iterdir())
    assert names == ["libdrm.so.2", "libvulkan_lvp.so"]
    written = json.loads((kept / "icd.json").read_text())
    expected = str(tmp_path / "final" / "lib" / "libvulkan_lvp.so")
    assert written["ICD"]["library_path"] == expected
