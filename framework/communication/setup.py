"""The group of all processes, its parts, and how each of them moves bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import vkbackend
from vkbackend import config
from vkbackend.errors import NoVulkanError

from ..base.device import CPU, Device
from ..base.errors import DistributedError
from .cuda_transport import CudaTransport, open_peer_memory
from .group import Group, alone
from .host_transport import HostTransport
from .mpi_transport import MpiTransport
from .transport import Transport, TransportChoice
from .world import (
    TIMEOUT,
    World,
    import_mpi,
    launched_size,
    library_version,
    world,
)

BACKENDS = ("any", "mpi")
TRANSPORTS = ("any", "host", "cuda", "mpi")

_groups: list[Group] = []


def init(
    strict: bool = False,
    backend: str = "any",
    *,
    transport: str = "any",
    device: Device | str | None = None,
    timeout: float = TIMEOUT,
) -> Group:
    """Return the group of all processes of the job; further calls return the same one.

    Alone, that is without mpirun, it needs neither MPI nor anything else.

    Parameters
    ----------
    strict : bool, default False
        Whether to raise where this process is alone.
    backend : str, default "any"
        "any" asks MPI only where a launcher has started several processes; "mpi" always
        does.
    transport : str, default "any"
        "host" moves bytes through pages that the processes of one machine share, "cuda"
        from card to card of one machine, of NVIDIA's, and "mpi" through MPI's messages;
        "any" chooses "cuda" where all ranks of a group can, or else "host" where they
        are on one machine.
    device : Device or str, optional
        Of this process. By default `VKBACKEND_DEVICE`, or else the hardware device with
        the number of this process on its machine; where there is only a software
        device, each process opens that, and without Vulkan it is the host.
    timeout : float, default 1800
        Seconds after which a rank stops waiting for others that live.

    Returns
    -------
    Group

    Raises
    ------
    DistributedError
        If mpi4py or MPI is missing among several processes, this process is alone where
        `strict` is True, or the transport cannot be used.
    ValueError
        If a backend or transport is not known.
    """
    _check_name("backend", backend, BACKENDS)
    _check_name("transport", transport, TRANSPORTS)
    if not _groups:
        found = _made(backend, transport, device, timeout)
        if strict and found.size == 1:
            raise DistributedError(
                "init: this process is alone, and strict is True; start it with python"
                " -m vkbackend.tools.launch -n 2 ..."
            )
        _groups.append(found)
    return _groups[0]


def transport(group: Group | None = None) -> TransportChoice:
    """Return what moves the bytes of a group, and why.

    Parameters
    ----------
    group : Group, optional
        By default that of all processes, which `init` returns.
    """
    return (init() if group is None else group).transport


def _check_name(what: str, given: str, known: Sequence[str]) -> None:
    if given not in known:
        raise ValueError(
            f"init: {what} is {given!r}; it must be one of {', '.join(known)}"
        )


def _made(
    backend: str, transport: str, device: Device | str | None, timeout: float
) -> Group:
    if launched_size() == 1 and backend == "any":
        group = alone()
        return group if device is None else _placed(group, Device(device))
    import_mpi()
    job = world(timeout)
    if job.size != launched_size() > 1:
        raise DistributedError(
            f"init: {launched_size()} processes were started, and MPI knows of"
            f" {job.size}; use the mpirun of the MPI library that mpi4py loads"
            f" ({library_version()})"
        )
    if job.size == 1:
        return alone()
    opened: list[Device] = []

    def place() -> Device:
        if not opened:
            opened.append(_device(job) if device is None else Device(device))
        return opened[0]

    return make_group(job, job.comm, range(job.size), transport, place)


def _placed(group: Group, device: Device) -> Group:
    return Group(None, group.transport, lambda: device)


def make_group(
    job: World,
    comm: Any,
    ranks: Sequence[int],
    transport: str,
    device: Callable[[], Device],
) -> Group:
    """Return the group of a communicator; all of its processes call this.

    Parameters
    ----------
    job : World
    comm : mpi4py.MPI.Comm
    ranks : sequence of int
        Their ranks in the job.
    transport : str
        See `init`.
    device : callable
        Returns the device of this process.
    """
    together = job.are_neighbours(ranks)
    if transport in ("host", "cuda") and not together:
        raise DistributedError(
            f"init: transport is {transport!r}, and the ranks are on several machines;"
            " use 'any' or 'mpi'"
        )
    made, reason = _chosen(job, comm, ranks, transport, device)
    made.asked = transport
    return Group(made, TransportChoice(made.name, reason), device)


def _chosen(
    job: World,
    comm: Any,
    ranks: Sequence[int],
    transport: str,
    device: Callable[[], Device],
) -> tuple[Transport, str]:
    """Return the transport of a group, and why; see `make_group`."""
    asked = "it was asked for"
    machines = len({job.machine[rank] for rank in ranks})
    if transport == "mpi":
        return MpiTransport(job, comm, ranks), asked
    if machines > 1:
        reason = f"the ranks are on {machines} machines"
        return MpiTransport(job, comm, ranks), reason
    if transport == "host":
        return HostTransport(job, comm, ranks), asked
    peers, obstacle = open_peer_memory(comm, device)
    together = f"all {len(ranks)} ranks are on one machine"
    if peers is not None:
        reason = f"{together}, with cards that reach each other"
        made = CudaTransport(job, comm, ranks, peers)
        return made, asked if transport == "cuda" else reason
    if transport == "cuda":
        raise DistributedError(
            f"init: transport is 'cuda', which cannot be had: {obstacle}; use 'any' or"
            " 'host'"
        )
    return HostTransport(job, comm, ranks), f"{together}; not cuda: {obstacle}"


def split(group: Group, color: int | None, key: int | None = None) -> Group | None:
    """Return the part of a group whose ranks give the same color; all ranks call this.

    Parameters
    ----------
    group : Group
    color : int or None
        Not negative; None is in no part.
    key : int, optional
        Order of the ranks in it; by default that of the group.

    Returns
    -------
    Group or None
        None where `color` is.
    """
    if color is not None and color < 0:
        raise ValueError(f"split: color is {color}; it must be at least 0, or None")
    key = group.rank if key is None else key
    found = group.gather_objects((color, key))
    members = [(each[1], rank) for rank, each in enumerate(found) if each[0] == color]
    order = [group.ranks[rank] for _, rank in sorted(members)]
    moving = group._transport
    if moving is None:
        return None if color is None else group
    mpi = import_mpi()
    comm = moving.comm.Split(mpi.UNDEFINED if color is None else color, key)
    if color is None:
        return None
    if len(order) == 1:
        single = alone()
        single.ranks = tuple(order)
        single._device = group._device
        return single
    return make_group(moving.world, comm, order, moving.asked, group._device)


def _device(job: World) -> Device:
    """Return the device of this process."""
    if config.DEVICE.read():
        return Device("gpu")
    try:
        found = vkbackend.devices()
    except NoVulkanError:
        return CPU
    hardware = [k for k, each in enumerate(found) if each.info.kind != "software"]
    if not hardware:
        return Device("gpu")
    if job.local_rank >= len(hardware):
        raise DistributedError(
            f"init: rank {job.rank} is number {job.local_rank} of the"
            f" {job.local_size} processes of this machine, which has"
            f" {len(hardware)} devices; start one process a device, or pass device="
        )
    return Device("gpu", hardware[job.local_rank])
