"""Files of torch.save, beside PyTorch's own reader."""

import io
import os
import pickle
import random
import zipfile
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from vkbackend.framework import nn, optim
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.dtype import DTYPES
from vkbackend.framework.base.errors import (
    DTypeError,
    FileFormatError,
    UnsafeFileError,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "weights.pt"


@pytest.mark.parametrize("dtype", [name for name in DTYPES if name != "complex128"])
def test_dtypes_and_views(dtype: str, path: Path, place: Device) -> None:
    x = torch.arange(12).reshape(3, 4).to(getattr(torch, dtype))
    views = [x, x.mT, x[1:, ::2], x[0, 0], x[:0], x[:1].expand(3, 4)]
    torch.save(views, path)
    loaded = fw.load(path, place)
    for ours, theirs in zip(loaded, views, strict=True):
        assert ours.device is place
        assert str(ours.dtype) == str(theirs.dtype)
        assert ours.tolist() == theirs.tolist()
        assert ours.stride() == theirs.stride()
    loaded[0].fill_(1)
    assert loaded[2].tolist() == [[1, 1], [1, 1]]


def test_values(path: Path) -> None:
    weight = torch.nn.Parameter(torch.ones(2))
    value = {
        "shared": [weight, weight, weight.detach()],
        "frozen": torch.nn.Parameter(torch.ones(1), requires_grad=False),
        "plain": (1, 2.5, "x", None, True, 1 << 80, 1j, b"\x00a", {1, 2}),
        "named": [torch.Size([2, 3]), torch.bfloat16, torch.device("cpu")],
        "dicts": [OrderedDict(a=1), defaultdict(list, {1: [2]}), Counter("aab")],
    }
    torch.save(value, path)
    loaded = fw.load(path)
    one, two, three = loaded["shared"]
    assert one is two
    assert type(one) is nn.Parameter
    assert one.requires_grad
    assert three.untyped_storage() == one.untyped_storage()
    assert not loaded["frozen"].requires_grad
    assert loaded["plain"] == value["plain"]
    assert loaded["named"] == [fw.Size((2, 3)), fw.bfloat16, fw.device("cpu")]
    assert loaded["dicts"] == value["dicts"]
    assert loaded["dicts"][1][7] == []


def test_training_goes_on_from_torchs_states(path: Path) -> None:
    theirs = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(theirs.parameters(), lr=0.1)
    x = torch.arange(6.0).reshape(2, 3)

    def step(model: Any, optimizer: Any, x: Any) -> None:
        optimizer.zero_grad()
        (model(x) ** 2).mean().backward()
        optimizer.step()

    step(theirs, optimizer, x)
    torch.save({"model": theirs.state_dict(), "opt": optimizer.state_dict()}, path)
    loaded = fw.load(path, weights_only=True)
    ours = nn.Linear(3, 2)
    own = optim.AdamW(ours.parameters())
    ours.load_state_dict(loaded["model"])
    own.load_state_dict(loaded["opt"])
    for _ in range(2):
        step(theirs, optimizer, x)
        step(ours, own, fw.tensor(x.numpy()))
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), 1e-5, 1e-6)


class Calls:
    """Something whose pickle calls a function."""

    def __init__(self, function: Callable[..., Any], *args: Any) -> None:
        self.call = function, args

    def __reduce__(self) -> Any:
        return self.call


