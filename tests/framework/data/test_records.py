"""Record files: samples by index, never half a file, never a damaged sample."""

import pickle
import random
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework import data
from vkbackend.framework.base.errors import FileFormatError

SAMPLES = [
    {"image": np.full((2, number), number, np.int16), "label": number, "text": "é"}
    for number in range(5)
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "train.rrec"


def written(path: Path, version: int = 2) -> bytes:
    with data.RecordWriter(path, version) as writer:
        for sample in SAMPLES:
            if version == 1:
                image = sample["image"].astype(np.float32)  # type: ignore[attr-defined]
                writer.append(image, np.float16(sample["label"]))
            else:
                writer.append(sample)
        assert len(writer) == 5
    return path.read_bytes()


def texts(samples: Any) -> list[str]:
    return [str(each) for each in samples]


def test_a_loader_reads_them_in_any_order(path: Path) -> None:
    assert list(written(path)[:8]) == [*b"RREC", 2, 0, 0, 0]
    dataset = data.RecordDataset(path)
    again = pickle.loads(pickle.dumps(dataset))
    for each in (dataset, again):
        assert texts(each) == texts(SAMPLES)
        assert texts([each[-1], each[np.int64(0)]]) == texts([SAMPLES[4], SAMPLES[0]])
    for index in (5, -6):
        with pytest.raises(IndexError, match=f"index is {index}; it must be from -5"):
            dataset[index]
    orders = []
    for source in (dataset, SAMPLES):
        loader = data.DataLoader(
            source,
            2,
            shuffle=True,
            num_workers=2,
            collate_fn=lambda samples: samples,
            generator=fw.Generator(3),
        )
        orders.append([texts(batch) for batch in loader])
    assert orders[0] == orders[1]
    # An array that was read may be changed, and is read anew.
    dataset[3]["image"][:] = 9
    assert texts([dataset[3]]) == texts([SAMPLES[3]])
    dataset.close()


def test_other_files_and_modes_are_refused(path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        data.RecordDataset(path)
    with pytest.raises(ValueError, match="version is 3; it must be 1 or 2"):
        data.RecordWriter(path, 3)
    with pytest.raises(ValueError, match="/dev/full is a pipe or device"):
        data.RecordWriter("/dev/full")
    path.write_bytes(b"PK" * 40)
    with pytest.raises(FileFormatError, match=r"begins with b'PKPK', not b'RREC'"):
        data.RecordDataset(path)
    path.write_bytes(b"RREC" + bytes([3]) * 80)
    with pytest.raises(FileFormatError, match="is of version 50529027, not 1 or 2"):
        data.RecordDataset(path)


def test_a_file_takes_its_place_when_it_is_whole(path: Path) -> None:
    content = written(path)

    def interrupted() -> None:
        with data.RecordWriter(path) as writer:
            writer.append(1)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    writer = data.RecordWriter(path)
    writer.append(np.zeros(9000))
    with pytest.raises(TypeError, match=r"has a builtins\.set"):
        writer.append({1})
    writer.discard()
    with pytest.raises(ValueError, match=r"append: .* is finished or discarded"):
        writer.append(1)
    writer = data.RecordWriter(path)
    with pytest.warns(ResourceWarning, match="was not finished, and is discarded"):
        del writer
    assert path.read_bytes() == content
    assert list(path.parent.iterdir()) == [path]
    data.RecordWriter(path).finish()
    assert len(data.RecordDataset(path)) == 0


def read_all(path: Path, **options: Any) -> list[str]:
    """Return the samples that a file is said to have, read one by one."""
    dataset = data.RecordDataset(path, **options)
    try:
        return texts(dataset)
    finally:
        dataset.close()


@pytest.mark.parametrize("count", [30, pytest.param(3000, marks=pytest.mark.wide)])
def test_damage_is_found(count: int, path: Path) -> None:
    content, source = written(path), random.Random(2)
    for _ in range(count):
        at = source.randrange(len(content))
        path.write_bytes(content[:at])
        with pytest.raises(FileFormatError, match=r"train\.rrec: .*it is cut off"):
            read_all(path)
        flipped = bytes([content[at] ^ 1 << source.randrange(8)])
        path.write_bytes(content[:at] + flipped + content[at + 1 :])
        try:
            found = read_all(path)
        except FileFormatError:
            continue
        # The frames, which no read needs, or the zeros between records.
        assert found == texts(SAMPLES)


def test_whole_records_of_a_cut_file_are_recovered(path: Path) -> None:
    content = written(path)
    entries = np.frombuffer(content[-80:], "<u8").reshape(5, 2)
    ends = entries.sum(1).tolist()
    for size in range(64, len(content), 23):
        path.write_bytes(content[:size])
        whole = sum(end <= size for end in ends)
        assert read_all(path, recover=True) == texts(SAMPLES[:whole])
        # As a writer that was killed leaves it.
        path.write_bytes(bytes(64) + content[64:size])
        assert read_all(path, recover=True) == texts(SAMPLES[:whole])
    path.write_bytes(content)
    assert read_all(path, recover=True) == texts(SAMPLES)


def test_a_file_that_is_cut_while_it_is_read(path: Path) -> None:
    content = written(path)
    dataset = data.RecordDataset(path)
    with path.open("r+b") as file:
        file.truncate(len(content) // 2)
    with pytest.raises(FileFormatError, match="record 4 is beyond the end"):
        dataset[4]


def test_version_1_is_as_its_layout_says(path: Path) -> None:
    content = written(path, 1)
    magic, version, count, at = struct.unpack_from("<4sIQQ", content)
    assert (magic, version, count, len(content)) == (b"RREC", 1, 5, at + 5 * 16)
    index = struct.unpack_from("<10Q", content, at)
    assert index[:4] == (64, 16 + 0 + 12, 92, 16 + 8 + 12)
    dataset = data.RecordDataset(path)
    assert [(x.tolist(), y.item()) for x, y in dataset] == [
        ([[number] * number] * 2, number) for number in range(5)
    ]
    dataset.close()
    path.write_bytes(content[:-1])
    for recover in (False, True):
        with pytest.raises(FileFormatError, match="5 records are to be indexed at"):
            data.RecordDataset(path, recover)
    broken = bytearray(content)
    broken[64] = 200
    path.write_bytes(broken)
    with pytest.raises(FileFormatError, match="record 0 is no sample: ValueError"):
        data.RecordDataset(path)[0]
