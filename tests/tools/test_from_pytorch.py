"""The page of PyTorch's names: it is current, and says something of each name."""

import re
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
import torch

from vkbackend.tools import from_pytorch
from vkbackend.tools.from_pytorch import ABSENT, full_name, is_here

REMARKS = from_pytorch.remarks()
VERSION, NAMES = from_pytorch.collected()
EVERY = {full_name(space, name) for space, names in NAMES.items() for name in names}
# Names that are here, differences included. It may only grow.
LEAST_SHARE = 0.80


@pytest.mark.checkout
def test_it_is_current() -> None:
    assert from_pytorch.PAGE.read_text(encoding="utf-8") == from_pytorch.render()


@pytest.mark.checkout
def test_its_program_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"```python\n(.*?)```", REMARKS.heading, re.DOTALL)
    assert len(blocks) == 1
    exec(blocks[0].replace('"gpu"', '"cpu"'), {})


def test_names_are_those_of_the_installed_pytorch() -> None:
    if torch.__version__.partition("+")[0] != VERSION:
        pytest.skip(f"the table is of PyTorch {VERSION}, installed {torch.__version__}")
    found = {space: from_pytorch.torch_names(space, REMARKS) for space in NAMES}
    assert found == NAMES


def test_every_absence_has_a_reason() -> None:
    rows = [row for row in from_pytorch.states() if row[2] == ABSENT]
    assert [full_name(*row[:2]) for row in rows if not row[3]] == []


def test_remarks_are_of_names_in_the_right_state() -> None:
    differs, absent = (
        {name for name in texts if "*" not in name}
        for texts in (REMARKS.differs, REMARKS.absent)
    )
    assert sorted(name for name in differs if not is_here(name)) == []
    assert sorted(name for name in absent if is_here(name)) == []
    assert sorted((differs | absent) - EVERY) == []
    patterns = {*REMARKS.differs, *REMARKS.absent} - differs - absent
    matched = {p for p in patterns if any(fnmatchcase(name, p) for name in EVERY)}
    assert sorted(patterns - matched) == []


def test_other_namespaces_are_not_counted_name_by_name() -> None:
    assert not REMARKS.namespaces.keys() & NAMES.keys()


def test_share() -> None:
    states = [row[2] for row in from_pytorch.states()]
    assert 1 - states.count(ABSENT) / len(states) >= LEAST_SHARE


@pytest.mark.parametrize(
    ("name", "text"), [("a.b", "exact"), ("a.c", "first"), ("ab", None)]
)
def test_remark(name: str, text: str | None) -> None:
    texts = {"a.*": "first", "*.c": "second", "a.b": "exact"}
    assert from_pytorch.remark(name, texts) == text


@pytest.mark.checkout
def test_command(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(from_pytorch, "PAGE", tmp_path / "FROM_PYTORCH.md")
    assert from_pytorch.main(["--check"]) == 1
    assert "is not current" in capsys.readouterr().out
    assert from_pytorch.main([]) == 0
    assert from_pytorch.main(["--check"]) == 0
    assert from_pytorch.main(["--missing"]) == 0
    assert "cuda.nvtx" not in (out := capsys.readouterr().out)
    assert "smm: No blocks" in out
