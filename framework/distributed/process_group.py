"""PyTorch's process groups: that of all processes, and further ones of some."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Sequence
from datetime import timedelta
from enum import Enum
from typing import Any

from ..base.errors import DistributedError
from ..base.process_group import (
    ProcessGroup,
    default_group,
    group_for,
    set_default_group,
)
from ..communication import setup
from ..communication.group import Group
from ..communication.progress import Task
from ..communication.world import launched_size

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


_STEPS = {
    ReduceOp.SUM: "sum",
    ReduceOp.AVG: "mean",
    ReduceOp.PRODUCT: "product",
    ReduceOp.MIN: "min",
    ReduceOp.MAX: "max",
    ReduceOp.BAND: "and",
    ReduceOp.BOR: "or",
    ReduceOp.BXOR: "xor",
}


def steps_of(op: ReduceOp) -> str:
    """Return the name of a reduction."""
    return _STEPS[op]


class Work:
    """Communication that has been asked for; collectives are done at once.

    Parameters
    ----------
    engine : Group, optional
        What communicates; None where it is done.
    task : Task, optional
        What is yet to be waited for.

    Attributes
    ----------
    source : int
        Rank that a received tensor comes from.
    """

    def __init__(self, engine: Group | None = None, task: Task | None = None) -> None:
        self._engine, self._task = engine, task
        self.source = -1
        self.finish: Callable[[], None] | None = None

    def is_completed(self) -> bool:
        """Return whether nothing is to be waited for."""
        if self._engine is not None and self._task is not None:
            self._engine.advance()
            return self._task.done
        return True

    def is_success(self) -> bool:
        """Return whether it has ended without an error."""
        return self._task is None or (self._task.done and self._task.error is None)

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Return True once it is done.

        Raises
        ------
        DistributedError
            If it cannot be done.
        """
        engine, task, finish = self._engine, self._task, self.finish
        if engine is not None and task is not None:
            if finish is None:
                engine.finish(task)
            else:
                finish()
            self._engine = self.finish = None
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

    Parameters
    ----------
    op : callable
        `isend` or `irecv`.
    tensor : Tensor
    peer : int, optional
        Rank of the other process.
    group : ProcessGroup, optional
    tag : int, default 0
    group_peer : int, optional
        Its rank in the group, instead.

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
        engine = group_for("P2POp", group)
        number = other_rank("P2POp", engine, peer, group_peer)
        self.op, self.tensor, self.group, self.tag = op, tensor, group, tag
        self.peer, self.group_peer = engine.ranks[number], number
        side = "group_dst" if op.__name__ == "isend" else "group_src"
        self.peers = {side: number}


default_pg_timeout = timedelta(minutes=30)
"""How long PyTorch's processes wait for each other."""


def is_available() -> bool:
    """Return whether several processes can communicate, for which there is mpi4py."""
    return importlib.util.find_spec("mpi4py") is not None


def is_initialized() -> bool:
    """Return whether the group of this process was initialised."""
    return default_group() is not None


def is_backend_available(backend: str) -> bool:
    """Return whether a backend is "mpi", and there is mpi4py for it."""
    return backend.lower() == "mpi" and is_available()


def is_nccl_available() -> bool:
    """Return False: there is no such backend."""
    return False


def is_gloo_available() -> bool:
    """Return False: there is no such backend."""
    return False


def is_mpi_available() -> bool:
    """Return whether there is mpi4py."""
    return is_available()


def is_ucc_available() -> bool:
    """Return False: there is no such backend."""
    return False


def is_xccl_available() -> bool:
    """Return False: there is no such backend."""
    return False


def is_torchelastic_launched() -> bool:
    """Return whether a launcher has set `TORCHELASTIC_RUN_ID`."""
    return "TORCHELASTIC_RUN_ID" in os.environ


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
    """Initialise the group of all processes that mpirun has started, or of this one.

    Parameters
    ----------
    backend : str, optional
        Kept for `get_backend`; without effect.
    timeout : timedelta, optional
        How long ranks wait for others that live; by default half an hour.
    world_size, rank : int
        Number of processes, and which of them this is. By default MPI's, and in one
        process those of the environment variables `WORLD_SIZE` and `RANK`.
    init_method, store, group_name, pg_options, device_id : object
        Without effect: MPI lets processes meet.

    Raises
    ------
    DistributedError
        If there are to be several processes and mpirun has not started them, or mpi4py
        is missing.
    ValueError
        If a group was initialised before, or a number is missing or another one than
        MPI's.
    """
    if is_initialized():
        raise ValueError("init_process_group: the default group is initialised already")
    name = (backend or "gloo").lower()
    if launched_size() > 1:
        seconds = (timeout or default_pg_timeout).total_seconds()
        engine = setup.init(timeout=seconds)
        _check_given("world_size", world_size, engine.size)
        _check_given("rank", rank, engine.rank)
        set_default_group(ProcessGroup(name, engine))
        return
    rank, world_size = _given("rank", rank), _given("world_size", world_size)
    if world_size != 1:
        raise DistributedError(
            f"init_process_group: world_size is {world_size}, and this process is"
            f" alone; start it with python -m vkbackend.tools.launch -n {world_size}"
        )
    if rank:
        raise ValueError(f"init_process_group: rank is {rank}; of one process it is 0")
    set_default_group(ProcessGroup(name))


