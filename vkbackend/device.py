"""Device: the one object that users hold; owns everything below, closes it in order."""

# Longer than most: the whole public interface of a device, with its documentation.

from __future__ import annotations

import contextlib
import operator
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any
from weakref import WeakValueDictionary

from vkbackend.command.batch import Batch
from vkbackend.command.dispatch_sequence import DispatchSequence, SequenceCommand
from vkbackend.command.recording import Recording
from vkbackend.command.timestamps import Profile
from vkbackend.command.transfer import Transfer
from vkbackend.counters import Counters
from vkbackend.driver.device_info import DeviceInfo
from vkbackend.driver.logical_device import LogicalDevice
from vkbackend.driver.physical_device import PhysicalDevice
from vkbackend.driver.queues import Queues
from vkbackend.errors import ArgumentError, DeviceLost
from vkbackend.memory.buffer import Buffer
from vkbackend.memory.byte_view import byte_view
from vkbackend.memory.host_pages import HostPages
from vkbackend.memory.imports import Imports
from vkbackend.memory.memory import Block, Memory, MemoryUsage, gibibytes
from vkbackend.memory.pool import Pool
from vkbackend.memory.staging_arena import Arena
from vkbackend.memory.status_record import StatusRecord
from vkbackend.shader.compiler import find_or_compile, load_kernel_source
from vkbackend.shader.float_controls import forbid_contraction
from vkbackend.shader.interface import Constant
from vkbackend.shader.pipeline import Pipeline, PipelineBuilder

from . import config, fork_safety

_MAX_CACHED_PIPELINES = 512
"""Most recent pipelines kept alive without references; on a software device each takes
half a mebibyte of memory."""

_ARGUMENT_CHUNK = 1 << 20
_ARGUMENT_CHUNKS = 16
# As float16, bfloat16, float32 and float64 alike, all ones is a NaN.
_POISON = 0xFFFFFFFF


