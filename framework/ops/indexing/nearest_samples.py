"""The elements of images that are the nearest to places of a grid."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...base.dtype import FLOAT
from ...base.shape import Shape, TensorSpec
from ...dispatch.declare import composite
from ...kernels.shader_types import statistic_dtype
from ..reduce.common import as_dtype_of
from ..source import fill_like
from .grid_taps import grid_taps
from .tap_sum import scattered, tap_sum

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor


@composite(dtypes=FLOAT, outputs=("out", "index", "weights"))
def nearest_samples(
    x: Tensor, grid: Tensor, size: Shape, padding_mode: str, aligned: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the nearest elements (batch, channels, places), and what they are.

    The gradient by the grid is 0: another place has the same element.

    Parameters
    ----------
    x : Tensor, shape (batch, channels, elements), float
    grid, size, padding_mode, aligned
        As in `grid_taps`, which returns the other results.
    """
    index, weights = grid_taps(grid, size, "nearest", padding_mode, aligned)
    return tap_sum(x, index, weights), index, weights


@nearest_samples.vjp
def nearest_samples_vjp(
    grad: Tensor,
    x_spec: TensorSpec,
    grid_spec: TensorSpec,
    index: Tensor,
    weights: Tensor,
    needs: tuple[bool, bool],
) -> tuple[Tensor | None, Tensor | None]:
    of_x = of_grid = None
    if needs[0]:
        shares = as_dtype_of(weights, statistic_dtype(x_spec.dtype))
        of_x = scattered(grad, index, shares, x_spec.shape[2])
    if needs[1]:
        of_grid = fill_like(grad, grid_spec.shape, 0, grid_spec.dtype)
    return of_x, of_grid
