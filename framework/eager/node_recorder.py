"""Node recorder: records the graph nodes of a call so that later calls replay them.

A call whose nodes depend only on its tensors' layouts and dtypes, and on arguments in
its cache key, creates the same nodes each time. It is recorded once; replays then make
nodes with the same signatures on other values, without running the call.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ..autotune import autotune
from ..base import inference, trace_hooks
from ..base.device import GpuDevice
from ..base.philox import Stream
from ..base.shape import Layout
from ..base.trace_hooks import TraceHooks
from ..ir.lazy_graph import Array, Node, NodeSignature, Value, notify
from ..scheduler.scheduler import append, append_all
from .base_tensor import TensorCore

_new = object.__new__

LIBRARY_PREFIX = __name__.rsplit(".", 2)[0] + "."
"""Prefix of the names of the library's own modules."""


def recorded_result(
    signature: NodeSignature,
    values: tuple[Value, ...],
    numbers: tuple[Any, ...],
    kind: type[Any],
    device: GpuDevice,
) -> Any:
    """Append a node with one output to the lazy graph; return the output, a tensor.

    The device's lock is to be held, as by `append`. Inlines `lazy_node`, `Array`,
    `assembled` and `append`, as it runs once per op.
    """
    node = _new(Node)
    node.signature = signature
    node.values = values
    node.numbers = numbers
    node.arrays = ()
    value = _new(Value)
    value.numel, value.dtype = signature.outputs[0]
    value.node = node
    value.buffer = None
    value.external_refs = 1
    node.outputs = (value,)
    array = _new(Array)
    array.value = value
    array.version = inference.first_version() if inference.blocks else 0
    array.former = None
    tensor = _new(kind)
    tensor.array = array
    tensor.layout = signature.layouts[0]
    tensor.device = device
    tensor.needs_grad = False
    tensor.own_grad = None
    tensor.grad_node = None
    tensor.grad_index = 0
    tensor.hooks = None
    tensor.views = None
    pending = device.pending
    if trace_hooks.running or len(pending) + 1 >= device.max_pending:
        append(device, node)
    else:
        pending.append(node)
    return tensor


def recorded_results(
    signature: NodeSignature,
    values: tuple[Value, ...],
    kind: type[Any],
    device: GpuDevice,
) -> tuple[Any, ...]:
    """Append a node with any number of outputs; return these, see `recorded_result`."""
    node = _new(Node)
    node.signature = signature
    node.values = values
    node.numbers = ()
    node.arrays = ()
    outputs, tensors = [], []
    version = inference.first_version() if inference.blocks else 0
    for made, layout in zip(signature.outputs, signature.layouts):
        value = _new(Value)
        value.numel, value.dtype = made
        value.node = node
        value.buffer = None
        value.external_refs = 1
        outputs.append(value)
        array = _new(Array)
        array.value = value
        array.version = version
        array.former = None
        tensor = _new(kind)
        tensor.array = array
        tensor.layout = layout
        tensor.device = device
        tensor.needs_grad = False
        tensor.own_grad = None
        tensor.grad_node = None
        tensor.grad_index = 0
        tensor.hooks = None
        tensor.views = None
        tensors.append(tensor)
    node.outputs = tuple(outputs)
    append(device, node)
    return tuple(tensors)


def tensor_holding(
    kind: type[Any], value: Value, layout: Layout, device: GpuDevice
) -> Any:
    """Return a tensor with a storage of its own, which holds a value.

    Inlines `Array` and `assembled`, as it runs once for each of several results.
    """
    array = _new(Array)
    value.external_refs += 1
    array.value = value
    array.version = inference.first_version() if inference.blocks else 0
    array.former = None
    if value.__class__ is not Value:
        notify(value, grew=True)
    tensor = _new(kind)
    tensor.array = array
    tensor.layout = layout
    tensor.device = device
    tensor.needs_grad = False
    tensor.own_grad = None
    tensor.grad_node = None
    tensor.grad_index = 0
    tensor.hooks = None
    tensor.views = None
    return tensor


class RecordedNode(NamedTuple):
    """A recorded node, to be replayed on other values.

    Attributes
    ----------
    signature : NodeSignature
    sources : tuple of int
        Its inputs, as value numbers: first the values given, then results in order.
    numbers : tuple of number
    """

    signature: NodeSignature
    sources: tuple[int, ...]
    numbers: tuple[float, ...]


