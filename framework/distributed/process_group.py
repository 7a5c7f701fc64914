"""Groups of processes: a program may initialise the group of the one that there is."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import timedelta
from enum import Enum
from typing import Any

from ..base.process_group import (
    ProcessGroup,
    default_group,
    group_for,
    set_default_group,
)

__all__ = [
    "Backend",
    "GroupMember",
    "P2POp",
    "ProcessGroup",
    "ReduceOp",
    "Work",
    "default_pg_timeout",
    "destroy_process_group",
    "get_backend",
    "get_global_rank",
    "get_group_rank",
    "get_node_local_rank",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "group",
    "init_process_group",
    "is_available",
    "is_backend_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "is_ucc_available",
    "is_xccl_available",
    "new_group",
]


class ReduceOp(Enum):
    """Operations of a reduction among processes, as arguments have them."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7


class Backend(str):
    """Names of PyTorch's backends, of which none is here."""

    UNDEFINED = "undefined"
    GLOO = "gloo"
    NCCL = "nccl"
    MPI = "mpi"
    UCC = "ucc"
    XCCL = "xccl"


class Work:
    """Communication that has been asked for, which is done at once."""

    def is_completed(self) -> bool:
        """Return True: nothing is to be waited for."""
        return True

    def is_success(self) -> bool:
        """Return True: communication with oneself does not fail."""
        return True

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Return True: nothing is to be waited for."""
        return True


class _Members(type):
    """Class whose attribute `WORLD` is the default group, as it is when asked for."""

    @property
    def WORLD(cls) -> ProcessGroup | None:
        """The default group, or None."""
        return default_group()


class group(metaclass=_Members):  # noqa: N801 - PyTorch's name
    """The default group as `WORLD`, which is None until one is initialised."""


class GroupMember(metaclass=_Members):
    """The default group as `WORLD`, and what stands for one without this process."""

    NON_GROUP_MEMBER: Any = -100


class P2POp:
    """Sending or receiving of a tensor, for `batch_isend_irecv`.

    Raises
    ------
    ValueError
        If no process group is initialised, or the peer is this process, or none.
    """

    def __init__(
        self,
        op: Callable[..., Any],
        tensor: Any,
        peer: int | None = None,
        group: ProcessGroup | None = None,
        tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        group_for("P2POp", group)
        other_rank("P2POp", peer if group_peer is None else group_peer)


default_pg_timeout = timedelta(minutes=30)
"""How long PyTorch's processes wait for each other."""


def is_available() -> bool:
    """Return False: there is no communication among processes."""
    return False


def is_initialized() -> bool:
    """Return whether the group of this process was initialised."""
    return default_group() is not None


def is_backend_available(backend: str) -> bool:
    """Return False: there is no backend."""
    return False


def is_nccl_available() -> bool:
    """Return False: there is no such backend."""
    return False


def is_gloo_available() -> bool:
    """Return False: there is no such backend."""
    return False


def is_mpi_available() -> bool:
    """Return False: there is no such backend."""
    return False


def is_ucc_available() -> bool:
    """Return False: there is no such backend."""
    return False


def is_xccl_available() -> bool:
    """Return False: there is no such backend."""
    return False


def is_torchelastic_launched() -> bool:
    """Return False: the library has no launcher of several processes."""
    return False


def _given(name: str, value: int) -> int:
    if value >= 0:
        return value
    if name.upper() not in os.environ:
        raise ValueError(
            f"init_process_group: {name} is missing; pass it, or set the environment"
            f" variable {name.upper()}"
        )
    return int(os.environ[name.upper()])


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Any = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
    _ranks: Sequence[int] | None = None,
) -> None:
    """Initialise the group of this process, which is the only one.

    Parameters
    ----------
    backend : str, optional
        Kept for `get_backend`; without effect.
    world_size, rank : int
        Number of processes, and which of them this is; where they are not given, the
        environment variables `WORLD_SIZE` and `RANK`.
    init_method, timeout, store, group_name, pg_options, device_id : object
        Without effect: nobody is to be met.

    Raises
    ------
    NotImplementedError
        If there are several processes.
    ValueError
        If a group was initialised before, a number is missing or `rank` is not 0.
    """
    if is_initialized():
        raise ValueError("init_process_group: the default group is initialised already")
    rank, world_size = _given("rank", rank), _given("world_size", world_size)
    if world_size != 1:
        raise NotImplementedError(
            f"init_process_group: world_size is {world_size}; one process computes on"
            " one device here, so it must be 1"
        )
    if rank:
        raise ValueError(f"init_process_group: rank is {rank}; of one process it is 0")
    set_default_group(ProcessGroup((backend or "gloo").lower()))


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """Forget the default group; another one is left as it is."""
    if group in (None, default_group()):
        set_default_group(None)


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
    sort_ranks: bool = True,
) -> ProcessGroup:
    """Return another group of this process; without it, `GroupMember.NON_GROUP_MEMBER`.

    Raises
    ------
    ValueError
        If no group is initialised, or a rank is no process's.
    """
    default = group_for("new_group")
    for rank in ranks or ():
        own_rank("new_group", rank)
    if ranks is not None and not ranks:
        return GroupMember.NON_GROUP_MEMBER  # type: ignore[no-any-return]  # an object
    return ProcessGroup(backend or default.name())


def get_rank(group: ProcessGroup | None = None) -> int:
    """Return 0, the number of this process.

    Raises
    ------
    ValueError
        If no group is initialised.
    """
    return group_for("get_rank", group).rank()


def get_world_size(group: ProcessGroup | None = None) -> int:
    """Return 1, the number of processes.

    Raises
    ------
    ValueError
        If no group is initialised.
    """
    return group_for("get_world_size", group).size()


def get_backend(group: ProcessGroup | None = None) -> str:
    """Return the name of the backend that `init_process_group` was given.

    Raises
    ------
    ValueError
        If no group is initialised.
    """
    return Backend(group_for("get_backend", group).name())


def get_process_group_ranks(group: ProcessGroup | None) -> list[int]:
    """Return the numbers of the processes of a group: 0."""
    group_for("get_process_group_ranks", group)
    return [0]


def get_global_rank(group: ProcessGroup, group_rank: int) -> int:
    """Return the number of a process from that in a group: 0."""
    group_for("get_global_rank", group)
    return own_rank("get_global_rank", group_rank)


def get_group_rank(group: ProcessGroup, global_rank: int) -> int:
    """Return the number in a group of a process: 0."""
    group_for("get_group_rank", group)
    return own_rank("get_group_rank", global_rank)


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """Return the environment variable `LOCAL_RANK`, or else `fallback_rank`.

    Raises
    ------
    RuntimeError
        If there is neither.
    """
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is None:
        raise RuntimeError(
            "get_node_local_rank: LOCAL_RANK is not in the environment; set it, or pass"
            " fallback_rank"
        )
    return int(fallback_rank)


def own_rank(where: str, rank: int | None) -> int:
    """Return the rank of this process, which is all that another function may name."""
    if rank is None:
        raise ValueError(f"{where}: no rank is given; of one process it is 0")
    if rank != 0:
        raise ValueError(f"{where}: rank {rank} is no process's; there is one, rank 0")
    return 0


def other_rank(where: str, rank: int | None) -> None:
    """Raise: a message goes to another process, and there is none."""
    own_rank(where, rank)
    raise ValueError(f"{where}: rank 0 is this process; it sends itself nothing")
