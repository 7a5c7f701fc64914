"""Checkpoints: layouts of files, dtypes, and what is wrong with them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework.base.errors import (
    DTypeError,
    FileFormatError,
    UnsafeFileError,
)
from vkbackend.framework.models import open_checkpoint

ROWS = np.arange(6, dtype=np.float32).reshape(2, 3)


def written(path: Path, **tensors: np.ndarray) -> Path:
    fw.save({name: fw.tensor(each) for name, each in tensors.items()}, path)
    return path


def test_a_file(tmp_path: Path) -> None:
    found = open_checkpoint(written(tmp_path / "a.safetensors", rows=ROWS, one=ROWS[0]))
    assert {*found} == {"rows", "one"}
    assert found.shape("rows") == (2, 3)
    assert found.dtype("rows") is fw.float32
    np.testing.assert_array_equal(found["rows"].numpy(), ROWS)
    np.testing.assert_array_equal(found["one"].numpy(), ROWS[0])


@pytest.mark.parametrize(
    "dtype", ["bfloat16", "float16", "float8_e4m3fn", "int64", "bool"]
)
def test_dtypes(tmp_path: Path, dtype: str) -> None:
    saved = fw.tensor(ROWS).to(dtype)
    fw.save({"rows": saved}, tmp_path / "a.safetensors")
    found = open_checkpoint(tmp_path / "a.safetensors")["rows"]
    assert found.dtype is saved.dtype
    np.testing.assert_array_equal(
        found.to(fw.float32).numpy(), saved.to(fw.float32).numpy()
    )


def test_nothing_in_it(tmp_path: Path) -> None:
    empty = written(tmp_path / "a.safetensors", none=np.zeros((0, 3), np.float32))
    assert open_checkpoint(empty)["none"].shape == (0, 3)


def test_a_folder_of_parts(tmp_path: Path) -> None:
    written(tmp_path / "1.safetensors", a=ROWS)
    written(tmp_path / "2.safetensors", b=ROWS + 1)
    places = {"a": "1.safetensors", "b": "2.safetensors"}
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": places}))
    found = open_checkpoint(tmp_path)
    assert len(found) == 2
    np.testing.assert_array_equal(found["b"].numpy(), ROWS + 1)


def test_files_of_pytorch(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    torch.save({"rows": torch.from_numpy(ROWS)}, tmp_path / "pytorch_model.bin")
    found = open_checkpoint(tmp_path)
    np.testing.assert_array_equal(found["rows"].numpy(), ROWS)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ("{", "it is no JSON"),
        ("[1]", "it holds a list; it must be a JSON object"),
        ("{}", "`weight_map` must give"),
        ('{"weight_map": {"a": "../model.safetensors"}}', "of the same folder"),
        ('{"weight_map": {"a": 3}}', "of the same folder"),
        ('{"weight_map": {"c": "1.safetensors"}}', "`c` is not in 1.safetensors"),
    ],
)
def test_a_wrong_index(tmp_path: Path, index: str, message: str) -> None:
    written(tmp_path / "1.safetensors", a=ROWS)
    (tmp_path / "model.safetensors.index.json").write_text(index)
    with pytest.raises(FileFormatError, match=message):
        open_checkpoint(tmp_path)


def test_parts_that_are_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="has no weights"):
        open_checkpoint(tmp_path)
    index = tmp_path / "model.safetensors.index.json"
    index.write_text('{"weight_map": {"a": "1.safetensors"}}')
    with pytest.raises(FileNotFoundError, match=r"1\.safetensors"):
        open_checkpoint(tmp_path)


def test_a_file_that_was_cut_off(tmp_path: Path) -> None:
    path = written(tmp_path / "a.safetensors", rows=ROWS)
    content = path.read_bytes()
    for size in (0, 4, 20, len(content) - 1):
        path.write_bytes(content[:size])
        with pytest.raises(FileFormatError, match="no complete safetensors file"):
            open_checkpoint(path)


def test_damaged_headers_of_safetensors(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    """Whatever bytes become, there is an error of one sentence, or whole tensors."""
    tensors = {"a": fw.ones(3, 5), "b": fw.ones(7, dtype="int64"), "c": fw.zeros(0, 4)}
    fw.save(tensors, tmp_path / "a.safetensors")
    content = (tmp_path / "a.safetensors").read_bytes()
    header = 8 + int.from_bytes(content[:8], "little")
    damaged = tmp_path / "damaged.safetensors"
    for _ in range(100):
        changed = bytearray(content)
        for at in rng.integers(0, header, rng.integers(1, 4)):
            changed[at] = rng.choice([0, 34, 44, 57, 91, 123, 125, 255])
        damaged.write_bytes(changed)
        problem = ""
        try:
            found = fw.models.open_checkpoint(damaged)
        except (FileFormatError, DTypeError) as raised:
            problem = str(raised)
        if problem:
            assert problem.startswith(f"{damaged}: ")
        else:
            assert all(found[name].numpy().size >= 0 for name in found)


def test_a_dtype_that_there_is_not(tmp_path: Path) -> None:
    header = {"a": {"dtype": "F8_E8M0", "shape": [2], "data_offsets": [0, 2]}}
    text = json.dumps(header).encode()
    path = tmp_path / "a.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"\0\0")
    with pytest.raises(DTypeError, match=r"`a` is F8_E8M0; accepted"):
        open_checkpoint(path)


class Evil:
    """Runs code when it is unpickled."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return eval, ("1 + 1",)


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        ({"a": 3}, FileFormatError, "`a` is a int; it must be tensors by name"),
        ([1], FileFormatError, "it holds a list"),
        ({"a": Evil()}, UnsafeFileError, "eval"),
    ],
)
def test_what_is_no_state_dict(
    tmp_path: Path, content: Any, error: type[Exception], message: str
) -> None:
    torch = pytest.importorskip("torch")
    torch.save(content, tmp_path / "a.pt")
    with pytest.raises(error, match=message):
        open_checkpoint(tmp_path / "a.pt")


def test_tensors_that_are_stacked(tmp_path: Path) -> None:
    path = written(tmp_path / "a.safetensors", a=ROWS, b=ROWS + 1, c=ROWS[0], d=ROWS)
    found = open_checkpoint(path)
    stack = found.stacked({"both": ["a", "b"]})
    assert {*stack} == {"both", "c", "d"}
    assert stack.shape("both") == (2, 2, 3)
    np.testing.assert_array_equal(stack["both"].numpy(), np.stack([ROWS, ROWS + 1]))
    with pytest.raises(FileFormatError, match="`e` is missing"):
        found.stacked({"both": ["a", "e"]})
    with pytest.raises(FileFormatError, match=r"`c` is .* \(3,\); `a` is .* \(2, 3\)"):
        found.stacked({"both": ["a", "c"]})
