"""Device memory: memory type selection, blocks, mapping, budget.

| use | wanted | example |
| --- | --- | --- |
| `DEVICE` | the device's own, and mapped where it can be | tensors |
| `ARGUMENTS` | written by the host, read by kernels | argument blocks |
| `UPLOAD` | written by the host once, copied from | staging towards the device |
| `READBACK` | copied to, read by the host: cached | staging from the device |

A block is one `VkDeviceMemory` with one `VkBuffer` over all of it, whose device address
is the base of every address inside. Mapped memory is always host-coherent (the
specification guarantees such a type), so nothing is ever flushed.

Pages of the host can be a block too: `Memory.import_pages`, by
`VK_EXT_external_memory_host`. Copies and kernels use them as any other memory.
"""

import contextlib
import ctypes
import enum
import os
import stat
from dataclasses import dataclass

from vkbackend.driver.logical_device import LogicalDevice
from vkbackend.errors import ArgumentError, Error, OutOfDeviceMemory, VulkanError
from vkbackend.vk import generated as vk
from vkbackend.vk import runtime

from .host_pages import HostPages
from .import_check import failure_in_child, is_known

_LOCAL = vk.VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT
_MAPPED = (
    vk.VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | vk.VK_MEMORY_PROPERTY_HOST_COHERENT_BIT
)
_CACHED = vk.VK_MEMORY_PROPERTY_HOST_CACHED_BIT

_BUFFER_USAGE = (
    vk.VK_BUFFER_USAGE_STORAGE_BUFFER_BIT
    | vk.VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT
    | vk.VK_BUFFER_USAGE_TRANSFER_SRC_BIT
    | vk.VK_BUFFER_USAGE_TRANSFER_DST_BIT
)
_DESCRIPTOR = vk.VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT
_HOST_PAGES = vk.VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT


class MemoryUsage(enum.Enum):
    """Intended use of an allocation; see the module's table."""

    DEVICE = "device"
    ARGUMENTS = "arguments"
    UPLOAD = "upload"
    READBACK = "readback"


@dataclass(frozen=True)
class _TypePreference:
    """Property bits that a memory type must have, and bits that it must not."""

    required_flags: int
    excluded_flags: int = 0

    def matches(self, flags: int) -> bool:
        return (
            flags & self.required_flags == self.required_flags
            and not flags & self.excluded_flags
        )


# The first preference that a type matches wins. Mapped memory is as fast for kernels as
# any (a copy on an NVIDIA H200: 4.0 TB/s against 3.9), and small transfers need no
# submission.
_TYPE_PREFERENCES = {
    MemoryUsage.DEVICE: (
        _TypePreference(_LOCAL | _MAPPED | _CACHED),
        _TypePreference(_LOCAL | _MAPPED),
        _TypePreference(_LOCAL),
        _TypePreference(0),
    ),
    MemoryUsage.ARGUMENTS: (
        _TypePreference(_LOCAL | _MAPPED),
        _TypePreference(_MAPPED),
    ),
    MemoryUsage.UPLOAD: (_TypePreference(_MAPPED, _LOCAL), _TypePreference(_MAPPED)),
    MemoryUsage.READBACK: (
        _TypePreference(_MAPPED | _CACHED),
        _TypePreference(_MAPPED),
    ),
}


@dataclass(frozen=True)
class MemoryType:
    """Memory type: its index, heap and property bits."""

    index: int
    heap: int
    flags: int


def choose_type(
    types: tuple[MemoryType, ...], use: MemoryUsage, allowed: int
) -> MemoryType:
    """Return the memory type for a use.

    Parameters
    ----------
    types : tuple of MemoryType
        What the device has.
    use : MemoryUsage
        What the memory is for.
    allowed : int
        Bit mask of the type indices that the buffer accepts.
    """
    candidates = [row for row in types if allowed >> row.index & 1]
    if use is MemoryUsage.DEVICE:
        # Without resizable BAR, mapped device memory is a small window: another heap.
        local = [row for row in candidates if row.flags & _LOCAL]
        window = {row.heap for row in local} - {row.heap for row in local[:1]}
        candidates = [row for row in candidates if row.heap not in window]
    for preference in _TYPE_PREFERENCES[use]:
        for row in candidates:
            if preference.matches(row.flags):
                return row
    raise OutOfDeviceMemory(
        f"memory: no type serves `{use.value}`: the device has"
        f" {[hex(row.flags) for row in types]}, allowed {allowed:#x}"
    )


