"""Tracer: one run of a function whose nodes are recorded instead of executed."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn
from weakref import WeakSet

import numpy as np

from .. import ops
from ..autograd.engine import no_grad
from ..base.errors import TraceError
from ..base.modes import isolated_cast_cache
from ..base.shape import Layout, interned
from ..base.symbolic_number import SymbolTable, is_symbolic, live
from ..base.trace_hooks import (
    Changing,
    ChangingInt,
    StreamWord,
    TraceHooks,
    listening,
    stop_listening,
)
from ..ir.derived_storage import DerivedArray, source_of
from ..ir.host_step import HostStep, host_steps
from ..ir.lazy_graph import Array, Failed, Node, Value, pin
from ..ir.traced_storage import TracedArray, isolate
from ..scheduler.executor import buffer_of
from ..scheduler.host_nodes import drop_host_steps, run_host_steps
from ..scheduler.scheduler import compute, flush_in_pieces
from ..tensor.tensor import Tensor
from .callees import CalleeTracker
from .op_calls import HiddenCalls
from .outputs import Copied, NumberSlot, Slot, WrapperSlot, can_be_copied
from .pytree import same, tree_map
from .traced_arguments import TracedArguments

if TYPE_CHECKING:
    from ..base.device import GpuDevice
    from ..base.philox import Generator
    from .guards import Guards

ANY = object()
"""Gradient on entry that the function drops first: not guarded."""

Action = Callable[[], object]


class Trace(TraceHooks):
    """Trace of a function, recorded through `trace_hooks`.

    Until it ends, its writes to earlier storages are visible to its own thread alone.
    It ends when its nodes have become pending (`publish`), or when a replay of it has
    been submitted.

    Attributes
    ----------
    ended : bool
        Whether its effects are visible to all threads.
    nodes : list of Node
        Operations in order.
    device : GpuDevice or None
        Device of the nodes.
    graph_inputs : list of Value
        Placeholders for the elements of each call's tensors.
    rebound_arrays : dict of int to (Array, Value)
        Earlier storages that were mutated, with their values on entry.
    actions : list of Changing, ChangingInt or callable
        Host actions before each replay, in order.
    draws : dict of Generator to int
        Number of random streams that the function drew.
    owners : list
        Objects whose fingerprint is guarded.
    leaves : dict of int to (Tensor, object)
        Leaves whose gradient was read or written, and its value on entry; see `ANY`.
    reasons : list of str
        Why the trace cannot be cached.
    changes_host : bool
        Whether a host tensor was changed in place.
    callees : CalleeTracker
        Functions that ran.
    arguments : TracedArguments
        Arguments of the call.
    guards : Guards or None
        State that they read, if the trace can be cached.
    symbols : SymbolTable or None
        Numbers among the arguments that may change from call to call.
    breaks : bool
        Whether the trace ends where a replay could not go on, without an error.
    """

    refuses_reads = True

    def __init__(
        self, symbols: SymbolTable | None = None, breaks: bool = False
    ) -> None:
        self.symbols = symbols
        self.breaks = breaks and symbols is None
        self.ended = False
        self._thread = threading.get_ident()
        self.nodes: list[Node] = []
        # Those that `run_now` has yet to run.
        self._host_steps: deque[tuple[Node, HostStep]] = deque()
        self.device: GpuDevice | None = None
        self.graph_inputs: list[Value] = []
        self.rebound_arrays: dict[int, tuple[Array, Value]] = {}
        self.actions: list[Changing | ChangingInt | Action] = []
        self.draws: dict[Generator, int] = {}
        self.owners: list[Any] = []
        self._modules: list[tuple[Any, list[Any]]] = []
        self.leaves: dict[int, tuple[Tensor, object]] = {}
        self.reasons: list[str] = []
        self._refusal: TraceError | None = None
        self.changes_host = False
        self.callees = CalleeTracker()
        self.guards: Guards | None = None
        self._stand_ins: dict[int, Tensor] = {}
        self._last_actions: list[Action] = []
        self._inputs: list[Tensor] = []
        self._input_arrays: list[Array] = []
        self.arguments = TracedArguments(self._swap)
        self._computed: set[int] = set()
        self._copies: WeakSet[Array] = WeakSet()
        self._positions: dict[Generator, tuple[int, int]] = {}

    # Handlers of `trace_hooks`

    def on_node(self, device: GpuDevice, node: Node) -> None:
        """Record a node."""
        if self.device is None:
            self.device = device
        elif self.device is not device:
            self._fail(
                f"operations are on {self.device} and on {device}; one function may use"
                " one device"
            )
        if self.symbols is not None:
            self.symbols.read([value for value, _ in node.inputs])
        self.nodes.append(node)
        self._computed.update(id(value) for value in node.outputs)

    def on_rebind(self, array: Array, before: Value) -> None:
        """Record the mutation of a storage."""
        if self.symbols is not None:
            self.symbols.on_rebind(array)
        if isinstance(before.buffer, np.ndarray):
            self.changes_host = True
            return
        if any(array is inputs for inputs in self._input_arrays):
            self._fail(
                "an argument is changed in place; return the new tensor, or let the"
                " function reach it without passing it"
            )
        if id(before) in self._computed or array in self._copies:
            return
        if type(array) is not TracedArray:
            self.rebound_arrays.setdefault(id(array), (array, before))
            isolate(array, self)
        elif id(array) not in self.rebound_arrays:
            self._fail(
                "a tensor is changed in place that another thread's trace is changing;"
                " let one finish before the other begins"
            )

    def on_copy(self, array: Array) -> None:
        """Record a new storage that shares an earlier value.

        Each replay makes it anew.
        """
        self._copies.add(array)

    def on_draw(
        self, generator: Generator, words: tuple[int, int, int, int]
    ) -> tuple[int, ...]:
        """Return the words of a draw, marked as dynamic arguments."""
        call = self.draws.get(generator, 0)
        if not call:
            self._positions[generator] = generator.key, generator.calls - 1
        self.draws[generator] = call + 1
        marked = []
        for part, number in enumerate(words):
            word = StreamWord(number)
            word.generator, word.call, word.part = generator, call, part
            marked.append(word)
        return tuple(marked)

    def changing(self, read: Callable[[], float]) -> float:
        """Return a dynamic argument, read before each replay."""
        number = Changing(read())
        number.read = read
        self.actions.append(number)
        return number

    def each_time(self, action: Action) -> None:
        """Record a host action that is repeated before each replay."""
        self.actions.append(action)

    def at_end(self, action: Action) -> bool:
        """Keep an action that `run` does at its end; return True."""
        self._last_actions.append(action)
        return True

    def once(self, reason: str) -> None:
        """Record a one-time effect, which forbids to cache the trace."""
        self.reasons.append(reason)

    def takes_host_steps(self) -> bool:
        """Return True, unless the function may have to go on without a trace."""
        return not self.breaks

    def called(self, owner: Any) -> None:
        """Guard the fingerprint of an object."""
        if all(owner is not known for known in self.owners):
            self.owners.append(owner)
            if hasattr(owner, "forward"):
                self._modules.append((owner, owner._fingerprint()))

    def on_grad_write(self, leaf: Tensor, cleared: bool) -> None:
        """Record that the gradient of a leaf is about to be dropped or accumulated."""
        self.leaves.setdefault(id(leaf), (leaf, ANY if cleared else leaf.own_grad))

    def on_grad_read(self, leaf: Tensor) -> None:
        """Record that the gradient of a leaf is read."""
        self.on_grad_write(leaf, cleared=False)

    def refused(self, what: str) -> None:
        """End the trace, or raise `TraceError`: a replay cannot do what follows."""
        if self.breaks:
            self._break(what)
        else:
            self._fail(what)

    def _break(self, why: str) -> None:
        """Let the function run on as without a trace."""
        self.once(why)
        stop_listening(self)
        self.publish()
        for tensor in self._inputs:
            # What is changed in place from here on is the caller's tensor.
            stand_in = self._stand_ins[id(tensor)]
            stand_in.array, stand_in.layout = tensor.array, tensor.layout

    def _fail(self, what: str) -> NoReturn:
        """Raise `TraceError`: the function does what a replay cannot.

        Again at its end if it catches the error, as it diverges then from a run without
        `jit`; not if only a log or a progress bar caused it.
        """
        error = TraceError(f"jit: {what}")
        if not self.callees.reporting:
            self._refusal = error
        try:
            raise error
        finally:
            del error  # the traceback has this frame: a cycle would hold the trace

    # Running the function

    def run(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        inputs: list[Tensor],
        places: Sequence[int | str] = (),
    ) -> Any:
        """Call the function with stand-ins for graph inputs, and return its result.

        `places` are the arguments, by position or name, that are symbolic numbers.
        """
        self._inputs = inputs
        for tensor in inputs:
            self._stand_in(tensor)
        substitute = self.arguments.substitute
        args = tuple([substitute(each, str(k)) for k, each in enumerate(args)])
        kwargs = {name: substitute(each, name) for name, each in kwargs.items()}
        symbols = self.symbols
        if symbols is not None:
            stand_ins = dict(zip(places, symbols.symbols()))
            args = tuple([stand_ins.get(k, each) for k, each in enumerate(args)])
            kwargs = {name: stand_ins.get(name, kwargs[name]) for name in kwargs}
            live.add(symbols)
        try:
            with (
                listening(self),
                isolated_cast_cache(),
                HiddenCalls(CalleeTracker),
                self.callees,
            ):
                result = function(*args, **kwargs)
                for action in self._last_actions:
                    action()
            if symbols is not None:
                symbols.finish()
                self.actions += symbols.dynamic
        finally:
            if symbols is not None:
                live.discard(symbols)
            self.arguments.write_back()
        if self._refusal is not None:
            raise self._refusal
        return result

    def _stand_in(self, tensor: Tensor) -> None:
        shape, strides, offset = tensor.layout
        count = sum((size - 1) * step for size, step in zip(shape, strides)) + 1
        count = count if tensor.numel() else 0
        # Of the storage from the first element on; never written again.
        if offset == 0:
            value = Value(count, tensor.dtype)
            value.buffer = _memory_of(tensor)
        else:
            with no_grad():
                start = tensor.view_of(Layout((count,), (1,), offset))
                value = ops.copy(start).array.value
        pin(value)
        self.graph_inputs.append(value)
        array = Array(value)
        self._input_arrays += array, source_of(tensor.array)
        layout = interned(Layout(shape, strides))
        self._stand_ins[id(tensor)] = Tensor.make(array, layout, tensor.device)

    def _swap(self, tensor: Tensor) -> Tensor:
        return self._stand_ins.get(id(tensor), tensor)

    def is_computed(self, tensor: Tensor) -> bool:
        """Return whether a tensor is computed by each replay, or is a graph input."""
        array = tensor.array
        if any(array is inputs for inputs in self._input_arrays):
            return True
        there = id(array) in self.rebound_arrays
        return id(array.value) in self._computed and not there

    def changed_module(self) -> str:
        """Return a module whose fingerprint has changed since its call; or nothing."""
        for module, before in self._modules:
            if not same(module._fingerprint(), before):
                return f"what a {type(module).__name__} consists of"
        return ""

    def visible(self) -> bool:
        """Return whether the trace's effects are visible to the calling thread."""
        return self.ended or threading.get_ident() == self._thread

    def publish(self) -> None:
        """Make the recorded nodes pending, as an eager run would.

        Does nothing where a replay has run them. May be repeated if interrupted.
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
        """Make its effects visible to all threads."""
        self.ended = True
        for array, _ in self.rebound_arrays.values():
            if type(array) is TracedArray:
                array.publish()

    def is_repeatable(self) -> bool:
        """Return whether all that it has done can be undone by `discard`."""
        changing = (Changing, ChangingInt)
        return not self.leaves and all(isinstance(x, changing) for x in self.actions)

    def discard(self) -> None:
        """Undo what it has done, as if it had not begun; see `is_repeatable`.

        May be repeated if interrupted.
        """
        for array, _ in self.rebound_arrays.values():
            if type(array) is TracedArray:
                array.discard()
        for generator, count in self.draws.items():
            generator.give_back(self._positions[generator], count)

    def drop_host_steps(self) -> None:
        """Drop host steps that are pending, after an error; see `publish`."""
        if self.device is not None:
            left = [*self._host_steps, *host_steps(self.nodes)]
            drop_host_steps(self.device, left)

    def drop_gradients(self) -> None:
        """Restore the gradients of leaves whose new ones were not computed."""
        for leaf, entry in self.leaves.values():
            grad = leaf.own_grad
            if grad is not None and type(grad.array.value.buffer) is Failed:
                leaf.own_grad = None if entry is ANY else entry

    def uncount_steps(self) -> None:
        """Uncount optimizer steps that left parameters unchanged."""
        same = [
            array
            for array, before in self.rebound_arrays.values()
            if array.value is before
        ]
        for owner in self.owners:
            if hasattr(owner, "uncount"):
                owner.uncount(same)

    def run_now(self) -> None:
        """Run the recorded nodes as an eager run would."""
        self.publish()
        if self.device is not None:
            # Nodes hold the memory of what they have made: they go as they have run.
            self._host_steps.extend(host_steps(self.nodes))
            self.nodes = []
            run_host_steps(self.device, self._host_steps)
            flush_in_pieces(self.device)

    def has_shared_storage(self) -> bool:
        """Return whether mutated storages shared values, after `isolate_outputs`.

        Then it is unknown which of the sharing storages a kernel read.
        """
        befores = {id(before) for _, before in self.rebound_arrays.values()}
        # Each is held by the storage that changes, for other threads.
        held = any(
            before.external_refs > 1 for _, before in self.rebound_arrays.values()
        )
        return held or len(befores) < len(self.rebound_arrays)

    def unshare(self) -> None:
        """Copy shared values of mutated storages, so that these can change again."""
        part(self.rebound_storages())

    def rebound_storages(self) -> list[tuple[weakref.ref[Array], Any]]:
        """Return the storages that were mutated, not kept alive, and their device."""
        if self.device is None:
            return []  # no node of a device could overwrite a shared value
        arrays = (array for array, _ in self.rebound_arrays.values())
        return [(weakref.ref(array), self.device) for array in arrays]

    # Outputs

    def isolate_outputs(self, result: Any) -> tuple[Any, list[Tensor]]:
        """Give each mutated storage, and each result, a value of its own.

        Returns
        -------
        result : object
            The function's result with numbers in the place of tensors on the device.
        tensors : list of Tensor
            Those tensors, off the tape, each over a value that nothing else holds.
        """
        tensors: list[Tensor] = []
        result = tree_map(result, partial(self._placeholder, tensors, {}))
        with listening(self), no_grad():
            taken: set[int] = set()
            for array, _ in self.rebound_arrays.values():
                value = array.value
                alone = id(value) in self._computed and value.external_refs == 1
                if not alone or id(value) in taken:
                    array.replace(_copied(value, self.device).array.value)
                taken.add(id(array.value))
            for k, tensor in enumerate(tensors):
                value = tensor.array.value
                derived = type(tensor.array) is DerivedArray
                if derived or id(value) not in self._computed or id(value) in taken:
                    tensors[k] = ops.copy(tensor)
                taken.add(id(tensors[k].array.value))
        return result, tensors

    def _placeholder(
        self, tensors: list[Tensor], slots: dict[int, Slot], leaf: Any
    ) -> Any:
        """Return what stands for a leaf of the result, and collect its tensors."""
        if is_symbolic(leaf):
            return NumberSlot(leaf)
        if isinstance(leaf, Tensor) and leaf.is_wrapper:
            wrapper: Any = leaf
            parts = wrapper.parts()
            return WrapperSlot(
                leaf, [self._placeholder(tensors, slots, each) for each in parts]
            )
        if isinstance(leaf, Tensor) and leaf.is_gpu:
            if id(leaf) not in slots:
                slots[id(leaf)] = Slot(len(tensors))
                tensors.append(leaf.detach())
            return slots[id(leaf)]
        found = leaf.detach() if isinstance(leaf, Tensor) else leaf
        known = self.guards is not None and self.guards.is_guarded(found)
        return found if known or not can_be_copied(found) else Copied(found)


def part(storages: Iterable[tuple[weakref.ref[Array], Any]]) -> list[Tensor]:
    """Give each storage whose value others share a copy of its own; return these."""
    made = []
    with no_grad():
        for reference, device in storages:
            array = reference()
            if array is not None and array.value.external_refs > 1:
                made.append(_copied(array.value, device))
                array.replace(made[-1].array.value)
    return made


def _copied(value: Value, device: Any) -> Tensor:
    """Return a copy of a value."""
    whole = Layout.contiguous((value.numel,))
    return ops.copy(Tensor.make(Array(value), whole, device))


def _memory_of(tensor: Tensor) -> Any:
    """Return the memory of a tensor on a device."""
    device: Any = tensor.device
    with device.lock:
        value = tensor.array.value
        compute(device, value)
        return buffer_of(value)
