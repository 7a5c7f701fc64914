"""The parent of one rank, without MPI."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from vkbackend.framework.communication import rank_process


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[bytes]:
    plain = {k: v for k, v in os.environ.items() if "RANK" not in k}
    return subprocess.run(
        [sys.executable, "-S", rank_process.__file__, *arguments],
        env={**plain, **variables},
        capture_output=True,
        check=False,
    )


def test_output_begins_with_the_rank(tmp_path: Path) -> None:
    program = (
        "import sys, os; print('a\\nb'); sys.stdout.write('50%\\r');"
        "sys.stderr.write('no end'); sys.exit(int(os.environ['WORLD_SIZE']))"
    )
    found = run(
        *("--status", str(tmp_path), "--", sys.executable, "-c", program),
        PMI_RANK="0",
        PMI_SIZE="1",
    )
    assert found.stdout == b"[0] a\n[0] b\n[0] 50%\r"
    assert found.stderr == b"[0] no end"
    assert found.returncode == 1
    assert (tmp_path / "rank.0").read_text("utf-8") == "1"


def test_environment_and_signals(tmp_path: Path) -> None:
    (tmp_path / "rank.0").write_text("0", encoding="utf-8")
    program = (
        "import json, os, signal; names = 'RANK', 'LOCAL_RANK', 'LOCAL_WORLD_SIZE',"
        "'TQDM_DISABLE'; print(json.dumps([os.environ[name] for name in names]),"
        "flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    found = run(
        *("--plain", "--status", str(tmp_path), "--", sys.executable, "-c", program),
        OMPI_COMM_WORLD_RANK="1",
        OMPI_COMM_WORLD_SIZE="2",
        OMPI_COMM_WORLD_LOCAL_RANK="1",
        OMPI_COMM_WORLD_LOCAL_SIZE="2",
    )
    assert json.loads(found.stdout) == ["1", "1", "2", "1"]
    assert found.returncode == 128 + 9
    assert (tmp_path / "rank.1").read_text("utf-8") == "-9"


def test_others_have_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    looks = []

    def sleep(seconds: float) -> None:
        looks.append(seconds)
        (tmp_path / f"rank.{len(looks)}").touch()

    monkeypatch.setattr(rank_process.time, "sleep", sleep)
    rank_process._wait_for_others(tmp_path, 3)
    assert len(looks) == 3
    monkeypatch.setattr(rank_process, "GRACE_SECONDS", 0.0)
    rank_process._wait_for_others(None, 3)
    assert len(looks) == 3
