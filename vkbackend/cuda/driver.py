"""CUDA's driver library through ctypes: memory that processes of a machine share.

It is loaded when it is first asked for, and only what is used here is declared. Nothing
of CUDA's runtime, and no package, is needed: the library comes with NVIDIA's driver.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import POINTER, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any

from vkbackend.errors import CudaError

LIBRARY = "libcuda.so.1"

NOT_READY = 600
_UNKNOWN = "unknown error"

_PINNED = 1
_BY_DESCRIPTOR = 1
_ON_DEVICE = 1
_READ_AND_WRITE = 3
_RECOMMENDED = 1
_NON_BLOCKING = 1
_WITHOUT_TIMES = 2
_VIRTUAL_MEMORY, _DESCRIPTORS = 102, 103
"""Attributes of a device."""

_UUID_SIZE = 16


class _Location(ctypes.Structure):
    _fields_ = (("type", c_int), ("id", c_int))


class _AllocationFlags(ctypes.Structure):
    _fields_ = (
        ("compressionType", ctypes.c_ubyte),
        ("gpuDirectRDMACapable", ctypes.c_ubyte),
        ("usage", ctypes.c_ushort),
        ("reserved", ctypes.c_ubyte * 4),
    )


class AllocationProperties(ctypes.Structure):
    """`CUmemAllocationProp`."""

    _fields_ = (
        ("type", c_int),
        ("requestedHandleTypes", c_int),
        ("location", _Location),
        ("win32HandleMetaData", c_void_p),
        ("allocFlags", _AllocationFlags),
    )


class AccessDescriptor(ctypes.Structure):
    """`CUmemAccessDesc`."""

    _fields_ = (("location", _Location), ("flags", c_int))


_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "cuInit": (c_uint,),
    "cuDriverGetVersion": (POINTER(c_int),),
    "cuGetErrorName": (c_int, POINTER(ctypes.c_char_p)),
    "cuGetErrorString": (c_int, POINTER(ctypes.c_char_p)),
    "cuDeviceGetCount": (POINTER(c_int),),
    "cuDeviceGet": (POINTER(c_int), c_int),
    "cuDeviceGetUuid": (c_void_p, c_int),
    "cuDeviceGetAttribute": (POINTER(c_int), c_int, c_int),
    "cuDeviceCanAccessPeer": (POINTER(c_int), c_int, c_int),
    "cuDevicePrimaryCtxRetain": (POINTER(c_void_p), c_int),
    "cuDevicePrimaryCtxRelease_v2": (c_int,),
    "cuCtxPushCurrent_v2": (c_void_p,),
    "cuCtxPopCurrent_v2": (POINTER(c_void_p),),
    "cuMemGetInfo_v2": (POINTER(c_size_t), POINTER(c_size_t)),
    "cuMemGetAllocationGranularity": (
        *(POINTER(c_size_t), POINTER(AllocationProperties), c_int),
    ),
    "cuMemCreate": (
        *(POINTER(c_uint64), c_size_t, POINTER(AllocationProperties), c_uint64),
    ),
    "cuMemRelease": (c_uint64,),
    "cuMemExportToShareableHandle": (c_void_p, c_uint64, c_int, c_uint64),
    "cuMemImportFromShareableHandle": (POINTER(c_uint64), c_void_p, c_int),
    "cuMemAddressReserve": (
        *(POINTER(c_uint64), c_size_t, c_size_t, c_uint64, c_uint64),
    ),
    "cuMemAddressFree": (c_uint64, c_size_t),
    "cuMemMap": (c_uint64, c_size_t, c_size_t, c_uint64, c_uint64),
    "cuMemUnmap": (c_uint64, c_size_t),
    "cuMemSetAccess": (c_uint64, c_size_t, POINTER(AccessDescriptor), c_size_t),
    "cuStreamCreate": (POINTER(c_void_p), c_uint),
    "cuStreamSynchronize": (c_void_p,),
    "cuStreamDestroy_v2": (c_void_p,),
    "cuEventCreate": (POINTER(c_void_p), c_uint),
    "cuEventRecord": (c_void_p, c_void_p),
    "cuEventQuery": (c_void_p,),
    "cuEventDestroy_v2": (c_void_p,),
    "cuMemcpyDtoDAsync_v2": (c_uint64, c_uint64, c_size_t, c_void_p),
}


class CudaDriver:
    """Calls of CUDA's driver, each of which raises `CudaError` where it fails.

    Parameters
    ----------
    library : ctypes.CDLL
        The driver's.
    """

    def __init__(self, library: Any) -> None:
        self._library = library
        self._functions: dict[str, Any] = {}
        self.call("cuInit", 0)

    def result_of(self, name: str, *arguments: Any) -> int:
        """Call a function; return its `CUresult`."""
        function = self._functions.get(name)
        if function is None:
            try:
                function = getattr(self._library, name)
            except AttributeError:
                raise CudaError(
                    f"{name}: {LIBRARY} has no such function; install a driver of"
                    " NVIDIA's that is newer"
                ) from None
            function.argtypes, function.restype = _SIGNATURES[name], c_int
            self._functions[name] = function
        return int(function(*arguments))

    def call(self, name: str, *arguments: Any, detail: str = "") -> None:
        """Call a function.

        Parameters
        ----------
        name : str
        *arguments
            Its own, in its order.
        detail : str
            What the error says beside the call.

        Raises
        ------
        CudaError
            With name and text of the `CUresult`.
        """
        result = self.result_of(name, *arguments)
        if result:
            after = f": {detail}" if detail else ""
            raise CudaError(f"{name}: {self.described(result)}{after}", result)

    def described(self, result: int) -> str:
        """Return name, number and text of a `CUresult`."""
        texts = []
        for name in ("cuGetErrorName", "cuGetErrorString"):
            found = ctypes.c_char_p()
            known = not self.result_of(name, result, ctypes.byref(found))
            text = (found.value or b"").decode(errors="replace") if known else ""
            texts.append(text or _UNKNOWN)
        return f"{texts[0]} ({result}): {texts[1]}"

    @property
    def version(self) -> str:
        """Version of CUDA that the driver offers."""
        found = c_int()
        self.call("cuDriverGetVersion", ctypes.byref(found))
        return f"{found.value // 1000}.{found.value % 1000 // 10}"

    def devices(self) -> dict[str, int]:
        """Return the devices that CUDA sees by the UUID that Vulkan gives them, too."""
        count = c_int()
        self.call("cuDeviceGetCount", ctypes.byref(count))
        found = {}
        for number in range(count.value):
            device, uuid = c_int(), (ctypes.c_ubyte * _UUID_SIZE)()
            self.call("cuDeviceGet", ctypes.byref(device), number)
            self.call("cuDeviceGetUuid", ctypes.byref(uuid), device.value)
            found[bytes(uuid).hex()] = device.value
        return found

    def missing(self, device: int) -> str:
        """Return what a device lacks to share memory; nothing if it can."""
        for attribute, name in (
            (_VIRTUAL_MEMORY, "virtual memory management"),
            (_DESCRIPTORS, "memory with descriptors"),
        ):
            found = c_int()
            asked = ctypes.byref(found), attribute, device
            self.call("cuDeviceGetAttribute", *asked)
            if not found.value:
                return name
        return ""

    def accesses(self, device: int, peer: int) -> bool:
        """Return whether a device reaches the memory of another one, or itself."""
        if device == peer:
            return True
        found = c_int()
        self.call("cuDeviceCanAccessPeer", ctypes.byref(found), device, peer)
        return bool(found.value)


class CudaContext:
    """The primary context of a device, with a stream and what is done in it.

    All of a process use the same context, PyTorch among them.

    Parameters
    ----------
    driver : CudaDriver
    device : int
        As `CudaDriver.devices` has it.
    """

    def __init__(self, driver: CudaDriver, device: int) -> None:
        self.driver, self._device = driver, device
        self._context, self.stream = c_void_p(), c_void_p()
        driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), device)
        try:
            with self.current():
                made = ctypes.byref(self.stream)
                driver.call("cuStreamCreate", made, _NON_BLOCKING)
        except BaseException:
            driver.call("cuDevicePrimaryCtxRelease_v2", device)
            raise
        self._properties = AllocationProperties(
            type=_PINNED,
            requestedHandleTypes=_BY_DESCRIPTOR,
            location=_Location(_ON_DEVICE, device),
        )

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make it the thread's current one for a while."""
        self.driver.call("cuCtxPushCurrent_v2", self._context)
        try:
            yield
        finally:
            self.driver.call("cuCtxPopCurrent_v2", ctypes.byref(c_void_p()))

    def free_bytes(self) -> int:
        """Return how much of the device's memory is free."""
        free, total = c_size_t(), c_size_t()
        with self.current():
            self.driver.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value

    def granularity(self) -> int:
        """Return what sizes of memory are multiples of."""
        found = c_size_t()
        given = ctypes.byref(found), ctypes.byref(self._properties), _RECOMMENDED
        self.driver.call("cuMemGetAllocationGranularity", *given)
        return found.value

    def create(self, size: int) -> int:
        """Return the handle of new memory; sizes are multiples of `granularity`."""
        handle = c_uint64()
        given = ctypes.byref(handle), size, ctypes.byref(self._properties), 0
        with self.current():
            self.driver.call("cuMemCreate", *given, detail=f"{size} bytes")
        return handle.value

    def exported(self, handle: int) -> int:
        """Return a descriptor of memory, which the caller closes."""
        found = c_int(-1)
        given = ctypes.byref(found), handle, _BY_DESCRIPTOR, 0
        self.driver.call("cuMemExportToShareableHandle", *given)
        return found.value

    def imported(self, descriptor: int) -> int:
        """Return the handle of memory that a descriptor refers to."""
        handle = c_uint64()
        given = ctypes.byref(handle), c_void_p(descriptor), _BY_DESCRIPTOR
        with self.current():
            self.driver.call("cuMemImportFromShareableHandle", *given)
        return handle.value

    def mapped(self, handle: int, size: int) -> int:
        """Return the address at which this device reads and writes memory."""
        place, driver = c_uint64(), self.driver
        access = AccessDescriptor(_Location(_ON_DEVICE, self._device), _READ_AND_WRITE)
        with self.current():
            driver.call("cuMemAddressReserve", ctypes.byref(place), size, 0, 0, 0)
            try:
                driver.call("cuMemMap", place.value, size, 0, handle, 0)
                try:
                    given = place.value, size, ctypes.byref(access), 1
                    driver.call("cuMemSetAccess", *given)
                except BaseException:
                    driver.call("cuMemUnmap", place.value, size)
                    raise
            except BaseException:
                driver.call("cuMemAddressFree", place.value, size)
                raise
        return place.value

    def unmap(self, address: int, size: int) -> None:
        """Give an address back."""
        with self.current():
            self.driver.call("cuMemUnmap", address, size)
            self.driver.call("cuMemAddressFree", address, size)

    def release(self, handle: int) -> None:
        """Let go of memory, which is freed once nobody has it."""
        self.driver.call("cuMemRelease", handle)

    def event(self) -> c_void_p:
        """Return an event without times, which `destroy` takes."""
        found = c_void_p()
        with self.current():
            self.driver.call("cuEventCreate", ctypes.byref(found), _WITHOUT_TIMES)
        return found

    def copy(self, source: int, target: int, size: int, event: c_void_p) -> None:
        """Copy between addresses, after the copies before; record an event after it."""
        with self.current():
            self.driver.call("cuMemcpyDtoDAsync_v2", target, source, size, self.stream)
            self.driver.call("cuEventRecord", event, self.stream)

    def happened(self, event: c_void_p) -> bool:
        """Return whether the device has got to an event."""
        result = self.driver.result_of("cuEventQuery", event)
        if result not in (0, NOT_READY):
            raise CudaError(f"cuEventQuery: {self.driver.described(result)}", result)
        return not result

    def destroy(self, event: c_void_p) -> None:
        """Destroy an event."""
        self.driver.call("cuEventDestroy_v2", event)

    def synchronize(self) -> None:
        """Wait for the copies."""
        with self.current():
            self.driver.call("cuStreamSynchronize", self.stream)

    def close(self) -> None:
        """Let go of the stream and the context."""
        with self.current():
            self.driver.call("cuStreamDestroy_v2", self.stream)
        self.driver.call("cuDevicePrimaryCtxRelease_v2", self._device)


@functools.cache
def load() -> CudaDriver:
    """Return CUDA's driver, which the first call loads and initialises.

    Raises
    ------
    CudaError
        If there is none, or it has no device.
    """
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError as error:
        raise CudaError(f"{LIBRARY} cannot be loaded ({error})") from None
    return CudaDriver(library)
