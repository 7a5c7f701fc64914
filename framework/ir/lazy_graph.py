"""Lazy graph: nodes recorded and not yet submitted.

An op on a device tensor records a `Node` and returns at once. A `Value` is one output
of a node, or memory that already holds its elements. Tensors refer to a value through
an `Array`; views of one storage share one array. A value without external references
when the graph is flushed is not live-out and needs no memory of its own.
"""

# Longer than most: nodes, values and arrays refer to each other in one invariant.

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from ..base import inference, trace_hooks
from ..base.dtype import DType
from ..base.recent_cache import RecentCache
from ..base.shape import Layout

if TYPE_CHECKING:
    from ..dispatch.op import Op


class Value:
    """Elements in row-major order: lazy (`node` is set) or in memory (`buffer` is).

    Attributes
    ----------
    numel : int
        Number of elements.
    dtype : DType
        Their type.
    node : Node or None
        The lazy node that computes the value; None once it is in memory.
    buffer : Buffer, numpy.ndarray, Failed or None
        Memory of the value: a device buffer, or a flat array on the host device.
        `Failed` if it could not be computed, `Released` while there is none.
    external_refs : int
        External references: arrays that refer to the value.
    observers : set of callable
        Callbacks on changes of the reference count; see `observe`.
    """

    __slots__ = ("buffer", "dtype", "external_refs", "node", "numel", "observers")

    observers: set[Callable[[bool], object]]

    def __init__(
        self, numel: int, dtype: DType, node: Node | None = None, buffer: object = None
    ) -> None:
        self.numel = numel
        self.dtype = dtype
        self.node = node
        self.buffer = buffer
        self.external_refs = 0

    @property
    def nbytes(self) -> int:
        """Size of its elements in bytes."""
        return self.numel * self.dtype.itemsize


class Failed:
    """Poison value: replaces the memory of a value that could not be computed.

    Attributes
    ----------
    cause : str
        The error that the flush ended with.
    """

    __slots__ = ("cause",)

    def __init__(self, error: BaseException) -> None:
        # Formatted, as the exception would keep the locals of its frames alive.
        self.cause = f"{type(error).__name__}: {error}"


class Released(Failed):
    """Poison value: memory that its owner has given back, and will fill again."""

    __slots__ = ()

    def __init__(self, cause: str) -> None:
        self.cause = cause


class Array:
    """Storage shared by tensors: in-place changes reach every view of it.

    Attributes
    ----------
    value : Value
        The current content.
    version : int
        Number of in-place changes so far; autograd compares it with the saved version.
        Below 0 for the storage of inference tensors, see `base.inference`.
    former : Value or None
        Rollback value while the content is lazy: restored if the flush fails. Not an
        external reference.
    """

    __slots__ = ("__weakref__", "former", "value", "version")

    former: Any

    def __init__(self, value: Value) -> None:
        # First, as `__del__` drops the reference if an interrupt follows the next line.
        value.external_refs += 1
        self.value = value
        self.version = inference.first_version() if inference.blocks else 0
        self.former = None
        if value.__class__ is not Value:
            notify(value, grew=True)

    @classmethod
    def sharing(cls, array: Array) -> Array:
        """Return a new storage with the current content of another.

        Another thread may rebind the other storage meanwhile, and a value may be freed
        while nothing refers to it.
        """
        while True:
            value = array.value
            shared = cls(value)
            if array.value is value:
                return shared

    def rebind(self, value: Value) -> None:
        """Replace the content and count an in-place change."""
        if trace_hooks.running:
            trace = trace_hooks.listener()
            if trace is not None:
                trace.on_rebind(self, self.value)
        self.replace(value)
        self.version += 1

    def replace(self, value: Value) -> None:
        """Replace the content without an in-place change: saved versions stay valid."""
        old, node = self.value, value.node
        if node is not None:
            if self.former is None and old.node is None:
                self.former = old
            node.arrays = (*node.arrays, (weakref.ref(self), value))
        # Also before, or an interrupt could leave a change without a notification.
        if old.__class__ is not Value:
            notify(old, grew=False)
        # In this order an interrupt may leave a reference too many, never too few; and
        # no call follows, or another thread could run in between.
        value.external_refs += 1
        old = self.value
        self.value = value
        old.external_refs -= 1
        if value.__class__ is not Value:
            notify(value, grew=True)
        if old.__class__ is not Value:
            notify(old, grew=False)

    def settle(self, value: Value) -> None:
        """Commit or roll back one of the values that it has held.

        If the value could not be computed, the former content is restored. Idempotent,
        as an interrupt may have cut it short.
        """
        now = self.value
        if now.node is not None:
            if self.former is not None and value.buffer is not None:
                if type(value.buffer) is not Failed:
                    self.former = value
            return
        former = self.former
        if former is not None and type(now.buffer) is Failed:
            self.version += 1
            self.replace(former)
        self.former = None

    def give_back(self, value: Value) -> None:
        """Restore an earlier lazy value after the flush of the last one failed."""
        old = self.value
        if type(old.buffer) is Failed:
            self.version += 1
            value.external_refs += 1
            self.value = value
            old.external_refs -= 1
            notify(value, grew=True)
            notify(old, grew=False)

    def __del__(self) -> None:
        value = self.value
        value.external_refs -= 1
        # At the interpreter's end, names of modules are None.
        if value.__class__ is not Value and notify is not None:
            notify(value, grew=False)


