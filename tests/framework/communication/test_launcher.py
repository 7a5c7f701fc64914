"""What mpirun is called with; programs in several processes: test_mpi_transport."""

import importlib.util
import sys
from pathlib import Path

import pytest

from vkbackend.framework.base.errors import DistributedError
from vkbackend.framework.communication import launcher

FAKE = """#!/bin/sh
case "$1" in --version) echo "mpirun (Open MPI) 4.1.4"; exit;; esac
echo "$OMPI_ALLOW_RUN_AS_ROOT $EXTRA $@" > "{out}"
while [ "$1" != --status ]; do shift; done
echo 0 > "$2/rank.0"; printf -- -9 > "$2/rank.1"
"""


def test_open_mpi(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    mpirun, out = tmp_path / "mpirun", tmp_path / "out"
    mpirun.write_text(FAKE.format(out=out), encoding="utf-8")
    mpirun.chmod(0o755)
    monkeypatch.setattr(launcher, "find_mpirun", lambda: str(mpirun))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    assert launcher.launch(["train.py", "a"], 2, variables={"EXTRA": "x"}) == 1
    words = out.read_text("utf-8").split()
    assert words[:2] == ["1", "x"]
    assert "--bind-to none --oversubscribe -n 2" in " ".join(words)
    assert words[-3:] == ["--", "train.py", "a"]
    assert "launch: rank 1 was killed by signal 9" in capfd.readouterr().err


def test_hosts(tmp_path: Path) -> None:
    mpirun = tmp_path / "mpirun"
    mpirun.write_text('#!/bin/sh\necho "HYDRA build details"\n', encoding="utf-8")
    mpirun.chmod(0o755)
    assert launcher.options_of(str(mpirun)) == []
    assert launcher.options_of(str(mpirun), "a,b") == ["-hosts", "a,b"]
    mpirun.write_text("#!/bin/sh\necho Open MPI\n", encoding="utf-8")
    assert launcher.options_of(str(mpirun), "a,b")[-2:] == ["--host", "a,b"]


def test_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="0 processes"):
        launcher.launch(["x"], 0)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DistributedError, match=r"no mpirun.*pip install"):
        launcher.find_mpirun()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DistributedError, match="need mpi4py"):
        launcher.launch(["x"], 2)
