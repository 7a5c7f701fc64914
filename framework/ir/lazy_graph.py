"""The pending graph: what was asked for and has not run yet.

An operation on a device tensor appends a `Node` and returns at once. A `Value` is one
output of a node, or memory that already holds its elements. Tensors reach a value
through an `Array`; views of one storage share one array. A value that no array holds
when the graph is flushed never needs memory of its own.
"""

# Longer than most: nodes, values and arrays count each other, in one order throughout.

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from ..base import trace_hooks
from ..base.dtype import DType
from ..base.shape import Layout

if TYPE_CHECKING:
    from ..dispatch.op import Op


class Value:
    """Elements in row-major order: pending (`node` is set) or in memory (`buffer` is).

    Attributes
    ----------
    numel : int
        Number of elements.
    dtype : DType
        Their type.
    node : Node or None
        The pending node that computes the value.
    buffer : Buffer, numpy.ndarray, Failed or None
        The memory that holds it: a device buffer, or a flat array on the host device.
        Otherwise why it will never be there, if that is known.
    holders : int
        Arrays that refer to the value.
    watchers : set of callable
        Internal: see `watch`.
    """

    __slots__ = ("buffer", "dtype", "holders", "node", "numel", "watchers")

    watchers: set[Callable[[bool], object]]

    def __init__(
        self, numel: int, dtype: DType, node: Node | None = None, buffer: object = None
    ) -> None:
        self.numel = numel
        self.dtype = dtype
        self.node = node
        self.buffer = buffer
        self.holders = 0


class Failed:
    """Stands for the memory of a value that was not computed.

    Attributes
    ----------
    cause : str
        The error that the flush ended with.
    """

    __slots__ = ("cause",)

    def __init__(self, error: BaseException) -> None:
        # In words, as the exception would keep what its frames hold.
        self.cause = f"{type(error).__name__}: {error}"


class Array:
    """One storage as tensors see it: changes in place reach every view of it.

    Attributes
    ----------
    value : Value
        The current content.
    version : int
        Number of changes in place so far; autograd compares it with what it saved.
    former : Value or None
        While the content is pending, what it is to replace: the content again if it
        cannot be computed. That does not count as holding it.
    """

    __slots__ = ("__weakref__", "former", "value", "version")

    former: Any

    def __init__(self, value: Value) -> None:
        # First, as what is interrupted after the next line counts as held no more.
        value.holders += 1
        self.value = value
        self.version = 0
        self.former = None
        if value.__class__ is not Value:
            tell(value, grew=True)

    @classmethod
    def sharing(cls, array: Array) -> Array:
        """Return a new storage with the content of another, at this moment.

        Another thread may give that another content meanwhile, and what nothing has
        held for a moment may be gone.
        """
        while True:
            value = array.value
            shared = cls(value)
            if array.value is value:
                return shared

    def rebind(self, value: Value) -> None:
        """Replace the content, which counts as a change in place."""
        if trace_hooks.running:
            trace = trace_hooks.listener()
            if trace is not None:
                trace.rebound(self, self.value)
        self.replace(value)
        self.version += 1

    def replace(self, value: Value) -> None:
        """Hold another value, which is not a change for those who saved this one."""
        old, node = self.value, value.node
        if node is not None:
            if self.former is None and old.node is None:
                self.former = old
            node.arrays = (*node.arrays, (weakref.ref(self), value))
        # Also before, or an interrupt could leave a change that nobody has heard of.
        if old.__class__ is not Value:
            tell(old, grew=False)
        # In this order an interrupt may leave a holder too many, never one too few; and
        # nothing is called from here on, or another thread could come in between.
        value.holders += 1
        old = self.value
        self.value = value
        old.holders -= 1
        if value.__class__ is not Value:
            tell(value, grew=True)
        if old.__class__ is not Value:
            tell(old, grew=False)

    def settle(self, value: Value) -> None:
        """Note that one of the values that it has held is pending no longer.

        What could not be computed gives way to the former content. May be repeated, as
        it may have been interrupted.
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
        """Hold an earlier value again, which is pending, where the last one failed."""
        old = self.value
        if type(old.buffer) is Failed:
            self.version += 1
            value.holders += 1
            self.value = value
            old.holders -= 1
            tell(value, grew=True)
            tell(old, grew=False)

    def __del__(self) -> None:
        value = self.value
        value.holders -= 1
        if value.__class__ is not Value:
            tell(value, grew=False)


def lazy_copy(array: Array) -> Array:
    """Return a new storage with the content of another, of which nothing is copied yet.

    Values are never written again: what changes in place gets another one.
    """
    copied = Array.sharing(array)
    if trace_hooks.running:
        trace = trace_hooks.listener()
        if trace is not None:
            trace.copied(copied)
    return copied


class WatchedValue(Value):
    """A value in memory that a replay reads or writes by its address.

    A value becomes one by assignment to its `__class__`, in `keep`. Who changes the
    number of its holders tells those who watch it; the number itself is counted without
    a call, during which other threads could count too.
    """

    __slots__ = ()


def tell(value: Value, grew: bool) -> None:
    """Tell those who watch a value, if any, that it has another number of holders."""
    if value.__class__ is not Value:
        for watcher in tuple(value.watchers):
            watcher(grew)


class BoundArray(Array):
    """A storage that replays write to: each counts as a change in place.

    An array becomes one by assignment to its `__class__`, in `bind`.
    """

    __slots__ = ()

    @property
    def version(self) -> int:
        """Number of changes in place so far, replays of those who watch included."""
        count: int = _version.__get__(self) + self._replays()
        return count

    @version.setter
    def version(self, count: int) -> None:
        _version.__set__(self, count - self._replays())

    def _replays(self) -> int:
        return replays_of(self.value)

    def replace(self, value: Value) -> None:
        """Hold another value, which is not a change for those who saved this one."""
        version = self.version
        # Rather too many for a moment than too few, should an interrupt end it there.
        self.version = version + self._replays()
        super().replace(value)
        self.version = version


_version: Any = Array.__dict__["version"]


def replays_of(value: Value) -> int:
    """Return how often those who watch a value have written it."""
    watchers = getattr(value, "watchers", ())
    return sum(getattr(watcher, "replays", 0) for watcher in watchers)


def bind(array: Array) -> None:
    """Make a storage count the replays of those who watch its value as changes."""
    if type(array) is not BoundArray:
        version = array.version
        array.__class__ = BoundArray
        array.version = version


def keep(value: Value) -> None:
    """See that a value's memory is not taken for a result when no array holds it."""
    if type(value) is not WatchedValue:
        value.watchers = set()
        value.__class__ = WatchedValue


