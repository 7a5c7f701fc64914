"""Processes are Python's."""

import multiprocessing

import pytest

import vkbackend.framework as fw


def _fail(rank: int) -> None:
    raise SystemExit(3)


def test_names_are_python_s() -> None:
    mp = fw.multiprocessing
    assert mp.Process is multiprocessing.Process
    assert mp.Queue.__name__ == "Queue"
    mp.set_sharing_strategy("file_system")
    assert mp.get_sharing_strategy() == "file_system"
    with pytest.raises(ValueError, match="it must be 'file_descriptor'"):
        mp.set_sharing_strategy("other")


def test_a_failed_process_raises() -> None:
    with pytest.raises(RuntimeError, match="process 0 ended with exit code 3"):
        fw.multiprocessing.start_processes(_fail, start_method="fork")
