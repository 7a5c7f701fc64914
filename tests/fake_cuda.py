"""CUDA's driver as a library of Python's, over memory that Vulkan exports.

All but the driver itself runs as on a card of NVIDIA's: descriptors, imports, pulls,
and the order of copies, each of which ends once it was asked for twice.
"""

import collections
import ctypes
import itertools
import os
import threading
from collections.abc import Callable
from typing import Any

import vkbackend
from vkbackend import cuda
from vkbackend.cuda import driver, memory, pool

GRANULARITY = 1 << 16
_INVALID, _NOT_READY = 1, 600

Copy = tuple[int, int, int]


class _Function:
    """A function that takes attributes, as those of ctypes do."""

    def __init__(self, function: Callable[..., int | None]) -> None:
        self._function = function

    def __call__(self, *arguments: Any) -> int:
        return self._function(*arguments) or 0


class FakeCuda:
    """The functions of the library that are used.

    Parameters
    ----------
    gpu : vkbackend.Device
        The card that it drives.

    Attributes
    ----------
    live : Counter
        Objects that exist, by kind.
    copies : int
        Number of copies that were made.
    fails : str
        Name of a function that fails.
    """

    def __init__(self, gpu: vkbackend.Device) -> None:
        self.live: collections.Counter[str] = collections.Counter()
        self.copies = 0
        self.fails = ""
        self._gpu = gpu
        self._numbers = itertools.count(1)
        self._memory: dict[int, vkbackend.Buffer | int] = {}
        self._mapped: dict[int, vkbackend.Buffer | None] = {}
        self._copies: collections.deque[tuple[int, Copy]] = collections.deque()
        self._begun: dict[int, Copy] = {}
        # Ranks may be threads; and what has the device's lock may call this.
        self._lock = gpu.logical.lock
        self._reserved = threading.local()
        self._asked: collections.Counter[int] = collections.Counter()

    def left(self) -> collections.Counter[str]:
        """Return what exists, without memory that no buffer lies in."""
        pool.shared_pool(self._gpu).release()
        return +self.live

    def __getattr__(self, name: str) -> _Function:
        found = getattr(type(self), f"_{name.removesuffix('_v2')}", None)
        if found is None:
            raise AttributeError(name)

        def call(*arguments: Any) -> int:
            if name == self.fails:
                return _INVALID
            with self._lock:
                return found(self, *arguments) or 0

        made = _Function(call)
        setattr(self, name, made)
        return made

    def _new(self, kind: str, place: Any) -> int:
        self.live[kind] += 1
        place._obj.value = number = next(self._numbers)
        return number

    def _cuInit(self, flags: int) -> None:
        assert flags == 0

    def _cuDriverGetVersion(self, place: Any) -> None:
        place._obj.value = 12040

    def _cuGetErrorName(self, result: int, place: Any) -> int:
        place._obj.value = {_INVALID: b"CUDA_ERROR_INVALID_VALUE"}.get(result)
        return 0 if place._obj.value else _INVALID

    def _cuGetErrorString(self, result: int, place: Any) -> None:
        place._obj.value = b"invalid argument"

    def _cuDeviceGetCount(self, place: Any) -> None:
        place._obj.value = 1

    def _cuDeviceGet(self, place: Any, number: int) -> None:
        place._obj.value = number

    def _cuDeviceGetUuid(self, place: Any, device: int) -> None:
        place._obj[:] = bytes.fromhex(self._gpu.info.uuid)

    def _cuDeviceGetAttribute(self, place: Any, attribute: int, device: int) -> None:
        place._obj.value = 1

    def _cuDevicePrimaryCtxRetain(self, place: Any, device: int) -> None:
        self._new("context", place)

    def _cuDevicePrimaryCtxRelease(self, device: int) -> None:
        self.live["context"] -= 1

    def _cuCtxPushCurrent(self, context: Any) -> None:
        self.live["current"] += 1

    def _cuCtxPopCurrent(self, place: Any) -> None:
        self.live["current"] -= 1

    def _cuMemGetInfo(self, free: Any, total: Any) -> None:
        free._obj.value = total._obj.value = 1 << 30

    def _cuMemGetAllocationGranularity(
        self, place: Any, given: Any, option: int
    ) -> None:
        place._obj.value = GRANULARITY

    def _cuMemCreate(self, place: Any, size: int, given: Any, flags: int) -> None:
        assert size % GRANULARITY == 0
        buffer = self._gpu.allocate_exportable(size)
        self._memory[self._new("memory", place)] = buffer

    def _cuMemExportToShareableHandle(
        self, place: Any, handle: int, kind: int, flags: int
    ) -> None:
        buffer = self._memory[handle]
        assert isinstance(buffer, vkbackend.Buffer)
        place._obj.value = self._gpu.export(buffer)

    def _cuMemImportFromShareableHandle(self, place: Any, fd: Any, kind: int) -> None:
        self._memory[self._new("memory", place)] = os.dup(fd.value)

    def _cuMemRelease(self, handle: int) -> None:
        found = self._memory.pop(handle)
        if isinstance(found, int):
            os.close(found)
        self.live["memory"] -= 1

    def _cuMemAddressReserve(
        self, place: Any, size: int, alignment: int, address: int, flags: int
    ) -> None:
        # Only once memory is mapped there is an address: that of the mapping.
        self._new("address", place)
        self._reserved.place = place._obj

    def _cuMemMap(
        self, address: int, size: int, offset: int, handle: int, flags: int
    ) -> None:
        buffer = self._memory[handle]
        if isinstance(buffer, int):
            buffer = self._gpu.import_descriptor(buffer, size)
        mapped = buffer.span.region.block.mapped
        assert mapped is not None
        found = ctypes.addressof(ctypes.c_char.from_buffer(mapped))
        self._reserved.place.value = found
        self._mapped[found] = buffer
        self.live["mapping"] += 1

    def _cuMemSetAccess(
        self, address: int, size: int, given: Any, count: int
    ) -> int | None:
        return None if address in self._mapped else _INVALID

    def _cuMemUnmap(self, address: int, size: int) -> None:
        self._mapped.pop(address, None)
        self.live["mapping"] -= 1

    def _cuMemAddressFree(self, address: int, size: int) -> None:
        self.live["address"] -= 1

    def _cuStreamCreate(self, place: Any, flags: int) -> None:
        self._new("stream", place)

    def _cuStreamSynchronize(self, stream: Any) -> None:
        while self._copies:
            self._copy()

    def _cuStreamDestroy(self, stream: Any) -> None:
        self.live["stream"] -= 1

    def _cuEventCreate(self, place: Any, flags: int) -> None:
        self._new("event", place)

    def _cuMemcpyDtoDAsync(
        self, target: int, source: int, size: int, stream: Any
    ) -> None:
        self._begun[stream.value] = target, source, size

    def _cuEventRecord(self, event: Any, stream: Any) -> None:
        self._copies.append((event.value, self._begun[stream.value]))
        self._asked[event.value] = 0

    def _cuEventQuery(self, event: Any) -> int:
        self._asked[event.value] += 1
        if self._asked[event.value] < 2:
            return _NOT_READY
        while any(number == event.value for number, _ in self._copies):
            self._copy()
        return 0

    def _copy(self) -> None:
        _, (target, source, size) = self._copies.popleft()
        ctypes.memmove(target, source, size)
        self.copies += 1

    def _cuEventDestroy(self, event: Any) -> None:
        self.live["event"] -= 1


def install(patch: Any, gpu: vkbackend.Device) -> FakeCuda:
    """Have the library's place taken for as long as a monkeypatch lasts."""
    library = FakeCuda(gpu)
    made = driver.CudaDriver(library)
    patch.setattr(driver, "load", lambda: made)
    patch.setattr(cuda, "load", lambda: made)
    patch.setattr(memory, "DRIVER", gpu.info.driver_name)
    # What other tests have left is another driver's.
    patch.setattr(pool, "_pools", {})
    return library
