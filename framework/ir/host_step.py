"""Host steps: nodes of a trace that the host runs between two parts of a recording."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

import numpy as np

import vkbackend

from ..base.dtype import DType
from ..base.scoped_setting import ScopedSetting
from .lazy_graph import Node

Range = tuple[vkbackend.Buffer, int, int]
"""Buffer, offset and size in bytes."""

HOST_BYTES = 1 << 18
"""Bytes up to which steps take and make in memory of the host."""

compiling = ScopedSetting(False)
"""Whether a plan is built for replays, which alone can run host steps."""


class HostStep(ABC):
    """A static argument of a node that takes one value and makes one, on the host.

    The kernel of such a node is never launched: it only says what is read and written.
    Steps run in the order in which they were recorded.
    """

    @abstractmethod
    def run(self, data: np.ndarray) -> np.ndarray:
        """Return the elements that the node makes.

        Parameters
        ----------
        data : ndarray, shape (n,)
            Those that it takes, in row-major order, as they are in memory.
        """

    def run_on_device(
        self, device: vkbackend.Device, source: Range, target: Range
    ) -> bool:
        """Make the elements where they are; return False if only the host can.

        It may return once the device has been told to: the buffers know when it will
        have made them.

        Parameters
        ----------
        device : vkbackend.Device
        source, target : (Buffer, int, int)
            Buffer, offset and size in bytes of what it takes and makes.
        """
        return False

    def in_place(self, size: int) -> bool:
        """Return whether kernels write what it takes to memory of `allocate`.

        Otherwise it is copied there, in the submission that makes it: what is little,
        as kernels that write it may do so word by word, and add to it.

        Parameters
        ----------
        size : int
            Bytes.
        """
        return size > HOST_BYTES

    def source_within(self) -> int | None:
        """Return where, in what it makes, what it takes may lie; None if apart.

        Then what a kernel writes there is a part of the result already.

        Returns
        -------
        int or None
            Offset in bytes.
        """
        return None

    def allocate(self, device: vkbackend.Device, size: int) -> vkbackend.Buffer | None:
        """Return memory that suits what it takes and makes; None if any does.

        By default the host's, for what is little.

        Parameters
        ----------
        device : vkbackend.Device
        size : int
            Bytes.
        """
        small = size <= HOST_BYTES
        return (
            vkbackend.host_pool(device).allocate(size, name="host step")
            if small
            else None
        )

    def apply(
        self, device: vkbackend.Device, dtype: DType, source: Range, target: Range
    ) -> None:
        """Make the elements on the device, or else on the host; see `run_on_device`.

        Waits for what it takes.
        """
        if self.run_on_device(device, source, target):
            return
        data = np.frombuffer(device.read(*source), dtype.storage)
        made = np.ascontiguousarray(self.run(data))
        buffer, offset, size = target
        assert made.nbytes == size
        device.upload(made.view(np.uint8), buffer, offset)


def host_steps(nodes: Iterable[Node]) -> list[tuple[Node, HostStep]]:
    """Return the nodes that are host steps, and these, in order."""
    return [
        (node, value)
        for node in nodes
        for _, value in node.signature.params
        if isinstance(value, HostStep)
    ]
