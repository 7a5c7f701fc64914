"""A trace ready to be replayed, and whether it still fits the world."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from operator import attrgetter, is_
from typing import TYPE_CHECKING, Any

import vkbackend

from ..autotune import autotune
from ..base.trace_hooks import Structure
from ..eager.base_tensor import assembled
from ..ir.lazy_graph import (
    Array,
    ReplayOwnedArray,
    Value,
    mark_replay_owned,
    observe,
    pin,
    pinned_array,
)
from ..scheduler.executor import buffer_of
from ..scheduler.scheduler import flush
from ..tensor.tensor import Tensor
from .compiler import State, build
from .guards import Surroundings
from .outputs import Slot, filled
from .pytree import same
from .signature import Call
from .tracer import ANY, Trace

if TYPE_CHECKING:
    from ..base.device import GpuDevice


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
    device : GpuDevice
        Where it runs; its lock is to be held from `fits` to `replay`.
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
        self.device: GpuDevice = trace.device
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
            if hasattr(owner, "param_groups"):
                groups = owner.param_groups
                self._surroundings.add(vars(owner), "param_groups")
                self._surroundings.hold(groups)
                for group in groups:
                    self._surroundings.hold(group["params"])
        self._changes = Structure.changes
        self._fingerprints = [(owner, owner._fingerprint()) for owner in trace.owners]
        self._entries = [(leaf, entry) for leaf, entry in leaves if entry is not ANY]
        self._grads = [leaf.own_grad for leaf, _ in leaves]
        self._built = build(
            trace,
            {
                id(before): buffer_of(before)
                for _, before in trace.rebound_arrays.values()
            },
        )
        # Building it may have measured something, which begins another era.
        self._generation = autotune.settings().generation
        memory = self._built.memory
        self._made = [
            (value.numel, value.dtype, memory[id(value)], each.layout)
            for each in tensors
            for value in [each.array.value]
        ]
        self._states: list[State] = []
        self._constants = self._built.constants
        self._lost = _Lost(self)
        self._feeds = [
            (k, feed)
            for k, feed in enumerate(self._built.feeds)
            if feed is not None and feed.size
        ]
        self._returned: list[Value] = []
        self._moved: list[Value] = []
        self._moves: list[tuple[Value, vkbackend.Buffer]] = []
        self._trace: Trace | None = None
        self._last: vkbackend.TimelinePoint | None = None
        self._taken = False
        self._disturbed = False
        self._stale = False

    def begin(self, trace: Trace, fed: Sequence[Tensor]) -> Any:
        """Submit it for the first time, which ends its trace; see `replay`.

        If that fails the trace has not ended, and nothing has changed.
        """
        with self.device.lock:
            # What other threads asked for may read what is written over.
            flush(self.device)
            self._trace = trace
            try:
                return self.replay(fed, first=True)
            finally:
                self.device.settle()
                self._trace = None

    def _bind(self, trace: Trace) -> None:
        """Put values in the memory that replays write, and watch those read.

        May be repeated, as it may have been interrupted.
        """
        memory = self._built.memory
        for node in trace.nodes:
            for value in node.outputs:
                value.buffer = memory.get(id(value))
                if value.buffer is not None:
                    pin(value)
                value.node = None
        trace.end()
        states = []
        for array, _ in trace.rebound_arrays.values():
            value = array.value
            observe(value, self)
            mark_replay_owned(array)
            states.append(State(weakref.ref(array), memory[id(value)], value))
        self._states = states
        self.returned()
        for value in self._constants:
            observe(value, self._lost)

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
            if type(tensor.array) is ReplayOwnedArray and self._writes(tensor.array):
                return False
        if self._generation != autotune.settings().generation:
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
        with self.device.lock:
            if self.device.pending:
                flush(self.device)
            if not self._disturbed:
                return True
            self.device.begin()
            try:
                return self._take_back()
            finally:
                self.device.running = None

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
        batch = self.device.gpu.batch()
        # What moves out of memory that is to be written, and where to.
        moved: dict[Value, vkbackend.Buffer] = {}
        changes: list[tuple[State, Array, Value, Value]] = []
        for state in self._states:
            array = state.array()
            if array is None:
                return False
            found = array.value
            if (found.numel, found.dtype) != (state.value.numel, state.value.dtype):
                return False
            inside = moved.get(found, found.buffer) is state.buffer
            if inside and found.external_refs == 1:
                if found is not state.value:
                    observe(found, self)
                    state.value = found
                continue
            old = found if inside else state.value
            if old.external_refs > int(inside) and old.buffer is state.buffer:
                moved[old] = self.device.gpu.allocate(_size(old))
                batch.copy(state.buffer, moved[old], 0, 0, _size(old))
            if not inside:
                source = moved.get(found) or buffer_of(found)
                batch.copy(source, state.buffer, 0, 0, _size(found))
            new = Value(found.numel, found.dtype, buffer=state.buffer)
            changes.append((state, array, found, new))
        self.device.in_flight = _Return(self, batch, moved, changes)
        batch.submit()
        self.device.finish()
        return True

    def returned(self) -> None:
        """Note whether storages hold what replays expect, and nothing else holds it."""
        # First, as other threads change what they hold at any moment, and say so.
        self._disturbed = False
        for state in self._states:
            array = state.array()
            if array is None or array.value is not state.value:
                self._disturbed = True
            elif state.value.external_refs != 1:
                self._disturbed = True

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
        device = self.device
        with device.lock:
            device.begin()
            try:
                return self._replay(fed, first)
            finally:
                device.running = None

    def _replay(self, fed: Sequence[Tensor], first: bool) -> Any:
        built, device = self._built, self.device
        copies: list[Copy] = []
        for k, feed in self._feeds:
            tensor = fed[k]
            layout, value = tensor.layout, tensor.array.value
            start = layout.offset * value.dtype.itemsize
            source = buffer_of(value)
            copies.append((source, start, feed.buffer, feed.offset, feed.size))
        # After the feeds: one of them may be a result of the last replay.
        moves: list[tuple[Value, vkbackend.Buffer]] = []
        for k, value in enumerate(self._returned):
            if value.external_refs:
                self._move_out(k, value, copies, moves)
        words, recording = built.words, built.recording
        words.marks = ()
        try:
            if not first:
                words.write()
            self._moves = moves
            # Before, as what the tape has saved may be written over from here on.
            self.replays += 1
            self._taken = recording is None
            device.in_flight = self
            if recording is not None:
                point = recording.submit(copies, words.any and words.changed)
        except BaseException:
            # The second time in case that an interrupt ends the first.
            try:
                self._take_back_words()
            finally:
                self._take_back_words()
            raise
        if recording is not None:
            # Together, or an interrupt between would undo what was taken.
            self._last, self._taken = point, True
            words.sent()
        device.finish()
        if not all(map(is_, map(_grad, self._leaves), self._grads)):
            for leaf, grad in zip(self._leaves, self._grads):
                leaf.own_grad = grad
        return self._results()

    def _take_back_words(self) -> None:
        """Undo what the host did for a replay that was not taken; may be repeated."""
        recording = self._built.recording
        if recording is None or recording.point in (None, self._last):
            self._built.words.take_back()

    def settle(self) -> None:
        """Note what a replay has done, if it was taken; see `device.Submission`."""
        recording = self._built.recording
        if not self._taken and recording is not None:
            point = recording.point
            if point is None or point is self._last:
                return
            self._last, self._taken = point, True
        if self._trace is not None:
            self._bind(self._trace)
            self._trace = None
        for value, fresh in self._moves:
            if value.buffer is not fresh:
                value.buffer = fresh
                self._moved.append(value)
        self._moves = []

    def _move_out(
        self,
        number: int,
        value: Value,
        copies: list[Copy],
        moves: list[tuple[Value, vkbackend.Buffer]],
    ) -> None:
        """Give a result of the last replay that is held memory of its own."""
        _, _, buffer, _ = self._made[number]
        if value.buffer is buffer and value.numel:
            fresh = self._spare(_size(value))
            copies.append((buffer, 0, fresh, 0, _size(value)))
            moves.append((value, fresh))

    def _spare(self, size: int) -> vkbackend.Buffer:
        """Return memory of an earlier result that nobody holds, or new memory."""
        for k, value in enumerate(self._moved):
            # One that is watched is read by another program.
            if not value.external_refs and _size(value) == size and not value.observers:
                return buffer_of(self._moved.pop(k))
        if len(self._moved) > MOST_MOVED:
            self._moved.clear()
        return self.device.gpu.allocate(size)

    def _results(self) -> Any:
        """Return what the function returns, with fresh tensors."""
        device = self.device
        if type(self._result) is Slot:
            ((numel, dtype, buffer, layout),) = self._made
            array = pinned_array(numel, dtype, buffer)
            self._returned = [array.value]
            return assembled(Tensor, array, layout, device)
        arrays = [pinned_array(*made[:3]) for made in self._made]
        self._returned = [array.value for array in arrays]
        tensors = [
            assembled(Tensor, array, made[3], device)
            for array, made in zip(arrays, self._made)
        ]
        return filled(self._result, tensors)

    def profiled(self) -> bool:
        """Return whether its device is being profiled, which sees no recording."""
        return self.device.gpu.open_profile is not None

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
        """Watch nothing any longer; it does not fit from then on."""
        self._stale = True
        for state in self._states:
            array = state.array()
            version = 0 if array is None else array.version
            state.value.observers.discard(self)
            if array is not None:
                # It has counted the replays.
                array.version = version
        for value in self._constants:
            value.observers.discard(self._lost)


class _Return:
    """The way back of storages' content to where replays expect it.

    See `Submission`.
    """

    def __init__(
        self,
        program: Program,
        batch: vkbackend.Batch,
        moved: dict[Value, vkbackend.Buffer],
        changes: list[tuple[State, Array, Value, Value]],
    ) -> None:
        self._program = program
        self._batch = batch
        self._moved = moved
        self._changes = changes

    def settle(self) -> None:
        """Let storages hold the content where it is now, if it has been brought."""
        if self._batch.point is None:
            return
        for value, fresh in self._moved.items():
            value.buffer = fresh
        for state, array, found, new in self._changes:
            state.value = new
            observe(new, self._program)
            # It may have changed since an interrupt.
            if array.value is found:
                array.replace(new)
        self._program.returned()


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