def replay_nodes(
    recorded_nodes: Iterable[RecordedNode], values: list[Value]
) -> list[Node]:
    """Return replayed nodes on `values`, to which their results are appended."""
    nodes = []
    for signature, sources, numbers in recorded_nodes:
        # Inlines `Node`, as backward passes have thousands of nodes.
        node = _new(Node)
        node.signature = signature
        count = len(sources)
        if count == 2:
            first, second = sources
            node.values = values[first], values[second]
        elif count == 1:
            node.values = (values[sources[0]],)
        else:
            node.values = tuple([values[at] for at in sources])
        node.numbers = numbers
        node.arrays = ()
        made = signature.outputs
        if len(made) == 1:
            value = _new(Value)
            value.numel, value.dtype = made[0]
            value.node = node
            value.buffer = None
            value.external_refs = 0
            node.outputs = (value,)
            values.append(value)
        else:
            node.outputs = tuple([Value(*each, node) for each in made])
            values += node.outputs
        nodes.append(node)
    return nodes


class NodeRecorder(TraceHooks):
    """Recorder of the nodes that a call creates.

    Attributes
    ----------
    nodes : list of Node
        Nodes recorded so far, in order.
    replayable : bool
        Whether the nodes are the whole effect of the call, the same each time.
    constants : list of Array
        Constants that the nodes may read; see `TraceHooks.on_constant`.
    """

    def __init__(self, device: GpuDevice) -> None:
        self.nodes: list[Node] = []
        self.constants: list[Array] = []
        self._device = device

    def recorded_nodes(
        self, numbers: dict[Value, int]
    ) -> tuple[RecordedNode, ...] | None:
        """Return the recorded nodes; None if the call cannot be replayed.

        Parameters
        ----------
        numbers : dict of Value to int
            The values given; the results are added.
        """
        recorded_nodes = []
        for node in self.nodes if self.replayable else ():
            if any([value not in numbers for value in node.values]):
                self.replayable = False
                break
            sources = tuple([numbers[value] for value in node.values])
            recorded_nodes.append(RecordedNode(node.signature, sources, node.numbers))
            for value in node.outputs:
                numbers[value] = len(numbers)
        return tuple(recorded_nodes) if self.replayable else None

    def number_constants(self, numbers: dict[Value, int]) -> tuple[Array, ...]:
        """Add the constants to the numbers of the values given; return them."""
        found = {each.value: each for each in self.constants}
        constants = [found[value] for value in found if value not in numbers]
        for each in constants:
            numbers[each.value] = len(numbers)
        return tuple(constants)

    def on_node(self, device: GpuDevice, node: Node) -> None:
        """Record a node and append it to the lazy graph."""
        self.nodes.append(node)
        self.replayable = self.replayable and device is self._device
        append_all(device, [node])

    def on_copy(self, array: Array) -> None:
        """Ignore it: the outputs name the value that the copy shares."""

    def on_constant(self, array: Array) -> None:
        """Record it: replays read the same."""
        self.constants.append(array)

    def on_grad_write(self, leaf: Any, cleared: bool) -> None:
        """Ignore it: a backward pass accumulates into leaves."""


