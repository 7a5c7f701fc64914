"""Embedding lookup."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...autograd.tape import show_as
from ...base.dtype import FLOAT, INTEGER
from ...base.errors import DTypeError, ShapeError
from ...base.index_checks import UNCHECKED
from ...dispatch.declare import composite
from ..elementwise.compare import eq, where
from ..source import fill_like
from ..view import flatten, reshape, unsqueeze
from .gather import segment_sum, take_rows
from .row_index import INDEX, flat_offsets, readable_index

if TYPE_CHECKING:
    from ...base.shape import TensorSpec
    from ...tensor.tensor import Tensor


@composite(dtypes={"weight": FLOAT, "places": INDEX})
def _embedding(weight: Tensor, places: Tensor, padding: int) -> Tensor:
    """Return rows by index; row `padding` gets no gradient."""
    return reshape(
        take_rows(unsqueeze(weight, 0), places, "embedding: weight"),
        (*places.layout.shape, *weight.layout.shape[1:]),
    )


@_embedding.vjp
def _embedding_vjp(
    grad: Tensor, places: Tensor, weight_spec: TensorSpec, padding: int
) -> tuple[Tensor, None]:
    if grad.numel() == 0:
        return fill_like(grad, weight_spec.shape, 0, weight_spec.dtype), None
    rows = weight_spec.shape[0]
    if padding >= 0:
        # As int32, which every device compares.
        places = flat_offsets(places, rows, UNCHECKED)
        grad = where(unsqueeze(eq(places, padding), 1), 0.0, grad)
    total = segment_sum(places, unsqueeze(grad, 0), rows, UNCHECKED, False)
    return reshape(total, weight_spec.shape), None


def embedding(index: Tensor, weight: Tensor, padding_idx: int | None = None) -> Tensor:
    """Return rows of a table by number.

    Parameters
    ----------
    index : Tensor, any integer dtype
        Numbers of rows, from 0.
    weight : Tensor, shape (rows, size), float
        The table.
    padding_idx : int or None
        A row that gets no gradient; negative counts from the end.

    Returns
    -------
    Tensor, shape (*index.shape, size)
        Of the dtype of `weight`.

    Raises
    ------
    ShapeError
        If `weight` is not 2-D, or there is no row `padding_idx`.
    IndexRangeError
        If a number is no row: on the host at once, on a device by the next read; see
        `set_index_checks`.
    DTypeError
        If `index` is not of an integer dtype.

    Notes
    -----
    For the gradient, numbers are sorted and what belongs to one row is added in order;
    where there are many of narrow rows, a GPU adds them in any order unless
    `use_deterministic_algorithms(True)`, so the last bits may differ between runs.
    """
    if len(weight.layout.shape) != 2:
        raise ShapeError(f"embedding: weight is {tuple(weight.shape)}; it must be 2-D")
    if index.dtype not in INTEGER:
        raise DTypeError(
            f"embedding: index is {index.dtype.name}; it must be an integer dtype"
        )
    rows = weight.layout.shape[0]
    padding = -1 if padding_idx is None else padding_idx % max(1, rows)
    if padding_idx is not None and not -rows <= padding_idx < rows:
        raise ShapeError(
            f"embedding: padding_idx is {padding_idx}; it must be from {-rows} to"
            f" {rows - 1}"
        )
    numbers = readable_index("embedding", flatten(index))
    out = _embedding(weight, numbers, padding)
    out = reshape(out, (*index.layout.shape, weight.layout.shape[1]))
    if out.grad_node is not None:
        show_as(out, "EmbeddingBackward0", weight)
    return out
