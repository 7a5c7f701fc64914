"""One run of a function whose operations are collected instead of run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import numpy as np

from .. import ops
from ..autograd.engine import no_grad
from ..base.errors import TraceError
from ..base.modes import isolated_cast_cache
from ..base.shape import Layout, interned
from ..base.trace_hooks import Changing, StreamWord, listening
from ..ir.lazy_graph import Array, Failed, Node, Value, pin
from ..ir.traced_storage import TracedArray, isolate
from ..scheduler.executor import buffer_of
from ..scheduler.scheduler import compute, flush
from ..tensor.tensor import Tensor
from .callees import Calls
from .outputs import Copied, Slot, can_be_copied
from .pytree import exchanged, same
from .traced_arguments import Passed

if TYPE_CHECKING:
    from ..base.device import GpuDevice
    from ..base.philox import Generator
    from .guards import Surroundings

ANY = object()
"""Of a gradient on entry: the function drops it first, so it may be anything."""

Action = Callable[[], object]


class Trace:
    """What a function did, as `trace_hooks` tells it.

    Until it ends, storages that were there before hold what they get for the thread of
    the trace alone. It ends when what was collected has become pending (`publish`), or
    when a replay of it has been submitted.

    Attributes
    ----------
    ended : bool
        Whether everybody sees what it did.
    nodes : list of Node
        Operations in order.
    device : GpuDevice or None
        Where they run.
    feeds : list of Value
        Stand for the elements of the tensors that each call brings.
    rebound_arrays : dict of int to (Array, Value)
        Storages that were there before and got other content, with what they held.
    actions : list of Changing or callable
        What the host does before each replay, in order.
    draws : dict of Generator to int
        How many streams the function took.
    owners : list
        Objects whose fingerprint decides whether the trace fits.
    leaves : dict of int to (Tensor, object)
        Tensors whose gradient was touched, and what it was on entry; see `ANY`.
    reasons : list of str
        Why the trace cannot be kept.
    changes_host : bool
        Whether a tensor on the host was changed in place.
    calls : Calls
        Which functions ran.
    passed : Passed
        What it was given.
    surroundings : Surroundings or None
        What they looked at, if it can be kept.
    """

    def __init__(self) -> None:
        self.ended = False
        self._thread = threading.get_ident()
        self.nodes: list[Node] = []
        self.device: GpuDevice | None = None
        self.feeds: list[Value] = []
        self.rebound_arrays: dict[int, tuple[Array, Value]] = {}
        self.actions: list[Changing | Action] = []
        self.draws: dict[Generator, int] = {}
        self.owners: list[Any] = []
        self._modules: list[tuple[Any, list[Any]]] = []
        self.leaves: dict[int, tuple[Tensor, object]] = {}
        self.reasons: list[str] = []
        self._refusal: TraceError | None = None
        self.changes_host = False
        self.calls = Calls()
        self.surroundings: Surroundings | None = None
        self._fed: dict[int, Tensor] = {}
        self._fed_arrays: list[Array] = []
        self.passed = Passed(self._swap)
        self._made: set[int] = set()
        self._copies: WeakSet[Array] = WeakSet()

    # What the layers below say

    def on_node(self, device: GpuDevice, node: Node) -> None:
        """Note an operation."""
        if self.device is None:
            self.device = device
        elif self.device is not device:
            self.refused(
                f"operations are on {self.device} and on {device}; one function may use"
                " one device"
            )
        self.nodes.append(node)
        self._made.update(id(value) for value in node.outputs)

    def on_rebind(self, array: Array, before: Value) -> None:
        """Note that a storage has other content."""
        if isinstance(before.buffer, np.ndarray):
            self.changes_host = True
            return
        if any(array is fed for fed in self._fed_arrays):
            self.refused(
                "an argument is changed in place; return the new tensor, or let the"
                " function reach it without passing it"
            )
        if id(before) in self._made or array in self._copies:
            return
        if type(array) is not TracedArray:
            self.rebound_arrays.setdefault(id(array), (array, before))
            isolate(array, self)
        elif id(array) not in self.rebound_arrays:
            self.refused(
                "a tensor is changed in place that another thread's trace is changing;"
                " let one finish before the other begins"
            )

    def on_copy(self, array: Array) -> None:
        """Note a storage that was not there before, though what it holds may have been.

        Each replay makes it anew.
        """
        self._copies.add(array)

    def on_draw(
        self, generator: Generator, words: tuple[int, int, int, int]
    ) -> tuple[int, ...]:
        """Return the words of a draw so that they are told apart."""
        call = self.draws.get(generator, 0)
        self.draws[generator] = call + 1
        marked = []
        for part, number in enumerate(words):
            word = StreamWord(number)
            word.generator, word.call, word.part = generator, call, part
            marked.append(word)
        return tuple(marked)

    def changing(self, read: Callable[[], float]) -> float:
        """Return a number that is read before each replay."""
        number = Changing(read())
        number.read = read
        self.actions.append(number)
        return number

    def each_time(self, action: Action) -> None:
        """Note an action that is repeated before each replay."""
        self.actions.append(action)

    def once(self, reason: str) -> None:
        """Note that the function did what it does only once."""
        self.reasons.append(reason)

    def called(self, owner: Any) -> None:
        """Note an object whose fingerprint decides whether the trace fits."""
        if all(owner is not known for known in self.owners):
            self.owners.append(owner)
            if hasattr(owner, "forward"):
                self._modules.append((owner, owner._fingerprint()))

    def on_grad_write(self, leaf: Tensor, cleared: bool) -> None:
        """Note that the gradient of a leaf is about to be dropped or added to."""
        self.leaves.setdefault(id(leaf), (leaf, ANY if cleared else leaf.own_grad))

    def on_grad_read(self, leaf: Tensor) -> None:
        """Note that what follows may depend on the gradient of a leaf."""
        self.on_grad_write(leaf, cleared=False)

    def refused(self, what: str) -> None:
        """Raise `TraceError`: the function does what a replay cannot.

        Again at its end if it goes on, as it does something else then than without
        `jit`; not if only a log or a progress bar asked.
        """
        error = TraceError(f"jit: {what}")
        if not self.calls.reporting:
            self._refusal = error
        raise error

    # Running the function

    def run(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        fed: list[Tensor],
    ) -> Any:
        """Call the function with stand-ins for what is fed, and return its result."""
        for tensor in fed:
            self._stand_in(tensor)
        give = self.passed.give
        args = tuple([give(each, str(k)) for k, each in enumerate(args)])
        kwargs = {name: give(each, name) for name, each in kwargs.items()}
        try:
            with listening(self), isolated_cast_cache(), self.calls:
                result = function(*args, **kwargs)
        finally:
            self.passed.hand_over()
        if self._refusal is not None:
            raise self._refusal
        return result

    def _stand_in(self, tensor: Tensor) -> None:
        shape, strides, offset = tensor.layout
        count = sum((size - 1) * step for size, step in zip(shape, strides)) + 1
        count = count if tensor.numel() else 0
        # What holds for the storage from the first element on; never written again.
        if offset == 0:
            value = Value(count, tensor.dtype)
            value.buffer = _memory_of(tensor)
        else:
            with no_grad():
                start = tensor.view_of(Layout((count,), (1,), offset))
                value = ops.copy(start).array.value
        pin(value)
        self.feeds.append(value)
        array = Array(value)
        self._fed_arrays += array, tensor.array
        layout = interned(Layout(shape, strides))
        self._fed[id(tensor)] = Tensor.make(array, layout, tensor.device)

    def _swap(self, tensor: Tensor) -> Tensor:
        return self._fed.get(id(tensor), tensor)

    def makes(self, tensor: Tensor) -> bool:
        """Return whether each replay computes a tensor, or is fed it."""
        array = tensor.array
        if any(array is fed for fed in self._fed_arrays):
            return True
        there = id(array) in self.rebound_arrays
        return id(array.value) in self._made and not there

    def changed_module(self) -> str:
        """Return a module that is not what it was when it was called; empty if none."""
        for module, before in self._modules:
            if not same(module._fingerprint(), before):
                return f"what a {type(module).__name__} consists of"
        return ""

    def visible(self) -> bool:
        """Return whether the calling thread is to see what the trace does."""
        return self.ended or threading.get_ident() == self._thread

    def publish(self) -> None:
        """Let what was collected be pending, as if it had been asked for as usual.

        Does nothing where a replay has done it. May be repeated if interrupted.
        """
        if self.device is None:
            self.end()
            return
        device = self.device
        with device.lock:
            device.settle()
            if not self.ended:
                waiting = device.pending + self.nodes
                device.pending, self.ended = waiting, True
            self.end()

    def end(self) -> None:
        """Let everybody see what it did."""
        self.ended = True
        for array, _ in self.rebound_arrays.values():
            if type(array) is TracedArray:
                array.publish()

    def drop_gradients(self) -> None:
        """Give leaves back what they had, where their gradient was not computed."""
        for leaf, entry in self.leaves.values():
            grad = leaf.own_grad
            if grad is not None and type(grad.array.value.buffer) is Failed:
                leaf.own_grad = None if entry is ANY else entry

    def uncount_steps(self) -> None:
        """Let optimizers not count steps that left parameters as they were."""
        same = [
            array
            for array, before in self.rebound_arrays.values()
            if array.value is before
        ]
        for owner in self.owners:
            if hasattr(owner, "uncount"):
                owner.uncount(same)

    def run_now(self) -> None:
        """Run what was collected, as if it had been asked for without a trace."""
        self.publish()
        if self.device is not None:
            flush(self.device)

    def shares(self) -> bool:
        """Return whether what changes shared its elements; call it after `settle`.

        Then nobody can tell which of those who share them a kernel read.
        """
        befores = {id(before) for _, before in self.rebound_arrays.values()}
        # Each is held by the storage that changes, for other threads.
        held = any(
            before.external_refs > 1 for _, before in self.rebound_arrays.values()
        )
        return held or len(befores) < len(self.rebound_arrays)

    def part(self) -> None:
        """Give storages that changed elements of their own, so that they can again."""
        if self.device is None:
            return  # nothing was asked of a device that could write over what is shared
        with no_grad():
            for array, _ in self.rebound_arrays.values():
                if array.value.external_refs > 1:
                    array.replace(_copied(array.value, self.device).array.value)

    # What stays

    def settle(self, result: Any) -> tuple[Any, list[Tensor]]:
        """Give each storage that changed, and each result, a value of its own.

        Returns
        -------
        result : object
            The function's result with numbers in the place of tensors on the device.
        tensors : list of Tensor
            Those tensors, off the tape, each over a value that nothing else holds.
        """
        tensors: list[Tensor] = []
        slots: dict[int, Slot] = {}

        def number(part: Any) -> Any:
            if isinstance(part, Tensor) and part.is_gpu:
                if id(part) not in slots:
                    slots[id(part)] = Slot(len(tensors))
                    tensors.append(part.detach())
                return slots[id(part)]
            found = part.detach() if isinstance(part, Tensor) else part
            known = self.surroundings is not None and self.surroundings.knows(found)
            return found if known or not can_be_copied(found) else Copied(found)

        result = exchanged(result, number)
        with listening(self), no_grad():
            taken: set[int] = set()
            for array, _ in self.rebound_arrays.values():
                value = array.value
                alone = id(value) in self._made and value.external_refs == 1
                if not alone or id(value) in taken:
                    array.replace(_copied(value, self.device).array.value)
                taken.add(id(array.value))
            for k, tensor in enumerate(tensors):
                value = tensor.array.value
                if id(value) not in self._made or id(value) in taken:
                    tensors[k] = ops.copy(tensor)
                taken.add(id(tensors[k].array.value))
        return result, tensors


def _copied(value: Value, device: Any) -> Tensor:
    """Return all elements of a value in another one."""
    whole = Layout.contiguous((value.numel,))
    return ops.copy(Tensor.make(Array(value), whole, device))


def _memory_of(tensor: Tensor) -> Any:
    """Return the memory of a tensor on a device."""
    device: Any = tensor.device
    with device.lock:
        value = tensor.array.value
        compute(device, value)
        return buffer_of(value)