def lazy_copy(array: Array) -> Array:
    """Return a copy-on-write storage with the content of another.

    Values are immutable: an in-place change binds another one.
    """
    copied = Array.sharing(array)
    if trace_hooks.running:
        trace = trace_hooks.listener()
        if trace is not None:
            trace.on_copy(copied)
    return copied


class PinnedValue(Value):
    """Pinned value: a replay reads or writes its memory by address.

    A value becomes one by assignment to its `__class__`, in `pin`. Code that changes
    its reference count notifies its observers; the count itself changes without a call,
    during which other threads could count too.
    """

    __slots__ = ()


def notify(value: Value, grew: bool) -> None:
    """Notify the observers of a value, if any, of a new reference count."""
    if value.__class__ is not Value:
        for observer in tuple(value.observers):
            observer(grew)


class ReplayOwnedArray(Array):
    """Replay-owned storage: each replay that writes it is an in-place change.

    An array becomes one by assignment to its `__class__`, in `mark_replay_owned`.
    """

    __slots__ = ()

    @property
    def version(self) -> int:
        """Number of in-place changes so far, replays included."""
        count: int = _version.__get__(self) + self._replays()
        return count

    @version.setter
    def version(self, count: int) -> None:
        _version.__set__(self, count - self._replays())

    def _replays(self) -> int:
        return replay_count(self.value)

    def replace(self, value: Value) -> None:
        """Replace the content without an in-place change: saved versions stay valid."""
        version = self.version
        # Rather too many for a moment than too few, should an interrupt stop it there.
        self.version = version + self._replays()
        super().replace(value)
        self.version = version


_version: Any = Array.__dict__["version"]


def replay_count(value: Value) -> int:
    """Return the number of replays that have written a value."""
    observers = getattr(value, "observers", ())
    return sum(getattr(observer, "replays", 0) for observer in observers)


def mark_replay_owned(array: Array) -> None:
    """Mark a storage replay-owned: replays that write its value count as changes."""
    if type(array) is not ReplayOwnedArray:
        version = array.version
        array.__class__ = ReplayOwnedArray
        array.version = version


def pin(value: Value) -> None:
    """Pin a value: its memory is not donated when no array refers to it."""
    if not isinstance(value, PinnedValue):
        value.observers = set()
        value.__class__ = PinnedValue


def observe(value: Value, observer: Callable[[bool], object]) -> None:
    """Call `observer` on each change of a value's reference count; this pins it.

    Its argument is whether the count grew. `value.observers.discard` removes it.
    """
    pin(value)
    value.observers.add(observer)


class Operand(NamedTuple):
    """One input of a node: a view of a value."""

    value: Value
    layout: Layout


