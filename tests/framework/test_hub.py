"""Weights are downloaded once; entry points are those of a folder."""

import hashlib
from pathlib import Path

import pytest

import vkbackend.framework as fw
from vkbackend.framework import hub


def test_state_from_an_address(tmp_path: Path) -> None:
    source = tmp_path / "weights.safetensors"
    fw.save({"w": fw.ones(2)}, str(source))
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    named = tmp_path / f"net-{digest[:8]}.safetensors"
    source.rename(named)
    cache = tmp_path / "cache"
    for _ in range(2):
        state = hub.load_state_dict_from_url(
            named.as_uri(), str(cache), check_hash=True, progress=False
        )
        assert state["w"].tolist() == [1.0, 1.0]
        named.unlink(missing_ok=True)
    assert [each.name for each in cache.iterdir()] == [named.name]


def test_a_wrong_hash_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"x")
    target = tmp_path / "to" / "y"
    target.parent.mkdir()
    with pytest.raises(RuntimeError, match="it must begin with 00"):
        hub.download_url_to_file((tmp_path / "x").as_uri(), str(target), "00", False)
    assert not [*target.parent.iterdir()]


def test_entry_points(tmp_path: Path) -> None:
    text = 'def net(size=1):\n    """A net."""\n    return size\n'
    (tmp_path / "hubconf.py").write_text(text, encoding="utf-8")
    folder = str(tmp_path)
    assert hub.list(folder, source="local") == ["net"]
    assert hub.help(folder, "net", source="local") == "A net."
    assert hub.load(folder, "net", source="local", trust_repo=True, size=3) == 3
    with pytest.raises(RuntimeError, match="no function other"):
        hub.load(folder, "other", source="local")
    with pytest.raises(NotImplementedError, match="source is 'github'"):
        hub.load("owner/name", "net")
