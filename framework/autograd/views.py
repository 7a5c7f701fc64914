"""Views of a storage on the tape: which tensors an in-place change reaches.

Tensors that share the storage off the tape (`detach`, `data`, views made under
`no_grad`) see the elements change and stay off the tape, as in PyTorch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import ref

from ..base.errors import GradError

if TYPE_CHECKING:
    from ..eager.base_tensor import TensorCore

FIRST_PRUNING = 32
"""Views of a storage from which on those that are gone are sorted out; a power of 2."""


def register_view(base: TensorCore, view: TensorCore) -> None:
    """Note that a tensor is a view of another one, whose changes on the tape it has."""
    views = base.views
    if views is None:
        base.views = views = [ref(base)]
    else:
        prune(views)
    view.views = views
    views.append(ref(view))


def prune(views: list[ref[TensorCore]]) -> None:
    """Sort out the views that are gone, each time that their number has doubled."""
    if len(views) >= FIRST_PRUNING and not len(views) & (len(views) - 1):
        views[:] = [each for each in views if each() is not None]


def sharing_tensors(tensor: TensorCore) -> list[TensorCore]:
    """Return a tensor and all others that share its storage on the tape."""
    found = [each() for each in tensor.views or ()]
    return [each for each in found if each is not None] or [tensor]


def base_of(tensor: TensorCore) -> TensorCore | None:
    """Return the tensor that another one is a view of; None if it is none, or gone."""
    base = tensor.views[0]() if tensor.views else None
    return None if base is tensor else base


def is_view(tensor: TensorCore) -> bool:
    """Return whether a tensor is a view of another one, or of a part of its storage."""
    if tensor.views:
        return tensor.views[0]() is not tensor
    if tensor.grad_index == UNRECORDED and tensor.grad_node is None:
        return True
    return tensor.layout.numel != tensor.array.value.numel


DATA, UNRECORDED = -1, -2
"""In the place of `grad_index`: what `data` has given, and its views, whose changes are
counted apart; and a view that was made without recording of a tensor on the tape."""

MULTIPLE = frozenset({"split", "unbind"})
"""Ops whose results are several views of a tensor."""


def changes_of_data(tensor: TensorCore) -> list[int]:
    """Return how often what `data` has given was changed, in a list with its views."""
    found: list[int] = vars(tensor).setdefault("_data_changes", [0])
    return found


def inherit_mark(view: TensorCore, tensor: TensorCore) -> None:
    """Give a view off the tape the mark of what it is a view of, `DATA` for example."""
    if view.grad_node is not None:
        return
    view.grad_index = tensor.grad_index
    if tensor.grad_index == DATA:
        vars(view)["_data_changes"] = changes_of_data(tensor)


def check_overwrite(tensor: TensorCore) -> None:
    """Raise `GradError` if a change in place cannot be recorded.

    It would overwrite a leaf with a gradient, or what a `Function` made of its input
    without a copy, whose own gradient rule it would pass by.
    """
    if tensor.grad_index in getattr(tensor.grad_node, "aliases", ()):
        assert tensor.grad_node is not None
        raise GradError(
            f"in place: the tensor is output {tensor.grad_index} of"
            f" {tensor.grad_node.name()}, which shares the elements of an input; change"
            " a copy, x.clone()"
        )
    check_view(tensor)
    node = tensor.grad_node
    if node is not None and node.op_name in MULTIPLE:
        raise GradError(
            f"in place: the tensor is one of several views that {node.op_name} has"
            f" returned, of shape {tuple(tensor.shape)}; write x = x + y, or change a"
            " slice of what was split"
        )
    for each in sharing_tensors(tensor):
        if each.needs_grad and each.grad_node is None:
            what = "the tensor is" if each is tensor else "the tensor is a view of"
            raise GradError(
                f"in place: {what} a leaf that requires a gradient, and of shape"
                f" {tuple(each.shape)}; change it under no_grad(), or write x = x + y"
            )


def check_view(tensor: TensorCore) -> None:
    """Raise `GradError` for a view whose base is on the tape, while it is not."""
    if tensor.grad_index == UNRECORDED and tensor.grad_node is None:
        raise GradError(
            f"in place: the tensor, of shape {tuple(tensor.shape)}, is a view that was"
            " made under no_grad of one on the tape; make the view and change it in"
            " the same mode"
        )


def detach_in_place(tensor: TensorCore) -> None:
    """Take a tensor off the tape; see `Tensor.detach_`."""
    views = tensor.views
    if views is not None and tensor.grad_node is not None and views[0]() is not tensor:
        raise GradError(
            f"detach_: the tensor, of shape {tuple(tensor.shape)}, is a view of"
            " another one;"
            " use x = x.detach()"
        )
    if views is not None:
        views[:] = [each for each in views if each() is not tensor]
    tensor.needs_grad, tensor.views = False, None
    tensor.grad_node, tensor.grad_index = None, 0
