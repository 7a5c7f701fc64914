"""Saving and loading of structures, to paths and to files."""

import contextlib
import inspect
import io
import os
import random
from pathlib import Path
from typing import Any

import pytest
import safetensors.numpy
import torch

import vkbackend.framework as fw
from vkbackend.framework import nn, optim
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.errors import FileFormatError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "checkpoint.bin"


def checkpoint(place: Device) -> dict[str, Any]:
    """Return all that a training run goes on from."""
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)).to(place)
    optimizer = optim.Adam(model.parameters(), lr=0.1)
    scheduler = optim.StepLR(optimizer, 2)
    scaler = optim.GradScaler()
    scaler.scale(model(fw.ones(4, 3, device=place)).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    scheduler.step()
    parts = {"model": model, "optimizer": optimizer}
    parts |= {"scheduler": scheduler, "scaler": scaler}
    found: dict[str, Any] = {name: part.state_dict() for name, part in parts.items()}
    return {**found, "rng": fw.get_rng_state(), "epoch": 3, "best": float("inf")}


def same(a: Any, b: Any) -> bool:
    """Return whether two structures have the same types and elements."""
    if isinstance(a, fw.Tensor):
        return a.dtype is b.dtype and a.shape == b.shape and a.tolist() == b.tolist()
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and bool(a == b)


@pytest.mark.parametrize("into_file", [False, True])
def test_a_checkpoint_is_one_file(into_file: bool, path: Path, place: Device) -> None:
    saved = checkpoint(place)
    target: Any = io.BytesIO() if into_file else path
    fw.save(saved, target)
    if into_file:
        target.seek(0)
    loaded = fw.load(target, map_location=place, weights_only=True)
    assert same(loaded, saved)
    assert loaded["model"]["0.weight"].device is place
    assert loaded["model"]._metadata[""] == {"version": 1}
    if not into_file:
        names = safetensors.numpy.load_file(path)
        assert "model.0.weight" in names
        assert "optimizer.state.0.exp_avg" in names


def test_keywords_are_those_of_torch() -> None:
    for ours, theirs in ((fw.save, torch.save), (fw.load, torch.load)):
        own = inspect.signature(ours).parameters.values()
        known = inspect.signature(theirs).parameters.values()
        assert [(p.name, p.kind) for p in own] == [(p.name, p.kind) for p in known]


def test_map_location(path: Path, place: Device) -> None:
    fw.save([fw.ones(2)], path)
    for location in (
        place,
        str(place),
        {"cpu": str(place)},
        lambda storage, where: fw.ones(1, device=place).untyped_storage(),
    ):
        assert fw.load(path, map_location=location, mmap=True)[0].device is place
    for location in (None, {"cuda:0": "cpu"}, lambda storage, where: storage):
        assert fw.load(path, location)[0].device.type == "cpu"
    with pytest.raises(TypeError, match="returned a int; it must return a storage"):
        fw.load(path, lambda storage, where: 3)


def test_what_cannot_be_saved_leaves_the_old_file(path: Path) -> None:
    fw.save({"x": 1}, path)
    with pytest.raises(TypeError, match=r"obj\['f'\] is a builtins.function"):
        fw.save({"x": 2, "f": lambda: 1}, path)
    assert fw.load(path) == {"x": 1}
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("flat", [True, False])
def test_damaged_files_are_never_loaded(flat: bool, path: Path) -> None:
    x = fw.arange(20.0)
    fw.save({"x": x} if flat else {"x": [x], "step": 3}, path)
    content = path.read_bytes()
    source = random.Random(0)
    for _ in range(60):
        at = source.randrange(len(content))
        path.write_bytes(content[:at])
        with pytest.raises(FileFormatError, match=r"checkpoint\.bin"):
            fw.load(path)
        bits = bytes([content[at] ^ 1 << source.randrange(8)])
        path.write_bytes(content[:at] + bits + content[at + 1 :])
        loaded = []
        with contextlib.suppress(FileFormatError):
            loaded.append(fw.load(path))
        # A flat file without its checksum, whose name was hit, is whole otherwise.
        assert not loaded or (flat and loaded[0]["x"].tolist() == x.tolist())


def test_what_is_no_file(path: Path) -> None:
    with pytest.raises(TypeError, match="f is a int; it must be a path or a binary"):
        fw.save({}, 3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="f is a int; it must be a path or a binary"):
        fw.load(3)  # type: ignore[arg-type]
    with pytest.raises(FileFormatError, match="it was opened as text"):
        fw.load(io.StringIO("x"))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="mmap is True and f a BytesIO"):
        fw.load(io.BytesIO(), mmap=True)
    path.write_bytes(b"")
    with pytest.raises(FileFormatError, match=r"checkpoint\.bin: it is no complete"):
        fw.load(path)


def test_a_keyword_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    fw.save({"x": fw.ones(2)}, path)
    assert fw.load(path, encoding="ascii")["x"].tolist() == [1, 1]
    with pytest.raises(TypeError, match="device is unknown; where tensors go is map"):
        fw.load(path, device="cpu")
