"""What a piece of the library asked for, so that it can be asked for again.

A piece that is a function of its tensors' layouts and dtypes, and of arguments that a
key names, asks for the same nodes each time. It is watched once; then nodes of the same
forms are made on other values, without what it took to find them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ..autotune import autotune
from ..base.device import GpuDevice
from ..base.shape import Layout
from ..ir.lazy_graph import Array, Form, Node, Value, pending_node
from ..scheduler.scheduler import append_all
from .base_tensor import TensorCore, assembled

OWN = __name__.rsplit(".", 2)[0] + "."
"""How the names of the library's own modules begin."""


class Row(NamedTuple):
    """One node to ask for.

    Attributes
    ----------
    form : Form
    sources : tuple of int
        Its inputs, as numbers of values: those given, then results in order.
    numbers : tuple of number
    """

    form: Form
    sources: tuple[int, ...]
    numbers: tuple[float, ...]


def nodes_of(rows: Iterable[Row], values: list[Value]) -> list[Node]:
    """Return nodes on values that are given; their results are added to these."""
    nodes = []
    for form, sources, numbers in rows:
        inputs = tuple([values[at] for at in sources])
        if len(form.outputs) == 1:
            node = pending_node(form, inputs, numbers)
            values.append(node.outputs[0])
        else:
            node = Node(form, inputs, numbers)
            values += node.outputs
        nodes.append(node)
    return nodes


class Watcher:
    """Hears what a piece asks for; see `trace_hooks.Listener`.

    Attributes
    ----------
    nodes : list of Node
        What it asked for.
    fits : bool
        Whether that is all, and will be the same each time.
    """

    def __init__(self, device: GpuDevice) -> None:
        self.nodes: list[Node] = []
        self.fits = True
        self._device = device

    def rows(self, numbers: dict[Value, int]) -> tuple[Row, ...] | None:
        """Return what was asked for; None where it may be other things next time.

        Parameters
        ----------
        numbers : dict of Value to int
            The values given; the results are added.
        """
        rows = []
        for node in self.nodes if self.fits else ():
            if any([value not in numbers for value in node.values]):
                self.fits = False
                break
            sources = tuple([numbers[value] for value in node.values])
            rows.append(Row(node.form, sources, node.numbers))
            for value in node.outputs:
                numbers[value] = len(numbers)
        return tuple(rows) if self.fits else None

    def asked(self, device: GpuDevice, node: Node) -> None:
        """Leave an operation pending."""
        self.nodes.append(node)
        self.fits = self.fits and device is self._device
        append_all(device, [node])

    def rebound(self, array: Array, before: Value) -> None:
        """Note a change in place, which is not repeated."""
        self.fits = False

    def copied(self, array: Array) -> None:
        """Expect it: the answer tells which value it shares."""

    def drawn(self, generator: Any, words: tuple[int, int, int, int]) -> Any:
        """Note a draw, which is another one each time."""
        self.fits = False
        return words

    def changing(self, read: Any) -> float:
        """Note a number that is another one each time."""
        self.fits = False
        number: float = read()
        return number

    def each_time(self, action: Any) -> None:
        """Note an action of the host."""
        self.fits = False

    def once(self, reason: str) -> None:
        """Note what is done only once."""
        self.fits = False

    def called(self, owner: Any) -> None:
        """Note a module, which the library's own pieces do not call."""
        self.fits = False

    def left_gradient(self, leaf: Any, cleared: bool) -> None:
        """Expect it: a walk gives leaves their gradients."""

    def read_gradient(self, leaf: Any) -> None:
        """Note that what is done may depend on a gradient, another one next time."""
        self.fits = False

    def refused(self, what: str) -> None:
        """Note that a value is read, on which what follows may depend."""
        self.fits = False


class Recipe(NamedTuple):
    """What a call asks for, and what it answers.

    Attributes
    ----------
    rows : tuple of Row
        Nodes; the values given are those of the call's tensors.
    outputs : tuple of (int, Layout)
        Of each result its value, and how it lies.
    single : bool
        Whether the answer is a tensor, not a tuple.
    device : GpuDevice
        Where it runs.
    info : DeviceInfo
        What the device was found to be able to do.
    era : int
        See `autotune`.
    fusing : bool
        Whether operations could join one kernel.
    """

    rows: tuple[Row, ...]
    outputs: tuple[tuple[int, Layout], ...]
    single: bool
    device: GpuDevice
    info: object
    era: int
    fusing: bool

    def holds(self) -> bool:
        """Return whether the call would ask for the same today."""
        settings, device = autotune.settings(), self.device
        same = self.era == settings.era and self.info is device.gpu.info
        return same and self.fusing is device.fusing and not settings.enabled

    def again(self, tensors: Sequence[TensorCore]) -> Any:
        """Ask for it on other tensors; return the answer."""
        kind, device = tensors[0].results, self.device
        with device.lock:
            values = [each.array.value for each in tensors]
            nodes = nodes_of(self.rows, values)
            found = [
                assembled(kind, Array(values[at]), layout, device)
                for at, layout in self.outputs
            ]
            append_all(device, nodes)
        return found[0] if self.single else tuple(found)


def recipe_of(
    watcher: Watcher, device: GpuDevice, tensors: Sequence[TensorCore], answer: Any
) -> Recipe | None:
    """Return how to make the answer that was watched; None if it cannot be repeated."""
    arrays = {id(each.array) for each in tensors}
    numbers: dict[Value, int] = {}
    for each in tensors:
        numbers.setdefault(each.array.value, len(numbers))
    # Tensors that share a value could be told apart next time.
    rows = watcher.rows(numbers) if len(numbers) == len(tensors) else None
    if rows is None:
        return None
    outputs = []
    for each in answer if isinstance(answer, tuple) else (answer,):
        at = numbers.get(each.array.value)
        fresh = id(each.array) not in arrays and type(each) is tensors[0].results
        if at is None or not fresh or each.array.version or each.requires_grad:
            return None
        arrays.add(id(each.array))
        outputs.append((at, each.layout))
    info, era = device.gpu.info, autotune.settings().era
    single = not isinstance(answer, tuple)
    return Recipe(rows, tuple(outputs), single, device, info, era, device.fusing)
