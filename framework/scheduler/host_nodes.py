"""Running of host steps that are pending, where no replay can run them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from ..base.device import GpuDevice
from ..base.errors import TraceError
from ..ir.host_step import HostStep
from ..ir.lazy_graph import Node
from .executor import buffer_of
from .scheduler import flush_in_pieces
from .submission import Flush


def run_host_steps(device: GpuDevice, steps: deque[tuple[Node, HostStep]]) -> None:
    """Run pending host steps, each after what was recorded before it.

    Parameters
    ----------
    device : GpuDevice
    steps : deque of (Node, HostStep)
        In recorded order; the nodes are pending, and leave the lazy graph. Each is
        removed as it has run, with the memory that it holds.
    """
    with device.lock:
        while steps:
            flush_in_pieces(device, steps[0][0])
            _run(device, *steps[0])
            steps.popleft()


def drop_host_steps(device: GpuDevice, steps: Sequence[tuple[Node, HostStep]]) -> None:
    """Drop pending host steps, and what depends on them, of a trace that has failed.

    Parameters
    ----------
    device : GpuDevice
    steps : sequence of (Node, HostStep)
        Those that are not pending any more are left as they are.
    """
    error = TraceError(
        "jit: the function ended with an error after a collective was recorded, which"
        " was not run"
    )
    with device.lock:
        device.settle()
        for node, _ in steps:
            rest = [each for each in device.pending if each is not node]
            if len(rest) < len(device.pending):
                Flush(device, [node], rest).give_up(error)


def _run(device: GpuDevice, node: Node, step: HostStep) -> None:
    rest = [each for each in device.pending if each is not node]
    step_flush = Flush(device, [node], rest)
    try:
        (taken,), (made,) = node.values, node.outputs
        gpu = device.gpu
        source = buffer_of(taken), 0, taken.nbytes
        buffer = step.allocate(gpu, made.nbytes)
        if buffer is None:
            buffer = gpu.allocate(made.nbytes)
        step.apply(gpu, taken.dtype, source, (buffer, 0, made.nbytes))
    except Exception as error:
        step_flush.give_up(error)
        raise
    made.buffer = buffer
    step_flush.submitted = True
    device.in_flight = step_flush
    device.finish()
