"""The pending graph: what was asked for and has not run yet.

An operation on a device tensor appends a `Node` and returns at once. A `Value` is one
output of a node, or memory that already holds its elements. Tensors reach a value
through an `Array`; views of one storage share one array. A value that no array holds
when the graph is flushed never needs memory of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from .dtype import DType
from .shape import Layout

if TYPE_CHECKING:
    from .op import Op


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
    buffer : Buffer, numpy.ndarray or None
        The memory that holds it: a device buffer, or a flat array on the host device.
    holders : int
        Arrays that refer to the value.
    """

    __slots__ = ("buffer", "dtype", "holders", "node", "numel")

    def __init__(
        self, numel: int, dtype: DType, node: Node | None = None, buffer: object = None
    ) -> None:
        self.numel = numel
        self.dtype = dtype
        self.node = node
        self.buffer = buffer
        self.holders = 0


class Array:
    """One storage as tensors see it: changes in place reach every view of it.

    Attributes
    ----------
    value : Value
        The current content.
    version : int
        Number of changes in place so far; autograd compares it with what it saved.
    """

    __slots__ = ("value", "version")

    def __init__(self, value: Value) -> None:
        self.value = value
        self.version = 0
        value.holders += 1

    def rebind(self, value: Value) -> None:
        """Replace the content, which counts as a change in place."""
        value.holders += 1
        self.value.holders -= 1
        self.value = value
        self.version += 1

    def __del__(self) -> None:
        self.value.holders -= 1


class Operand(NamedTuple):
    """One input of a node: a view of a value."""

    value: Value
    layout: Layout


class Node:
    """One pending operation.

    Attributes
    ----------
    op : Op
        What to compute.
    inputs : tuple of Operand
        Its tensors; element-wise operands are already broadcast to `layout.shape`.
    params : tuple of (str, object)
        Static arguments, part of the schedule's key.
    scalars : tuple of (str, number)
        Numbers that may change from run to run without a new schedule.
    layouts : tuple of Layout
        Row-major layout of each output.
    outputs : tuple of Value
        What it computes.
    """

    __slots__ = ("inputs", "layouts", "op", "outputs", "params", "scalars")

    def __init__(
        self,
        op: Op[..., Any],
        inputs: tuple[Operand, ...],
        layouts: tuple[Layout, ...],
        dtypes: tuple[DType, ...],
        params: tuple[tuple[str, object], ...] = (),
        scalars: tuple[tuple[str, float], ...] = (),
    ) -> None:
        self.op = op
        self.inputs = inputs
        self.layouts = layouts
        self.params = params
        self.scalars = scalars
        self.outputs = tuple(
            Value(layout.numel, dtype, node=self)
            for layout, dtype in zip(layouts, dtypes)
        )
