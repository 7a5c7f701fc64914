"""States of several ranks are written whole or not at all, and read by any number."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.rank_threads import as_threads
from vkbackend.framework.base.errors import DistributedError, FileFormatError
from vkbackend.framework.communication.group import Group, alone
from vkbackend.framework.io import part_files
from vkbackend.framework.io.part_files import INDEX, PartReader, leaves, nested
from vkbackend.framework.nn.divided import TensorShard, mark_divided


def test_leaves() -> None:
    state = {"a": {0: 1, "b": {}}, "c": [2]}
    found = dict(leaves(state))
    assert found == {("a", 0): 1, ("a", "b"): {}, ("c",): [2]}
    assert nested(found) == state
    assert nested(dict(leaves({}))) == {}


WHOLE = np.arange(42, dtype=np.float32).reshape(6, 7)


def part_of_rank(rank: int, size: int, dim: int | None) -> TensorShard:
    count = WHOLE.size if dim is None else WHOLE.shape[dim]
    ends = [count * k // size for k in range(size + 1)]
    return TensorShard(WHOLE.shape, dim, ((ends[rank], ends[rank + 1]),))


@pytest.mark.parametrize("dim", [None, 0, 1])
def test_parts_are_joined(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, dim: int | None
) -> None:
    def work(group: Group) -> None:
        part = part_of_rank(group.rank, group.size, dim)
        own = fw.tensor(part.of(WHOLE).copy()).bfloat16()
        mark_divided(own, group, part)
        state: Any = {"x": {3: own}, "same": fw.ones(2), "rank": group.rank}
        state["late"] = {"step": 7} if group.rank == 2 else {}
        part_files.write_parts(state, tmp_path, group)

    as_threads(monkeypatch, 3).run(work)
    reader = PartReader(tmp_path)
    assert reader.shapes == {("x", 3): (6, 7), ("same",): (2,)}
    assert reader.objects == {("rank",): 0, ("late", "step"): 7}
    whole = reader.read(("x", 3))
    assert whole.dtype is fw.bfloat16
    np.testing.assert_array_equal(whole.float().numpy(), WHOLE)
    for wanted in (None, 0, 1):
        part = part_of_rank(1, 4, wanted)
        found = reader.read(("x", 3), part).float().numpy()
        np.testing.assert_array_equal(found, part.of(WHOLE))


def test_what_is_cut_is_never_loaded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def save(value: float) -> None:
        part_files.write_parts({"x": fw.full((3,), value)}, tmp_path, alone())

    def value() -> Any:
        return PartReader(tmp_path).read(("x",)).tolist()[0]

    with pytest.raises(FileNotFoundError, match="has no index"):
        PartReader(tmp_path)
    save(1.0)
    with monkeypatch.context() as patched:
        patched.setattr(part_files, "save_atomically", _fail)
        with pytest.raises(DistributedError, match=r"rank 0 cannot write to .*no room"):
            save(2.0)
    assert value() == 1.0
    with monkeypatch.context() as patched:
        patched.setattr(part_files.os, "fsync", _fail)
        with pytest.raises(DistributedError, match="no room"):
            save(2.0)
    assert value() == 1.0
    save(3.0)
    assert value() == 3.0
    assert len([*tmp_path.iterdir()]) == 3
    (file,) = tmp_path.glob("*.bin")
    content = file.read_bytes()
    file.write_bytes(b"?" + content[1:])
    with pytest.raises(FileFormatError, match=r"damaged where \('x',\) is"):
        value()
    file.write_bytes(content[:-1])
    with pytest.raises(FileFormatError, match="has 11 bytes, and the index tells of"):
        value()
    file.unlink()
    with pytest.raises(FileFormatError, match="is missing, and the index tells of 12"):
        value()
    index = tmp_path / INDEX
    index.write_text(index.read_text().replace("12", "13"))
    with pytest.raises(FileFormatError, match=r"index\.json is damaged"):
        value()


def _fail(*_: object) -> None:
    raise OSError("no room")
