"""The queues of a device: for kernels, and for copies in each direction.

| queue | what | where there is no queue for it alone |
| --- | --- | --- |
| `compute` | kernels, and copies that batches have | |
| `transfer` | uploads, copies from pages of the host | `compute` |
| `readback` | reads, copies to pages of the host | `transfer` |

Copies in both directions run at once only on two queues: a discrete card has a copy
engine for each, and a queue is one after the other (57 GB/s in and out together beside
an NVIDIA H200, 49 one way). Work on different queues is ordered by the semaphores of
their timelines, never by when it is submitted; see `queue`.
"""

from __future__ import annotations

import contextlib

from vkbackend.errors import DeviceLost

from .logical_device import LogicalDevice
from .queue import Queue


class Queues:
    """The queues of a device.

    Parameters
    ----------
    logical : LogicalDevice
        Whose queues they are; it is open.

    Attributes
    ----------
    compute, transfer, readback : Queue
        See the module.
    all : tuple of Queue
        Each once, `compute` first.
    beside_compute : tuple of Queue
        The others.
    """

    def __init__(self, logical: LogicalDevice) -> None:
        self.compute = Queue(logical, logical.compute_family, "compute")
        self.transfer = self.readback = self.compute
        family = logical.transfer_family
        if family != logical.compute_family:
            self.transfer = self.readback = Queue(logical, family, "transfer")
            if logical.queue_count(family) > 1:
                self.readback = Queue(logical, family, "readback", 1)
        self.collect()

    def collect(self) -> None:
        """Find `all` and `beside_compute` anew."""
        named = (self.compute, self.transfer, self.readback)
        self.all = tuple(dict.fromkeys(named))
        self.beside_compute = self.all[1:]

    def drain(self, logical: LogicalDevice) -> None:
        """Wait for everything submitted; a lost device counts as finished."""
        for queue in self.all:
            queue.drain()
        with contextlib.suppress(DeviceLost):
            logical.idle()

    def close(self) -> None:
        """Destroy what the queues have; they must be idle."""
        for queue in self.all:
            queue.close()
