"""CommandBatch: operations on arrays, queued, then run with one submission."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from vkbackend.command.futures import future_of
from vkbackend.device import Device
from vkbackend.driver.queue import TimelinePoint
from vkbackend.errors import ArgumentError
from vkbackend.memory.buffer import Buffer
from vkbackend.open_devices import open_device

from . import kernels as kernels
from .kernel_cache import KernelCache
from .queue import ArrayQueue, Handle, is_half

if TYPE_CHECKING:
    from numpy.typing import NDArray


class CommandBatch(ArrayQueue):
    """Operations that are queued, checked at once, and run with one submission.

    Parameters
    ----------
    device : Device, optional
        Where it runs; None opens the one that `open_device()` takes.

    Attributes
    ----------
    num_compiles : int
        Kernels requested from the device, over all executions; see
        `KernelCache.compiles`.

    Notes
    -----
    Arrays are float32, or float16 on devices that store it (computed in float32).
    Every result, also one in the middle of a chain, can be read after `execute`. What
    is queued stays queued: another `execute` runs all of it again, in the same memory,
    on what `replace` and the owners of imported buffers have put there since. One
    thread may use a batch.

    Examples
    --------
    >>> batch = CommandBatch()
    >>> x = batch.upload([1, 2, -3, 4])
    >>> half = batch.upload([0.5] * 4)
    >>> y = batch.add(batch.scale(batch.relu(x), 2.0), half)
    >>> point = batch.execute()
    >>> batch.read(y).tolist()
    [2.5, 4.5, 0.5, 8.5]
    """

    def __init__(self, device: Device | None = None) -> None:
        super().__init__(open_device() if device is None else device)
        self.num_compiles = 0
        self._written: set[Handle] = set()

    def relu(self, x: Handle) -> Handle:
        """Queue max(x, 0)."""
        return self._element("relu", x)

    def sigmoid(self, x: Handle) -> Handle:
        """Queue 1 / (1 + exp(-x))."""
        return self._element("sigmoid", x)

    def tanh(self, x: Handle) -> Handle:
        """Queue tanh(x)."""
        return self._element("tanh", x)

    def swish(self, x: Handle) -> Handle:
        """Queue x * sigmoid(x)."""
        return self._element("swish", x)

    def gelu(self, x: Handle) -> Handle:
        """Queue x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x**3)))."""
        return self._element("gelu", x)

    def scale(self, x: Handle, factor: float) -> Handle:
        """Queue x * factor."""
        self.check_number("scale", "factor", factor)
        return self._element("scale", x, factor)

    def add(self, x: Handle, y: Handle) -> Handle:
        """Queue x + y; sizes must be equal."""
        return self._pair("add", x, y)

    def sub(self, x: Handle, y: Handle) -> Handle:
        """Queue x - y; sizes must be equal."""
        return self._pair("sub", x, y)

    def mul(self, x: Handle, y: Handle) -> Handle:
        """Queue x * y; sizes must be equal."""
        return self._pair("mul", x, y)

    def div(self, x: Handle, y: Handle) -> Handle:
        """Queue x / y; sizes must be equal."""
        return self._pair("div", x, y)

    def dot(self, x: Handle, y: Handle) -> Handle:
        """Queue the sum of x * y, of shape (1,); any size, summed in stages."""
        self.check_pair("dot", x, y)
        return self.queue("dot", (x, y), (1,), kernels.dot_runs(x.size, is_half(x)))

    def matmul(self, a: Handle, b: Handle, m: int, k: int, n: int) -> Handle:
        """Queue the product of `a` as (m, k) and `b` as (k, n).

        Raises
        ------
        ArgumentError
            If an operand has not as many elements, or dtypes differ.
        """
        self.check("matmul", a, b)
        self.check_whole("matmul", m=m, k=k, n=n)
        if min(m, k, n) < 1 or a.size != m * k or b.size != k * n:
            raise ArgumentError(
                f"matmul: sizes do not fit: a has {a.size} elements, b {b.size}, with"
                f" m={m}, k={k}, n={n}; they must be m*k = {m * k} and k*n = {k * n}"
            )
        self.check_rounds("matmul", "k", k, kernels.MAX_ROUNDS)
        run = kernels.matmul_run(self.device.info, m, k, n, is_half(a))
        return self.queue("matmul", (a, b), (m, n), [run])

    def softmax(self, x: Handle, columns: int | None = None) -> Handle:
        """Queue the softmax of each row of `columns` elements; None is one row."""
        rows, columns = self.check_rows("softmax", x, columns)
        run = kernels.softmax_run(rows, columns, is_half(x))
        return self.queue("softmax", (x,), x.shape, [run])

    def layer_norm(
        self, x: Handle, columns: int | None = None, eps: float = 1e-5
    ) -> Handle:
        """Queue (x - mean) / sqrt(variance + eps) of each row; None is one row."""
        return self._norm("layer_norm", x, columns, eps)

    def rms_norm(
        self, x: Handle, columns: int | None = None, eps: float = 1e-6
    ) -> Handle:
        """Queue x / sqrt(mean(x**2) + eps) of each row; None is one row."""
        return self._norm("rms_norm", x, columns, eps)

    def execute(self) -> TimelinePoint:
        """Run everything with one submission; does not wait for the device.

        Kernels are looked up once per call for each that is unique, in a cache local to
        the call; in a loop, `execute_with_cache` spares the look-ups too.

        Returns
        -------
        TimelinePoint
            When it will be finished.
        """
        return self.execute_with_cache(KernelCache(self.device))

    def execute_with_cache(self, cache: KernelCache) -> TimelinePoint:
        """Run everything like `execute`, with kernels kept by the caller.

        Parameters
        ----------
        cache : KernelCache
            May serve any number of batches of the device.

        Raises
        ------
        ArgumentError
            If the cache is for another device.
        OutOfDeviceMemory
            With the numbers; the batch is as it was.
        """
        if not isinstance(cache, KernelCache) or cache.device is not self.device:
            where = cache.device.name if isinstance(cache, KernelCache) else cache
            raise ArgumentError(
                f"execute_with_cache: the cache is for {where}; the batch is on"
                f" {self.device.name}"
            )
        commands = self.device.batch()
        known = cache.compiles
        found = [
            [cache.kernel(run.kernel, run.defines, run.constants) for run in op.runs]
            for op in self._operations
        ]
        self.num_compiles += cache.compiles - known
        for handle in self._handles:
            handle.place(self.device)
        for operation, pipelines in zip(self._operations, found, strict=True):
            memory = operation.memory(self.device)
            for run, pipeline in zip(operation.runs, pipelines, strict=True):
                named = {name: memory[of] for name, of in run.memory.items()}
                reads = [b for name, b in named.items() if name not in _OUTPUTS]
                writes = [b for name, b in named.items() if name in _OUTPUTS]
                arguments: Mapping[str, object] = {**named, **run.scalars}
                commands.dispatch(pipeline, run.groups, arguments, reads, writes)
        point = commands.submit()
        self._written.update(self._handles)
        return point

    async def execute_async(self, cache: KernelCache | None = None) -> TimelinePoint:
        """Run everything like `execute`; done when the device is.

        Parameters
        ----------
        cache : KernelCache, optional
            Kernels kept by the caller.
        """
        # Only who awaits pays for importing it.
        import asyncio

        point = self.execute_with_cache(cache or KernelCache(self.device))
        await asyncio.wrap_future(future_of(point))
        return point

    def read(self, handle: Handle) -> NDArray[Any]:
        """Return the elements of an array; waits for the work that makes it.

        Raises
        ------
        ArgumentError
            If it was queued after the last `execute`.
        """
        import numpy as np

        data = self.device.read(self._readable(handle), 0, handle.nbytes)
        return np.frombuffer(data, handle.dtype).reshape(handle.shape)

    async def read_async(self, handle: Handle) -> NDArray[Any]:
        """Return the elements like `read`, without blocking the event loop."""
        import asyncio

        written = self._readable(handle).last_write
        if written is not None:
            await asyncio.wrap_future(future_of(written))
        return await asyncio.to_thread(self.read, handle)

    def _readable(self, handle: Handle) -> Buffer:
        self.check("read", handle)
        if handle.buffer is None or handle not in self._written:
            raise ArgumentError(
                f"read: {handle} has not been computed yet; call execute first"
            )
        return handle.buffer

    def _element(self, name: str, x: Handle, factor: float = 1.0) -> Handle:
        self.check(name, x)
        run = kernels.element_run(name, x.size, is_half(x), factor)
        return self.queue(name, (x,), x.shape, [run])

    def _pair(self, name: str, x: Handle, y: Handle) -> Handle:
        self.check_pair(name, x, y)
        run = kernels.pair_run(name, x.size, is_half(x))
        return self.queue(name, (x, y), x.shape, [run])

    def _norm(self, name: str, x: Handle, columns: int | None, eps: float) -> Handle:
        rows, columns = self.check_rows(name, x, columns)
        self.check_number(name, "eps", eps)
        centred = name == "layer_norm"
        run = kernels.norm_run(rows, columns, is_half(x), eps, centred)
        return self.queue(name, (x,), x.shape, [run])


_OUTPUTS = frozenset({"out_", "mean", "inverse_std"})


def batch(device: Device | str | int | None = None) -> CommandBatch:
    """Return an empty `CommandBatch`.

    Parameters
    ----------
    device : Device, str or int, optional
        A device, or what `open_device` takes.
    """
    opened = device if isinstance(device, Device) else open_device(device)
    return CommandBatch(opened)
