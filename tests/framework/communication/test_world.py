"""How many processes a launcher has started, and what is left of them."""

import mmap
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from vkbackend.framework.communication import world
from vkbackend.framework.communication.shared_pages import ENDED


def test_launchers(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in world.SIZES:
        monkeypatch.delenv(name, raising=False)
    assert world.launched_size() == 1
    for name in world.SIZES:
        with monkeypatch.context() as within:
            within.setenv(name, "3")
            assert world.launched_size() == 3
            within.setenv(name, "many")
            assert world.launched_size() == 1


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="needs Linux")
def test_names_of_segments() -> None:
    """Open MPI removes its own, and complains at its end of one that is gone."""
    names = [f"{each}_test_{os.getpid()}" for each in ("mpich", "vader_segment")]
    paths = [Path("/dev/shm", name) for name in names]
    mapped = []
    try:
        for each in paths:
            each.write_bytes(b"x")
            with each.open("r+b") as file:
                mapped.append(mmap.mmap(file.fileno(), 1))
        world._unlink_segments()
        assert [each.exists() for each in paths] == [False, True]
    finally:
        for each in paths:
            each.unlink(missing_ok=True)
        for part in mapped:
            part.close()


def test_a_rank_that_ends_between_two_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has ended well, and so does this one."""
    states = iter([1, ENDED, ENDED])
    job = object.__new__(world.World)
    job._process, job._failed = os.getpid(), False
    job.rank, job.neighbours, job.at_end = 0, (0, 1), []
    job.control = SimpleNamespace(  # type: ignore[assignment]
        end=lambda: None,
        state=lambda rank: next(states),
        obituary=lambda rank: "has ended",
    )
    job._mpi = SimpleNamespace(Is_finalized=lambda: True)
    monkeypatch.setattr(job, "_leave", lambda: pytest.fail("left the others"))
    job._end()
    assert next(states, None) is None
