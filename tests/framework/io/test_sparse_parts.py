"""Sparse tensors in files, of this library and of PyTorch's."""

from pathlib import Path

import pytest
import torch

import vkbackend.framework as fw
from tests.sparse_calls import scope, told
from vkbackend.framework.base.errors import FileFormatError


@pytest.mark.parametrize(
    ("name", "writer", "reader"),
    [("a.safetensors", fw, fw), ("a.pt", fw, torch), ("b.pt", torch, fw)],
)
def test_files_hold_them(
    tmp_path: Path, name: str, writer: object, reader: object
) -> None:
    names = scope(writer, "cpu")
    given = {each: names[each] for each in ("A", "Ac", "H", "S", "D")}
    path = str(tmp_path / name)
    writer.save(given, path)  # type: ignore[attr-defined]
    found = reader.load(path)  # type: ignore[attr-defined]
    assert [told(each) for each in found.values()] == [*map(told, given.values())]


def test_places_outside_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    torch.save(torch.sparse_coo_tensor([[5]], [1.0], (2,)), path)
    with pytest.raises(FileFormatError, match="an index is 5"):
        fw.load(path)