def second_type(
    types: tuple[MemoryType, ...], use: MemoryUsage, first: MemoryType, allowed: int
) -> MemoryType | None:
    """Return the type that serves where the driver has no more of the chosen one.

    NVIDIA's driver maps only half of a card: on an H200 of 139 GiB (580.159.04,
    2026-11-29), allocations of mapped device memory failed from 70 GiB on. Tensors are
    as quick in the memory of that heap which is not mapped; arguments of kernels, which
    the host writes, go to its own memory.
    """
    if not first.flags & _LOCAL or not first.flags & _MAPPED:
        return None
    for row in types:
        local, mapped = bool(row.flags & _LOCAL), row.flags & _MAPPED == _MAPPED
        serves = {
            MemoryUsage.DEVICE: row.heap == first.heap and local and not mapped,
            MemoryUsage.ARGUMENTS: mapped and not local,
        }
        if allowed >> row.index & 1 and serves.get(use, False):
            return row
    return None


@dataclass(eq=False)
class Block:
    """Block of device memory: one allocation with one buffer over all of it.

    Attributes
    ----------
    memory, buffer : int
        The `VkDeviceMemory` and the `VkBuffer`.
    address : int
        Device address of its first byte.
    size : int
        Bytes.
    heap : int
        Index of the heap it lies in.
    mapped : memoryview or None
        Its bytes, where the host can see them.
    cached : bool
        Whether the host reads them through its caches; without, only writing is fast.
    pages : int
        Address of the host's pages that it is an import of; 0 if it is none.
    exportable : bool
        Whether `Memory.export` takes it.
    freed : bool
        Whether it has been given back.
    """

    memory: int
    buffer: int
    address: int
    size: int
    heap: int
    mapped: memoryview | None
    cached: bool
    pages: int = 0
    exportable: bool = False
    freed: bool = False


