"""Several processes in one computation: one process a device.

Start them with `python -m vkbackend.tools.launch -n 2 train.py`, which runs mpirun; the
extra `vkbackend[mpi]` installs what that needs. Without it a process is alone: it needs
no MPI, and every collective returns what it is given.

`init()` returns the group of all processes, after `mlx.distributed`:

>>> group = fw.distributed.init()
>>> group.rank, group.size
(0, 1)

rank, size, ranks
    Number of this process, number of all, and their numbers in the job.
device
    Of this process, by its number on its machine; opened when it is asked for.
transport
    `name` and `reason` of what moves bytes: "host", "mpi", or "none" when alone. By
    "host", a device with VK_EXT_external_memory_host copies what is on it to and from
    the shared pages by itself, beside kernels, and adds by kernels; where it cannot,
    the host does, and the reason says why. The host always takes messages, reductions
    that are neither sums nor means, and means over ranks whose number is no power of 2
    of a device without float64.
all_sum(x), all_mean(x), all_max(x), all_min(x), all_reduce(x, op)
    Reductions in rank order: the same bits on all ranks.
all_gather(x, dim=0)
    Tensors of all ranks, joined in a dimension.
reduce_scatter(x, dim=0, op="sum")
    This rank's part of the reduction.
broadcast(x, source=0)
    The tensor of one rank.
all_to_all(x, dim=0)
    Part `k` of each rank's tensor goes to rank `k`.
send(x, target), recv(shape, dtype, source), recv_like(x, source)
    Messages between two ranks.
gather_objects(value), broadcast_object(value, source=0)
    Any objects, pickled.
barrier()
    Returns once all ranks have called it.

A collective returns a new tensor on the device of `x`, which may be of any dtype and
layout, and on the host or a device. All ranks call the same collectives in the same
order with tensors of one shape and dtype; otherwise, and where a rank ends, the others
raise `DistributedError`, which names the rank and the collective. Reductions, gathers,
broadcasts and `all_to_all` have gradients, whose computation communicates on all ranks.
`split(group, color, key)` makes groups of some ranks. Within `fw.jit` collectives of
tensors on a device are nodes of the trace, which each replay runs again; messages,
objects, barriers and tensors on the host raise `TraceError` there.

What trains on a group: `nn.DataParallel` (gradients are averaged), `nn.FSDP`
(parameters, gradients and moments are divided), `nn.tensor_parallel` (layers are
divided), `nn.Pipeline` (each rank has some of the layers), and `optim.Trainer(group=)`,
which trains the first two. `checkpoint.save` and `load` write and read what the ranks
have, for any other number of ranks.

PyTorch's functions (`init_process_group`, `all_reduce`, ...) use the same groups, and
take a `Group` as well as a `ProcessGroup`. A process group of one process can be
initialised without MPI.
"""

from __future__ import annotations

import importlib
from typing import Any

from ..base.errors import DistributedError as DistributedError
from ..base.late_modules import give_attributes as _give_attributes
from ..base.public_names import public_names as _public_names
from ..communication.group import Group as Group
from ..communication.setup import init as init
from ..communication.setup import split as split
from ..communication.setup import transport as transport
from ..communication.transport import TransportChoice as TransportChoice
from ..nn.gradient_bucket import GradBucket as GradBucket
from .collectives import *  # noqa: F403 - its public names
from .collectives import __all__ as _collectives
from .device_mesh import *  # noqa: F403 - its public names
from .device_mesh import __all__ as _meshes
from .process_group import *  # noqa: F403 - its public names
from .process_group import __all__ as _groups

_OWN = [
    "DistributedError",
    "GradBucket",
    "Group",
    "TransportChoice",
    "init",
    "split",
    "transport",
]
__all__ = sorted([*_OWN, *_collectives, *_groups, *_meshes])


def __getattr__(name: str) -> Any:
    """Return one of PyTorch's addresses below this one."""
    if not name.startswith("__"):
        try:
            return importlib.import_module(f"{__name__}.{name}")
        except ModuleNotFoundError:
            pass
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the public names, without what is behind them."""
    return _public_names(globals())


_give_attributes(__name__)
