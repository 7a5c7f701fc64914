"""Probes on made-up machines."""

import json
import os
from pathlib import Path

import pytest

from vkbackend import config
from vkbackend.tools.doctor import probes, requirements


def test_hardware_is_what_the_kernel_shows(tmp_path: Path) -> None:
    for node, vendor in (("renderD128", "0x1002"), ("renderD129", "0x10de")):
        folder = tmp_path / "sys/class/drm" / node / "device"
        folder.mkdir(parents=True)
        (folder / "vendor").write_text(f"{vendor}\n")
        (folder / "device").write_text("0x744c\n")
    nodes = tmp_path / "dev/dri"
    nodes.mkdir(parents=True)
    (nodes / "renderD128").touch()
    card = tmp_path / "proc/driver/nvidia/gpus/0000:00:01.0"
    card.mkdir(parents=True)
    text = "Model: \t\t NVIDIA H200\nGPU UUID: \t GPU-1234\n"
    (card / "information").write_text(text)
    amd, nvidia = probes.hardware(str(tmp_path))
    assert amd["name"] == "AMD device 0x744c"
    assert amd["accessible"]
    assert nvidia["name"] == "NVIDIA H200"
    assert not nvidia["exists"]


def test_no_hardware(tmp_path: Path) -> None:
    assert probes.hardware(str(tmp_path)) == []


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"ICD": {}}', "\0"])
def test_a_manifest_that_cannot_be_read(content: str, tmp_path: Path) -> None:
    manifest = tmp_path / "icd.json"
    manifest.write_text(content)
    said = probes.driver(str(manifest))
    assert said["problem"].startswith("the manifest cannot be read: ")


@pytest.mark.parametrize("library", ["libnot_there.so", "./libnot_there.so"])
def test_a_library_that_cannot_be_loaded(library: str, tmp_path: Path) -> None:
    manifest = tmp_path / "icd.json"
    manifest.write_text(json.dumps({"ICD": {"library_path": library}}))
    said = probes.driver(str(manifest))
    assert said["library"] == library
    assert "cannot be loaded: " in said["problem"]


def test_every_extension_is_tried() -> None:
    assert all(probes.extension(row.name) for row in requirements.EXTENSIONS)


def test_an_extension_that_nobody_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    row = requirements.GlslExtension("GL_EXT_nobody_knows", "", "nothing")
    monkeypatch.setattr(requirements, "EXTENSIONS", (row,))
    assert probes.extension(row.name) is False


def test_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(config.CACHE.name, str(tmp_path / "cache"))
    said = probes.caches()
    assert (said["exists"], said["unwritable"]) == (False, "")
    (tmp_path / "cache/spirv").mkdir(parents=True)
    (tmp_path / "cache/spirv/a.spv").write_bytes(b"damaged")
    (tmp_path / "cache/spirv/.new-x").mkdir()
    (tmp_path / "cache/tuning/.new-y").mkdir(parents=True)
    (tmp_path / "cache/tuning/device.json").write_bytes(b"{}")
    said = probes.caches()
    assert said["spirv"] == {"files": 1, "bytes": 7, "damaged": 1}
    assert said["tuning"] == {"files": 1, "bytes": 2}
    assert said["leftovers"] == 2
    assert said["refused"] == ""


def test_a_cache_that_others_may_write_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(config.CACHE.name, str(tmp_path / "cache"))
    (tmp_path / "cache/spirv").mkdir(parents=True)
    (tmp_path / "cache/spirv").chmod(0o777)
    assert probes.caches()["refused"].endswith("its mode is 777")


def test_a_pipe_in_the_cache_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(config.CACHE.name, str(tmp_path))
    (tmp_path / "spirv").mkdir()
    os.mkfifo(tmp_path / "spirv/a.spv")
    assert probes.caches()["spirv"]["damaged"] == 1


def test_an_unwritable_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(config.CACHE.name, str(tmp_path / "file" / "cache"))
    assert probes.caches()["unwritable"] == "Not a directory"


@pytest.mark.device
def test_loader_and_devices() -> None:
    loader = probes.loader()
    assert Path(loader["path"]).is_file() or loader["path"] == loader["name"]
    ranked = probes.devices()
    scores = [row["score"] for row in ranked["devices"]]
    assert scores == sorted(scores, reverse=True)
    assert probes.pipeline_cache().keys() == {"bytes", "damage"}


def test_several_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes.sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert probes.processes()["mpirun"] == ""
    mpirun = tmp_path / "mpirun"
    mpirun.touch(mode=0o755)
    assert probes.processes()["mpirun"] == str(mpirun)


def test_pulls_between_cards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes.physical_device, "devices", list)
    why = "Vulkan has no card with NVIDIA's driver"
    assert probes.cuda() == {"obstacle": why, "version": ""}
