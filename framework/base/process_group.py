"""Group of the one process that computes, once it is initialised."""

from __future__ import annotations


class ProcessGroup:
    """A group of processes, of which this one is all.

    Parameters
    ----------
    backend : str, default "gloo"
        What the program asked for; it changes nothing.
    """

    def __init__(self, backend: str = "gloo") -> None:
        self._backend = backend

    def rank(self) -> int:
        """Return 0, the number of this process."""
        return 0

    def size(self) -> int:
        """Return 1, the number of processes."""
        return 1

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


def group_for(where: str, group: ProcessGroup | None = None) -> ProcessGroup:
    """Return a group, or the default one.

    Raises
    ------
    ValueError
        If there is none.
    """
    found = group or default_group()
    if found is None:
        raise ValueError(
            f"{where}: no process group is initialised; ask is_initialized() first, or"
            " call init_process_group with world_size 1"
        )
    return found
