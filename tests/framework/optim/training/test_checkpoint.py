"""Training checkpoints: what is nested comes back, what is damaged is refused."""

from pathlib import Path

import pytest

import vkbackend.framework as fw
from vkbackend.framework.base.errors import FileFormatError
from vkbackend.framework.optim.training.checkpoint import (
    load_checkpoint,
    save_checkpoint,
)


def test_a_nested_state_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "state"
    state = {"a": {0: (1, 0.1)}, "b": [None, True, float("inf"), 1 << 63, "x"]}
    save_checkpoint({**state, "c": [fw.arange(3)]}, path)
    found = load_checkpoint(path, frozenset("abc"))
    assert found.pop("c")[0].tolist() == [0, 1, 2]
    assert found == state


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "state"
    fw.save({"weight": fw.ones(2)}, path)
    with pytest.raises(FileFormatError, match="no checkpoint"):
        load_checkpoint(path, frozenset("a"))
    save_checkpoint({"a": [fw.ones(9)]}, path)
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(FileFormatError):
        load_checkpoint(path, frozenset("a"))
