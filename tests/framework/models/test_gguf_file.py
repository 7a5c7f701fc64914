import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework.base.errors import FileFormatError
from vkbackend.framework.base.quantized_format import FORMATS
from vkbackend.framework.models.gguf_file import (
    GGUFFile,
    read_gguf,
    tensor_size,
    write_gguf,
)

gguf = pytest.importorskip("gguf")

METADATA: dict[str, Any] = {
    "general.architecture": "llama",
    "a.number": 7,
    "a.negative": -3,
    "a.float": 0.5,
    "a.bool": True,
    "a.list": ["x", "äb", ""],
    "some.numbers": [1.5, 2.5],
}


def written(path: Path, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Write a file with a tensor of each kind, of odd sizes; return their bytes."""
    tensors, content = {}, {}
    for kind in ("float32", "float16", "bfloat16", "q8_0", "q4_k"):
        columns = FORMATS[kind].block if kind in FORMATS else 5
        size = tensor_size(kind, (3, columns))
        content[kind] = rng.integers(0, 256, size).astype(np.uint8)
        tensors[kind] = (kind, (3, columns), content[kind])
    write_gguf(path, METADATA, tensors)
    return content


@pytest.mark.null
def test_gguf_reads_what_is_written(tmp_path: Path, rng: np.random.Generator) -> None:
    content = written(tmp_path / "a.gguf", rng)
    reader = gguf.GGUFReader(tmp_path / "a.gguf")
    for key, value in METADATA.items():
        found = reader.get_field(key).contents()
        assert found == value, key
    found = {each.name: each for each in reader.tensors}
    for name, data in content.items():
        np.testing.assert_array_equal(found[name].data.reshape(-1).view(np.uint8), data)


@pytest.mark.null
def test_it_is_read_back(tmp_path: Path, rng: np.random.Generator) -> None:
    content = written(tmp_path / "a.gguf", rng)
    file = read_gguf(tmp_path / "a.gguf")
    assert file.metadata == METADATA
    for name, data in content.items():
        assert file.tensors[name].kind == name
        np.testing.assert_array_equal(file.data(name), data)
    assert [path.name for path in tmp_path.iterdir()] == ["a.gguf"]


@pytest.mark.null
def test_what_gguf_writes_is_read(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "b.gguf", "llama")
    writer.add_uint8("small", 200)
    writer.add_int64("wide", -(1 << 40))
    writer.add_float64("double", 0.1)
    writer.add_array("tokens", ["a", "b"])
    writer.add_array("types", [1, 2, 3])
    values = np.arange(64, dtype=np.float32).reshape(2, 32)
    kind = gguf.GGMLQuantizationType.Q4_1
    writer.add_tensor("blocks", gguf.quantize(values, kind), raw_dtype=kind)
    writer.add_tensor("plain", values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    file = read_gguf(tmp_path / "b.gguf")
    assert file.metadata["small"] == 200
    assert file.metadata["wide"] == -(1 << 40)
    assert file.metadata["double"] == 0.1
    assert file.metadata["tokens"] == ["a", "b"]
    assert file.metadata["types"] == [1, 2, 3]
    found = fw.models.open_checkpoint(tmp_path / "b.gguf")
    np.testing.assert_array_equal(found["plain"].numpy(), values)
    want = gguf.dequantize(gguf.quantize(values, kind), kind)
    np.testing.assert_array_equal(found["blocks"].numpy(), want)
    assert found.shape("blocks") == (2, 32)
    blocks = found.quantized("blocks")
    assert blocks is not None
    assert blocks.format == "q4_1"
    assert found.quantized("plain") is None


def whole(path: Path) -> GGUFFile | None:
    """Return a file that can be read, every tensor of it, or None; no other error."""
    try:
        file = read_gguf(path)
    except FileFormatError as raised:
        problem = str(raised)
        file = None
    if file is None:
        assert problem.startswith(f"{path}: ")
        assert problem.isprintable()
        return None
    for name, each in file.tensors.items():
        assert file.data(name).nbytes == each.size
    return file


@pytest.mark.null
def test_cut_off_anywhere(tmp_path: Path, rng: np.random.Generator) -> None:
    written(tmp_path / "a.gguf", rng)
    content = (tmp_path / "a.gguf").read_bytes()
    last = read_gguf(tmp_path / "a.gguf").tensors["q4_k"]
    part = tmp_path / "part.gguf"
    for length in [*range(0, 400, 7), last.start, last.start + last.size - 1]:
        part.write_bytes(content[:length])
        assert whole(part) is None, length


@pytest.mark.null
def test_damaged_headers(tmp_path: Path, rng: np.random.Generator) -> None:
    """Whatever a byte becomes, there is an error of one sentence, or a whole file."""
    written(tmp_path / "a.gguf", rng)
    content = bytearray((tmp_path / "a.gguf").read_bytes())
    header = read_gguf(tmp_path / "a.gguf").tensors["float32"].start
    damaged = tmp_path / "damaged.gguf"
    for _ in range(300):
        changed = bytearray(content)
        for at in rng.integers(0, header, rng.integers(1, 4)):
            changed[at] = rng.choice([0, 1, 127, 255, rng.integers(0, 256)])
        damaged.write_bytes(changed)
        whole(damaged)


def header(version: int = 3, tensors: int = 0, entries: int = 0) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, entries)


def text(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


@pytest.mark.null
@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "it is no GGUF file"),
        (b"GGML" + bytes(60), "it is no GGUF file"),
        (header(1), "its version is 1; accepted: 2 and 3"),
        (header(tensors=1 << 60), "number of tensors: there would be 115292150"),
        (header(entries=1) + text(b"k") + struct.pack("<IIQ", 9, 8, 1 << 50),
         "metadata `k`: there would be 1125899906842624 of at least 8 bytes"),
        (header(entries=1) + text(b"k") + struct.pack("<I", 77) + bytes(8),
         "metadata `k` is of type 77"),
        (header(tensors=1) + text(b"w") + struct.pack("<IQIQ", 1, 4, 10, 0),
         r"tensor `w` is of type 10; accepted: 0 \(float32\)"),
        (header(tensors=1) + text(b"w") + struct.pack("<IQIQ", 1, 33, 8, 0),
         r"tensor `w` is q8_0 of shape \(33,\); rows must be whole blocks of 32"),
        (header(tensors=1) + text(b"w") + struct.pack("<IQIQ", 1, 1 << 20, 0, 0),
         "tensor `w` of 4194304 bytes would begin at byte 64"),
        (header(tensors=1) + text(b"w") + struct.pack("<I", 9) + bytes(64),
         "tensor `w` has 9 dimensions"),
        (header(tensors=2) + 2 * (text(b"w") + struct.pack("<IQIQ", 1, 0, 0, 0)),
         "tensor `w` is there twice"),
    ],
)  # fmt: skip
def test_errors_name_what_is_wrong(
    tmp_path: Path, content: bytes, problem: str
) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=problem):
        read_gguf(path)


@pytest.mark.null
def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is no file"):
        fw.models.open_checkpoint(tmp_path / "none.gguf")
