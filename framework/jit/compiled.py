"""Compiled trace: a recording with its guards, state and results."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from operator import attrgetter, is_
from typing import TYPE_CHECKING, Any

import vkbackend

from ..base.trace_hooks import Structure
from ..eager.base_tensor import assembled
from ..ir.lazy_graph import (
    Array,
    ReplayOwnedArray,
    Value,
    mark_replay_owned,
    notify,
    observe,
    pin,
    pinned_array,
)
from ..scheduler.executor import buffer_of
from ..scheduler.scheduler import flush
from ..tensor.tensor import Tensor
from .compiler import State, compile_trace
from .guards import Guards
from .outputs import Slot, slot_filler
from .pytree import same
from .signature import CallSignature
from .tracer import ANY, Trace

if TYPE_CHECKING:
    from ..base.device import GpuDevice


MAX_RECYCLED_BUFFERS = 16
"""Moved-out results whose memory may be recycled."""

_grad = attrgetter("own_grad")

Copy = tuple[vkbackend.Buffer, int, vkbackend.Buffer, int, int]


class CompiledTrace:
    """Compiled trace of a function.

    Parameters
    ----------
    function : callable
    trace : Trace
    call : CallSignature
    result : object
        What the function returned, with slots for tensors.
    tensors : list of Tensor
        These tensors.
    varies : bool, default False
        Whether its kernels are to be those of calls with other sizes, too.

    Attributes
    ----------
    replays : int
        Number of runs.
    symbols : SymbolTable or None
        Numbers of the call that may change.
    kind : hashable
        Key of the statistics of its calls; see `TracePolicy`.
    device : GpuDevice
        Its device; the lock is to be held from `fits` to `replay`.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        trace: Trace,
        call: CallSignature,
        result: Any,
        tensors: list[Tensor],
        varies: bool = False,
    ) -> None:
        assert trace.device is not None
        self.replays = 0
        self.device: GpuDevice = trace.device
        self.symbols = trace.symbols
        self.kind: object = call.key
        self._is_single = type(result) is Slot
        self._fill = slot_filler(result)
        self._kept = call.identity_keys
        leaves = list(trace.leaves.values())
        self._leaves = [leaf for leaf, _ in leaves]
        self._guards = trace.guards or Guards(
            function,
            *trace.owners,
            *call.identity_keys,
            *self._leaves,
            callees=trace.callees,
        )
        for owner in trace.owners:
            for mapping, name in getattr(owner, "_guard_sources", list)():
                self._guards.add(mapping, name)
            if hasattr(owner, "param_groups"):
                groups = owner.param_groups
                self._guards.add(vars(owner), "param_groups")
                self._guards.guard_list(groups)
                for group in groups:
                    self._guards.guard_list(group["params"])
        self._structure_epoch = Structure.changes
        self._fingerprints = [(owner, owner._fingerprint()) for owner in trace.owners]
        self._entries = [(leaf, entry) for leaf, entry in leaves if entry is not ANY]
        self._grads = [leaf.own_grad for leaf, _ in leaves]
        self._executable = compile_trace(
            trace,
            {
                id(before): buffer_of(before)
                for _, before in trace.rebound_arrays.values()
            },
            varies,
        )
        # Compiling may autotune, which begins another generation.
        self._generation = self.device.generation
        memory = self._executable.memory
        self._result_specs = [
            (value.numel, value.dtype, memory[id(value)], each.layout)
            for each in tensors
            for value in [each.array.value]
        ]
        self._states: list[State] = []
        self._constants = self._executable.constants
        self._constant_observer = _ConstantObserver(self)
        self._graph_inputs = [
            (k, target)
            for k, target in enumerate(self._executable.graph_inputs)
            if target is not None and target.size
        ]
        self._last_results: list[Value] = []
        self._recyclable: list[Value] = []
        self._moves: list[tuple[Value, vkbackend.Buffer]] = []
        self._trace: Trace | None = None
        self._last: vkbackend.TimelinePoint | None = None
        self._submitted = False
        self._state_moved = False
        self._stale = False

    def begin(self, trace: Trace, inputs: Sequence[Tensor]) -> Any:
        """Submit it for the first time, which ends its trace; see `replay`.

        If that fails the trace has not ended, and nothing has changed.
        """
        with self.device.lock:
            # Nodes of other threads may read what is overwritten.
            flush(self.device)
            self._trace = trace
            try:
                return self.replay(inputs, first=True)
            finally:
                self.device.settle()
                self._trace = None

    def _bind(self, trace: Trace) -> None:
        """Bind values to the memory that replays write, and observe those read.

        May be repeated, as it may have been interrupted.
        """
        memory = self._executable.memory
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
        holders = {id(array.value): array for array in self._storages()}
        for value in self._constants:
            holder = holders.get(id(value))
            # Of several storages that share a value, it is unknown which one was read.
            if holder is None or value.external_refs != 1:
                observe(value, self._constant_observer)
                continue
            observe(value, self)
            states.append(State(weakref.ref(holder), buffer_of(value), value, False))
        self._states = states
        self.check_state()

    def _storages(self) -> list[Array]:
        """Return the storages of the guarded tensors."""
        found = self._guards.storages()
        for _, fingerprint in self._fingerprints:
            found += [each for each in fingerprint if isinstance(each, Array)]
        return found

    def __call__(self, grew: bool) -> None:
        """Observe that a state's value gained or lost a storage."""
        self._state_moved = True

    def lost(self) -> None:
        """Observe that a storage lost a value that replays only read."""
        self._stale = True

    def fits(self, inputs: Sequence[Tensor] = ()) -> bool:
        """Return whether all guards hold for a replay on `inputs`."""
        if self._stale or self._guards.changed():
            return False
        for tensor in inputs:
            # A replay would not see its own mutation of an input.
            if type(tensor.array) is ReplayOwnedArray and self._writes(tensor.array):
                return False
        if self._generation != self.device.generation:
            return False
        if self._structure_epoch != Structure.changes:
            if self._guards.structure_differs():
                return False
            for owner, fingerprint in self._fingerprints:
                if not same(owner._fingerprint(), fingerprint):
                    return False
            self._structure_epoch = Structure.changes
        for leaf, entry in self._entries:
            if leaf.own_grad is not entry:
                return False
        with self.device.lock:
            if self.device.pending:
                flush(self.device)
            if not self._state_moved:
                return True
            self.device.begin()
            try:
                return self._restore_state()
            finally:
                self.device.running = None

    def failed_guard(self) -> str:
        """Return the name of a source whose guard fails; empty if none."""
        found: str = self._guards.failed_guard()
        if not found and any(leaf.own_grad is not grad for leaf, grad in self._entries):
            found = "a gradient that it reads or adds to"
        for owner, fingerprint in self._fingerprints:
            if not found and not same(owner._fingerprint(), fingerprint):
                found = f"what a {type(owner).__name__} consists of"
        return found

    def _writes(self, array: Array) -> bool:
        return any(state.written and state.array() is array for state in self._states)

    def _restore_state(self) -> bool:
        """Copy current values of storages to the memory that replays use.

        Values of the last replay that are still referenced move to memory of their own.
        Returns False if a storage is gone or has another size or dtype, or if another
        trace depends on where its values are.
        """
        batch = self.device.gpu.batch()
        # Values that move out of memory that is to be written, and their new buffers.
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
            if not state.written and not inside and self._is_shared(state, found):
                return False
            if inside and (found.external_refs == 1 or not state.written):
                if found is not state.value:
                    observe(found, self)
                    state.value = found
                continue
            old = found if inside else state.value
            if old.external_refs > int(inside) and old.buffer is state.buffer:
                moved[old] = self.device.gpu.allocate(old.nbytes)
                batch.copy(state.buffer, moved[old], 0, 0, old.nbytes)
            if not inside:
                source = moved.get(found) or buffer_of(found)
                batch.copy(source, state.buffer, 0, 0, found.nbytes)
            new = Value(found.numel, found.dtype, buffer=state.buffer)
            changes.append((state, array, found, new))
        if not changes:
            self.check_state()
            return True
        self.device.in_flight = _StateRestore(self, batch, moved, changes)
        batch.submit()
        self.device.finish()
        return True

    def _is_shared(self, state: State, found: Value) -> bool:
        """Whether a storage that replays only read has to be read elsewhere.

        As its memory has been taken over, or as other traces have recorded it or that
        of the new value.
        """
        old = state.value
        if old is found or old.buffer is not state.buffer:
            return True
        others = set(getattr(found, "observers", ())) - {self}
        if old.external_refs:
            others |= old.observers - {self}
        return bool(others)

    def check_state(self) -> None:
        """Update whether each storage alone holds the value that replays expect."""
        # First, as other threads may change values, and report it, at any moment.
        self._state_moved = False
        for state in self._states:
            array = state.array()
            if array is None or array.value is not state.value:
                self._state_moved = True
            elif state.written:
                self._state_moved |= state.value.external_refs != 1
            else:
                self._state_moved |= state.value.buffer is not state.buffer

    def replay(self, inputs: Sequence[Tensor], first: bool = False) -> Any:
        """Replay it on other inputs; `fits` has just returned True.

        Parameters
        ----------
        inputs : sequence of Tensor
            The graph inputs.
        first : bool, default False
            Whether the host actions have just run in the trace.

        Returns
        -------
        object
            Result of the function, with fresh tensors.
        """
        device = self.device
        with device.lock:
            device.begin()
            try:
                return self._replay(inputs, first)
            except Exception:
                # A host step's, after which nothing may be submitted that would let go
                # of the memory of this replay.
                device.finish()
                raise
            finally:
                device.running = None

    def _replay(self, inputs: Sequence[Tensor], first: bool) -> Any:
        executable, device = self._executable, self.device
        copies: list[Copy] = []
        for k, target in self._graph_inputs:
            tensor = inputs[k]
            layout, value = tensor.layout, tensor.array.value
            start = layout.offset * value.dtype.itemsize
            copies.append((buffer_of(value), start, *target))
        # After the inputs: one of them may be a result of the last replay.
        moves: list[tuple[Value, vkbackend.Buffer]] = []
        for k, value in enumerate(self._last_results):
            if value.external_refs:
                self._move_out(k, value, copies, moves)
        words, recording = executable.words, executable.recording
        words.marks = ()
        try:
            if not first:
                words.write()
            self._moves = moves
            # Before, as saved tensors may be overwritten from here on.
            self.replays += 1
            self._submitted = recording is None
            device.in_flight = self
            if recording is not None:
                point = recording.submit(copies, words.any and words.changed)
        except BaseException:
            # The second time in case that an interrupt ends the first.
            try:
                self._roll_back_arguments()
            finally:
                self._roll_back_arguments()
            raise
        if recording is not None:
            # Together, or an interrupt between would roll back a submitted replay.
            self._last, self._submitted = point, True
            words.sent()
        device.finish()
        if not all(map(is_, map(_grad, self._leaves), self._grads)):
            for leaf, grad in zip(self._leaves, self._grads):
                leaf.own_grad = grad
        return self._results()

    def _roll_back_arguments(self) -> None:
        """Roll back the host actions of an unsubmitted replay; may be repeated."""
        recording = self._executable.recording
        if recording is None or recording.point in (None, self._last):
            self._executable.words.take_back()

    def settle(self) -> None:
        """Publish a replay's effects, if it was submitted; see `device.Submission`."""
        recording = self._executable.recording
        if not self._submitted and recording is not None:
            point = recording.point
            if point is None or point is self._last:
                return
            self._last, self._submitted = point, True
        if self._trace is not None:
            self._bind(self._trace)
            self._trace = None
        for value, fresh in self._moves:
            if value.buffer is not fresh:
                value.buffer = fresh
                self._recyclable.append(value)
        self._moves = []

    def _move_out(
        self,
        number: int,
        value: Value,
        copies: list[Copy],
        moves: list[tuple[Value, vkbackend.Buffer]],
    ) -> None:
        """Move a referenced result of the last replay to memory of its own."""
        _, _, buffer, _ = self._result_specs[number]
        if value.buffer is buffer and value.numel:
            fresh = self._recycled_buffer(value.nbytes)
            copies.append((buffer, 0, fresh, 0, value.nbytes))
            moves.append((value, fresh))

    def _recycled_buffer(self, size: int) -> vkbackend.Buffer:
        """Return the buffer of an unreferenced earlier result, or a new one."""
        for k, value in enumerate(self._recyclable):
            # An observed value is read by another compiled trace.
            if not value.external_refs and value.nbytes == size and not value.observers:
                return buffer_of(self._recyclable.pop(k))
        if len(self._recyclable) > MAX_RECYCLED_BUFFERS:
            self._recyclable.clear()
        return self.device.gpu.allocate(size)

    def _results(self) -> Any:
        """Return the result of the function, with fresh tensors."""
        device = self.device
        if self._is_single:
            ((numel, dtype, buffer, layout),) = self._result_specs
            array = pinned_array(numel, dtype, buffer)
            self._last_results = [array.value]
            return assembled(Tensor, array, layout, device)
        arrays = [pinned_array(*made[:3]) for made in self._result_specs]
        self._last_results = [array.value for array in arrays]
        tensors = [
            assembled(Tensor, array, made[3], device)
            for array, made in zip(arrays, self._result_specs)
        ]
        return self._fill(tensors)

    def profiled(self) -> bool:
        """Return whether its device is profiled: profiles do not see recordings."""
        return self.device.gpu.open_profile is not None

    def statistics(self) -> dict[str, int]:
        """Return bytes and counts; see `Jitted.memory_stats`."""
        executable = self._executable
        recording = executable.recording
        return {
            "planned": executable.planned,
            "alive": executable.alive,
            "eager": executable.eager,
            "kept": executable.kept,
            "dispatches": 0 if recording is None else recording.dispatches,
            "barriers": 0 if recording is None else recording.barriers,
            "replays": self.replays,
        }

    def forget(self) -> None:
        """Stop observing values; `fits` returns False from then on."""
        self._stale = True
        for state in self._states:
            array = state.array()
            version = 0 if array is None else array.version
            state.value.observers.discard(self)
            if array is not None:
                # Its version has counted the replays.
                array.version = version
        for value in self._constants:
            value.observers.discard(self._constant_observer)


class _StateRestore:
    """Restore of states to the memory that replays use; see `Submission`."""

    def __init__(
        self,
        compiled: CompiledTrace,
        batch: vkbackend.Batch,
        moved: dict[Value, vkbackend.Buffer],
        changes: list[tuple[State, Array, Value, Value]],
    ) -> None:
        self._compiled = compiled
        self._batch = batch
        self._moved = moved
        self._changes = changes

    def settle(self) -> None:
        """Bind storages to the restored memory, if the copies were submitted."""
        if self._batch.point is None:
            return
        for value, fresh in self._moved.items():
            value.buffer = fresh
            # Another trace may read it where it was.
            notify(value, grew=False)
        for state, array, found, new in self._changes:
            state.value = new
            observe(new, self._compiled)
            # It may have changed since an interrupt.
            if array.value is found:
                array.replace(new)
        self._compiled.check_state()


class _ConstantObserver:
    """Observer of values that replays only read: marks the trace stale."""

    def __init__(self, compiled: CompiledTrace) -> None:
        self._compiled = weakref.ref(compiled)

    def __call__(self, grew: bool) -> None:
        compiled = self._compiled()
        if compiled is not None and not grew:
            compiled.lost()
