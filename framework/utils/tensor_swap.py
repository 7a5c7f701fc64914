"""Two tensors that take each other's place."""

from __future__ import annotations

import weakref

from ..base import trace_hooks
from ..eager.base_tensor import TensorCore
from ..tensor.tensor import Tensor

__all__ = ["swap_tensors"]

_MISSING = object()


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Exchange everything of two tensors: elements, gradient, class and attributes.

    Whatever refers to one of them then has the other, modules and optimizers too.

    Parameters
    ----------
    t1, t2 : Tensor

    Raises
    ------
    RuntimeError
        If one of them has weak references, which would change with it.
    TraceError
        Within a function of `fw.jit`.
    """
    for name, each in (("t1", t1), ("t2", t2)):
        if weakref.getweakrefs(each):
            raise RuntimeError(
                f"swap_tensors: {name} has weak references; they would refer to the"
                " other tensor"
            )
    trace_hooks.refuse(
        "swap_tensors: two tensors are exchanged in a traced function, which is not"
        " repeated; do it outside of the function"
    )
    for slot in TensorCore.__slots__:
        if slot in ("__dict__", "__weakref__"):
            continue
        first, second = (getattr(each, slot, _MISSING) for each in (t1, t2))
        for target, value in ((t1, second), (t2, first)):
            if value is _MISSING:
                delattr(target, slot)
            else:
                setattr(target, slot, value)
    t1.__dict__, t2.__dict__ = t2.__dict__, t1.__dict__
    t1.__class__, t2.__class__ = t2.__class__, t1.__class__
    trace_hooks.structure_changed()
