"""Records of archives, as PyTorch reads them."""

import io
from typing import Any

import pytest

import vkbackend.framework as fw

torch = pytest.importorskip("torch")


@pytest.fixture
def content() -> io.BytesIO:
    """Return an archive that PyTorch has written."""
    file = io.BytesIO()
    values = {"a": torch.arange(5.0), "b": torch.tensor([1.5, -2.0]).bfloat16()}
    torch.save(values, file)
    return file


def test_records_are_as_pytorch_reads_them(content: io.BytesIO) -> None:
    ours = fw.PyTorchFileReader(content)
    content.seek(0)
    theirs = torch.PyTorchFileReader(content)
    names = ours.get_all_records()
    assert names == theirs.get_all_records()
    assert ours.serialization_id() == theirs.serialization_id()
    for name in names:
        assert ours.get_record(name) == theirs.get_record(name)
    assert not ours.has_record("nothing")


SINCE_213 = pytest.param("get_record_size", marks=pytest.mark.torch213)


@pytest.mark.parametrize(
    "question", ["get_record_offset", "get_record_header_offset", SINCE_213]
)
def test_places_of_records(content: io.BytesIO, question: str) -> None:
    ours = fw.PyTorchFileReader(content)
    content.seek(0)
    theirs = torch.PyTorchFileReader(content)
    for name in ours.get_all_records():
        assert getattr(ours, question)(name) == getattr(theirs, question)(name)


def test_elements_of_a_record(content: io.BytesIO) -> None:
    reader = fw.PyTorchFileReader(content)
    found = reader.get_storage_from_record("data/0", 5, fw.float32)
    assert found.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    halves = reader.get_storage_from_record("data/1", 2, fw.bfloat16)
    assert (halves.dtype, halves.tolist()) == (fw.bfloat16, [1.5, -2.0])
    with pytest.raises(RuntimeError, match="6 elements of float32 are read"):
        reader.get_storage_from_record("data/0", 6, fw.float32)


@pytest.mark.parametrize("wrong", [io.BytesIO(b"123"), "/nowhere/at/all"])
def test_what_is_no_archive_is_refused(wrong: Any) -> None:
    with pytest.raises(RuntimeError, match="it must be an archive"):
        fw.PyTorchFileReader(wrong)


def test_other_names_are_refused(content: io.BytesIO) -> None:
    with pytest.raises(RuntimeError, match="no record 'nope'; there are "):
        fw.PyTorchFileReader(content).get_record("nope")