class NodeSignature:
    """Node signature: the static part of a node, from which its plan is built.

    Hash-consed by `signature_of`, so that plan keys compare identities.

    Attributes
    ----------
    op : Op
        The op.
    params : tuple of (str, object)
        Static arguments by name.
    operands : tuple of Layout
        Layout of each input; element-wise operands are already broadcast.
    layouts : tuple of Layout
        Row-major layout of each output.
    dtypes : tuple of DType
        Dtype of each output.
    numbers : tuple of str
        Names of the dynamic scalars, which a plan does not depend on.
    outputs : tuple of (int, DType)
        Element count and dtype of each output.
    rebased : (NodeSignature, tuple of int) or None
        The signature with operands that start within their first `start_class`
        elements, and how many elements of each are before; None if it is that itself.
        One plan then does for all places in a value that is in memory: its steps, rows
        or batches.
    """

    __slots__ = (
        "dtypes",
        "layouts",
        "numbers",
        "op",
        "operands",
        "outputs",
        "params",
        "rebased",
    )

    def __init__(
        self,
        op: Op[..., Any],
        params: tuple[tuple[str, object], ...],
        operands: tuple[Layout, ...],
        layouts: tuple[Layout, ...],
        dtypes: tuple[DType, ...],
        numbers: tuple[str, ...],
    ) -> None:
        self.op = op
        self.params = params
        self.operands = operands
        self.layouts = layouts
        self.dtypes = dtypes
        self.numbers = numbers
        self.outputs = tuple(
            (layout.numel, dtype) for layout, dtype in zip(layouts, dtypes)
        )
        self.rebased: tuple[NodeSignature, tuple[int, ...]] | None = None


START_BYTES = 16
"""Bytes by which an operand's start may move without another kernel being chosen."""

START_ELEMENTS = 4
"""Elements by which it may in any case: some kernels read as many at once."""