def watch(value: Value, watcher: Callable[[bool], object]) -> None:
    """Call `watcher` whenever an array begins, or ceases, to refer to a value.

    It is told which: whether there is one more. `value.watchers.discard` forgets it.
    """
    keep(value)
    value.watchers.add(watcher)


class Operand(NamedTuple):
    """One input of a node: a view of a value."""

    value: Value
    layout: Layout


class Form:
    """All of a node that stays the same from run to run: what a schedule depends on.

    Equal forms are one object, made by `form_of`, so schedules compare identities.

    Attributes
    ----------
    op : Op
        What to compute.
    params : tuple of (str, object)
        Static arguments.
    operands : tuple of Layout
        How each input is viewed; element-wise operands are already broadcast.
    layouts : tuple of Layout
        Row-major layout of each output.
    dtypes : tuple of DType
        Of each output.
    numbers : tuple of str
        Names of the numbers that may change from run to run without a new schedule.
    outputs : tuple of (int, DType)
        Elements and type of each output.
    """

    __slots__ = (
        "dtypes",
        "layouts",
        "numbers",
        "op",
        "operands",
        "outputs",
        "params",
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


MOST_FORMS = 1 << 16
"""Forms that are known at a time; past it, all are forgotten and made afresh."""

Key = tuple[object, ...]

_PLAIN = frozenset({bool, int, str, type(None), DType})
"""Types of which two numbers, say, are alike when they are equal."""

_INTEGERS = frozenset({int})


def mark_of(argument: object) -> Key | None:
    """Return what tells an argument from others; None if nothing does.

    Its type too, as 1, 1.0 and True are equal.
    """
    kind = type(argument)
    if kind in _PLAIN:
        return kind, argument
    if isinstance(argument, float):
        # 0.0 and -0.0 are equal too.
        return kind, argument, math.copysign(1.0, argument)
    if not isinstance(argument, tuple):
        return None
    if _INTEGERS.issuperset(map(type, argument)):
        return kind, argument
    marks = [mark_of(item) for item in argument]
    return None if None in marks else (kind, *marks)


_forms: dict[object, Form] = {}


def form_of(
    op: Op[..., Any],
    params: tuple[tuple[str, object], ...],
    inputs: tuple[Operand, ...],
    layouts: tuple[Layout, ...],
    dtypes: tuple[DType, ...],
    numbers: tuple[str, ...] = (),
) -> Form:
    """Return the form of a node; the same object for the same arguments."""
    operands = tuple(layout for _, layout in inputs)
    taken = tuple(value.dtype for value, _ in inputs)
    kinds = tuple([mark_of(value) or type(value) for _, value in params])
    key = (op, params, kinds, operands, taken, layouts, dtypes, numbers)
    form = _forms.get(key)
    if form is None:
        if len(_forms) >= MOST_FORMS:
            _forms.clear()
        form = Form(op, params, operands, layouts, dtypes, numbers)
        # Another thread may have been first.
        form = _forms.setdefault(key, form)
    return form


class Node:
    """One pending operation.

    Attributes
    ----------
    form : Form
        What to compute: all that a schedule depends on.
    values : tuple of Value
        Its inputs.
    numbers : tuple of number
        What `form.numbers` names: arguments that a schedule does not depend on.
    outputs : tuple of Value
        What it computes.
    arrays : tuple of (weak reference, Value)
        Storages whose content became one of the outputs in place.
    spared : bool
        Set where it stayed pending after an error that others were dropped for.
    """

    __slots__ = ("arrays", "form", "numbers", "outputs", "spared", "values")

    spared: bool
    arrays: tuple[tuple[weakref.ref[Array], Value], ...]

    def __init__(
        self,
        form: Form,
        values: tuple[Value, ...],
        numbers: tuple[float, ...] = (),
    ) -> None:
        self.form = form
        self.values = values
        self.numbers = numbers
        self.arrays = ()
        self.outputs = tuple([Value(*each, self) for each in form.outputs])

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
        """Return a node given by its parts; see `Form`."""
        names = tuple(name for name, _ in scalars)
        return cls(
            form_of(op, params, inputs, layouts, dtypes, names),
            tuple(value for value, _ in inputs),
            tuple(number for _, number in scalars),
        )

    @property
    def op(self) -> Op[..., Any]:
        """What to compute."""
        return self.form.op

    @property
    def params(self) -> tuple[tuple[str, object], ...]:
        """Static arguments."""
        return self.form.params

    @property
    def layouts(self) -> tuple[Layout, ...]:
        """Row-major layout of each output."""
        return self.form.layouts

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """Its tensors, as the op reads them."""
        return tuple(map(Operand, self.values, self.form.operands))

    @property
    def scalars(self) -> tuple[tuple[str, float], ...]:
        """Numbers that may change from run to run without a new schedule."""
        return tuple(zip(self.form.numbers, self.numbers))


_new = object.__new__


def pending_node(
    form: Form, values: tuple[Value, ...], numbers: tuple[float, ...]
) -> Node:
    """Return a new node with one output.

    What the constructors do, written out because it is done for each operation.
    """
    node = _new(Node)
    node.form = form
    node.values = values
    node.numbers = numbers
    node.arrays = ()
    value = _new(Value)
    value.numel, value.dtype = form.outputs[0]
    value.node = node
    value.buffer = None
    value.holders = 0
    node.outputs = (value,)
    return node


def pending_array(
    form: Form, values: tuple[Value, ...], numbers: tuple[float, ...]
) -> tuple[Node, Array]:
    """Return a new node with one output, and an array that holds the output."""
    node = pending_node(form, values, numbers)
    array = _new(Array)
    array.value = value = node.outputs[0]
    array.version = 0
    array.former = None
    value.holders = 1
    return node, array


def kept_array(numel: int, dtype: DType, buffer: object) -> Array:
    """Return a new array over memory that stays a replay's; see `keep`."""
    value = _new(WatchedValue)
    value.numel = numel
    value.dtype = dtype
    value.node = None
    value.buffer = buffer
    value.watchers = set()
    value.holders = 1
    array = _new(Array)
    array.value = value
    array.version = 0
    array.former = None
    return array