class RecordedCall(NamedTuple):
    """A recorded call: its nodes and its outputs.

    Attributes
    ----------
    recorded_nodes : tuple of RecordedNode
        Nodes; the values given are those of the call's tensors, then the constants'.
    constants : tuple of Array
    outputs : tuple of (int, Layout)
        Value and layout of each result.
    single : bool
        Whether the call returns a tensor, not a tuple.
    device : GpuDevice
        Device of the call.
    last : bool
        Whether the call returns the only result of the last node, and nothing else.
    drawing : tuple of int
        Indices of the nodes whose numbers begin with the call's stream.
    """

    recorded_nodes: tuple[RecordedNode, ...]
    constants: tuple[Array, ...]
    outputs: tuple[tuple[int, Layout], ...]
    single: bool
    device: GpuDevice
    last: bool
    drawing: tuple[int, ...]

    def replay(
        self, tensors: Sequence[TensorCore], stream: Stream | None = None
    ) -> Any:
        """Replay the call on other tensors; return its outputs.

        With `stream`, nodes that draw take its words in place of those recorded.
        """
        if stream is not None:
            return self._drawn_from(stream).replay(tensors)
        kind, device = tensors[0].results, self.device
        with device.lock:
            values = [each.array.value for each in tensors]
            if self.constants:
                values += [each.value for each in self.constants]
            if self.last:
                # Nothing but the last node's result is to be made: half of the time.
                *others, (signature, sources, numbers) = self.recorded_nodes
                if others:
                    # Without a look at their number: a flush before the last node
                    # would drop what only that one reads.
                    device.pending += replay_nodes(others, values)
                given = tuple([values[at] for at in sources])
                out = recorded_result(signature, given, numbers, kind, device)
                out.layout = self.outputs[0][1]
                return out
            nodes = replay_nodes(self.recorded_nodes, values)
            found = [
                tensor_holding(kind, values[at], layout, device)
                for at, layout in self.outputs
            ]
            append_all(device, nodes)
        return found[0] if self.single else tuple(found)

    def _drawn_from(self, stream: Stream) -> RecordedCall:
        """Return the call with the words of another stream."""
        nodes = list(self.recorded_nodes)
        for at in self.drawing:
            signature, sources, numbers = nodes[at]
            numbers = (*stream, *numbers[len(stream) :])
            nodes[at] = RecordedNode(signature, sources, numbers)
        return RecordedCall(tuple(nodes), *self[1:])

    def replay_keeping(
        self, tensors: Sequence[TensorCore], kept: Sequence[int]
    ) -> tuple[list[Any], list[Array]]:
        """Replay the call; return its outputs, and storages of some of its values."""
        kind, device = tensors[0].results, self.device
        with device.lock:
            values = [each.array.value for each in tensors]
            if self.constants:
                values += [each.value for each in self.constants]
            nodes = replay_nodes(self.recorded_nodes, values)
            found = [
                tensor_holding(kind, values[at], layout, device)
                for at, layout in self.outputs
            ]
            # Before a flush, which would drop what nothing refers to.
            storages = [Array(values[at]) for at in kept]
            append_all(device, nodes)
        return found, storages


def recorded_call_of(
    recorder: NodeRecorder,
    device: GpuDevice,
    tensors: Sequence[TensorCore],
    answer: Any,
    numbers: dict[Value, int] | None = None,
    stream: Stream | None = None,
) -> RecordedCall | None:
    """Return the recorded call; None if it cannot be replayed.

    None while kernels are autotuned, too: the call may then depend on the results.

    Parameters
    ----------
    recorder : NodeRecorder
        Of the call.
    device : GpuDevice
    tensors : sequence of TensorCore
        That it was given.
    answer : TensorCore or tuple of TensorCore
    numbers : dict of Value to int, or None
        Filled with the numbers of values, for a call whose answer is on the tape.
    stream : tuple of int or None
        That the call drew from. A call with other draws, too, cannot be replayed.
    """
    taped = numbers is not None
    if autotune.settings().enabled:
        return None
    arrays = {id(each.array) for each in tensors}
    numbers = {} if numbers is None else numbers
    for each in tensors:
        numbers.setdefault(each.array.value, len(numbers))
    if len(numbers) < len(tensors):
        return None
    constants = recorder.number_constants(numbers)
    arrays |= {id(each) for each in constants}
    recorded_nodes = recorder.recorded_nodes(numbers)
    if recorded_nodes is None:
        return None
    drawing = []
    if stream is not None:
        for place, (signature, _, words) in enumerate(recorded_nodes):
            if signature.op.draws:
                if words[: len(stream)] != stream:
                    return None
                drawing.append(place)
    outputs = []
    for each in answer if isinstance(answer, tuple) else (answer,):
        at = numbers.get(each.array.value)
        fresh = id(each.array) not in arrays and type(each) is tensors[0].results
        if at is None or not fresh or each.array.version:
            return None
        if each.needs_grad and not taped:
            return None
        arrays.add(id(each.array))
        outputs.append((at, each.layout))
    single = not isinstance(answer, tuple)
    last = (
        single
        and len(recorded_nodes) > 0
        and len(recorded_nodes[-1].signature.outputs) == 1
        and outputs[0][0] == len(numbers) - 1
    )
    return RecordedCall(
        recorded_nodes,
        constants,
        tuple(outputs),
        single,
        device,
        last,
        tuple(drawing),
    )
