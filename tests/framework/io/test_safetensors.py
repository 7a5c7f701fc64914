"""Tensors in files."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import safetensors.torch
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.errors import ArgumentError
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.dtype import DTYPES
from vkbackend.framework.base.errors import DTypeError, FileFormatError
from vkbackend.framework.io import safetensors as serialize


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tensors.safetensors"


@pytest.mark.parametrize("dtype", [name for name in DTYPES if name != "complex128"])
@pytest.mark.parametrize("shape", [(), (3, 5), (0, 2)])
def test_round_trip(
    dtype: str, shape: tuple[int, ...], path: Path, place: Device
) -> None:
    data = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(np.float32)
    saved = fw.tensor(data, dtype, place)
    fw.save({"x": saved}, path)
    loaded = fw.load(path, place)["x"]
    assert loaded.device is place
    assert loaded.dtype is saved.dtype
    assert_close(loaded, saved.numpy(), exact=True)
    theirs = safetensors.torch.load_file(path)["x"]
    assert theirs.dtype is getattr(torch, dtype)
    assert theirs.tolist() == saved.tolist()


def test_every_dtype_is_in_the_table() -> None:
    assert set(serialize.DTYPE_NAMES.values()) == set(DTYPES) - {"complex128"}


def test_views_and_shared_storage(path: Path, place: Device) -> None:
    data = np.arange(12, dtype=np.float32).reshape(3, 4)
    x = fw.tensor(data, device=place)
    views = {"all": x, "mT": x.mT, "row": x[1], "column": x[:, 2]}
    views["wide"] = x[0].expand(5, 4)
    fw.save(views, path)
    for name, loaded in fw.load(path).items():
        assert_close(loaded, views[name].numpy(), exact=True)


def test_what_requires_gradients_and_what_is_pending(path: Path, place: Device) -> None:
    x = fw.ones(3, device=place, requires_grad=True)
    fw.save({"x": x, "y": x * 2}, str(path))
    loaded = fw.load(str(path))
    assert loaded["y"].tolist() == [2.0, 2.0, 2.0]
    assert not loaded["x"].requires_grad


def test_torch_reads_ours_and_we_read_torchs(path: Path) -> None:
    state = torch.nn.Linear(3, 2).state_dict()
    safetensors.torch.save_file(state, path)
    ours = fw.load(path)
    assert_close(ours["weight"], state["weight"].numpy(), exact=True)
    fw.save(ours, path)
    theirs = safetensors.torch.load_file(path)
    assert torch.equal(theirs["bias"], state["bias"])


def test_elements_are_aligned_however_sizes_mix(path: Path) -> None:
    state = {"a": fw.ones(3, "int8"), "b": fw.ones(3, "float64"), "c": fw.ones(3)}
    fw.save(state, path)
    loaded = safetensors.numpy.load_file(path)
    assert {name: array.dtype.name for name, array in loaded.items()} == {
        "a": "int8",
        "b": "float64",
        "c": "float32",
    }
    assert all(array.tolist() == [1, 1, 1] for array in loaded.values())
    assert list(fw.load(path)) == list(state)


def test_nothing_is_a_valid_state(path: Path) -> None:
    fw.save({}, path)
    assert fw.load(path) == {}


def test_a_missing_file(path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"tensors\.safetensors: there is no"):
        fw.load(path)


@pytest.mark.parametrize("content", [b"", b"PK\x03" * 9, b"\x08" + bytes(7) + b"{}"])
def test_a_file_of_another_format(content: bytes, path: Path) -> None:
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match="it is no complete safetensors file"):
        fw.load(path)


def test_a_file_that_is_cut_off(path: Path) -> None:
    fw.save({"x": fw.ones(100)}, path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(FileFormatError, match="it may be cut off"):
        fw.load(path)


@pytest.mark.parametrize("shape", [[1] * 65, [0, 1 << 62], [0, 1 << 62, 1 << 62]])
def test_a_shape_that_no_array_has(shape: list[int], path: Path) -> None:
    size = 0 if 0 in shape else 4
    row = {"dtype": "F32", "shape": shape, "data_offsets": [0, size]}
    header = json.dumps({"x": row}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(size))
    with pytest.raises(FileFormatError, match="`x` has no shape"):
        fw.load(path)


def test_a_dtype_that_we_have_not(path: Path) -> None:
    safetensors.torch.save_file({"x": torch.zeros(2, dtype=torch.float8_e8m0fnu)}, path)
    with pytest.raises(DTypeError, match="`x` is F8_E8M0; accepted: bool, uint8"):
        fw.load(path)


def test_more_names_than_the_format_holds(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serialize, "_MOST_HEADER", 200)
    fw.save({"x": fw.ones(1)}, path)
    with pytest.raises(ArgumentError, match="the format holds 200"):
        fw.save({"x" * 200: fw.ones(1)}, path)
    assert fw.load(path)["x"].item() == 1.0


def test_a_path_in_bytes(path: Path) -> None:
    fw.save({"x": fw.ones(1)}, os.fsencode(path))  # type: ignore[arg-type]
    assert fw.load(os.fsencode(path))["x"].item() == 1.0  # type: ignore[arg-type]


LIMITED = """
import resource, sys
import vkbackend.framework as fw
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    fw.save({"x": fw.zeros(5000)}, sys.argv[1])
except OSError:
    print("refused")
"""


def test_a_failed_write_leaves_the_old_file(path: Path) -> None:
    fw.save({"x": fw.ones(1)}, path)
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(path)], capture_output=True, check=True
    )
    assert done.stdout == b"refused\n"
    assert fw.load(path)["x"].item() == 1.0
    assert os.listdir(path.parent) == [path.name]


def test_links_and_modes_stay(path: Path) -> None:
    latest = path.with_name("latest.safetensors")
    latest.symlink_to(path.name)
    fw.save({"x": fw.ones(1)}, path)
    path.chmod(0o600)
    fw.save({"x": fw.zeros(1)}, latest)
    assert latest.is_symlink()
    assert fw.load(path)["x"].item() == 0.0
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_device_is_never_replaced() -> None:
    fw.save({"x": fw.ones(1)}, os.devnull)
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)
    with pytest.raises(OSError, match="No space left"):
        fw.save({"x": fw.ones(1)}, "/dev/full")
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


def test_bools_of_other_bytes_than_0_and_1(path: Path, place: Device) -> None:
    row = {"dtype": "BOOL", "shape": [4], "data_offsets": [0, 4]}
    header = json.dumps({"mask": row}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes([0, 1, 255, 2]))
    mask = fw.load(path, place)["mask"]
    assert mask.tolist() == [False, True, True, True]
    assert mask.sum().item() == 3
    assert (mask ^ fw.ones(4, fw.bool_, place)).tolist() == [True, False, False, False]
