"""Work that cannot finish before a test lets it: order of events instead of clocks."""

import contextlib
import ctypes
import threading
from collections.abc import Iterator

from vkbackend.driver.queue import Queue, TimelinePoint
from vkbackend.vk import generated as vk
from vkbackend.vk import runtime


class Gate:
    """A submission that waits for the host, and with it all that follows on its queue.

    Attributes
    ----------
    point : TimelinePoint
        Of that submission.
    semaphore : int
        The timeline semaphore that it waits for.
    """

    name = "gate"

    def __init__(self, queue: Queue) -> None:
        self._logical = queue._logical
        kind = runtime.make(
            vk.VkSemaphoreTypeCreateInfo,
            semaphoreType=vk.VK_SEMAPHORE_TYPE_TIMELINE,
            initialValue=0,
        )
        info = runtime.make(vk.VkSemaphoreCreateInfo, pNext=kind)
        self.is_open = False
        with self._logical.lock:
            self.semaphore = self._logical.create("Semaphore", info, self.name)
            waits = {self: 1}
            self.point: TimelinePoint = queue.submit(queue.begin(), waits, self.name)  # type: ignore[arg-type]

    def open(self) -> None:
        """Let the work go on."""
        if not self.is_open:
            self.is_open = True
            info = runtime.make(
                vk.VkSemaphoreSignalInfo, semaphore=self.semaphore, value=1
            )
            functions = self._logical.functions
            result = functions.vkSignalSemaphore(
                self._logical.handle, ctypes.byref(info)
            )
            runtime.check("vkSignalSemaphore", result, self.name)

    def close(self) -> None:
        """Let the work go on, wait for it and destroy the semaphore."""
        self.open()
        self.point.wait()
        self._logical.destroy("Semaphore", self.semaphore)


@contextlib.contextmanager
def held(queue: Queue) -> Iterator[Gate]:
    """Hold back what is submitted to a queue within, until `Gate.open` or the end.

    Waiting for it meanwhile, in the thread that holds it back, is an error: it would
    last for ever.
    """
    gate, wait, owner = Gate(queue), queue.wait, threading.get_ident()

    def guarded(value: int, timeout_seconds: float | None = None) -> bool:
        endless = timeout_seconds is None and threading.get_ident() == owner
        if endless and value >= gate.point.value and not gate.is_open:
            raise AssertionError(f"waits for submission {value}, which is held back")
        return wait(value, timeout_seconds)

    queue.wait = guarded  # type: ignore[method-assign]
    try:
        yield gate
    finally:
        del queue.wait  # The class's own is seen again.
        gate.close()
