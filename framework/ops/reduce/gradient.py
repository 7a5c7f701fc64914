"""Estimates of derivatives from samples on a grid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...base.dtype import bool_, float32, promote, uint8
from ...base.errors import DTypeError, ShapeError
from ...base.shape import normalize_dim, normalize_dims
from ...base.validation import as_number
from ...dispatch.replayable import replayable
from ...eager.base_tensor import TensorCore
from ..elementwise.binary import div, mul, sub
from ..elementwise.cast import cast, converted
from ..movement.concat import cat
from ..movement.slice import narrow
from ..view import reshape
from .scan import diff

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor


@replayable
def gradient(
    input: Tensor,
    *,
    spacing: Any = 1,
    dim: int | Sequence[int] | None = None,
    edge_order: int = 1,
) -> tuple[Tensor, ...]:
    """Return estimates of the partial derivatives of a function from its samples.

    Central differences within, exact for parabolas; one-sided ones at the ends.

    Parameters
    ----------
    input : Tensor
        Samples on a grid.
    spacing : number, sequence of number or Tensor, or None
        Distance of neighbours, for all dimensions or for each; vectors are the
        coordinates along each dimension. None means 1.
    dim : int, sequence of int or None
        Dimensions; None means all.
    edge_order : int, default 1
        1 or 2: order of the differences at the ends.

    Returns
    -------
    tuple of Tensor
        One for each dimension.

    Raises
    ------
    ShapeError
        If a dimension has not `edge_order` + 1 samples, or spacings do not fit.
    """
    if isinstance(dim, int):
        dims: tuple[int, ...] = (
            normalize_dim("gradient", dim, len(input.layout.shape)),
        )
    elif dim is None:
        dims = normalize_dims("gradient", None, len(input.layout.shape))
    else:
        dims = tuple(
            normalize_dim("gradient", each, len(input.layout.shape)) for each in dim
        )
    if len({*dims}) < len(dims):
        raise ShapeError(f"gradient: dim is {dims}; each dimension may be there once")
    spacing = 1 if spacing is None else spacing
    single = isinstance(spacing, TensorCore) or not isinstance(spacing, tuple | list)
    spacings = [spacing] * len(dims) if single else list(spacing)
    if edge_order not in (1, 2) or len(spacings) != len(dims):
        raise ShapeError(
            f"gradient: edge_order is {edge_order}, {len(spacings)} spacings for"
            f" {len(dims)} dimensions; edge_order must be 1 or 2, and there be one"
            " spacing for each"
        )
    kind = input.dtype
    if kind in (bool_, uint8):
        raise DTypeError(
            f"gradient: input is {kind.name}, which has no differences; cast it"
        )
    for each in spacings:
        if isinstance(each, TensorCore):
            kind = promote(
                kind, each.dtype if each.dtype.is_differentiable else float32
            )
    samples = converted(input, kind if kind.is_differentiable else float32)
    return tuple(
        _along(samples, at, each, edge_order) for at, each in zip(dims, spacings)
    )


def _along(x: Tensor, dim: int, spacing: Any, edge_order: int) -> Tensor:
    size = x.layout.shape[dim]
    if size < edge_order + 1:
        raise ShapeError(
            f"gradient: dimension {dim} of shape {tuple(x.shape)} has size {size}; it"
            f" must be at least {edge_order + 1}"
        )
    steps = diff(x, 1, dim)
    widths: Any = spacing
    if isinstance(spacing, TensorCore):
        if spacing.ndim != 1 or spacing.shape[0] != size:
            raise ShapeError(
                f"gradient: coordinates are {tuple(spacing.shape)}; they must be"
                f" ({size},)"
            )
        widths = diff(cast(widths, x.dtype))
        widths = reshape(widths, (-1,) + (1,) * (len(x.layout.shape) - 1 - dim))
    else:
        widths = float(as_number("gradient: spacing", spacing))
    slopes = div(steps, widths)
    count = size - 1

    def part(tensor: Any, start: int, length: int) -> Any:
        if isinstance(tensor, float):
            return tensor
        return narrow(tensor, dim - len(x.layout.shape) + tensor.ndim, start, length)

    first, last = part(slopes, 0, 1), part(slopes, count - 1, 1)
    if count == 1:
        return cat([first, last], dim)
    before, after = part(slopes, 0, count - 1), part(slopes, 1, count - 1)
    left, right = part(widths, 0, count - 1), part(widths, 1, count - 1)
    inner = (before * right + after * left) / (left + right)
    if edge_order == 2:
        # The slope at the end of the parabola through three samples
        bend = div(sub(after, before), left + right)
        first = sub(first, mul(part(bend, 0, 1), part(widths, 0, 1)))
        last = last + part(bend, count - 2, 1) * part(widths, count - 1, 1)
    return cat([first, inner, last], dim)
