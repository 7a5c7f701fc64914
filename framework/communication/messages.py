"""Messages between two ranks of a group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base.device import Device
from ..base.dtype import DType, DTypeLike, as_dtype
from ..base.errors import DistributedError
from ..base.shape import Layout
from ..tensor.tensor import Tensor
from .elements import elements_of, shown
from .progress import Task
from .transport import Call, Transport, as_bytes


class Messages:
    """The part of a group that sends tensors to one rank, and receives them."""

    _transport: Transport | None

    @property
    def device(self) -> Device:
        """Device of this process."""
        raise NotImplementedError

    def send(self, x: Tensor, target: int, tag: int = 0) -> None:
        """Send a tensor to another rank, which receives it with `recv`.

        Parameters
        ----------
        x : Tensor
            Any dtype; off the tape.
        target : int
            Rank.
        tag : int, default 0
            Only a `recv` with the same one takes it.

        Raises
        ------
        DistributedError
            If the other rank has ended, or both wait for each other.
        ValueError
            If there is no such rank, or it is this one.
        """
        task = self.start_send("send", x, target, tag)
        self._wait(task)

    def start_send(self, name: str, x: Tensor, target: int, tag: int = 0) -> Task:
        """Start to send a tensor, as it is now; see `send`, and `finish`."""
        x = self._tensor(name, x)
        self._check_other(name, target)
        self._refuse_trace(name)
        call = Call("send", shown(x))
        transport = self._moving
        steps = transport.send(call, tag, target, as_bytes(elements_of(x)))
        return transport.start(call, steps, ("send", target))

    def recv(
        self,
        shape: Sequence[int],
        dtype: DTypeLike,
        source: int | None = None,
        tag: int = 0,
        device: Device | str | None = None,
    ) -> Tensor:
        """Return a tensor that another rank sends.

        Parameters
        ----------
        shape : sequence of int
        dtype : DType or str
            Its own, which must be those of what is sent.
        source : int, optional
            Rank; None takes what comes first.
        tag : int, default 0
            That of the message.
        device : Device or str, optional
            Where the tensor is to be; by default `device`.

        Raises
        ------
        DistributedError
            If the other rank has ended, both wait for each other, or another tensor
            comes.
        ValueError
            If there is no such rank, or it is this one.
        """
        place = self.device if device is None else Device(device)
        kind = as_dtype(dtype)
        task = self.start_recv("recv", tuple(shape), kind, source, tag)
        return self.finish_recv(task, tuple(shape), kind, place)[0]

    def recv_like(self, x: Tensor, source: int | None = None, tag: int = 0) -> Tensor:
        """Return a tensor that another rank sends; see `recv`.

        Parameters
        ----------
        x : Tensor
            One of the same shape, dtype and device.
        source : int, optional
        tag : int, default 0
        """
        x = self._tensor("recv_like", x)
        return self.recv(x.shape, x.dtype, source, tag, x.device)

    def start_recv(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: DType,
        source: int | None,
        tag: int,
    ) -> Task:
        """Start to receive a tensor; see `recv`, and `finish_recv`."""
        if source is not None:
            self._check_other(name, source)
        self._refuse_trace(name)
        call = Call("recv", f"{dtype.name} {shape} from {_from(source)}")
        transport = self._moving
        steps = transport.receive(call, tag, source)
        return transport.start(call, steps, ("recv", source, tag))

    def finish_recv(
        self, task: Task, shape: tuple[int, ...], dtype: DType, device: Device
    ) -> tuple[Tensor, int]:
        """Return what a task receives, and from which rank."""
        header, data, source = self._wait(task)
        wanted = f"{dtype.name} {shape}"
        if header.shown != wanted:
            raise DistributedError(
                f"recv: rank {source} sends {header.shown}, and {wanted} is expected;"
                " both must name one shape and dtype"
            )
        flat = data.view(dtype.storage)
        layout = Layout.contiguous(shape)
        return Tensor.from_stored(flat, layout, device, dtype), source

    def finish(self, task: Task) -> None:
        """Wait for a task that `start_send` has returned."""
        self._wait(task)

    def advance(self) -> None:
        """Let operations that were started go on as far as they can."""
        if self._transport is not None:
            self._transport.world.progress.advance()

    # What groups have

    @property
    def _moving(self) -> Transport:
        raise NotImplementedError

    def _wait(self, task: Task) -> Any:
        raise NotImplementedError

    def _tensor(self, name: str, x: object) -> Tensor:
        raise NotImplementedError

    def _check_other(self, name: str, rank: int) -> None:
        raise NotImplementedError

    def _refuse_trace(self, name: str) -> None:
        raise NotImplementedError


def _from(source: int | None) -> str:
    return "any rank" if source is None else f"rank {source}"
