"""A trace ready to be replayed, and whether it still fits the world."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from operator import attrgetter, is_
from typing import TYPE_CHECKING, Any

import vkbackend

from .. import tuning
from ..core import assembled
from ..dtype import DType
from ..execution import realised
from ..pending import Array, BoundArray, Value, bind, keep, kept_array, watch
from ..schedule import flush
from ..shape import Layout
from ..tensor import Tensor
from ..tracing import Structure
from .arguments import Call, same
from .build import State, build
from .surroundings import Surroundings
from .trace import ANY, Slot, Trace, filled

if TYPE_CHECKING:
    from ..device import GpuDevice


MOST_MOVED = 16
"""Results with memory of their own of which the memory may be used again."""

_grad = attrgetter("own_grad")

Copy = tuple[vkbackend.Buffer, int, vkbackend.Buffer, int, int]


class Program:
    """One trace of a function, recorded.

    Attributes
    ----------
    replays : int
        How often it ran.
    lock : RLock
        Of the device: to be held from `fits` to `replay`.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        trace: Trace,
        call: Call,
        result: Any,
        tensors: list[Tensor],
    ) -> None:
        assert trace.device is not None
        self.replays = 0
        self._device: GpuDevice = trace.device
        self.lock = trace.device.lock
        self._result = result
        self._kept = call.kept
        leaves = list(trace.leaves.values())
        self._leaves = [leaf for leaf, _ in leaves]
        self._surroundings = trace.surroundings or Surroundings(
            function, *trace.owners, *call.kept, *self._leaves, calls=trace.calls
        )
        for owner in trace.owners:
            for mapping, name in getattr(owner, "_places", list)():
                self._surroundings.add(mapping, name)
        self._changes = Structure.changes
        self._fingerprints = [(owner, owner._fingerprint()) for owner in trace.owners]
        self._entries = [(leaf, entry) for leaf, entry in leaves if entry is not ANY]
        self._grads = [leaf.own_grad for leaf, _ in leaves]
        self._built = build(
            trace,
            {
                id(before): realised(before)
                for _, before in trace.rebound_arrays.values()
            },
        )
        # Building it may have measured something, which begins another era.
        self._era = tuning.settings().era
        self._made = self._bind(trace, tensors)
        self._feeds = [
            (k, feed)
            for k, feed in enumerate(self._built.feeds)
            if feed is not None and feed.size
        ]
        self._returned: list[Value] = []
        self._moved: list[Value] = []
        self._disturbed = False
        self._stale = False

    def _bind(
        self, trace: Trace, tensors: list[Tensor]
    ) -> list[tuple[int, DType, vkbackend.Buffer, Layout]]:
        """Put values in the memory that replays write, and watch those read.

        Returns
        -------
        list of (int, DType, Buffer, Layout)
            Of each result: elements, their type, memory, how they are viewed.
        """
        memory = self._built.memory
        for node in trace.nodes:
            for value in node.outputs:
                value.node = None
                value.buffer = memory.get(id(value))
                if value.buffer is not None:
                    keep(value)
        self._states = []
        for array, _ in trace.rebound_arrays.values():
            value = array.value
            watch(value, self)
            bind(array)
            buffer = memory[id(value)]
            self._states.append(State(weakref.ref(array), buffer, value))
        self._constants = self._built.constants
        self._lost = _Lost(self)
        for value in self._constants:
            watch(value, self._lost)
        return [
            (value.numel, value.dtype, memory[id(value)], each.layout)
            for each in tensors
            for value in [each.array.value]
        ]

    def __call__(self, grew: bool) -> None:
        """Hear that a storage holds, or no longer holds, what replays write."""
        self._disturbed = True

    def lost(self) -> None:
        """Hear that a storage no longer holds what replays only read."""
        self._stale = True

    def fits(self, fed: Sequence[Tensor] = ()) -> bool:
        """Return whether a replay on `fed` would do what the function would do now."""
        if self._stale or self._surroundings.changed():
            return False
        for tensor in fed:
            # A replay would not see what it changes of what it is fed.
            if type(tensor.array) is BoundArray and self._writes(tensor.array):
                return False
        if self._era != tuning.settings().era:
            return False
        if self._changes != Structure.changes:
            if self._surroundings.switched():
                return False
            for owner, fingerprint in self._fingerprints:
                if not same(owner._fingerprint(), fingerprint):
                    return False
            self._changes = Structure.changes
        for leaf, entry in self._entries:
            if leaf.own_grad is not entry:
                return False
        with self._device.lock:
            if self._device.pending:
                flush(self._device)
            return not self._disturbed or self._take_back()

    def found(self) -> str:
        """Return what the function looks at and is not as it was; empty if nothing."""
        found: str = self._surroundings.found()
        if not found and any(leaf.own_grad is not grad for leaf, grad in self._entries):
            found = "a gradient that it reads or adds to"
        for owner, fingerprint in self._fingerprints:
            if not found and not same(owner._fingerprint(), fingerprint):
                found = f"what a {type(owner).__name__} consists of"
        return found

    def _writes(self, array: Array) -> bool:
        return any(state.array() is array for state in self._states)

    def _take_back(self) -> bool:
        """Bring what storages hold by now to where replays expect it.

        What others still hold of the last replay's content moves to memory of its own.
        Returns False if a storage is gone or is no longer what it was.
        """
        self._disturbed = False
        batch = self._device.gpu.batch()
        for state in self._states:
            array = state.array()
            if array is None:
                return False
            found = array.value
            if (found.numel, found.dtype) != (state.value.numel, state.value.dtype):
                return False
            if found.buffer is state.buffer and found.holders == 1:
                if found is not state.value:
                    watch(found, self)
                    state.value = found
                continue
            old = found if found.buffer is state.buffer else state.value
            self._preserve(batch, old, state.buffer, int(old is found))
            if old is not found:
                batch.copy(realised(found), state.buffer, 0, 0, _size(found))
            state.value = Value(found.numel, found.dtype, buffer=state.buffer)
            watch(state.value, self)
            array.replace(state.value)
        batch.submit()
        self._disturbed = False
        return True

    def _preserve(
        self,
        batch: vkbackend.Batch,
        value: Value,
        buffer: vkbackend.Buffer,
        own: int = 0,
    ) -> None:
        """Move a value that others than `own` arrays hold out of a replay's memory."""
        if value.holders > own and value.buffer is buffer:
            fresh = self._device.gpu.allocate(_size(value))
            batch.copy(buffer, fresh, 0, 0, _size(value))
            value.buffer = fresh

    def replay(self, fed: Sequence[Tensor], first: bool = False) -> Any:
        """Run it on other elements; `fits` has just said that it may.

        Parameters
        ----------
        fed : sequence of Tensor
            The elements.
        first : bool, default False
            Whether the host has just done its part in the trace.

        Returns
        -------
        object
            What the function returns, with fresh tensors.
        """
        built = self._built
        with self._device.lock:
            copies: list[Copy] = []
            for k, feed in self._feeds:
                tensor = fed[k]
                layout, value = tensor.layout, tensor.array.value
                start = layout.offset * value.dtype.itemsize
                source = realised(value)
                copies.append((source, start, feed.buffer, feed.offset, feed.size))
            # After the feeds: one of them may be a result of the last replay.
            for k, value in enumerate(self._returned):
                if value.holders:
                    self._move_out(k, value, copies)
            words = built.words
            if not first:
                words.write()
            if built.recording is not None:
                built.recording.submit(copies, words.any and words.changed)
                words.sent()
            self.replays += 1
            if not all(map(is_, map(_grad, self._leaves), self._grads)):
                for leaf, grad in zip(self._leaves, self._grads):
                    leaf.own_grad = grad
            return self._results()

    def _move_out(self, number: int, value: Value, copies: list[Copy]) -> None:
        """Give a result of the last replay that is held memory of its own."""
        _, _, buffer, _ = self._made[number]
        if value.buffer is buffer and value.numel:
            fresh = self._spare(_size(value))
            copies.append((buffer, 0, fresh, 0, _size(value)))
            value.buffer = fresh
            self._moved.append(value)

    def _spare(self, size: int) -> vkbackend.Buffer:
        """Return memory of an earlier result that nobody holds, or new memory."""
        for k, value in enumerate(self._moved):
            # One that is watched is read by another program.
            if not value.holders and _size(value) == size and not value.watchers:
                return realised(self._moved.pop(k))
        if len(self._moved) > MOST_MOVED:
            self._moved.clear()
        return self._device.gpu.allocate(size)

    def _results(self) -> Any:
        """Return what the function returns, with fresh tensors."""
        device = self._device
        if type(self._result) is Slot:
            ((numel, dtype, buffer, layout),) = self._made
            array = kept_array(numel, dtype, buffer)
            self._returned = [array.value]
            return assembled(Tensor, array, layout, device)
        arrays = [kept_array(*made[:3]) for made in self._made]
        self._returned = [array.value for array in arrays]
        tensors = [
            assembled(Tensor, array, made[3], device)
            for array, made in zip(arrays, self._made)
        ]
        return filled(self._result, tensors)

    def profiled(self) -> bool:
        """Return whether its device is being profiled, which sees no recording."""
        return self._device.gpu.open_profile is not None

    def statistics(self) -> dict[str, int]:
        """Return bytes and counts; see `Jitted.memory_stats`."""
        built = self._built
        recording = built.recording
        return {
            "planned": built.planned,
            "alive": built.alive,
            "eager": built.eager,
            "kept": built.kept,
            "dispatches": 0 if recording is None else recording.dispatches,
            "barriers": 0 if recording is None else recording.barriers,
            "replays": self.replays,
        }

    def forget(self) -> None:
        """Watch nothing any longer."""
        for state in self._states:
            state.value.watchers.discard(self)
        for value in self._constants:
            value.watchers.discard(self._lost)


class _Lost:
    """Tells a program that a storage left a value that replays only read."""

    def __init__(self, program: Program) -> None:
        self._program = weakref.ref(program)

    def __call__(self, grew: bool) -> None:
        program = self._program()
        if program is not None and not grew:
            program.lost()


def _size(value: Value) -> int:
    return value.numel * value.dtype.itemsize
