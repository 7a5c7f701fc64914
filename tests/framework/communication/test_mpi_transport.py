"""Processes that mpirun starts: both transports."""

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
    for rank in range(size):
        assert f"rank {rank} is right" in done.stdout, done.stdout + done.stderr