class Memory:
    """Device memory of one device: allocates and frees its blocks.

    Attributes
    ----------
    logical : LogicalDevice
        The device.
    types : tuple of MemoryType
        Its memory types.
    import_alignment : int
        What addresses and sizes of imported pages are multiples of; 0 if the device
        imports none.
    descriptors : bool
        Whether memory can be exported as a descriptor, and imported from one.
    imports_checked : bool
        Whether imports are known to work, or a child process has tried one.
    """

    def __init__(self, logical: LogicalDevice) -> None:
        self.logical = logical
        self.types = self._read_types()
        self.import_alignment = self._read_import_alignment()
        self.imports_checked = is_known(logical.info)
        self.descriptors = self._read_descriptors()
        # Objects that must outlive an import, even if it or its end is interrupted.
        self._imported: dict[int, HostPages] = {}
        # Blocks that are being freed: all of it is done before another is made, which
        # may get the same handles.
        self._unfinished_frees: dict[int, Block] = {}

    def _read_types(self) -> tuple[MemoryType, ...]:
        head = runtime.make(vk.VkPhysicalDeviceMemoryProperties2)
        physical = self.logical.physical
        physical.instance.functions.vkGetPhysicalDeviceMemoryProperties2(
            physical.handle, ctypes.byref(head)
        )
        memory = head.memoryProperties
        return tuple(
            MemoryType(index, row.heapIndex, row.propertyFlags)
            for index, row in enumerate(memory.memoryTypes[: memory.memoryTypeCount])
        )

    def _external_features(self, handle_type: int) -> int:
        """Return what a kind of external memory can do, without dedicated memory."""
        physical = self.logical.physical
        wanted = runtime.make(
            vk.VkPhysicalDeviceExternalBufferInfo,
            usage=_BUFFER_USAGE,
            handleType=handle_type,
        )
        found = runtime.make(vk.VkExternalBufferProperties)
        physical.instance.functions.vkGetPhysicalDeviceExternalBufferProperties(
            physical.handle, ctypes.byref(wanted), ctypes.byref(found)
        )
        flags = int(found.externalMemoryProperties.externalMemoryFeatures)
        return 0 if flags & vk.VK_EXTERNAL_MEMORY_FEATURE_DEDICATED_ONLY_BIT else flags

    def _read_import_alignment(self) -> int:
        """Return the alignment of addresses and sizes of imported pages.

        It is 0 where the device cannot import pages.
        """
        physical = self.logical.physical
        functions = physical.instance.functions
        if vk.VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME not in physical.extensions:
            return 0
        importable = vk.VK_EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT
        if not self._external_features(_HOST_PAGES) & importable:
            return 0
        limits = runtime.make(vk.VkPhysicalDeviceExternalMemoryHostPropertiesEXT)
        head = runtime.make(vk.VkPhysicalDeviceProperties2, pNext=limits)
        functions.vkGetPhysicalDeviceProperties2(physical.handle, ctypes.byref(head))
        return int(limits.minImportedHostPointerAlignment)

    def _read_descriptors(self) -> bool:
        extensions = self.logical.physical.extensions
        if vk.VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME not in extensions:
            return False
        wanted = (
            vk.VK_EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT
            | vk.VK_EXTERNAL_MEMORY_FEATURE_EXPORTABLE_BIT
        )
        return self._external_features(_DESCRIPTOR) & wanted == wanted

    def available(self, heap: int) -> int:
        """Return the bytes that a heap can still give, by the driver's own account.

        Without `VK_EXT_memory_budget` that is the size of the heap.
        """
        physical = self.logical.physical
        if not physical.info.memory_budget:
            return physical.info.heaps[heap].size
        budget = runtime.make(vk.VkPhysicalDeviceMemoryBudgetPropertiesEXT)
        head = runtime.make(vk.VkPhysicalDeviceMemoryProperties2, pNext=budget)
        physical.instance.functions.vkGetPhysicalDeviceMemoryProperties2(
            physical.handle, ctypes.byref(head)
        )
        left: int = budget.heapBudget[heap] - budget.heapUsage[heap]
        return max(0, left)

    def allocate(self, size: int, use: MemoryUsage, name: str) -> Block:
        """Allocate a block.

        Parameters
        ----------
        size : int
            Bytes, at least 1.
        use : MemoryUsage
            What it is for.
        name : str
            Debug name of the buffer and the memory.

        Raises
        ------
        OutOfDeviceMemory
            If the heap's budget or the device's largest allocation is exceeded, or the
            driver says so.
        """
        logical = self.logical
        largest = logical.info.max_allocation_size
        if size > largest:
            raise OutOfDeviceMemory(
                f"vkAllocateMemory: a single allocation is too large: asked"
                f" {gibibytes(size)}; {logical.info.name} allows {gibibytes(largest)}"
            )
        self.finish_frees()
        buffer = logical.create("Buffer", self._buffer_info(size), name)
        try:
            return self._allocate_bound(buffer, size, use, name)
        except BaseException:
            logical.destroy("Buffer", buffer)
            raise

    def allocate_exportable(self, size: int, name: str) -> Block:
        """Allocate a block of the device's own memory that `export` takes.

        On an NVIDIA H200 that is not the memory that is mapped too, so the host copies
        to and from it. Sizes are told to whoever imports it: they must be the same.

        Parameters
        ----------
        size : int
            Bytes, at least 1.
        name : str
            Debug name.
        """
        export = runtime.make(vk.VkExportMemoryAllocateInfo, handleTypes=_DESCRIPTOR)
        block = self._allocate_shared(size, export, name)
        block.exportable = True
        return block

    def export(self, block: Block) -> int:
        """Return a new descriptor of an exportable block, which the caller closes."""
        if not block.exportable or block.freed:
            raise ArgumentError(
                f"export: the memory was not allocated for that: {block.size} bytes at"
                f" {block.address:#x}; use allocate_exportable"
            )
        logical, descriptor = self.logical, ctypes.c_int(-1)
        wanted = runtime.make(
            vk.VkMemoryGetFdInfoKHR, memory=block.memory, handleType=_DESCRIPTOR
        )
        result = logical.functions.vkGetMemoryFdKHR(
            logical.handle, ctypes.byref(wanted), ctypes.byref(descriptor)
        )
        runtime.check("vkGetMemoryFdKHR", result)
        return descriptor.value

    def import_descriptor(self, descriptor: int, size: int, name: str) -> Block:
        """Return the block of another device or process as one of this device.

        Parameters
        ----------
        descriptor : int
            What `export` returned, under the same driver and for the same card. It is
            duplicated, and stays the caller's.
        size : int
            Bytes, as the block was allocated with.
        name : str
            Debug name.

        Raises
        ------
        ArgumentError
            If the descriptor is a file, folder or pipe, or the memory is smaller.
        OSError
            If it is not open.
        """
        state = os.fstat(descriptor)
        # NVIDIA's driver, given a file, refuses later allocations of the process, too.
        # Files of memory have no name in a folder.
        named = stat.S_ISREG(state.st_mode) and state.st_nlink > 0
        if named or stat.S_ISDIR(state.st_mode) or stat.S_ISFIFO(state.st_mode):
            raise ArgumentError(
                f"import_descriptor: descriptor {descriptor} is a file, folder or pipe;"
                f" it must be what `export` returned"
            )
        # What is in a file of memory has a size; a driver's own descriptors have none.
        there = state.st_size
        if 0 < there < size:
            raise ArgumentError(
                f"import_descriptor: the memory is smaller: {there} bytes for {size};"
                f" give the size that it was allocated with"
            )
        own = os.dup(descriptor)
        given = runtime.make(vk.VkImportMemoryFdInfoKHR, handleType=_DESCRIPTOR, fd=own)
        allocations = self.logical.counters.device_allocations
        try:
            return self._allocate_shared(size, given, name)
        except Error:
            # By the specification the driver owns it once the memory is allocated;
            # lavapipe closes it in any case (Mesa 22.3 and 25.0).
            if self.logical.counters.device_allocations == allocations:
                with contextlib.suppress(OSError):
                    if os.path.sameopenfile(own, descriptor):
                        os.close(own)
            raise

    def _allocate_shared(
        self, size: int, extension: ctypes.Structure, name: str
    ) -> Block:
        """Allocate or import memory with a descriptor, of the same type both times."""
        if not self.descriptors:
            raise ArgumentError(
                f"memory: {self.logical.info.name} shares no memory by descriptor; copy"
                f" through host pages"
            )
        if size < 1:
            raise ArgumentError(
                f"memory: the size is {size}; memory to share has 1 byte or more"
            )
        self.finish_frees()
        external = runtime.make(
            vk.VkExternalMemoryBufferCreateInfo, handleTypes=_DESCRIPTOR
        )
        logical = self.logical
        buffer = logical.create("Buffer", self._buffer_info(size, external), name)
        try:
            runtime.chain(extension, _address_flags())
            return self._allocate_bound(
                buffer, size, MemoryUsage.DEVICE, name, extension
            )
        except BaseException:
            logical.destroy("Buffer", buffer)
            raise

    def import_pages(self, pages: HostPages, name: str) -> Block:
        """Return pages of the host as a block.

        Parameters
        ----------
        pages : HostPages
            All of them; held until the block is freed. Address and size are multiples
            of `import_alignment`.
        name : str
            Debug name.

        Raises
        ------
        VulkanError
            If the driver refuses them, or those of a child process: an unknown driver's
            first import is made there.
        """
        self._check_imports()
        self.finish_frees()
        self._imported[pages.address] = pages
        try:
            return self._import(pages, name)
        except VulkanError:
            del self._imported[pages.address]
            raise

    def _check_imports(self) -> None:
        """Have a child process try an import, unless that is known to work."""
        if self.imports_checked:
            return
        info = self.logical.info
        failure = failure_in_child(info)
        if failure:
            self.import_alignment = 0
            raise VulkanError(
                f"import_pages: a child process could not import pages: {failure};"
                f" {info.name} ({info.driver_name}) is taken for one that imports none"
            )
        self.imports_checked = True

    def _import(self, pages: HostPages, name: str) -> Block:
        logical, size = self.logical, pages.size
        kinds = self._page_types(pages, name)
        external = runtime.make(
            vk.VkExternalMemoryBufferCreateInfo, handleTypes=_HOST_PAGES
        )
        buffer = logical.create("Buffer", self._buffer_info(size, external), name)
        try:
            required = self._requirements(buffer)
            allowed = required.memoryTypeBits & kinds
            chosen = choose_type(self.types, MemoryUsage.READBACK, allowed)
            if required.size > size:
                raise OutOfDeviceMemory(
                    f"import_pages: {size} bytes are too few: the driver needs"
                    f" {required.size}"
                )
            imported = runtime.make(
                vk.VkImportMemoryHostPointerInfoEXT,
                handleType=_HOST_PAGES,
                pHostPointer=pages.address,
            )
            runtime.chain(imported, _address_flags())
            memory = self._allocate(size, chosen.index, name, imported)
            try:
                address = self._bind(buffer, memory, name)
                return Block(
                    memory,
                    buffer,
                    address,
                    size,
                    chosen.heap,
                    pages.view(),
                    cached=True,
                    pages=pages.address,
                )
            except BaseException:
                logical.destroy("DeviceMemory", memory)
                raise
        except BaseException:
            logical.destroy("Buffer", buffer)
            raise

    def _page_types(self, pages: HostPages, name: str) -> int:
        """Return a bit mask of the memory types that can be pages of the host."""
        logical = self.logical
        found = runtime.make(vk.VkMemoryHostPointerPropertiesEXT)
        result = logical.functions.vkGetMemoryHostPointerPropertiesEXT(
            logical.handle, _HOST_PAGES, pages.address, ctypes.byref(found)
        )
        runtime.check("vkGetMemoryHostPointerPropertiesEXT", result, name)
        return int(found.memoryTypeBits)

    def _buffer_info(
        self, size: int, extension: ctypes.Structure | None = None
    ) -> vk.VkBufferCreateInfo:
        families = self.logical.family_indices
        # Several families use one buffer without ownership transfers.
        several = len(families) > 1
        return runtime.make(
            vk.VkBufferCreateInfo,
            pNext=extension,
            size=size,
            usage=_BUFFER_USAGE,
            sharingMode=vk.VK_SHARING_MODE_CONCURRENT
            if several
            else vk.VK_SHARING_MODE_EXCLUSIVE,
            queueFamilyIndexCount=len(families) if several else 0,
            pQueueFamilyIndices=families if several else None,
        )

    def _allocate_bound(
        self,
        buffer: int,
        size: int,
        use: MemoryUsage,
        name: str,
        extension: ctypes.Structure | None = None,
    ) -> Block:
        """Allocate memory for a buffer, bind it and map it if it can be.

        Without an `extension`, which is for memory that is shared, it is dedicated to
        the buffer.
        """
        logical = self.logical
        required = self._requirements(buffer)
        chosen = choose_type(self.types, use, required.memoryTypeBits)
        self._check_budget(required.size, chosen.heap)
        own = extension is None
        if extension is None:
            # NVIDIA's driver then maps it by larger pages: 16 Mi random reads of 32 MiB
            # took 160 us, otherwise 315, as its caches of page addresses were too small
            # (H200, 580.159.04, 2026-11-30).
            extension = runtime.make(vk.VkMemoryDedicatedAllocateInfo, buffer=buffer)
            runtime.chain(extension, _address_flags())
        try:
            memory = self._allocate(required.size, chosen.index, name, extension)
        except OutOfDeviceMemory:
            allowed = required.memoryTypeBits
            other = second_type(self.types, use, chosen, allowed) if own else None
            if other is None:
                raise
            chosen = other
            memory = self._allocate(required.size, chosen.index, name, extension)
        try:
            address = self._bind(buffer, memory, name)
            mapped = (
                self._map(memory, size) if chosen.flags & _MAPPED == _MAPPED else None
            )
            cached = bool(chosen.flags & _CACHED)
            return Block(memory, buffer, address, size, chosen.heap, mapped, cached)
        except BaseException:
            logical.destroy("DeviceMemory", memory)
            raise

    def _requirements(self, buffer: int) -> vk.VkMemoryRequirements:
        """Return the size and the memory types that a buffer needs."""
        query = runtime.make(vk.VkBufferMemoryRequirementsInfo2, buffer=buffer)
        needs = runtime.make(vk.VkMemoryRequirements2)
        self.logical.functions.vkGetBufferMemoryRequirements2(
            self.logical.handle, ctypes.byref(query), ctypes.byref(needs)
        )
        found: vk.VkMemoryRequirements = needs.memoryRequirements
        return found

    def _bind(self, buffer: int, memory: int, name: str) -> int:
        """Bind memory to a buffer; return the buffer's device address."""
        logical, functions = self.logical, self.logical.functions
        bind = runtime.make(vk.VkBindBufferMemoryInfo, buffer=buffer, memory=memory)
        result = functions.vkBindBufferMemory2(logical.handle, 1, ctypes.byref(bind))
        runtime.check("vkBindBufferMemory2", result, name)
        where = runtime.make(vk.VkBufferDeviceAddressInfo, buffer=buffer)
        return int(
            functions.vkGetBufferDeviceAddress(logical.handle, ctypes.byref(where))
        )

    def _check_budget(self, size: int, heap: int) -> None:
        available = self.available(heap)
        if size > available:
            raise OutOfDeviceMemory(
                f"vkAllocateMemory: over budget: asked {gibibytes(size)} of heap"
                f" {heap}; the driver has {gibibytes(available)} left"
            )

    def _allocate(
        self, size: int, type_index: int, name: str, extension: ctypes.Structure
    ) -> int:
        logical = self.logical
        info = runtime.make(
            vk.VkMemoryAllocateInfo,
            pNext=extension,
            allocationSize=size,
            memoryTypeIndex=type_index,
        )
        asked = f"asked {gibibytes(size)} of heap {self.types[type_index].heap}"
        logical.counters.device_allocations += 1
        try:
            return logical.create("DeviceMemory", info, name, detail=asked)
        except VulkanError:
            logical.counters.device_allocations -= 1
            raise

    def _map(self, memory: int, size: int) -> memoryview:
        pointer = ctypes.c_void_p()
        result = self.logical.functions.vkMapMemory(
            self.logical.handle, memory, 0, vk.VK_WHOLE_SIZE, 0, ctypes.byref(pointer)
        )
        runtime.check("vkMapMemory", result)
        assert pointer.value is not None
        array = (ctypes.c_ubyte * size).from_address(pointer.value)
        return memoryview(array).cast("B")

    def free(self, block: Block) -> None:
        """Free a block, unless it is free; nothing on the device may still use it.

        If that ends early, it is finished before there is another block.
        """
        if not block.freed:
            self._unfinished_frees[block.memory] = block
            self.finish_frees()

    def finish_frees(self) -> None:
        """Finish interrupted frees."""
        for handle, block in tuple(self._unfinished_frees.items()):
            block.freed = True
            block.mapped = None
            self.logical.destroy("Buffer", block.buffer)
            self.logical.destroy("DeviceMemory", block.memory)
            self._imported.pop(block.pages, None)
            self._unfinished_frees.pop(handle, None)


def _address_flags() -> ctypes.Structure:
    """Return what memory needs whose buffer has a device address."""
    return runtime.make(
        vk.VkMemoryAllocateFlagsInfo, flags=vk.VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT
    )


def gibibytes(size: int) -> str:
    """Return a number of bytes as text with a fitting unit."""
    for unit, scale in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if size >= 1 << scale:
            return f"{size / (1 << scale):.2f} {unit}"
    return f"{size} bytes"
