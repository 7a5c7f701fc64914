"""Descriptors that processes of one machine hand to each other.

They travel as `SCM_RIGHTS` over sockets in Linux's abstract namespace, which leave no
file behind; their names are made for each group of sockets, and hold a secret.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import struct
import weakref
from typing import Any

from ..base.errors import DistributedError

_SECONDS = 60.0
"""How long a process waits for another one, which has nothing else to do."""

_CREDENTIALS = struct.Struct("3i")
_RANK = struct.Struct("i")
_MESSAGE = struct.Struct("qq")


def available() -> bool:
    """Return whether the operating system hands descriptors over like this."""
    return hasattr(socket, "SO_PEERCRED") and hasattr(socket, "send_fds")


class Links:
    """Sockets from a rank to each other one, for memory that they tell of.

    A message is a number and a size, with the descriptor of memory of that size; or
    without one, of memory that is gone. It waits in the socket until it is received.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
        Processes of one machine and one user; all make them at the same time.

    Attributes
    ----------
    close : callable
        Closes the sockets, and all that still waits in them.

    Raises
    ------
    DistributedError
        On all ranks, if one could not.
    """

    def __init__(self, comm: Any) -> None:
        self._sockets: dict[int, socket.socket] = {}
        # Also where nobody calls it.
        self.close = weakref.finalize(self, _close, self._sockets)
        secret, failure = comm.bcast(secrets.token_hex(16), 0), ""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
            try:
                server.bind(_name(secret, comm.rank))
                server.listen(comm.size)
                server.settimeout(_SECONDS)
            except OSError as error:
                failure = str(error)
            failure = first_failure(comm, failure)
            if not failure:
                try:
                    self._connect(secret, server, comm.rank, comm.size)
                except OSError as error:
                    failure = str(error) or type(error).__name__
                failure = first_failure(comm, failure)
        if failure:
            self.close()
            raise DistributedError(
                f"distributed: descriptors cannot be handed over: {failure}"
            )

    def _connect(
        self, secret: str, server: socket.socket, rank: int, size: int
    ) -> None:
        """Connect to the ranks above, and let those below connect."""
        for other in range(rank + 1, size):
            client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._sockets[other] = client
            client.settimeout(_SECONDS)
            client.connect(_name(secret, other))
            client.send(_RANK.pack(rank))
        while len(self._sockets) < size - 1:
            other, client = _accepted(server)
            if 0 <= other < rank and other not in self._sockets:
                self._sockets[other] = client
            else:
                client.close()

    def send(
        self, rank: int, number: int, size: int = 0, descriptor: int | None = None
    ) -> None:
        """Send a message to a rank; the descriptor stays the caller's.

        Raises
        ------
        OSError
            If it cannot be sent; a rank that has ended is no failure.
        """
        taken = [] if descriptor is None else [descriptor]
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            given = [_MESSAGE.pack(number, size)]
            socket.send_fds(self._sockets[rank], given, taken)

    def receive(self, rank: int) -> tuple[int, int, int | None]:
        """Return the next message of a rank: number, size, and its descriptor or None.

        Raises
        ------
        OSError
            If there is none, as the rank has ended, or it is not whole.
        """
        data, taken, _, _ = socket.recv_fds(self._sockets[rank], _MESSAGE.size, 1)
        if len(data) != _MESSAGE.size:
            for each in taken:
                os.close(each)
            raise OSError(f"rank {rank} has ended")
        number, size = _MESSAGE.unpack(data)
        if size and not taken:
            raise OSError(f"rank {rank} has sent no descriptor")
        return number, size, taken[0] if taken else None


def _close(sockets: dict[int, socket.socket]) -> None:
    while sockets:
        sockets.popitem()[1].close()


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
    links, failure = Links(comm), ""
    found: dict[int, int] = {comm.rank: os.dup(descriptor)}
    others = [rank for rank in range(comm.size) if rank != comm.rank]
    try:
        for rank in others:
            links.send(rank, 0, 1, descriptor)
        for rank in others:
            taken = links.receive(rank)[2]
            assert taken is not None
            found[rank] = taken
    except OSError as error:
        failure = str(error) or type(error).__name__
    failure = first_failure(comm, failure)
    links.close()
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


def _accepted(server: socket.socket) -> tuple[int, socket.socket]:
    """Return a rank and its socket; -1 for that of another user's process."""
    client, _ = server.accept()
    try:
        client.settimeout(_SECONDS)
        told = client.getsockopt(
            socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size
        )
        data = client.recv(_RANK.size)
    except OSError:
        client.close()
        raise
    mine = _CREDENTIALS.unpack(told)[1] == os.getuid() and len(data) == _RANK.size
    return (_RANK.unpack(data)[0] if mine else -1), client
