"""Command buffers of one queue: allocated, begun, ended, and never leaked.

State that must survive an interrupt lies in one object from the start: a
`CommandBuffer` is in its queue's list before the driver is asked for it, so whatever
stops the caller, the queue still has it.
"""

import ctypes
import weakref
from collections.abc import Callable

from vkbackend.vk import generated as vk
from vkbackend.vk import runtime

from .logical_device import LogicalDevice

RECORDING = 1 << 64
"""Stands for the submission of a command buffer that is open: later than any."""

_ANYTHING = (
    vk.VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT,
    vk.VK_ACCESS_2_MEMORY_READ_BIT | vk.VK_ACCESS_2_MEMORY_WRITE_BIT,
)
_ANY_WRITE = (
    vk.VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT,
    vk.VK_ACCESS_2_MEMORY_WRITE_BIT,
)
_HOST_READ = (vk.VK_PIPELINE_STAGE_2_HOST_BIT, vk.VK_ACCESS_2_HOST_READ_BIT)


def memory_barrier(
    source: tuple[int, int], destination: tuple[int, int]
) -> vk.VkDependencyInfo:
    """Return a `VkDependencyInfo` with one global barrier of (stages, accesses)."""
    barrier = runtime.make(
        vk.VkMemoryBarrier2,
        srcStageMask=source[0],
        srcAccessMask=source[1],
        dstStageMask=destination[0],
        dstAccessMask=destination[1],
    )
    return runtime.make(
        vk.VkDependencyInfo,
        memoryBarrierCount=1,
        pMemoryBarriers=barrier,
    )


_ACQUIRE = ctypes.byref(memory_barrier(_ANYTHING, _ANYTHING))
_RELEASE = ctypes.byref(memory_barrier(_ANY_WRITE, _HOST_READ))
_BEGIN_ONCE = ctypes.byref(
    runtime.make(
        vk.VkCommandBufferBeginInfo,
        flags=vk.VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT,
    )
)
_BEGIN_OFTEN = ctypes.byref(
    runtime.make(
        vk.VkCommandBufferBeginInfo,
        flags=vk.VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT,
    )
)


class CommandBuffer:
    """A `VkCommandBuffer` and its last use.

    Attributes
    ----------
    handle : int
        The `VkCommandBuffer`; 0 before it is allocated.
    value : int
        Number of the submission that uses it last; 0 if none does, and `RECORDING`
        from `CommandPool.begin` until it is ended and submitted, or reset.
    owner : weak reference or None
        Whose it is, for one that is submitted more than once; nobody's once the owner
        is gone.
    """

    __slots__ = ("cell", "handle", "owner", "value")

    def __init__(self) -> None:
        # The driver writes here, so no interruption can lose what it gives.
        self.cell = ctypes.c_void_p()
        self.handle = 0
        self.value = 0
        self.owner: weakref.ref[object] | None = None


class CommandPool:
    """Allocates command buffers and begins and ends them; used by one `Queue`."""

    def __init__(self, logical: LogicalDevice, family: int, name: str) -> None:
        self._logical = logical
        self._functions = logical.functions
        self._name = name
        self._owned: list[CommandBuffer] = []
        self._pool = logical.create(
            "CommandPool",
            runtime.make(
                vk.VkCommandPoolCreateInfo,
                flags=vk.VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                queueFamilyIndex=family,
            ),
            f"{name} commands",
        )

    def begin(self, buffer: CommandBuffer, often: bool = False) -> None:
        """Open a command buffer that is not in use, past its first barrier."""
        functions = self._functions
        if not buffer.handle:
            self._allocate(buffer)
        elif buffer.value == RECORDING:
            self.reset(buffer)
        buffer.value = RECORDING
        result = functions.vkBeginCommandBuffer(
            buffer.handle, _BEGIN_OFTEN if often else _BEGIN_ONCE
        )
        if result:
            runtime.check("vkBeginCommandBuffer", result, self._name)
        functions.vkCmdPipelineBarrier2(buffer.handle, _ACQUIRE)

    def allocate_for(
        self, owner: object, reached: Callable[[int], bool]
    ) -> CommandBuffer:
        """Return an open command buffer that may be submitted any number of times.

        It is the owner's for as long as that lives; an owner has one. It ends with
        `seal`.

        Parameters
        ----------
        owner : object
            Is referred to weakly.
        reached : callable
            Takes the number of a submission, returns whether that is finished.
        """
        buffer = self._find_reusable(owner, reached)
        if buffer is None:
            buffer = CommandBuffer()
            self._owned.append(buffer)
        buffer.owner = weakref.ref(owner)
        self.begin(buffer, often=True)
        return buffer

    def _find_reusable(
        self, owner: object, reached: Callable[[int], bool]
    ) -> CommandBuffer | None:
        """Return a reusable buffer of this owner, or an idle one without an owner."""
        for buffer in self._owned:
            whose = None if buffer.owner is None else buffer.owner()
            if whose is owner:
                return buffer
            if whose is None and (buffer.value == RECORDING or reached(buffer.value)):
                return buffer
        return None

    def seal(self, buffer: CommandBuffer, last: bool = True) -> None:
        """End a lent command buffer; `last` if it is submitted alone or goes second."""
        self.end(buffer.handle, last)
        buffer.value = 0

    def end(self, handle: int, last: bool = True) -> None:
        """End a command buffer, behind a barrier towards the host if it goes last."""
        functions = self._functions
        if last:
            functions.vkCmdPipelineBarrier2(handle, _RELEASE)
        result = functions.vkEndCommandBuffer(handle)
        if result:
            runtime.check("vkEndCommandBuffer", result, self._name)

    def reset(self, buffer: CommandBuffer) -> None:
        """Forget what was recorded."""
        result = self._functions.vkResetCommandBuffer(buffer.handle, 0)
        runtime.check("vkResetCommandBuffer", result, self._name)
        buffer.value = 0

    def _allocate(self, buffer: CommandBuffer) -> None:
        if buffer.cell.value is None:
            info = runtime.make(
                vk.VkCommandBufferAllocateInfo,
                commandPool=self._pool,
                level=vk.VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                commandBufferCount=1,
            )
            result = self._functions.vkAllocateCommandBuffers(
                self._logical.handle, ctypes.byref(info), ctypes.byref(buffer.cell)
            )
            runtime.check("vkAllocateCommandBuffers", result, self._name)
        assert buffer.cell.value is not None
        buffer.handle = buffer.cell.value

    def close(self) -> None:
        """Destroy all command buffers; none may be in use."""
        self._logical.destroy("CommandPool", self._pool)
