"""Processes that the launcher starts: both transports, and the end of a rank."""

from pathlib import Path

import pytest

from tests.rank_processes import run_ranks

PROGRAM = Path(__file__).with_name("rank_program.py")


@pytest.mark.device
@pytest.mark.parametrize(
    ("size", "seeds"),
    [(2, 5), *(pytest.param(size, 30, marks=pytest.mark.wide) for size in (2, 3, 4))],
)
def test_processes(size: int, seeds: int) -> None:
    done = run_ranks(size, PROGRAM, str(seeds))
    told = done.stdout + done.stderr
    for rank in range(size):
        assert f"[{rank}] rank {rank} is right" in done.stdout, told
        if rank != 1:
            error = "all_sum of float32 (2,): rank 1 was killed (process "
            lines = [line for line in told.splitlines() if error in line]
            assert any(line.startswith(f"[{rank}] ") for line in lines), told
    assert "launch: rank 1 was killed by signal 9" in done.stderr
    assert done.returncode != 0
