"""What mpirun is called with; programs in several processes: test_mpi_transport."""

import importlib.util
import os
import sys
from pathlib import Path

import pytest

from tests.rank_processes import run_ranks
from vkbackend.framework.base.errors import DistributedError
from vkbackend.framework.communication import launcher

KILLED = Path(__file__).with_name("killed_program.py")

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


@pytest.mark.wide
@pytest.mark.device
@pytest.mark.parametrize("number", range(20))
def test_a_rank_is_killed_at_any_moment(number: int) -> None:
    """The others tell which one, and nothing of it is left."""
    moment, size = 0.002 * 1.45**number, 2 + number % 3
    before = set(os.listdir("/dev/shm"))
    victim = number % size
    done = run_ranks(size, KILLED, str(moment), str(victim))
    told = done.stdout + done.stderr
    assert f"launch: rank {victim} was killed by signal 9" in told
    for rank in set(range(size)) - {victim}:
        lines = [
            each for each in told.splitlines() if each.startswith(f"[{rank}] told")
        ]
        assert len(lines) == 1, told
        assert f"rank {victim} was killed" in lines[0] or "given up" in lines[0]
    left = {name for name in set(os.listdir("/dev/shm")) - before if "mpi" in name}
    assert left == set()


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
