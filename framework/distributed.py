"""Several processes in one computation: there are none, which is what this says.

Programs that ask before they communicate run unchanged, as on a build of PyTorch whose
group was not initialised; what needs a group raises `NotImplementedError`, or PyTorch's
`ValueError` where it asks for the group's size.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from enum import Enum
from typing import Any, NoReturn

__all__ = [
    "Backend",
    "GroupMember",
    "P2POp",
    "ProcessGroup",
    "ReduceOp",
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "batch_isend_irecv",
    "broadcast",
    "broadcast_object_list",
    "default_pg_timeout",
    "destroy_process_group",
    "gather",
    "gather_object",
    "get_backend",
    "get_global_rank",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "group",
    "init_device_mesh",
    "init_process_group",
    "irecv",
    "is_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "isend",
    "monitored_barrier",
    "new_group",
    "recv",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "scatter",
    "scatter_object_list",
    "send",
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


class ProcessGroup:
    """A group of processes; there is none."""


class GroupMember:
    """Members of groups, which are None: there is none."""

    WORLD: ProcessGroup | None = None
    NON_GROUP_MEMBER: ProcessGroup | None = None


default_pg_timeout = timedelta(minutes=30)
"""How long PyTorch's processes wait for each other."""


class group:  # noqa: N801 - PyTorch's name
    """The default group, which is None until one is initialised."""

    WORLD: ProcessGroup | None = None


def is_available() -> bool:
    """Return False: there is no communication among processes."""
    return False


def is_initialized() -> bool:
    """Return False: no group can be initialised."""
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


def is_torchelastic_launched() -> bool:
    """Return False: the library has no launcher."""
    return False


def _no_group(name: str) -> NoReturn:
    raise ValueError(
        f"distributed.{name}: no process group is initialised; ask is_initialized()"
        " first, which is always False here"
    )


def get_rank(group: ProcessGroup | None = None) -> int:
    """Raise `ValueError`, as PyTorch's does without a process group."""
    _no_group("get_rank")


def get_world_size(group: ProcessGroup | None = None) -> int:
    """Raise `ValueError`, as PyTorch's does without a process group."""
    _no_group("get_world_size")


def get_backend(group: ProcessGroup | None = None) -> str:
    """Raise `ValueError`, as PyTorch's does without a process group."""
    _no_group("get_backend")


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """Do nothing: there is no group to destroy."""


def _absent(name: str) -> Callable[..., NoReturn]:
    def missing(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(
            f"distributed.{name}: one process computes on one device here; call it only"
            " where is_initialized() is True"
        )

    missing.__name__ = missing.__qualname__ = name
    missing.__doc__ = "Raise `NotImplementedError`: one process computes on one device."
    return missing


init_process_group = _absent("init_process_group")
new_group = _absent("new_group")
barrier = _absent("barrier")
monitored_barrier = _absent("monitored_barrier")
all_reduce = _absent("all_reduce")
reduce = _absent("reduce")
broadcast = _absent("broadcast")
broadcast_object_list = _absent("broadcast_object_list")
all_gather = _absent("all_gather")
all_gather_into_tensor = _absent("all_gather_into_tensor")
all_gather_object = _absent("all_gather_object")
gather = _absent("gather")
gather_object = _absent("gather_object")
scatter = _absent("scatter")
reduce_scatter = _absent("reduce_scatter")
reduce_scatter_tensor = _absent("reduce_scatter_tensor")
send = _absent("send")
recv = _absent("recv")
isend = _absent("isend")
irecv = _absent("irecv")
get_process_group_ranks = _absent("get_process_group_ranks")
init_device_mesh = _absent("init_device_mesh")
get_global_rank = _absent("get_global_rank")
P2POp = _absent("P2POp")
all_to_all_single = _absent("all_to_all_single")
all_to_all = _absent("all_to_all")
batch_isend_irecv = _absent("batch_isend_irecv")
scatter_object_list = _absent("scatter_object_list")

# A package for Python, as PyTorch's has `distributed.fsdp` and others below it.
__path__: list[str] = []