def start_class(dtype: DType) -> int:
    """Return by how many elements of a dtype starts may move."""
    return max(START_ELEMENTS, START_BYTES // dtype.itemsize)


MOST_SIGNATURES = 1 << 16
"""Interned signatures that are in a generation of their table."""

CacheKey = tuple[object, ...]

PLAIN = frozenset({bool, int, str, type(None), DType})
"""Types whose equal values are interchangeable."""

INTEGERS = frozenset({int})

EXACT_TYPES: set[type] = set()
"""Classes of tuples and frozen records whose equal values are interchangeable, too:
their makers see to it that each field has one type."""


def cache_key(argument: object) -> CacheKey | None:
    """Return the cache key of an argument; None if it has none.

    It includes the type, as 1, 1.0 and True are equal.
    """
    kind = type(argument)
    if kind in PLAIN or kind in EXACT_TYPES:
        return kind, argument
    if isinstance(argument, float):
        # 0.0 and -0.0 are equal too.
        return kind, argument, math.copysign(1.0, argument)
    if not isinstance(argument, tuple):
        return None
    if INTEGERS.issuperset(map(type, argument)):
        return kind, argument
    marks = [cache_key(item) for item in argument]
    return None if None in marks else (kind, *marks)


_signatures: RecentCache[object, NodeSignature] = RecentCache(MOST_SIGNATURES)


def signature_of(
    op: Op[..., Any],
    params: tuple[tuple[str, object], ...],
    inputs: tuple[Operand, ...],
    layouts: tuple[Layout, ...],
    dtypes: tuple[DType, ...],
    numbers: tuple[str, ...] = (),
) -> NodeSignature:
    """Return the interned signature of a node."""
    operands = tuple(layout for _, layout in inputs)
    taken = tuple(value.dtype for value, _ in inputs)
    kinds = tuple([cache_key(value) or type(value) for _, value in params])
    key = (op, params, kinds, operands, taken, layouts, dtypes, numbers)
    signature = _signatures[key]
    if signature is None:
        signature = NodeSignature(op, params, operands, layouts, dtypes, numbers)
        classes = list(map(start_class, taken))
        if any([each.offset >= size for each, size in zip(operands, classes)]):
            starts = [each.offset % size for each, size in zip(operands, classes)]
            parts = [
                Operand(value, layout._replace(offset=start))
                for (value, layout), start in zip(inputs, starts)
            ]
            signature.rebased = (
                signature_of(op, params, tuple(parts), layouts, dtypes, numbers),
                tuple([each.offset - start for each, start in zip(operands, starts)]),
            )
        # Another thread may have interned it first.
        signature = _signatures.shared(key, signature)
    return signature


class Node:
    """Node of the lazy graph: one recorded call of an op.

    Attributes
    ----------
    signature : NodeSignature
        Its static part.
    values : tuple of Value
        Its inputs.
    numbers : tuple of number
        Dynamic scalars, named by `signature.numbers`.
    outputs : tuple of Value
        Its results.
    arrays : tuple of (weak reference, Value)
        Storages that an output was bound to in place.
    spared : bool
        Whether it survived a failed flush that dropped other nodes.
    """

    __slots__ = ("arrays", "numbers", "outputs", "signature", "spared", "values")

    spared: bool
    arrays: tuple[tuple[weakref.ref[Array], Value], ...]

    def __init__(
        self,
        signature: NodeSignature,
        values: tuple[Value, ...],
        numbers: tuple[float, ...] = (),
    ) -> None:
        self.signature = signature
        self.values = values
        self.numbers = numbers
        self.arrays = ()
        self.outputs = tuple([Value(*each, self) for each in signature.outputs])

    @classmethod
    def of(
        cls,
        op: Op[..., Any],
        inputs: tuple[Operand, ...],
        layouts: tuple[Layout, ...],
        dtypes: tuple[DType, ...],
        params: tuple[tuple[str, object], ...] = (),
        scalars: tuple[tuple[str, float], ...] = (),
    ) -> Node:
        """Return a node with an interned signature."""
        names = tuple(name for name, _ in scalars)
        return cls(
            signature_of(op, params, inputs, layouts, dtypes, names),
            tuple(value for value, _ in inputs),
            tuple(number for _, number in scalars),
        )

    def with_operands(
        self,
        signature: NodeSignature,
        values: tuple[Value, ...],
        outputs: tuple[Value, ...] | None = None,
    ) -> Node:
        """Return a node with other operands, and the same results or others.

        It is one to plan with.
        """
        node = _new(Node)
        node.signature = signature
        node.values = values
        node.numbers = self.numbers
        node.arrays = ()
        node.outputs = self.outputs if outputs is None else outputs
        return node

    @property
    def op(self) -> Op[..., Any]:
        """The op."""
        return self.signature.op

    @property
    def params(self) -> tuple[tuple[str, object], ...]:
        """Static arguments."""
        return self.signature.params

    @property
    def layouts(self) -> tuple[Layout, ...]:
        """Row-major layout of each output."""
        return self.signature.layouts

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """Input views, as the op reads them."""
        pairs = zip(self.values, self.signature.operands)
        return tuple([_named(Operand, pair) for pair in pairs])

    @property
    def scalars(self) -> tuple[tuple[str, float], ...]:
        """Dynamic scalars by name."""
        return tuple(zip(self.signature.numbers, self.numbers))


_new = object.__new__
_named: Callable[[type[Operand], tuple[Value, Layout]], Operand] = tuple.__new__
"""A named tuple of a pair, in a third of the time of a call of its class."""


def lazy_node(
    signature: NodeSignature, values: tuple[Value, ...], numbers: tuple[float, ...]
) -> Node:
    """Return a new node with one output.

    Inlines the constructors, as it runs once per op.
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
    value.external_refs = 0
    node.outputs = (value,)
    return node


def pinned_array(numel: int, dtype: DType, buffer: object) -> Array:
    """Return a new array over pinned memory of a replay; see `pin`."""
    value = _new(PinnedValue)
    value.numel = numel
    value.dtype = dtype
    value.node = None
    value.buffer = buffer
    value.observers = set()
    value.external_refs = 1
    array = _new(Array)
    array.value = value
    array.version = inference.first_version() if inference.blocks else 0
    array.former = None
    return array
