"""Threads of BLAS while the host factorises."""

import pytest

from vkbackend import blas_threads
from vkbackend.blas_threads import (
    SERIAL,
    Threads,
    found_threads,
    one_blas_thread,
)


class Library:
    """A library of four threads."""

    number = 4

    def count(self) -> int:
        return self.number

    def change(self, number: int) -> None:
        self.number = number


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    made = Library()
    monkeypatch.setattr(
        blas_threads, "found_threads", lambda: Threads(made.count, made.change)
    )
    return made


def test_one_thread_until_the_last_block_ends(library: Library) -> None:
    with one_blas_thread(3):
        assert library.number == 1
        with one_blas_thread(5):
            assert library.number == 1
        assert library.number == 1
    assert library.number == 4


def test_an_error_restores_the_number(library: Library) -> None:
    with pytest.raises(ValueError, match="no number"), one_blas_thread(3):
        raise ValueError("no number")
    assert library.number == 4


def test_many_rows_keep_their_threads(library: Library) -> None:
    with one_blas_thread(SERIAL + 1):
        assert library.number == 4


def test_what_others_change_stays(library: Library) -> None:
    with one_blas_thread(3):
        library.change(2)
    assert library.number == 2


def test_numpys_library() -> None:
    threads = found_threads()
    if threads is None:
        pytest.skip("NumPy has another library than OpenBLAS")
    before = threads.number()
    with one_blas_thread(3):
        assert threads.number() == 1
    assert threads.number() == before


def test_other_libraries_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blas_threads, "found_threads", lambda: None)
    with one_blas_thread(3):
        pass
