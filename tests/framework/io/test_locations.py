"""Locations are devices; names are allowed one by one."""

from argparse import Namespace
from pathlib import Path

import pytest
import torch

import vkbackend.framework as fw
from vkbackend.framework import serialization
from vkbackend.framework.base.errors import FileFormatError


def test_places() -> None:
    x = fw.ones(2)
    assert serialization.default_restore_location(x, "cpu").tolist() == [1.0, 1.0]
    serialization.add_safe_globals([complex])
    assert serialization.get_safe_globals() == [complex]
    serialization.clear_safe_globals()
    assert serialization.get_safe_globals() == []


def test_what_a_file_asks_for(tmp_path: Path) -> None:
    path = tmp_path / "state.pt"
    torch.save({"a": Namespace(x=1), "b": torch.ones(2)}, path)
    asked = fw.serialization.get_unsafe_globals_in_checkpoint
    assert asked(path) == ["argparse.Namespace"]
    torch.save({"b": torch.ones(2)}, path)
    with path.open("rb") as file:
        assert asked(file) == []
        assert file.tell() == 0
    path.write_bytes(b"nothing")
    with pytest.raises(FileFormatError, match="no complete file"):
        asked(path)
    assert fw.serialization.location_tag(fw.ones(1)) == "cpu"
    assert fw.serialization.normalize_storage_type(fw.FloatTensor) is fw.FloatTensor