class Device:
    """An opened device: memory, pipelines, batches and transfers.

    Made by `open_device`. All methods may be called from any thread.

    Attributes
    ----------
    name : str
        Its name among `devices()`, which no other has.
    info : DeviceInfo
        What it can do.
    counters : Counters
        What was done on it, in running totals.
    queues : Queues
        Its queues; `compute_queue` is the first of them.
    at_close : list of callable
        Callbacks of layers above, called when it has been closed.
    status : StatusRecord or None
        What kernels report to the host; None until `status_record` has made it.
    at_info_change : list of callable
        Callbacks of layers above, called when `info` has been replaced, by a test.
    """

    def __init__(self, chosen: PhysicalDevice) -> None:
        self.physical = chosen
        self.name = chosen.name
        self._info: DeviceInfo = chosen.info
        self.logical = LogicalDevice(chosen)
        self.counters: Counters = self.logical.counters
        self._building = threading.RLock()
        fork_safety.renew(self, "_building", threading.RLock)
        self._closed = ""
        self._complete = False
        self.at_close: list[Callable[[], object]] = []
        self.at_info_change: list[Callable[[], object]] = []
        # From here on the exit of the process closes it, if nobody else does.
        _devices.append(self)
        try:
            self._open()
        except BaseException:
            self._closed = "closed"
            self.logical.close()
            _devices.remove(self)
            raise

    @property
    def info(self) -> DeviceInfo:
        """What it can do."""
        return self._info

    @info.setter
    def info(self, info: DeviceInfo) -> None:
        self._info = info
        for changed in self.at_info_change:
            changed()

    def _open(self) -> None:
        """Create all that belongs to the device."""
        self.logical.open()
        self.queues = Queues(self.logical)
        self.compute_queue = self.queues.compute
        self.memory = Memory(self.logical)
        self.pool = Pool(self.memory, self.queues.all)
        self._imports = Imports(self.memory)
        self.transfer = Transfer(
            self.logical, self.memory, self.queues, self.check_open
        )
        self._argument_arena = Arena(
            self.memory,
            MemoryUsage.ARGUMENTS,
            _ARGUMENT_CHUNK,
            _ARGUMENT_CHUNKS,
            self.pool.release_unused,
        )
        self._builder = PipelineBuilder(self.logical, self.compute_queue)
        self._pipelines: WeakValueDictionary[object, Pipeline] = WeakValueDictionary()
        self._recent_pipelines: deque[Pipeline] = deque(maxlen=_MAX_CACHED_PIPELINES)
        self._modules: dict[object, bytes] = {}
        self._unpublished: dict[Recording, None] = {}
        self._poison = config.POISON.enabled()
        self.status: StatusRecord | None = None
        self.open_profile: Profile | None = None
        self._complete = True

    def __repr__(self) -> str:
        state = self._closed or ("lost" if self.logical.lost else "")
        state = f", {state}" if state else ""
        return f"<Device {self.name}{state}>"

    def check_open(self, where: str) -> None:
        """Raise an error if the device is closed or lost.

        Raises
        ------
        ArgumentError
            If it is closed, or belongs to another process.
        DeviceLost
            If the driver has lost it.
        """
        if self.logical.lost:
            self.logical.check_lost()
        if self._closed:
            raise ArgumentError(
                f"{where}: the device is {self._closed}: {self.name}; open a"
                f" device in this process first"
            )

    def allocate(self, size: int, *, name: str = "") -> Buffer:
        """Return new device memory; its content is undefined.

        Waits for the device only when memory runs short.

        Parameters
        ----------
        size : int
            Bytes; 0 is allowed.
        name : str, default ""
            For memory dumps and messages.

        Raises
        ------
        OutOfDeviceMemory
            With the numbers.
        """
        if type(size) is not int:
            size = _as_int("allocate", size)
        if size < 0:
            raise ArgumentError(
                f"allocate: the size is negative: {size}; it must be 0 or more bytes"
            )
        with self.logical.lock:
            self.check_open("allocate")
            pool = self.pool
            span = pool.allocate(size, name)
            buffer = Buffer(self, span, size, name, pool.deferred_frees)
        if self._poison:
            batch = self.batch()
            batch.fill(buffer, _POISON)
            batch.submit()
        return buffer

    def allocate_each(
        self,
        sizes: Sequence[int],
        wanted: Sequence[Sequence[int]] = (),
        idle: bool = False,
    ) -> list[Buffer]:
        """Return new device memory of each size, as `allocate` does, in less time.

        Parameters
        ----------
        sizes : sequence of int
            Bytes.
        wanted : sequence of sequence of int
            Rows of an address for each size, the best first: memory there is taken
            where it is free and of this size.
        idle : bool, default False
            Take it there only where all work on it is over, as for what the host
            writes.
        """
        if self._poison:
            return [self.allocate(size) for size in sizes]
        logical = self.logical
        with logical.lock:
            if self._closed or logical.lost:
                self.check_open("allocate")
            spans = self.pool.allocate_each(sizes, "", wanted, idle)
        buffers, deferred_frees = [], self.pool.deferred_frees
        for span, size in zip(spans, sizes):
            buffers.append(Buffer(self, span, size, "", deferred_frees))
        return buffers

    def import_pages(self, pages: HostPages, *, name: str = "") -> Buffer:
        """Return host pages as a buffer: kernels and copies use them where they lie.

        The buffer keeps the pages mapped. What the host or another device does with
        them is not waited for: wait for `Buffer.points` before the host touches what
        the device uses, and submit after the host has written.

        Parameters
        ----------
        pages : HostPages
            All of them; imported once at a time.
        name : str, default ""
            For messages.

        Raises
        ------
        ArgumentError
            If the device imports no pages (`memory.import_alignment` is 0), has these
            already, or they are not aligned as it asks.
        VulkanError
            If the driver refuses them.

        Notes
        -----
        Kernels and copies reach 50 GB/s beside an NVIDIA H200.
        """
        if not isinstance(pages, HostPages):
            raise ArgumentError(
                f"import_pages: {type(pages).__name__} is not accepted: a device may"
                f" break on pages that are a file's; give HostPages"
            )
        with self.logical.lock:
            self.check_open("import_pages")
            span, freed = self._imports.add(pages, name), self._imports.deferred_frees
            return Buffer(self, span, pages.size, name, freed)

    def allocate_exportable(self, size: int, *, name: str = "") -> Buffer:
        """Return new device memory that `export` takes, outside of the pool.

        Parameters
        ----------
        size : int
            Bytes, at least 1.
        name : str, default ""
            For messages.
        """
        with self.logical.lock:
            self.check_open("allocate_exportable")
            block = self.memory.allocate_exportable(_as_int("allocate", size), name)
            return self._adopted(block, name)

    def import_descriptor(self, fd: int, size: int, *, name: str = "") -> Buffer:
        """Return memory of another device or process, of the same card and driver.

        Parameters
        ----------
        fd : int
            What `export` returned; it stays the caller's.
        size : int
            Bytes, as it was allocated with.
        name : str, default ""
            For messages.

        Raises
        ------
        ArgumentError
            If it is a file, folder or pipe, or the memory is smaller.
        """
        with self.logical.lock:
            self.check_open("import_descriptor")
            return self._adopted(self.memory.import_descriptor(fd, size, name), name)

    def _adopted(self, block: Block, name: str) -> Buffer:
        span, freed = self._imports.adopt(block), self._imports.deferred_frees
        return Buffer(self, span, block.size, name, freed)

    def export(self, buffer: Buffer) -> int:
        """Return a new descriptor of exportable memory, which the caller closes."""
        self._check_own("export", buffer)
        with self.logical.lock:
            self.check_open("export")
            return self.memory.export(buffer.span.region.block)

    def revoke(self, buffer: Buffer) -> None:
        """Let go of the memory of an import now, whoever refers to its buffer.

        Waits for the work that uses it. Using the buffer is an error afterwards: so an
        exception, whose traceback refers to it, does not keep a window mapped.

        Parameters
        ----------
        buffer : Buffer
            Of `import_pages` or `import_descriptor`.
        """
        self.settle()
        with self.logical.lock:
            self.check_open("revoke")
            if buffer.device is self:
                self._imports.revoke(buffer)

    def release_imports(self) -> int:
        """Let go of pages whose buffers are gone; return how many imports are left.

        Waits for the work that uses them. Whoever unmaps a window calls it first, and
        goes on when it returns 0.
        """
        with self.logical.lock:
            self.check_open("release_imports")
            self.settle()
            return self._imports.release(wait=True)

    def upload(self, data: Any, buffer: Buffer, offset: int = 0) -> None:
        """Write host bytes into a buffer; `data` may be changed afterwards.

        Waits for the work that uses the buffer on devices that share the host's memory
        (software and integrated ones); on others only where much lies in memory that
        `read` has returned, which the device copies by itself.

        Parameters
        ----------
        data : bytes-like or C-contiguous ndarray
            What to write.
        buffer : Buffer
            Where to.
        offset : int, default 0
            Bytes from the buffer's start.
        """
        self.check_open("upload")
        self.settle()
        view = byte_view("upload", data)
        self._check_own("upload", buffer)
        buffer.check_range("upload", offset, len(view))
        if len(view):
            self.transfer.upload(view, buffer, offset)

    def read(
        self,
        buffer: Buffer,
        offset: int = 0,
        size: int | None = None,
        *,
        out: Any = None,
    ) -> memoryview:
        """Return bytes of a buffer; waits for its last write and for nothing else.

        Parameters
        ----------
        buffer : Buffer
            Where from.
        offset : int, default 0
            Bytes from the buffer's start.
        size : int, optional
            Bytes; None reads to the end, or as many as `out` has.
        out : writable bytes-like or C-contiguous ndarray, optional
            Where to. Without it, to memory of the library's own, which is used again
            once nothing refers to it: that is quicker where there is much to read.

        Returns
        -------
        memoryview
            The bytes, writable: those of `out` if it is given.
        """
        if self._closed or self.logical.lost:
            self.check_open("read")
        self.settle()
        target = None if out is None else byte_view("read", out)
        if size is None:
            size = buffer.size - offset if target is None else len(target)
        if buffer.device is not self:
            self._check_own("read", buffer)
        if offset < 0 or size < 0 or offset + size > buffer.size:
            buffer.check_range("read", offset, size)
        if target is not None and (target.readonly or len(target) != size):
            kind = "read-only" if target.readonly else "writable"
            raise ArgumentError(
                f"read: `out` does not fit: {len(target)} bytes, {kind}, for {size}; it"
                f" must be writable and have as many bytes as are read"
            )
        if not size:
            return memoryview(bytearray())
        return self.transfer.read(buffer, offset, size, target)

    def _check_own(self, where: str, buffer: Buffer) -> None:
        if buffer.device is not self:
            raise ArgumentError(
                f"{where}: {buffer!r} is on another device: {buffer.device.name};"
                f" this one is {self.name}"
            )

    def pipeline(
        self,
        kernel: str,
        *,
        source: str | None = None,
        defines: Mapping[str, str] | None = None,
        constants: Mapping[str, Constant] | None = None,
        contract: bool = True,
    ) -> Pipeline:
        """Return a kernel that is ready to run; the same content is built only once.

        The latest 512 are kept, older ones for as long as somebody holds them.

        Parameters
        ----------
        kernel : str
            Name of a library kernel, as `matmul/gemm_tiled`; with `source`, a name for
            messages.
        source : str, optional
            GLSL.
        defines : mapping of str to str, optional
            Macros.
        constants : mapping of str to bool, int or float, optional
            Specialization constants by name; `LOCAL_X`, `LOCAL_Y` and `LOCAL_Z` set the
            workgroup's size where the shader leaves it open.
        contract : bool, default True
            Whether the driver may make one rounding of a product and a sum. If not, an
            expression has the same bits whatever the shader computes beside it.

        Raises
        ------
        ShaderError
            If it does not compile or needs what the device lacks.
        ArgumentError
            If a constant is unknown or the workgroup is too large.
        """
        defines = defines or {}
        constants = constants or {}
        text = (kernel, source, tuple(sorted(defines.items())), contract)
        key = (text, tuple(sorted(constants.items())))
        found = self._pipelines.get(key)
        if found is not None:
            return found
        with self._building:
            self.check_open("pipeline")
            found = self._pipelines.get(key)
            if found is None:
                words = self._compile(text, kernel, source, defines, contract)
                found = self._builder.build(words, kernel, constants)
                self._pipelines[key] = found
                self._recent_pipelines.append(found)
            return found

    def _compile(
        self,
        key: object,
        kernel: str,
        source: str | None,
        defines: Mapping[str, str],
        contract: bool,
    ) -> bytes:
        """Return the SPIR-V of a kernel, compiled once for all its constants."""
        if key not in self._modules:
            name, folders = kernel, []
            if source is None:
                source, path = load_kernel_source(kernel)
                name, folders = f"glsl/{kernel}.comp", [path.parent]
            words, compiled = find_or_compile(source, name, defines, folders)
            self._modules[key] = words if contract else forbid_contraction(words)
            self.counters.shader_compiles += compiled
            if len(self._modules) > _MAX_CACHED_PIPELINES:
                del self._modules[next(iter(self._modules))]
        return self._modules[key]

    def status_record(self) -> StatusRecord:
        """Return the device's status record, which the first call allocates."""
        if self.status is None:
            with self.logical.lock:
                self.check_open("status_record")
                if self.status is None:
                    self.status = StatusRecord(self.memory)
        return self.status

    def batch(self) -> Batch:
        """Return an empty batch of commands."""
        self.check_open("batch")
        return Batch(
            self, self.compute_queue, self._builder.layout, self._argument_arena
        )

    def record(self, batch: Batch) -> Recording:
        """Return a batch's commands recorded for any number of submissions.

        The batch stays as it was; it must not be empty.
        """
        return Recording(self, batch, self._argument_arena, self._unpublished)

    def settle(self) -> None:
        """Publish the timeline points of replays submitted since the last call.

        Called before any look at a buffer's timeline points, so that a replay costs the
        same however many buffers it uses. Until then their recordings, and so their
        buffers, are referred to: what gives memory back calls it first.
        """
        if self._unpublished:
            with self.logical.lock:
                # Idempotent: after an interrupt all of it is done again.
                for recording in sorted(self._unpublished, key=_submission):
                    recording.settle()
                self._unpublished.clear()

    @contextlib.contextmanager
    def profile(self, *, repeat: int = 1, each: bool = True) -> Iterator[Profile]:
        """Measure what batches take on the device's own clock; a context manager.

        Waits for the measured work at its end; then `spans` of what it gives are there.

        Parameters
        ----------
        repeat : int, default 1
            Times that each batch's commands are run, for short ones.
        each : bool, default True
            Measure every command; otherwise each batch as a whole.

        Raises
        ------
        ArgumentError
            If the device has no timestamps, or a profile is open already.
        """
        with self.logical.lock:
            self.check_open("profile")
            if self.open_profile is not None:
                raise ArgumentError(
                    "profile: one is open already; close it before opening another"
                )
            profile = Profile(self.logical, self.compute_queue, repeat, each)
            self.open_profile = profile
        try:
            yield profile
        finally:
            with self.logical.lock:
                self.open_profile = None
            profile.close()

    def memory_stats(self) -> dict[str, int]:
        """Return the pool's bytes and counts.

        Returns
        -------
        dict
            `in_use`, `reserved`, `peak_in_use`, `peak_reserved`, `deferred` (freed,
            work pending) and `cached` (free in blocks) are bytes; `blocks`,
            `allocations` (now), `total_allocations` and `reuses` are counts.
        """
        with self.logical.lock:
            return self.pool.statistics()

    def reset_memory_peaks(self) -> None:
        """Let `peak_in_use` and `peak_reserved` begin with what there is now."""
        with self.logical.lock:
            self.pool.reset_peaks()

    def memory_summary(self) -> str:
        """Return the pool's statistics as a table to print."""
        rows = [f"{self.name}: device memory"]
        for key, value in self.memory_stats().items():
            text = str(value) if key in _COUNTS else gibibytes(value)
            rows.append(f"  {key.replace('_', ' '):<18} {text:>14}")
        return "\n".join(rows)

    def memory_dump(self) -> dict[str, Any]:
        """Return statistics and every live allocation, ready for `json.dumps`."""
        with self.logical.lock:
            return {
                "device": self.name,
                "statistics": self.pool.statistics(),
                "allocations": self.pool.live(),
            }

    def empty_cache(self) -> int:
        """Return unused blocks to the driver, do not wait; return the bytes freed.

        Unused host memory of transfers and of imports is given up too, not counted.
        """
        with self.logical.lock:
            self.check_open("empty_cache")
            self.settle()
            self.transfer.trim()
            self._imports.release(wait=False)
            return self.pool.trim()

    def sequence(self, commands: Sequence[SequenceCommand | None]) -> DispatchSequence:
        """Return dispatches for repeated submission; see `DispatchSequence`."""
        return DispatchSequence(self, commands)

    def synchronize(self) -> None:
        """Wait for everything that has been submitted."""
        self.check_open("synchronize")
        for queue in self.queues.all:
            if queue.completed < queue.submitted:
                queue.wait(queue.submitted)

    def live_objects(self) -> dict[str, int]:
        """Return how many Vulkan objects of each kind exist; empty after `close`."""
        return self.logical.live_objects()

    @property
    def usable(self) -> bool:
        """Whether it is open and not lost."""
        return not self._closed and not self.logical.lost

    def close(self) -> None:
        """Wait for all work and destroy everything; buffers become unusable.

        One that is stopped, by an error or by Ctrl-C, leaves the device unusable, and
        is finished by the next.
        """
        with self._building, self.logical.lock:
            if self._closed == _PARENTS:
                return
            self._closed = "closed"
            if self in _devices:
                self._destroy()
            # Last, so that a close that was stopped before is done again.
            if self in _devices:
                _devices.remove(self)
        for call in self.at_close:
            call()

    def _destroy(self) -> None:
        """Destroy everything; whatever is destroyed already is passed over."""
        if not self._complete:
            self.logical.close()
            return
        self.queues.drain(self.logical)
        with contextlib.suppress(DeviceLost):
            if self.open_profile is not None:
                self.open_profile.close()
        self.logical.drain_unlocked_calls()
        self.transfer.close()
        if self.status is not None:
            self.status.close()
        self._argument_arena.close()
        self._builder.close()
        self._recent_pipelines.clear()
        self._pipelines.clear()
        self._imports.close()
        self.pool.close()
        self.queues.close()
        self.logical.close()

    def disown(self) -> None:
        """Make it unusable without touching Vulkan: after a fork it is the parent's."""
        self._closed = _PARENTS
        self.logical.forked = True


_COUNTS = frozenset({"blocks", "allocations", "total_allocations", "reuses"})


_submission = attrgetter("value")


def _as_int(where: str, size: Any) -> int:
    """Return a size as Python's int; floats are refused, also whole ones."""
    try:
        return operator.index(size)
    except TypeError:
        raise ArgumentError(
            f"{where}: the size is no whole number: {size!r}; give bytes as an int"
        ) from None


_PARENTS = "the parent process's"

_devices: list[Device] = []


def unclosed() -> list[Device]:
    """Return every device that has not been closed to the end."""
    return list(_devices)


def disown_all() -> None:
    """Make every device unusable: in a forked child."""
    for device in _devices:
        device.disown()
    _devices.clear()