def _check_given(name: str, value: int, found: int) -> None:
    given = value if value >= 0 else int(os.environ.get(name.upper(), found))
    if given != found:
        raise ValueError(
            f"init_process_group: {name} is {given}, and mpirun says {found}; leave it"
            " out"
        )


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
    """Return a group of some processes; elsewhere, `GroupMember.NON_GROUP_MEMBER`.

    All processes of the default group call it, also those that will not be in it.

    Raises
    ------
    ValueError
        If no group is initialised, or a rank is no process's.
    """
    default = group_for("new_group")
    members = list(default.ranks) if ranks is None else list(ranks)
    for each in members:
        rank_in("new_group", default, each)
    members = sorted(members) if sort_ranks else members
    own = default.ranks[default.rank()]
    engine = default.engine
    if engine is not None:
        place = members.index(own) if own in members else None
        engine = setup.split(engine, None if place is None else 0, place or 0)
    if own not in members:
        return GroupMember.NON_GROUP_MEMBER  # type: ignore[no-any-return]  # an object
    return ProcessGroup(backend or default.name(), engine)


def get_rank(group: ProcessGroup | None = None) -> int:
    """Return the number of this process in a group.

    Raises
    ------
    ValueError
        If no group is initialised.
    """
    return group_for("get_rank", group).rank()


def get_world_size(group: ProcessGroup | None = None) -> int:
    """Return the number of processes of a group.

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
    """Return the numbers, among all, of the processes of a group."""
    return list(group_for("get_process_group_ranks", group).ranks)


def get_global_rank(group: ProcessGroup, group_rank: int) -> int:
    """Return the number among all processes of one of a group."""
    found = group_for("get_global_rank", group)
    return found.ranks[rank_in("get_global_rank", found, None, group_rank)]


def get_group_rank(group: ProcessGroup, global_rank: int) -> int:
    """Return the number in a group of one of all processes."""
    return rank_in("get_group_rank", group_for("get_group_rank", group), global_rank)


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


def rank_in(
    where: str,
    group: Any,
    rank: int | None,
    group_rank: int | None = None,
    default: int | None = None,
) -> int:
    """Return the number in a group of a process.

    Parameters
    ----------
    where : str
        The function, for messages.
    group : ProcessGroup or Group
    rank : int or None
        Its number among all.
    group_rank : int or None
        Its number in the group, instead.
    default : int or None
        Its number in the group if neither is given.
    """
    ranks: Sequence[int] = group.ranks
    if rank is None and group_rank is None:
        group_rank = default
    if group_rank is not None and 0 <= group_rank < len(ranks):
        return group_rank
    given = rank if group_rank is None else group_rank
    if given is None:
        raise ValueError(f"{where}: no rank is given; {_those(ranks)}")
    if group_rank is None and given in ranks:
        return list(ranks).index(given)
    raise ValueError(f"{where}: rank {given} is no process's; {_those(ranks)}")


def _those(ranks: Sequence[int]) -> str:
    if len(ranks) == 1:
        return f"there is one, rank {ranks[0]}"
    return f"there are {len(ranks)}, ranks {', '.join(map(str, ranks))}"


def other_rank(
    where: str,
    group: Any,
    rank: int | None,
    group_rank: int | None = None,
    default: int | None = None,
) -> int:
    """Return the number in a group of another process; see `rank_in`."""
    found = rank_in(where, group, rank, group_rank, default)
    own = group.rank() if isinstance(group, ProcessGroup) else group.rank
    if found == own:
        raise ValueError(
            f"{where}: rank {group.ranks[found]} is this process; it sends itself"
            " nothing"
        )
    return found
