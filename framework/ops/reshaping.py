"""`reshape` as programs call it: always another tensor, as PyTorch's views are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..base.shape import Shape
from ..dispatch.view_cache import caches_views
from .view import another
from .view import reshape as reshape_or_same

if TYPE_CHECKING:
    from ..tensor.tensor import Tensor


@caches_views
def reshape(x: Tensor, shape: Shape) -> Tensor:
    """Return the elements in row-major order in another shape.

    A view where strides allow it, otherwise a copy. Results of operations are
    contiguous here, where those of PyTorch keep the strides of their operands: of such
    a result this is a view, where PyTorch may copy.

    Parameters
    ----------
    x : Tensor
    shape : sequence of int
        One size may be -1, which is what is left of the number of elements; no other
        may be 0 beside it.

    Raises
    ------
    ShapeError
        If the number of elements differs.
    TypeError
        If a size is not an int.
    """
    out = reshape_or_same(x, shape)
    return another(x, out, "ViewBackward0") if out is x else out
