"""Descriptors that processes of one machine hand to each other.

They travel as `SCM_RIGHTS` over sockets in Linux's abstract namespace, which leave no
file behind; their names are made for each exchange, and hold a secret.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import struct
from collections.abc import Iterator
from typing import Any

from ..base.errors import DistributedError

_SECONDS = 60.0
"""How long a process waits for another one, which has nothing else to do."""

_CREDENTIALS = struct.Struct("3i")
_RANK = struct.Struct("i")


def available() -> bool:
    """Return whether the operating system hands descriptors over like this."""
    return hasattr(socket, "SO_PEERCRED") and hasattr(socket, "send_fds")


def exchange_descriptors(comm: Any, descriptor: int) -> list[int]:
    """Return a descriptor of each rank, the caller's own among them.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
        Processes of one machine and one user; all call this.
    descriptor : int
        This rank's, which stays the caller's.

    Returns
    -------
    list of int
        By rank; the caller closes them.

    Raises
    ------
    DistributedError
        On all ranks, if one could not.
    """
    secret = comm.bcast(secrets.token_hex(16), 0)
    found: dict[int, int] = {comm.rank: os.dup(descriptor)}
    failure = ""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.socket(socket.AF_UNIX))
        try:
            server.bind(_name(secret, comm.rank))
            server.listen(comm.size)
            server.settimeout(_SECONDS)
        except OSError as error:
            failure = str(error)
        failure = first_failure(comm, failure)
        if not failure:
            try:
                for rank in _others(comm):
                    _send(secret, comm.rank, rank, descriptor)
                while len(found) < comm.size:
                    rank, taken = _receive(server)
                    if rank in found or not 0 <= rank < comm.size:
                        os.close(taken)
                    else:
                        found[rank] = taken
            except OSError as error:
                failure = str(error) or type(error).__name__
            failure = first_failure(comm, failure)
    if failure:
        for each in found.values():
            os.close(each)
        raise DistributedError(
            f"distributed: descriptors cannot be handed over: {failure}"
        )
    return [found[rank] for rank in range(comm.size)]


def first_failure(comm: Any, own: str) -> str:
    """Return the failure of the first rank that has one; all ranks call this.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
    own : str
        This rank's, or nothing.
    """
    every = comm.allgather(own)
    if len(set(every)) == 1:
        return str(every[0])
    return next(f"{each} (rank {rank})" for rank, each in enumerate(every) if each)


def _name(secret: str, rank: int) -> str:
    return f"\0vkbackend-{secret}-{rank}"


def _others(comm: Any) -> Iterator[int]:
    return (rank for rank in range(comm.size) if rank != comm.rank)


def _send(secret: str, own: int, rank: int, descriptor: int) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(_SECONDS)
        client.connect(_name(secret, rank))
        socket.send_fds(client, [_RANK.pack(own)], [descriptor])


def _receive(server: socket.socket) -> tuple[int, int]:
    """Return a rank and its descriptor; -1 for a rank of another user's process."""
    client, _ = server.accept()
    with client:
        client.settimeout(_SECONDS)
        told = client.getsockopt(
            socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size
        )
        data, taken, _, _ = socket.recv_fds(client, _RANK.size, 1)
        if len(taken) != 1 or len(data) != _RANK.size:
            for each in taken:
                os.close(each)
            raise OSError("a process has sent no descriptor")
        mine = _CREDENTIALS.unpack(told)[1] == os.getuid()
        return (_RANK.unpack(data)[0] if mine else -1), taken[0]
