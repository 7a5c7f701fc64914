"""Tape recorders: precomputed recipes of the tensors that each gradient rule saves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..base.inference import refuse_saving
from ..base.shape import TensorSpec
from ..eager.base_tensor import TensorCore
from ..eager.node_recorder import LIBRARY_PREFIX
from .engine import Edge, GradNode, Saved, save

INPUT, OUTPUT, ARGUMENT, NEEDS, SPEC = range(5)
"""Sources of a gradient rule's arguments."""

# Quicker than the constructors of named tuples, which are written in Python.
_tuple: Any = tuple.__new__


make_node: Callable[..., GradNode] = GradNode
"""Makes a node of the tape; see `saved_tensors_hooks`, which sets another one."""


class TapeRecorder(NamedTuple):
    """Tape recorder of one op, for one set of tensor arguments.

    Attributes
    ----------
    name : str
        The op.
    rule : callable
        Its gradient rule, which returns gradients of the present tensors.
    saved_args : tuple of (str, int, int)
        For each argument of the rule its name, its source, and its index there.
    present : tuple of int
        For each tensor parameter its index among the present tensors, or -1.
    own : bool
        Whether the rule is the library's, and so a pure function of its arguments.
    """

    name: str
    rule: Callable[..., Any]
    saved_args: tuple[tuple[str, int, int], ...]
    present: tuple[int, ...]
    own: bool

    def record(
        self,
        arguments: Sequence[Any],
        tensors: Sequence[TensorCore],
        outputs: Sequence[TensorCore],
        specs: tuple[TensorSpec, ...],
        kind: object = None,
    ) -> None:
        """Record a tape entry for a call whose first output is the result.

        Parameters
        ----------
        arguments : sequence
            Every argument of the call in the order of the op's parameters.
        tensors : sequence of TensorCore
            Tensor arguments.
        outputs : sequence of TensorCore
            Results.
        specs : tuple of TensorSpec
            Of `tensors`.
        kind : object or None
            Cache entry of the call; see `GradNode`.
        """
        # Inlines `edge_of` and `save`, as it runs once per entry.
        edges: list[Edge | None] = []
        for each in tensors:
            if each.needs_grad:
                node = each.grad_node
                where = (each, 0) if node is None else (node, each.grad_index)
                edges.append(_tuple(Edge, where))
            else:
                edges.append(None)
        saved: dict[str, Any] = {}
        for name, source, at in self.saved_args:
            if source == INPUT:
                each = tensors[at]
                array = each.array
                version = array.version
                if version < 0:
                    refuse_saving(self.name)
                kept = array, each.layout, each.device, each.results, version, at
                saved[name] = _tuple(Saved, kept)
            elif source == OUTPUT:
                saved[name] = save(outputs[at], -1 if at else None)
            elif source == ARGUMENT:
                saved[name] = arguments[at]
            elif source == SPEC:
                saved[name] = specs[at] if at >= 0 else None
            else:
                saved[name] = tuple(
                    [at >= 0 and edges[at] is not None for at in self.present]
                )
        first = outputs[0]
        first.needs_grad = True
        first.grad_node = make_node(
            self.name,
            self.rule,
            tuple(edges),
            specs,
            saved,
            kind if self.own else None,
        )


def tape_recorder(
    name: str,
    rule: tuple[Callable[..., Any], Sequence[str]],
    parameters: tuple[Sequence[str], Sequence[str], Sequence[str]],
    given: Sequence[str],
) -> TapeRecorder:
    """Return the tape recorder of an op.

    Parameters
    ----------
    name : str
        The op.
    rule : (callable, sequence of str)
        Its gradient rule and the names of the rule's parameters.
    parameters : (sequence of str, sequence of str, sequence of str)
        Names of the op's parameters, of those that are tensors, and of its outputs.
    given : sequence of str
        Tensor parameters that are present, in order.
    """
    function, wanted = rule
    names, tensors, outputs = (list(each) for each in parameters)
    order = list(given)
    saved_args = []
    for each in wanted:
        if each in order:
            saved_args.append((each, INPUT, order.index(each)))
        elif each in names:
            saved_args.append((each, ARGUMENT, names.index(each)))
        elif each in outputs:
            saved_args.append((each, OUTPUT, outputs.index(each)))
        elif each == "needs":
            saved_args.append((each, NEEDS, 0))
        elif each.endswith("_spec"):
            tensor = each.removesuffix("_spec")
            saved_args.append(
                (each, SPEC, order.index(tensor) if tensor in order else -1)
            )
    present = tuple(order.index(each) if each in order else -1 for each in tensors)
    own = getattr(function, "__module__", "").startswith(LIBRARY_PREFIX)
    if -1 in present:
        function = _without_absent(function, present)
    return TapeRecorder(name, function, tuple(saved_args), present, own)


def _without_absent(
    rule: Callable[..., Any], present: tuple[int, ...]
) -> Callable[..., Any]:
    """Drop the gradients of absent tensor parameters."""

    def answers(**arguments: Any) -> tuple[Any, ...]:
        result = rule(**arguments)
        if not isinstance(result, tuple):
            result = (result,)
        return tuple(answer for answer, at in zip(result, present) if at >= 0)

    answers.__module__ = getattr(rule, "__module__", "")
    answers.__dict__["present"] = present  # by which PyTorch's nodes have names
    return answers
