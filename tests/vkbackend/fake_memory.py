"""Memory and queues that are only pretended, and pools of them."""

from vkbackend.driver.device_info import Heap
from vkbackend.driver.queue import TimelinePoint
from vkbackend.errors import OutOfDeviceMemory
from vkbackend.memory.memory import Block
from vkbackend.memory.pool import Pool
from vkbackend.memory.span import MemorySpan

MIB = 1 << 20


class FakeQueue:
    """A queue whose work finishes when it is waited for."""

    name = "fake"

    def __init__(self) -> None:
        self.completed = 0
        self.submitted = 0
        self.waits: list[int] = []

    def reached(self, value: int) -> bool:
        return value <= self.completed

    def wait(self, value: int, timeout_seconds: float | None = None) -> bool:
        self.waits.append(value)
        self.completed = max(self.completed, value)
        return True


class FakeMemory:
    """Blocks without bytes, from a heap of limited size."""

    def __init__(self, heap: int) -> None:
        self.heap = heap
        self.held = 0
        self.next_address = 1 << 32
        self.logical = self
        self.info = self
        self.heaps = (Heap(heap, True),)
        self.kind = "software"

    def allocate(self, size: int, use: object, name: str) -> Block:
        if self.held + size > self.heap:
            raise OutOfDeviceMemory("vkAllocateMemory: the heap is full")
        self.held += size
        address = self.next_address
        self.next_address += size
        return Block(0, 0, address, size, 0, None, False)

    def free(self, block: Block) -> None:
        if not block.freed:
            self.held -= block.size
            block.freed = True

    def finish_frees(self) -> None:
        pass


def make_pool(heap: int = 1024 * MIB) -> tuple[Pool, FakeMemory]:
    memory = FakeMemory(heap)
    return Pool(memory), memory  # type: ignore[arg-type]


def release(pool: Pool, span: MemorySpan, *points: TimelinePoint) -> None:
    pool.deferred_frees.append((span, points))


def point(queue: FakeQueue, value: int) -> TimelinePoint:
    return TimelinePoint(queue, value)  # type: ignore[arg-type]
