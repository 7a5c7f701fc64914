"""Files that nobody sees half of."""

from pathlib import Path

import pytest

from vkbackend.whole_file import UNFINISHED, write_whole


def test_a_file_is_replaced_and_nothing_is_left(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "file"
    for content in (b"first", b"second, and longer", b""):
        write_whole(path, content)
        assert path.read_bytes() == content
    assert [each.name for each in path.parent.iterdir()] == ["file"]


def test_a_file_that_cannot_be_written_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    write_whole(path, b"old")

    def full(self: Path, content: bytes) -> int:
        assert self.parent.name.startswith(UNFINISHED)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_where_a_folder_should_be_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "taken").write_bytes(b"")
    with pytest.raises(OSError, match="taken"):
        write_whole(tmp_path / "taken" / "file", b"content")
