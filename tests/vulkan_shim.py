"""A shim between the library and the Vulkan loader: failing commands, other memory.

Every command that the library looks up goes through it. It can make one call of a
command fail, keeps account of what is created and destroyed, and can make a software
device look like a discrete one: with device memory that the host does not see, or sees
without a cache, and with a second queue family that only transfers.
"""

import collections
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from vkbackend.vk import generated as vk
from vkbackend.vk import runtime

MEMORIES = ("mapped", "unmapped", "uncached")
"""As it is; not seen by the host; seen without a cache. The last two with a second
queue family."""

_LOCAL = vk.VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT
_SEEN = vk.VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | vk.VK_MEMORY_PROPERTY_HOST_COHERENT_BIT
_CACHED = vk.VK_MEMORY_PROPERTY_HOST_CACHED_BIT
_DEVICE_MEMORY = {"unmapped": _LOCAL, "uncached": _LOCAL | _SEEN}


@dataclass(frozen=True)
class Case:
    """One command that fails.

    Attributes
    ----------
    memory : str
        One of `MEMORIES`.
    command : str
        Its name; empty fails nothing.
    result : int
        What it returns.
    number : int
        Which of its calls, counted from 1.
    lasting : bool
        Whether all calls after that one fail too. A lost device always stays lost.
    """

    memory: str = "mapped"
    command: str = ""
    result: int = 0
    number: int = 1
    lasting: bool = False


class Shim:
    """Stands between; `installed` puts it there.

    Attributes
    ----------
    calls : Counter
        Calls of each command that returns a result.
    alive : Counter
        Objects of each kind that were created and not destroyed.
    injected : int
        Calls that were made to fail.
    failing : bool
        Whether the case is on.
    """

    def __init__(self, case: Case) -> None:
        self.case = case
        self.calls: collections.Counter[str] = collections.Counter()
        self.alive: collections.Counter[str] = collections.Counter()
        self.injected = 0
        self.failing = True
        self._lost = False
        self._families = 1 if case.memory == "mapped" else 2

    def wrapped(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a command with the shim in front of it."""
        changed = getattr(self, f"_{name}", None)
        has_result = vk.FUNCTIONS[name][1] is vk.VkResult

        def command(*arguments: Any) -> Any:
            if has_result:
                failure = self._failure(name)
                if failure:
                    # A lost device does nothing any more; this one must have stopped.
                    if name == "vkDeviceWaitIdle":
                        function(*arguments)
                    return failure
            if changed is not None and self._families == 2:
                result = changed(function, *arguments)
            else:
                result = function(*arguments)
            if not result:
                self._count(name, arguments)
            return result

        command.__name__ = name
        return command

    def _failure(self, name: str) -> int:
        """Return the result that a call shall have in place of its own."""
        self.calls[name] += 1
        case = self.case
        if not self.failing:
            return 0
        if self._lost and name in MAY_LOSE:
            return vk.VK_ERROR_DEVICE_LOST
        if name != case.command:
            return 0
        number = self.calls[name]
        if number == case.number or (case.lasting and number > case.number):
            self.injected += 1
            self._lost = case.result == vk.VK_ERROR_DEVICE_LOST
            return case.result
        return 0

    def _count(self, name: str, arguments: tuple[Any, ...]) -> None:
        for verb, change in (("Create", 1), ("Destroy", -1)):
            if name.startswith(f"vk{verb}"):
                if change > 0 or arguments[-2]:
                    kind = name.removeprefix(f"vk{verb}")
                    kind = kind.replace("ComputePipelines", "Pipeline")
                    self.alive[kind] += change
        self.alive["Memory"] += (name == "vkAllocateMemory") - (name == "vkFreeMemory")

    def left(self) -> dict[str, int]:
        """Return the objects that exist."""
        return {kind: count for kind, count in self.alive.items() if count}

    # --- another kind of device

    def _vkGetPhysicalDeviceMemoryProperties2(
        self, function: Callable[..., Any], device: Any, head: Any
    ) -> None:
        function(device, head)
        memory = head._obj.memoryProperties
        memory.memoryTypeCount = 2
        memory.memoryTypes[1].heapIndex = memory.memoryTypes[0].heapIndex
        memory.memoryTypes[0].propertyFlags = _DEVICE_MEMORY[self.case.memory]
        memory.memoryTypes[1].propertyFlags = _SEEN | _CACHED

    def _vkGetBufferMemoryRequirements2(
        self, function: Callable[..., Any], device: Any, info: Any, needs: Any
    ) -> None:
        function(device, info, needs)
        needs._obj.memoryRequirements.memoryTypeBits = 3

    def _vkAllocateMemory(
        self, function: Callable[..., Any], device: Any, info: Any, *rest: Any
    ) -> Any:
        info._obj.memoryTypeIndex = 0
        return function(device, info, *rest)

    def _vkGetPhysicalDeviceQueueFamilyProperties2(
        self, function: Callable[..., Any], device: Any, count: Any, rows: Any
    ) -> None:
        function(device, count, rows)
        count._obj.value = 2
        if rows is not None:
            rows[1].queueFamilyProperties.queueFlags = vk.VK_QUEUE_TRANSFER_BIT
            rows[1].queueFamilyProperties.queueCount = 1

    def _vkCreateDevice(
        self, function: Callable[..., Any], device: Any, info: Any, *rest: Any
    ) -> Any:
        info._obj.queueCreateInfoCount = 1
        return function(device, info, *rest)

    def _vkGetDeviceQueue2(
        self, function: Callable[..., Any], device: Any, info: Any, queue: Any
    ) -> None:
        info._obj.queueFamilyIndex = 0
        function(device, info, queue)

    def _vkCreateCommandPool(
        self, function: Callable[..., Any], device: Any, info: Any, *rest: Any
    ) -> Any:
        info._obj.queueFamilyIndex = 0
        return function(device, info, *rest)


MAY_LOSE = frozenset(
    {
        "vkQueueSubmit2",
        "vkQueueWaitIdle",
        "vkDeviceWaitIdle",
        "vkGetSemaphoreCounterValue",
        "vkWaitSemaphores",
        "vkGetQueryPoolResults",
    }
)
"""Commands that tell of the loss of a device ever after."""


@contextmanager
def installed(shim: Shim) -> Iterator[None]:
    """Put a shim in front of every command that is looked up from here on."""
    plain = runtime.Functions.__getattr__

    def looked_up(self: runtime.Functions, name: str) -> Callable[..., Any]:
        function = shim.wrapped(name, plain(self, name))
        setattr(self, name, function)
        return function

    runtime._load.cache_clear()
    runtime.Functions.__getattr__ = looked_up  # type: ignore[method-assign]
    try:
        yield
    finally:
        runtime.Functions.__getattr__ = plain  # type: ignore[method-assign]
        runtime._load.cache_clear()
