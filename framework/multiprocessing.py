"""Python's processes at PyTorch's address; tensors travel as copies.

A tensor is pickled with its elements, and storages are not shared: a sharing strategy
may be set and has no effect.
"""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing import *  # noqa: F403 - the whole of it, as PyTorch's
from multiprocessing import (
    __all__ as _python,
)
from multiprocessing import get_context
from typing import Any

from .base.public_names import public_names as _public_names

__all__ = [
    *_python,
    "ProcessContext",
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "set_sharing_strategy",
    "spawn",
    "start_processes",
]


class _Strategy:
    name = "file_descriptor"


def get_all_sharing_strategies() -> set[str]:
    """Return the strategies that may be set."""
    return {"file_descriptor", "file_system"}


def get_sharing_strategy() -> str:
    """Return what `set_sharing_strategy` was told."""
    return _Strategy.name


def set_sharing_strategy(new_strategy: str) -> None:
    """Note a strategy, which has no effect.

    Raises
    ------
    ValueError
        If it is another word.
    """
    if new_strategy not in get_all_sharing_strategies():
        raise ValueError(
            f"set_sharing_strategy: the strategy is {new_strategy!r}; it must be"
            " 'file_descriptor' or 'file_system'"
        )
    _Strategy.name = new_strategy


class ProcessContext:
    """Processes that `start_processes` started.

    Attributes
    ----------
    processes : list of multiprocessing.Process
    """

    def __init__(self, processes: list[Any]) -> None:
        self.processes = processes

    def pids(self) -> list[int]:
        """Return the processes' numbers."""
        return [each.pid for each in self.processes]

    def join(self, timeout: float | None = None, grace_period: Any = None) -> bool:
        """Wait for the processes; return whether all ended.

        Raises
        ------
        RuntimeError
            If one failed; the others are ended then.
        """
        for rank, each in enumerate(self.processes):
            each.join(timeout)
            if each.exitcode:
                for other in self.processes:
                    other.terminate()
                raise RuntimeError(
                    f"spawn: process {rank} ended with exit code {each.exitcode}"
                )
        return all(each.exitcode == 0 for each in self.processes)


def start_processes(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Call `fn(i, *args)` in each of several processes.

    Parameters
    ----------
    fn : callable
        A function that can be pickled.
    args : tuple
    nprocs : int, default 1
    join : bool, default True
        Whether to wait, and return None.
    daemon : bool, default False
    start_method : str, default "spawn"

    Raises
    ------
    RuntimeError
        If a process failed.
    """
    context = get_context(start_method)
    started: list[Any] = []
    for rank in range(nprocs):
        process = context.Process(  # type: ignore[attr-defined]  # each context has it
            target=fn, args=(rank, *args), daemon=daemon
        )
        process.start()
        started.append(process)
    made = ProcessContext(started)
    if not join:
        return made
    made.join()
    return None


def spawn(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Call `fn(i, *args)` in each of several new processes; see `start_processes`."""
    return start_processes(fn, args, nprocs, join, daemon, start_method)


def __dir__() -> list[str]:
    """Return the public names, without what is behind them."""
    return _public_names(globals())
