"""Groups of processes, and collectives on tensors."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

import vkbackend

from ..autograd.grad_mode import is_grad_enabled
from ..base import trace_hooks
from ..base.device import Device, GpuDevice
from ..base.errors import GradError, ShapeError
from ..base.shape import normalize_dim
from ..tensor.tensor import Tensor
from . import device_collectives, gradients
from .device_pages import DevicePages
from .elements import (
    adder,
    contiguous,
    elements_of,
    filler,
    shown,
    tensor_of,
    writer,
)
from .messages import Messages
from .progress import Task
from .reductions import DIRECT, STEPS, Reduction
from .traced import Collective, Reduced, is_recorded, recorded
from .transport import (
    COLLECTIVES,
    Bytes,
    Call,
    Consume,
    Fill,
    Transport,
    TransportChoice,
    as_bytes,
)


class Group(Messages):
    """Processes that communicate; alone, each collective returns what it is given.

    All ranks of a group must call the same collectives, in the same order, with tensors
    of one shape and dtype; otherwise each of them raises `DistributedError`. Sums are
    taken in rank order, so all ranks get the same bits. Tensors may be of any dtype and
    layout, and on any device, also on different ones; results are on that of the
    tensor. Float and complex tensors have gradients, except through `all_max`,
    `all_min`, `send` and `recv`; a backward pass communicates, too, so all ranks must
    take it.

    Attributes
    ----------
    rank, size : int
        Number of this process in the group, and of all.
    ranks : tuple of int
        Those of the processes in the whole job.
    device : Device
        Of this process.
    transport : TransportChoice
        What moves the bytes, and why.
    """

    def __init__(
        self,
        transport: Transport | None,
        choice: TransportChoice,
        device: Callable[[], Device],
    ) -> None:
        self._transport, self.transport = transport, choice
        self._device = device
        self.rank = 0 if transport is None else transport.rank
        self.size = 1 if transport is None else transport.size
        self.ranks = (0,) if transport is None else transport.ranks

    def __deepcopy__(self, memo: dict[int, Any]) -> Group:
        """Return the group itself, which copies of modules have, too."""
        return self

    def __reduce__(self) -> NoReturn:
        """Refuse a pickle: what is loaded belongs to other processes."""
        raise TypeError(
            "Group: a group of processes has no pickle; save the state_dict() of what"
            " has it, and make that anew with a group"
        )

    def __repr__(self) -> str:
        return f"Group(rank={self.rank}, size={self.size}, transport={self.transport})"

    @property
    def device(self) -> Device:
        """Device of this process, which is opened when it is first asked for."""
        return self._device()

    # Reductions

    def all_sum(self, x: Tensor) -> Tensor:
        """Return the sum of a tensor over all ranks.

        Parameters
        ----------
        x : Tensor
            Any dtype; of bools, whether one is True. Floats of 16 bits are added in
            float32 and rounded once. A device that adds by itself may flush subnormal
            floats to 0, as its other kernels do.

        Returns
        -------
        Tensor
            Shape and dtype of `x`. The gradient is the sum of the ranks' gradients.

        Raises
        ------
        DistributedError
            If another rank has ended, or calls something else.
        TraceError
            Within `fw.jit`, of a tensor on the host.
        """
        return self._reduced("all_sum", "sum", x)

    def all_mean(self, x: Tensor) -> Tensor:
        """Return the mean of a tensor over all ranks; see `all_sum`.

        Parameters
        ----------
        x : Tensor
            Float or complex.
        """
        return self._reduced("all_mean", "mean", x)

    def all_max(self, x: Tensor) -> Tensor:
        """Return the largest elements over all ranks; NaN where one is; see `all_sum`.

        Parameters
        ----------
        x : Tensor
            Any dtype but complex ones; it has no gradient.
        """
        return self._reduced("all_max", "max", x)

    def all_min(self, x: Tensor) -> Tensor:
        """Return the least elements over all ranks; NaN where one is; see `all_sum`.

        Parameters
        ----------
        x : Tensor
            Any dtype but complex ones; it has no gradient.
        """
        return self._reduced("all_min", "min", x)

    def all_reduce(self, x: Tensor, op: str = "sum") -> Tensor:
        """Return a reduction of a tensor over all ranks; see `all_sum`.

        Parameters
        ----------
        x : Tensor
        op : str
            "sum", "mean", "product", "max", "min", "and", "or" or "xor"; only the
            first two have gradients.
        """
        _check_op("all_reduce", op)
        return self._reduced("all_reduce", op, x)

    def _reduced(self, name: str, op: str, x: Tensor) -> Tensor:
        x = self._tensor(name, x)
        if self._taped(x):
            if op not in ("sum", "mean"):
                raise GradError(
                    f"{name}: the tensor requires a gradient, which {op} does not have"
                    " here; pass x.detach()"
                )
            found: Tensor = gradients.reduce(x, self, name, op)
            return found
        return self._reduce(name, op, x)

    def _reduce(self, name: str, op: str, x: Tensor) -> Tensor:
        reduction = Reduction(name, op, x.dtype, self.size)
        call = Call(name, shown(x) if name != "all_reduce" else f"{op} of {shown(x)}")
        if device_collectives.sums(self, x, op):
            return device_collectives.all_reduce(self, call, x, op)
        if self.size > 1 and is_recorded(x):
            return recorded(x, Reduced(self, call, op, x.dtype), x.shape)
        if self._alone(name):
            return x.detach().clone()
        found = self.reduced_elements(call, reduction, elements_of(x))
        return tensor_of(found, x.shape, x)

    def reduced_elements(
        self, call: Call, reduction: Reduction, data: np.ndarray
    ) -> np.ndarray:
        """Return the reduction of an array over all ranks, of which there are several.

        Parameters
        ----------
        call : Call
        reduction : Reduction
        data : ndarray, shape (n,)
            Elements of its dtype, as they are in memory.
        """
        if data.nbytes <= DIRECT:
            found = self._met(call, data, reduction.of)
            if found is not None:
                return found
        out = np.empty_like(data)
        if self.size > 2 and data.nbytes > DIRECT:
            self._reduce_in_parts(call, reduction, data, out)
        else:
            self.exchange(call, data.nbytes, filler([data]), adder(reduction, out))
        return out

    def _reduce_in_parts(
        self, call: Call, reduction: Reduction, data: np.ndarray, out: np.ndarray
    ) -> None:
        parts = np.array_split(data, self.size)
        own = np.empty_like(parts[self.rank])
        sizes = [each.nbytes for each in parts]
        self.exchange(call, sizes, filler(parts), adder(reduction, own))
        goals = [as_bytes(each) for each in np.array_split(out, self.size)]
        self.exchange(call, own.nbytes, filler([own]), writer(goals))

    def reduce_scatter(self, x: Tensor, dim: int = 0, op: str = "sum") -> Tensor:
        """Return this rank's part of the reduction of a tensor over all ranks.

        Parameters
        ----------
        x : Tensor
            Any dtype; its size in `dim` must be a multiple of the number of ranks.
        dim : int, default 0
            Dimension that is divided.
        op : str, default "sum"
            See `all_reduce`.

        Returns
        -------
        Tensor
            As `all_reduce(x, op).chunk(size, dim)[rank]`. The gradient of a sum is that
            of all ranks, as by `all_gather`.

        Raises
        ------
        ShapeError
            If `x` cannot be divided so.
        DistributedError
            If another rank has ended, or calls something else.
        """
        x = self._tensor("reduce_scatter", x)
        _check_op("reduce_scatter", op)
        dim = self._divided("reduce_scatter", x, dim)
        if self._taped(x):
            if op not in ("sum", "mean"):
                raise GradError(
                    f"reduce_scatter: the tensor requires a gradient, which {op} does"
                    " not have here; pass x.detach()"
                )
            found: Tensor = gradients.reduce_scatter(x, self, dim, op)
            return found
        return self._reduce_scatter(x, dim, op)

    def _reduce_scatter(self, x: Tensor, dim: int, op: str, what: str = "") -> Tensor:
        reduction = Reduction("reduce_scatter", op, x.dtype, self.size)
        call = Call("reduce_scatter", f"{op} of {shown(x)}, dim {dim}{what}")
        if device_collectives.sums(self, x, op):
            return device_collectives.reduce_scatter(self, call, x, dim, op)
        if self.size > 1 and is_recorded(x):
            sizes = list(x.shape)
            sizes[dim] //= self.size
            return self._record(x, sizes, "_reduce_scatter", (dim, op, what))
        if self._alone("reduce_scatter"):
            return x.detach().clone()
        first = x.detach().movedim(dim, 0)
        parts = np.split(elements_of(first), self.size)
        out = np.empty_like(parts[0])
        sizes = [each.nbytes for each in parts]
        self.exchange(call, sizes, filler(parts), adder(reduction, out))
        shape = (first.shape[0] // self.size, *first.shape[1:])
        return contiguous(tensor_of(out, shape, x).movedim(0, dim))

    # Moves

    def all_gather(self, x: Tensor, dim: int = 0) -> Tensor:
        """Return the tensors of all ranks, joined in a dimension in rank order.

        Parameters
        ----------
        x : Tensor
            Any dtype; of 0 dimensions it counts as one of a single element.
        dim : int, default 0
            Dimension in which they are joined.

        Returns
        -------
        Tensor
            As `fw.cat` of the tensors of all ranks. The gradient is the rank's part of
            the sum of the ranks' gradients, as by `reduce_scatter`.

        Raises
        ------
        DistributedError
            If another rank has ended, or calls something else.
        """
        x = self._tensor("all_gather", x)
        x = x if x.ndim else x.reshape(1)
        dim = normalize_dim("all_gather", dim, x.ndim)
        if self._taped(x):
            found: Tensor = gradients.gather(x, self, dim)
            return found
        return self._all_gather(x, dim)

    def _all_gather(self, x: Tensor, dim: int, what: str = "") -> Tensor:
        call = Call("all_gather", f"{shown(x)}, dim {dim}{what}")
        if device_collectives.moves(self, x):
            return device_collectives.all_gather(self, call, x, dim)
        if self.size > 1 and is_recorded(x):
            sizes = list(x.shape)
            sizes[dim] *= self.size
            return self._record(x, sizes, "_all_gather", (dim, what))
        if self._alone("all_gather"):
            return x.detach().clone()
        first = x.detach().movedim(dim, 0)
        data = elements_of(first)
        shape = (self.size * first.shape[0], *first.shape[1:])
        out = self._met(call, data, np.concatenate) if data.nbytes <= DIRECT else None
        if out is None:
            out = np.empty(self.size * data.size, data.dtype)
            goals = [as_bytes(each) for each in np.split(out, self.size)]
            self.exchange(call, data.nbytes, filler([data]), writer(goals))
        return contiguous(tensor_of(out, shape, x).movedim(0, dim))

    def broadcast(self, x: Tensor, source: int = 0) -> Tensor:
        """Return the tensor of one rank.

        Parameters
        ----------
        x : Tensor
            Any dtype; on other ranks only its shape, dtype and device matter.
        source : int, default 0
            Whose.

        Returns
        -------
        Tensor
            The gradient of `source` is the sum of the ranks' gradients; of the others
            it is 0.

        Raises
        ------
        DistributedError
            If another rank has ended, or calls something else.
        ValueError
            If there is no such rank.
        """
        x = self._tensor("broadcast", x)
        self._check_rank("broadcast", source)
        if self._taped(x):
            found: Tensor = gradients.broadcast(x, self, source)
            return found
        return self._broadcast(x, source)

    def _broadcast(self, x: Tensor, source: int) -> Tensor:
        call = Call("broadcast", f"{shown(x)} from rank {source}")
        if device_collectives.moves(self, x):
            return device_collectives.broadcast(self, call, x, source)
        if self.size > 1 and is_recorded(x):
            return self._record(x, x.shape, "_broadcast", (source,))
        if self._alone("broadcast"):
            return x.detach().clone()
        own = self.rank == source
        out = elements_of(x) if own else np.empty(x.numel(), x.dtype.storage)
        goals: list[Bytes] = [_NOTHING] * self.size
        goals[source] = np.empty_like(as_bytes(out)) if own else as_bytes(out)
        size = out.nbytes if own else 0
        self.exchange(call, size, filler([out]), writer(goals))
        return tensor_of(out, x.shape, x)

    def all_to_all(self, x: Tensor, dim: int = 0) -> Tensor:
        """Return what all ranks have for this one: each gives part `k` to rank `k`.

        Parameters
        ----------
        x : Tensor
            Any dtype; its size in `dim` must be a multiple of the number of ranks.
        dim : int, default 0
            Dimension that is divided, and in which the parts are joined.

        Returns
        -------
        Tensor
            Shape of `x`. The gradient goes back the same way.

        Raises
        ------
        ShapeError
            If `x` cannot be divided so.
        DistributedError
            If another rank has ended, or calls something else.
        """
        x = self._tensor("all_to_all", x)
        dim = self._divided("all_to_all", x, dim)
        if self._taped(x):
            found: Tensor = gradients.all_to_all(x, self, dim)
            return found
        return self._all_to_all(x, dim)

    def _all_to_all(self, x: Tensor, dim: int) -> Tensor:
        call = Call("all_to_all", f"{shown(x)}, dim {dim}")
        if device_collectives.moves(self, x):
            return device_collectives.all_to_all(self, call, x, dim)
        if self.size > 1 and is_recorded(x):
            return self._record(x, x.shape, "_all_to_all", (dim,))
        if self._alone("all_to_all"):
            return x.detach().clone()
        first = x.detach().movedim(dim, 0)
        parts = np.split(elements_of(first), self.size)
        out = np.empty((self.size, parts[0].size), parts[0].dtype)
        goals = [as_bytes(each) for each in out]
        sizes = [each.nbytes for each in parts]
        self.exchange(call, sizes, filler(parts), writer(goals))
        joined = tensor_of(out.reshape(-1), tuple(first.shape), x)
        return contiguous(joined.movedim(0, dim))

    def exchange_arrays(
        self, name: str, shown: str, parts: Sequence[np.ndarray]
    ) -> list[Bytes]:
        """Give each rank bytes of its own; return the bytes of all ranks.

        Parameters
        ----------
        name, shown : str
            What all ranks must ask for alike; see `Call`.
        parts : sequence of ndarray
            Contiguous, of any size, one for each rank.

        Returns
        -------
        list of ndarray of uint8
            By rank.
        """
        if self._alone(name):
            return [as_bytes(parts[0]).copy()]
        found: list[list[Bytes]] = [[] for _ in range(self.size)]

        def consume(rank: int, start: int, chunk: Bytes) -> None:
            found[rank].append(chunk.copy())

        sizes = [each.nbytes for each in parts]
        self.exchange(Call(name, shown), sizes, filler(parts), consume)
        return [np.concatenate([_NOTHING, *each]) for each in found]

    def barrier(self) -> None:
        """Return once all ranks have called it.

        Raises
        ------
        DistributedError
            If another rank has ended, or calls something else.
        """
        if self._alone("barrier"):
            return
        call = Call("barrier")
        if self._moving.meet(call, _NOTHING, bool) is None:
            self.exchange(call, 0, filler([]), writer([]))

    # Objects

    def gather_objects(self, value: Any) -> list[Any]:
        """Return an object of each rank, in rank order; they travel pickled.

        Parameters
        ----------
        value : object
            This rank's.
        """
        data = np.frombuffer(pickle.dumps(value), np.uint8)
        found = self.exchange_arrays("gather_objects", "", [data] * self.size)
        return [pickle.loads(each.tobytes()) for each in found]

    def broadcast_object(self, value: Any, source: int = 0) -> Any:
        """Return an object of one rank, which travels pickled.

        Parameters
        ----------
        value : object
            What is returned on all ranks, where it is `source`'s.
        source : int, default 0
        """
        self._check_rank("broadcast_object", source)
        own = self.rank == source
        data = np.frombuffer(pickle.dumps(value), np.uint8) if own else _NOTHING
        name = f"broadcast_object from rank {source}"
        found = self.exchange_arrays(name, "", [data] * self.size)
        return pickle.loads(found[source].tobytes())

    # Parts

    def close(self) -> None:
        """Free what the group holds; all ranks call it, and use it no more."""
        if self._transport is not None:
            self._transport.close()

    @property
    def _moving(self) -> Transport:
        if self._transport is None:
            raise ValueError(
                "distributed: this process is alone; there is nobody to communicate"
                " with"
            )
        return self._transport

    def _wait(self, task: Task) -> Any:
        return self._moving.world.progress.wait(task)

    def exchange(
        self, call: Call, sizes: int | Sequence[int], fill: Fill, consume: Consume
    ) -> None:
        """Exchange bytes with all ranks; see `Transport.exchange`."""
        self._refuse_trace(call.name)
        transport = self._moving
        steps = transport.exchange(call, sizes, fill, consume)
        self._wait(transport.start(call, steps, COLLECTIVES))
        if transport.refusal:
            self._note_refusal()

    def _met(
        self,
        call: Call,
        data: np.ndarray,
        use: Callable[[list[np.ndarray]], np.ndarray],
    ) -> np.ndarray | None:
        """Return what is made of the arrays of all ranks; see `Transport.meet`."""
        kind = data.dtype
        return self._moving.meet(
            call,
            as_bytes(data),
            lambda chunks: use([each.view(kind) for each in chunks]),
        )

    def pages_of(self, device: Device) -> DevicePages | None:
        """Return the shared pages as a device has imported them, or None."""
        return self.device_pages(device.gpu) if isinstance(device, GpuDevice) else None

    def device_pages(self, gpu: vkbackend.Device) -> DevicePages | None:
        """Return the same of a device of the layers below."""
        if self._transport is None:
            return None
        found = self._transport.pages_of(gpu)
        self._note_refusal()
        return found

    def allocate(self, gpu: vkbackend.Device, size: int) -> vkbackend.Buffer | None:
        """Return memory for what collectives take and make; see `Transport`."""
        if self._transport is None or self._transport.pages_of(gpu) is None:
            return None
        found = self._transport.allocate(gpu, size)
        self._note_refusal()
        return found

    def _note_refusal(self) -> None:
        why = "" if self._transport is None else self._transport.refusal
        if why and why not in self.transport.reason:
            self.transport = self.transport.with_reason(why)

    def _alone(self, name: str) -> bool:
        if self._transport is None:
            return True
        self._refuse_trace(name)
        return False

    def _refuse_trace(self, name: str) -> None:
        trace_hooks.refuse(
            f"{name} communicates with other processes, which a replay repeats only"
            " for collectives of tensors on a device; communicate outside of the"
            " function"
        )

    def _record(
        self,
        x: Tensor,
        out_shape: Sequence[int],
        method: str,
        arguments: tuple[Any, ...],
    ) -> Tensor:
        """Make a collective a node of the running trace."""
        shapes = tuple(x.shape), tuple(out_shape)
        step = Collective(self, method, arguments, *shapes, x.dtype)
        return recorded(x, step, out_shape)

    def _taped(self, x: Tensor) -> bool:
        return x.requires_grad and is_grad_enabled()

    def _tensor(self, name: str, x: object) -> Tensor:
        if not isinstance(x, Tensor) or x.is_wrapper:
            raise TypeError(
                f"{name}: a {type(x).__name__} is given; it must be a dense tensor"
            )
        return x

    def _check_rank(self, name: str, rank: int) -> None:
        if not 0 <= rank < self.size:
            raise ValueError(
                f"{name}: rank {rank} is no process's; the group has ranks 0 to"
                f" {self.size - 1}"
            )

    def _check_other(self, name: str, rank: int) -> None:
        self._check_rank(name, rank)
        if rank == self.rank:
            raise ValueError(
                f"{name}: rank {rank} is this process; it sends itself nothing"
            )

    def _divided(self, name: str, x: Tensor, dim: int) -> int:
        dim = normalize_dim(name, dim, x.ndim)
        if x.shape[dim] % self.size:
            raise ShapeError(
                f"{name}: x has shape {tuple(x.shape)}; its size in dimension {dim}"
                f" must be a multiple of {self.size}, the number of ranks"
            )
        return dim


_NOTHING: Bytes = np.empty(0, np.uint8)


def alone() -> Group:
    """Return the group of this process alone, on the best device."""
    reason = "this process is alone"
    return Group(None, TransportChoice("none", reason), _best_device)


def _best_device() -> Device:
    return Device(None)


def _check_op(name: str, op: str) -> None:
    if op not in STEPS:
        raise ValueError(f"{name}: op is {op!r}; it must be one of {', '.join(STEPS)}")
