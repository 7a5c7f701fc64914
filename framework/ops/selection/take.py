"""Take, put and masked scatter by flat index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...autograd.tape import shown_as
from ...base.dtype import bool_, int32
from ...base.errors import DTypeError, ShapeError
from ...base.shape import broadcast_shapes
from ..elementwise.binary import sub
from ..elementwise.compare import clamp_min, where
from ..elementwise.unary import lazy_copy
from ..indexing.compaction import masked_store, moves_elements
from ..indexing.gather import add_rows, put_rows, take_rows
from ..indexing.row_index import readable_index
from ..reduce.scan import cumsum
from ..view import expand, flatten, reshape

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor


@shown_as("TakeBackward0", "x")
def take(x: Tensor, index: Tensor) -> Tensor:
    """Return the elements of the flat tensor that indices name.

    Parameters
    ----------
    x : Tensor
    index : Tensor, any integer dtype
        Of any shape. Negative ones count from the end.

    Returns
    -------
    Tensor, shape of `index`

    Raises
    ------
    IndexRangeError
        If an index is out of range: on the host at once, on a device by the next read;
        see `set_index_checks`.
    """
    return _take("take: the flat tensor", x, index)


def _take(site: str, x: Tensor, index: Tensor) -> Tensor:
    dims = 0, len(x.layout.shape)
    gathered = take_rows(x, flatten(index), site, from_end=True, dims=dims)
    return reshape(gathered, index.layout.shape)


@shown_as("PutBackward0", "x", "source")
def put(x: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """Return `x` with elements of the flat tensor replaced, or added to.

    Parameters
    ----------
    x : Tensor
    index : Tensor, any integer dtype
        Of any shape; where several name one place, the last wins, or on a GPU, of 1 Mi
        or more, any: see `use_deterministic_algorithms`. Negative ones count from the
        end.
    source : Tensor of the dtype of `x`
        As many elements as `index`.
    accumulate : bool, default False
        Add to what is there.

    Raises
    ------
    ShapeError
        If there are not as many elements.
    IndexRangeError
        If an index is out of range: on the host at once, on a device by the next read;
        see `set_index_checks`.
    DTypeError
        If the dtypes differ.
    """
    _need_dtype("put", x, source)
    if source.numel() != index.numel():
        raise ShapeError(
            f"put: index is {tuple(index.shape)}, source {tuple(source.shape)}; there"
            " must be as many"
            " elements"
        )
    index = readable_index("put", index)
    write = add_rows if accumulate else put_rows
    rows, source = (reshape(each, (1, -1, 1)) for each in (x, source))
    site = "put: the flat tensor"
    written = write(rows, flatten(index), source, site, True)
    return reshape(written, x.layout.shape)


@shown_as("MaskedScatterBackward0", "x", "source")
def masked_scatter(x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Return `x` with the elements where the mask holds taken from `source`, in order.

    Parameters
    ----------
    x : Tensor
    mask : Tensor, bool
        Broadcasts with `x`.
    source : Tensor of the dtype of `x`
        At least as many elements as the mask has true ones.

    Returns
    -------
    Tensor
        Of the shape that both broadcast to.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    IndexRangeError
        If elements are missing: on the host at once, on a device by the next read; see
        `set_index_checks`.
    DTypeError
        If the mask is not bool, or the dtypes differ.
    """
    _need_dtype("masked_scatter", x, source)
    if mask.dtype is not bool_:
        raise DTypeError(f"masked_scatter: `mask` is {mask.dtype.name}; accepted: bool")
    shape = broadcast_shapes("masked_scatter", x.layout.shape, mask.layout.shape)
    x, mask = expand(x, shape), expand(mask, shape)
    if source.numel() == 0 or mask.numel() == 0:
        return lazy_copy(x)
    if moves_elements(x):
        site = "masked_scatter: source"
        return masked_store(x, mask, flatten(source), site)
    numbers = sub(cumsum(flatten(mask), 0, dtype=int32), 1)
    gathered = _take("masked_scatter: source", source, clamp_min(numbers, 0))
    return where(mask, reshape(gathered, shape), x)


def _need_dtype(name: str, x: Tensor, source: Tensor) -> None:
    if source.dtype is not x.dtype:
        raise DTypeError(
            f"{name}: source is {source.dtype.name}, x {x.dtype.name}; they must be the"
            " same"
        )