def archive(pickled: bytes, compression: int = zipfile.ZIP_STORED) -> bytes:
    """Return an archive of a pickle, with a storage of four float32."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", compression) as written:
        written.writestr("a/data.pkl", pickled)
        written.writestr("a/data/0", np.arange(4, dtype=np.float32).tobytes())
    return content.getvalue()


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (Calls(os.system, "exit 1"), r"system'"),
        (Calls(eval, "1"), r"'builtins\.eval'"),
        (Calls(getattr, 1, "real"), r"'builtins\.getattr'"),
        (torch.nn.Linear(1, 1), "Linear'"),
        (np.float64(1), r"multiarray\.scalar'"),
        (Calls(torch.hub.load, "x"), r"'torch\.hub\.load'"),
        (Calls(defaultdict, os.getcwd), "getcwd'"),
    ],
)
def test_globals_that_could_run(value: Any, name: str, path: Path) -> None:
    torch.save({"x": value}, path)
    with pytest.raises(UnsafeFileError, match=rf"weights\.pt: it asks for .*{name}"):
        fw.load(path)
    with pytest.raises(pickle.UnpicklingError):
        fw.load(path)


STORAGE = b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000"
STORAGE += b"X\x03\x00\x00\x00cpuK\x04tQ"


def tensor(size: bytes, stride: bytes, offset: bytes = b"K\x00") -> bytes:
    """Return the pickle of a tensor over four elements."""
    head = b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(" + STORAGE
    return head + offset + size + stride + b"\x89NtR."


def test_the_tensor_that_the_others_are_not() -> None:
    content = archive(tensor(b"K\x02K\x02\x86", b"K\x02K\x01\x86"))
    assert fw.load(io.BytesIO(content)).tolist() == [[0, 1], [2, 3]]


HUGE = b"\x8a\x08" + b"\xff" * 7 + b"\x7f"


@pytest.mark.parametrize(
    ("size", "stride", "offset"),
    [
        (b"K\x05\x85", b"K\x01\x85", b"K\x00"),
        (b"K\x02\x85", b"K\x04\x85", b"K\x00"),
        (b"K\x01\x85", b"K\x01\x85", b"K\x04"),
        (b"K\x02\x85", b"J\xff\xff\xff\xff\x85", b"K\x01"),
        (b"K\x02\x85", HUGE + b"\x85", b"K\x00"),
        (HUGE + HUGE + b"\x86", b"K\x00K\x00\x86", b"K\x00"),
        (b"K\x02\x85", b")", b"K\x00"),
        (b"(" + b"K\x01" * 65 + b"t", b"(" + b"K\x01" * 65 + b"t", b"K\x00"),
        (b"N", b"N", b"K\x00"),
        (b"K\x00\x85", b"K\x01\x85", b"K\x09"),
    ],
)
def test_views_that_leave_their_storage(
    size: bytes, stride: bytes, offset: bytes
) -> None:
    content = archive(tensor(size, stride, offset))
    with pytest.raises(FileFormatError, match=r"it is no complete file of torch\.save"):
        fw.load(io.BytesIO(content))


@pytest.mark.parametrize(
    ("old", "new"),
    [(b"K\x04tQ", b"K\x05tQ"), (b"X\x01\x00\x00\x000", b"X\x01\0\0\x009")],
)
def test_storages_that_are_not_there(old: bytes, new: bytes) -> None:
    pickled = tensor(b"K\x01\x85", b"K\x01\x85").replace(old, new)
    with pytest.raises(FileFormatError, match="no complete file"):
        fw.load(io.BytesIO(archive(pickled)))


def test_compressed_and_other_archives(path: Path) -> None:
    bomb = archive(b"\x80\x02N." + bytes(1 << 20), zipfile.ZIP_DEFLATED)
    path.write_bytes(bomb)
    with pytest.raises(FileFormatError, match=r"data\.pkl is compressed, or too large"):
        fw.load(path)
    with zipfile.ZipFile(path, "w") as written:
        written.writestr("a.txt", "x")
    with pytest.raises(FileFormatError, match=r"it has 0 entries data\.pkl"):
        fw.load(path)
    torch.save(1, path, _use_new_zipfile_serialization=False)
    with pytest.raises(FileFormatError, match=r"the format of PyTorch before 1\.6"):
        fw.load(path)


def test_dtypes_that_we_have_not(path: Path) -> None:
    for value in (torch.zeros(1, dtype=torch.float8_e8m0fnu), torch.complex32):
        torch.save(value, path)
        with pytest.raises(DTypeError, match=r"weights\.pt: it holds .*(omplex|loat8)"):
            fw.load(path)


def test_damaged_archives(path: Path) -> None:
    torch.save({"x": torch.arange(20.0)}, path)
    content = path.read_bytes()
    source = random.Random(0)
    for _ in range(40):
        path.write_bytes(content[: source.randrange(len(content))])
        with pytest.raises(FileFormatError, match=r"weights\.pt"):
            fw.load(path)
    start = content.index(np.arange(4.0, dtype=np.float32).tobytes())
    for at in range(start, start + 80, 9):
        path.write_bytes(content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :])
        with pytest.raises(FileFormatError, match="Bad CRC-32"):
            fw.load(path)
