"""What the graph shows of an index of several parts, which is one view here."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from ...autograd.decomposed import ComposableNode, on_tape
from ...autograd.tape import GradNode, ShownNode, edge_of
from ...base.dtype import DType
from ...base.shape import Shape
from ...eager.base_tensor import TensorCore
from ..view import unsqueeze

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor

Index = tuple[Any, ...]


class ShownViews(ComposableNode):
    """The views that PyTorch makes one after the other for an index of several parts.

    Parameters
    ----------
    index : tuple
        Of int, slice, None and Ellipsis.
    x : Tensor
        What is indexed.
    take : callable
        Returns the view of a tensor by such an index.
    """

    __slots__ = ("_edge", "_index", "_like", "_take")

    _like: tuple[type[Tensor], Shape, DType]

    def __init__(
        self, index: Index, x: Tensor, take: Callable[[Tensor, Any], Tensor]
    ) -> None:
        super().__init__("", ())
        self._index, self._take = index, take
        # Views need no elements: none are kept for a program that may look.
        self._like, self._edge = (type(x), x.layout.shape, x.dtype), edge_of(x)

    def steps(self) -> list[tuple[str, Index | int]]:
        """Return the name of each view, and its index or where it adds a dimension."""
        sizes = [*self._like[1]]
        takes = [part is not None and part is not Ellipsis for part in self._index]
        left = len(sizes) - takes.count(True)
        at, found = 0, list[tuple[str, Index | int]]()
        for part in self._index:
            if part is Ellipsis:
                del sizes[:left]
                at += left
            elif part is None:
                found.append(("UnsqueezeBackward0", at))
                at += 1
            else:
                size = sizes.pop(0)
                sliced = isinstance(part, slice)
                if not sliced or part.indices(size) != (0, size, 1):
                    name = "SliceBackward0" if sliced else "SelectBackward0"
                    found.append((name, (*[slice(None)] * at, part)))
                at += sliced
        return found

    def finish(self) -> None:
        """Find the names of the views, which only a program that looks at it needs."""
        if self.name:
            return
        edge: Any = self._edge
        *inner, self.name = [name for name, _ in self.steps()] or ["AliasBackward0"]
        for name in inner:
            edge = ShownNode(name, (edge,))
        self.edges = (edge,)

    def compose(self, node: GradNode) -> bool:
        """Record the views, if there are several; see `ComposableNode`."""
        return len(self.steps()) > 1 and super().compose(node)

    def record(self, node: GradNode) -> TensorCore:
        """Return the last of the views, on the tape, without elements."""
        kind, shape, dtype = self._like
        out = on_tape(kind.without_data(shape, dtype), self._edge)
        for _, step in self.steps():
            out = unsqueeze(out, step) if type(step) is int else self._take(out, step)
        return cast("TensorCore", out)
