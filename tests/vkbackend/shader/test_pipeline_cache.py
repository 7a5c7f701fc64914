"""The pipeline cache file: kept, shared, damaged, foreign, unwritable."""

import dataclasses
import hashlib
import warnings
from pathlib import Path

import pytest

from tests.vkbackend.kernels import AFFINE, affine
from vkbackend import Device, config
from vkbackend.disk_cache import cache_file
from vkbackend.driver.physical_device import choose
from vkbackend.shader import pipeline_cache
from vkbackend.shader.pipeline_cache import damage
from vkbackend.vk import generated as vk


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(config.CACHE.name, str(tmp_path))
    return tmp_path


@pytest.mark.device
def test_kept_at_close(folder: Path) -> None:
    for _ in range(2):
        device = Device(choose())
        affine(device)
        file = cache_file(device.info)
        device.close()
        assert damage(file.read_bytes(), device.info) == ""
    assert [path.name for path in file.parent.iterdir()] == [file.name]


@pytest.mark.device
def test_saved_now_and_then(folder: Path) -> None:
    device = Device(choose())
    for size in range(1, 33):
        device.pipeline(
            "many",
            source="#version 460\nlayout(local_size_x_id = 0) in;\nvoid main() {}\n",
            constants={"LOCAL_X": size},
        )
    assert cache_file(device.info).exists()
    device.close()


@pytest.mark.device
def test_nothing_built_writes_nothing(folder: Path) -> None:
    Device(choose()).close()
    assert list(folder.iterdir()) == []


def damaged(content: bytes, device: Device) -> dict[str, tuple[bytes, str]]:
    """Return kinds of bad files with what is said of each."""
    digest = hashlib.sha256

    def whole(data: bytes) -> bytes:
        return digest(data).digest() + data

    data = content[32:]
    return {
        "empty": (b"", "digest does not match"),
        "noise": (bytes(range(256)) * 8, "digest does not match"),
        "cut": (content[:-1], "digest does not match"),
        "flipped": (
            content[:40] + bytes([content[40] ^ 1]) + content[41:],
            "digest does not match",
        ),
        "short": (whole(b"abc"), "too short"),
        "version": (whole(data[:4] + b"\x09" + data[5:]), "header version 9"),
        "foreign": (
            whole(data[:8] + b"\xff\xff\xff\xff" + data[12:]),
            "another device or driver",
        ),
    }


@pytest.mark.device
@pytest.mark.parametrize(
    "kind", ["empty", "noise", "cut", "flipped", "short", "version", "foreign"]
)
def test_bad_file_is_ignored(kind: str, folder: Path) -> None:
    device = Device(choose())
    affine(device)
    file = cache_file(device.info)
    device.close()
    content, reason = damaged(file.read_bytes(), device)[kind]
    file.write_bytes(content)
    with pytest.warns(RuntimeWarning, match=rf"pipeline cache: .*{reason}"):
        device = Device(choose())
    affine(device)
    device.close()
    assert damage(file.read_bytes(), device.info) == ""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Device(choose()).close()


@pytest.mark.device
def test_unwritable_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "a file"
    blocked.write_text("")
    monkeypatch.setenv(config.CACHE.name, str(blocked))
    device = Device(choose())
    with pytest.warns(RuntimeWarning, match="shader cache: cannot write"):
        affine(device)
    with pytest.warns(RuntimeWarning, match=f"pipeline cache: .*{config.CACHE.name}"):
        device.close()
    assert device.live_objects() == {}


def test_file_name_tells_drivers_apart(device: Device) -> None:
    other = dataclasses.replace(device.info, driver_version=1 << 20)
    assert cache_file(other) != cache_file(device.info)


@pytest.mark.device
def test_a_driver_that_gives_nothing_to_save_costs_no_build(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = Device(choose())
    monkeypatch.setattr(pipeline_cache, "_SAVE_EVERY", 2)
    refused = vk.VK_ERROR_OUT_OF_HOST_MEMORY
    device.logical.functions.vkGetPipelineCacheData = lambda *_: refused  # type: ignore[method-assign]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for size in range(1, 6):
            device.pipeline("affine", source=AFFINE, constants={"LOCAL_X": size})
    assert "pipeline cache: not saved: vkGetPipelineCacheData" in str(said[0].message)
    device.close()
    assert device.counters.pipeline_builds == 5
