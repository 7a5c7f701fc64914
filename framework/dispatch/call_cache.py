"""Calls that come again: what an op settled for one holds for others like it.

Checks, shape rules and layouts depend only on how the tensors of a call lie and on its
other arguments. The first call of a kind leaves what came of them; the next ones look
that up by a key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..eager.base_tensor import TensorCore, assembled
from ..ir.lazy_graph import Array, Key, Node, mark_of, pending_array
from ..scheduler.scheduler import append

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ..autograd.saved_tensors import Keeping
    from ..base.device import GpuDevice
    from ..base.shape import Layout, TensorSpec
    from ..eager.node_recorder import Recipe
    from ..ir.lazy_graph import Form

MOST_KNOWN = 4096
"""Kinds of calls that an op knows at a time; past it, all are forgotten."""


def key_of(args: Sequence[Any]) -> tuple[Key, list[TensorCore]]:
    """Return what tells calls apart, and the tensors among the arguments.

    Layouts count by identity, so who keeps the key keeps the layouts. The key is empty
    where an argument may be another one each time.
    """
    key: list[object] = []
    tensors: list[TensorCore] = []
    for argument in args:
        if isinstance(argument, TensorCore):
            key += (id(argument.layout), argument.array.value.dtype, argument.device)
            tensors.append(argument)
        else:
            mark = mark_of(argument)
            if mark is None:
                return (), tensors
            key.append(mark)
    return tuple(key), tensors


class KnownCall(NamedTuple):
    """That a call is in order, and what it leaves.

    Attributes
    ----------
    keeping : Keeping or None
        How to leave a tape entry; None if the result has no gradient.
    specs : tuple of TensorSpec
        Of the tensors.
    layouts : tuple of Layout
        Of the tensors: the key names them by identity.
    recipes : dict of tuple of bool to Recipe or None
        What it asks for, by which tensors require a gradient; None where that may be
        something else each time.
    """

    keeping: Keeping | None
    specs: tuple[TensorSpec, ...]
    layouts: tuple[Layout, ...]
    recipes: dict[tuple[bool, ...], Recipe | None]


class KnownView(NamedTuple):
    """What came of choosing elements of a tensor.

    Attributes
    ----------
    layout : Layout
        Of the result.
    copied : bool
        Whether the elements are copied into row-major order first.
    keeping, specs, layouts
        As in `KnownCall`.
    """

    layout: Layout
    copied: bool
    keeping: Keeping | None
    specs: tuple[TensorSpec, ...]
    layouts: tuple[Layout, ...]


class KnownNode(NamedTuple):
    """What came of a call that appends one node with elements.

    Attributes
    ----------
    form : Form
        Of the node.
    device : GpuDevice
        Where it runs.
    info : DeviceInfo
        What the device was found to be able to do.
    copied : tuple of int
        Tensors that are copied first, as the kernel cannot read them where they lie.
    keeping, specs, layouts
        As in `KnownCall`.
    """

    form: Form
    device: GpuDevice
    info: DeviceInfo
    copied: tuple[int, ...]
    keeping: Keeping | None
    specs: tuple[TensorSpec, ...]
    layouts: tuple[Layout, ...]

    def again(self, tensors: Sequence[TensorCore]) -> tuple[TensorCore, ...]:
        """Append such a node for other tensors; return its outputs.

        `tensors` must be held until then, also those that were copied.
        """
        form, device, kind = self.form, self.device, tensors[0].results
        with device.lock:
            values = tuple([each.array.value for each in tensors])
            if len(form.outputs) == 1:
                node, array = pending_array(form, values, ())
                outputs = (assembled(kind, array, form.layouts[0], device),)
            else:
                node = Node(form, values)
                outputs = tuple(
                    [
                        assembled(kind, Array(value), layout, device)
                        for value, layout in zip(node.outputs, form.layouts)
                    ]
                )
            append(device, node)
        return outputs
