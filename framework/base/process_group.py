"""The process group of PyTorch's functions, once a program has initialised it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class ProcessGroup:
    """Processes that communicate, as PyTorch's functions have them.

    Parameters
    ----------
    backend : str, default "gloo"
        What the program asked for; it changes nothing.
    engine : communication.group.Group, optional
        What communicates; None of a group of this process alone.
    """

    def __init__(self, backend: str = "gloo", engine: Any = None) -> None:
        self._backend = backend
        self.engine = engine

    def rank(self) -> int:
        """Return the number of this process in the group."""
        return 0 if self.engine is None else int(self.engine.rank)

    def size(self) -> int:
        """Return the number of processes."""
        return 1 if self.engine is None else int(self.engine.size)

    @property
    def ranks(self) -> Sequence[int]:
        """Numbers of the processes among all."""
        return (0,) if self.engine is None else tuple(self.engine.ranks)

    def name(self) -> str:
        """Return the name of the backend that was asked for."""
        return self._backend


_default: list[ProcessGroup] = []


def default_group() -> ProcessGroup | None:
    """Return the group that was initialised, or None."""
    return _default[0] if _default else None


def set_default_group(group: ProcessGroup | None) -> None:
    """Make a group the one that functions use which are given none."""
    _default[:] = [] if group is None else [group]


def group_for(where: str, group: Any = None) -> ProcessGroup:
    """Return a process group, that of a communicating group, or the default one.

    Parameters
    ----------
    where : str
        The function, for messages.
    group : ProcessGroup or communication.group.Group, optional

    Raises
    ------
    ValueError
        If there is none.
    """
    if group is not None and not isinstance(group, ProcessGroup):
        return ProcessGroup(engine=group)
    found = group or default_group()
    if found is None:
        raise ValueError(
            f"{where}: no process group is initialised; ask is_initialized() first, or"
            " call init_process_group with world_size 1"
        )
    return found


def refuse_several(where: str, group: ProcessGroup | None = None) -> None:
    """Raise among several processes, for what works in one only.

    Parameters
    ----------
    where : str
        The function or class.
    group : ProcessGroup, optional
        By default the default one, if there is one.

    Raises
    ------
    NotImplementedError
        If the group has several processes.
    """
    found = group or default_group()
    if found is not None and found.size() > 1:
        raise NotImplementedError(
            f"{where}: the process group has {found.size()} processes, and it works in"
            " one only; communicate with the collectives of fw.distributed"
        )
