"""Embedding lookup, one row for each index or a reduction of each bag of rows."""

from __future__ import annotations

from typing import Any

from ... import ops
from ...autograd.engine import no_grad
from ...autograd.tape import shown_as
from ...base.dtype import INTEGER, float32
from ...base.errors import DomainError, DTypeError, ShapeError
from ...dispatch.diagnosis import need_tensor
from ...ops.indexing.bag_reduce import reduced_bags
from ...ops.indexing.bags import Bags
from ...ops.indexing.row_index import readable_index
from ...tensor.inplace import assign
from ...tensor.tensor import Tensor

MODES = ("sum", "mean", "max")


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Return rows of a table by number; see `ops.embedding`.

    Parameters
    ----------
    input : Tensor, any integer dtype
        Numbers of rows.
    weight : Tensor, shape (rows, size), float
        The table.
    padding_idx : int or None
        A row that gets no gradient; negative counts from the end.
    max_norm : float or None
        Rows looked up that are longer are scaled to it first, in `weight` itself.
    norm_type : float, default 2
        Which norm that is.
    scale_grad_by_freq : bool, default False
        Whether a row's gradient is divided by how often `input` names it.
    sparse : bool, default False
        Whether the gradient of `weight` is sparse: a row for each number of `input`.

    Raises
    ------
    DomainError
        If `sparse` goes with `scale_grad_by_freq`.
    """
    if not (isinstance(input, Tensor) and isinstance(weight, Tensor)):
        need_tensor("embedding", "input", input)
        need_tensor("embedding", "weight", weight)
    if input.is_wrapper:
        wrapper: Any = input
        options = (padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)
        found: Tensor = wrapper.on_rows(
            "embedding", lambda x: embedding(x, weight, *options)
        )
        return found
    if sparse and weight.requires_grad:
        _check_sparse("embedding", scale_grad_by_freq)
        if max_norm is not None:
            renormalize(input, weight, max_norm, norm_type)
        return _sparse_embedding(input, weight, padding_idx)
    if max_norm is not None:
        renormalize(input, weight, max_norm, norm_type)
    if scale_grad_by_freq and weight.requires_grad:
        weight = _by_frequency(input, weight)
    return ops.embedding(input, weight, padding_idx)


def _sparse_embedding(*args: Any) -> Tensor:
    """Return rows of a table whose gradient is sparse."""
    from ...sparse.embedding import embedding  # few programs need the package

    return embedding(*args)


def _check_sparse(name: str, scale_grad_by_freq: bool) -> None:
    """Raise `DomainError` for what sparse gradients do not take."""
    if scale_grad_by_freq:
        raise DomainError(
            f"{name}: sparse and scale_grad_by_freq are True; sparse gradients are not"
            " scaled, so one of them must be False"
        )


def renormalize(input: Tensor, weight: Tensor, most: float, p: float) -> None:
    """Scale the rows that `input` names, where they are longer than `most`."""
    with no_grad():
        rows = weight.detach()
        lengths = ops.norm(rows, p, 1, True)
        scale = ops.where(lengths > most, most / (lengths + 1e-7), 1.0)
        named = _counts(input, weight) > 0
        assign(weight, ops.where(ops.unsqueeze(named, 1), rows * scale, rows))


def _counts(input: Tensor, weight: Tensor) -> Tensor:
    """Return how often each row is named, as float32."""
    flat = ops.reshape(input, (input.numel(),))
    zeros = ops.fill_like(weight.detach(), (weight.layout.shape[0],), 0, float32)
    ones = ops.fill_like(weight.detach(), flat.shape, 1, float32)
    return ops.index_add(zeros, 0, flat, ones)


def _by_frequency(input: Tensor, weight: Tensor) -> Tensor:
    """Return the weight, whose gradient is divided by how often rows are named."""
    counts = ops.clamp_min(_counts(input, weight), 1.0).to(weight.dtype)
    share = ops.unsqueeze(1.0 / counts, 1)
    rows = weight.detach()
    # The value is exactly the weight's: its scaled part cancels.
    scaled = weight * share
    return scaled - scaled.detach() + rows


@shown_as("EmbeddingBagBackward0", "weight", "per_sample_weights")
def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Return the sum, mean or maximum of the rows in each bag of indices.

    Parameters
    ----------
    input : Tensor, shape (bags, count) or (indices,), any integer dtype
        Numbers of rows; 1-D, the bags lie one after another.
    weight : Tensor, shape (rows, size), float
        The table.
    offsets : Tensor, shape (bags,), or None
        Where each bag starts, if `input` is 1-D.
    max_norm, norm_type, scale_grad_by_freq, sparse
        As in `embedding`.
    mode : str, default "mean"
        "sum", "mean" or "max".
    per_sample_weights : Tensor, shape of `input`, or None
        Factors of the rows, for mode "sum" only.
    include_last_offset : bool, default False
        Whether `offsets` has the end of the last bag too.
    padding_idx : int or None
        A row that does not count, nor gets a gradient.

    Returns
    -------
    Tensor, shape (bags, size)
        0 for an empty bag.

    Raises
    ------
    ValueError
        If shapes or arguments do not fit.
    DTypeError
        If `input` is not of an integer dtype.
    """
    _check_bags(input, weight, offsets, mode, per_sample_weights)
    if max_norm is not None:
        renormalize(input, weight, max_norm, norm_type)
    apart = sparse and weight.requires_grad
    if apart:
        _check_sparse("embedding_bag", scale_grad_by_freq)
        if mode == "max":
            raise ValueError(
                "embedding_bag: mode is max and sparse True; gradients of maxima are"
                " dense, so sparse must be False"
            )
    elif scale_grad_by_freq and weight.requires_grad:
        weight = _by_frequency(input, weight)
    bags = _bags(input, weight, offsets, include_last_offset, padding_idx)
    shares = per_sample_weights
    if shares is not None:
        shares = ops.reshape(shares, (input.numel(),))
    divided = mode != "max" and bags.divided(weight.layout.shape[1])
    if not (apart or divided):
        return reduced_bags(bags, weight, shares, mode)
    look_up = _sparse_embedding if apart else ops.embedding
    rows = look_up(bags.index, weight, padding_idx)
    if shares is not None:
        rows = rows * ops.unsqueeze(shares, 1)
    return bags.summed(rows, mode)


def _bags(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None,
    include_last_offset: bool,
    padding_idx: int | None,
) -> Bags:
    rows, count = weight.layout.shape[0], input.layout.shape[0]
    if offsets is not None:
        count = offsets.shape[0] - int(include_last_offset)
        offsets = readable_index("embedding_bag", offsets)
    padding = -1 if padding_idx is None else padding_idx % max(1, rows)
    if padding_idx is not None and not -rows <= padding_idx < rows:
        raise ShapeError(
            f"embedding_bag: padding_idx is {padding_idx}; it must be from {-rows} to"
            f" {rows - 1}"
        )
    index = readable_index("embedding_bag", ops.flatten(input))
    return Bags(index, offsets, count, padding, rows)


def _check_bags(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None,
    mode: str,
    per_sample_weights: Tensor | None,
) -> None:
    if mode not in MODES:
        raise ValueError(f"embedding_bag: mode is {mode!r}; it must be one of {MODES}")
    if input.dtype not in INTEGER:
        raise DTypeError(
            f"embedding_bag: input is {input.dtype.name}; it must be an integer dtype"
        )
    if len(input.layout.shape) not in (1, 2) or len(weight.layout.shape) != 2:
        raise ShapeError(
            f"embedding_bag: input is {tuple(input.shape)}, weight"
            f" {tuple(weight.shape)}; they must"
            " be (indices,) or (bags, count), and (rows, size)"
        )
    if (offsets is None) != (len(input.layout.shape) == 2) or (
        offsets is not None and offsets.ndim != 1
    ):
        given = None if offsets is None else offsets.shape
        raise ShapeError(
            f"embedding_bag: input is {tuple(input.shape)}, offsets {given}; a 1-D"
            " input needs"
            " 1-D offsets, a 2-D input takes none"
        )
    if offsets is not None and offsets.is_cpu and offsets.numel():
        starts = offsets.host_copy()
        if starts[0] != 0 or starts[-1] > input.layout.shape[0]:
            raise ShapeError(
                f"embedding_bag: offsets are from {starts[0]} to {starts[-1]}; they"
                f" must begin with 0 and end at most at {input.shape[0]}"
            )
    if per_sample_weights is not None:
        if mode != "sum":
            raise NotImplementedError(
                "embedding_bag: per_sample_weights are given with mode"
                f" {mode!r}; they are for 'sum' only"
            )
        if per_sample_weights.shape != input.layout.shape:
            raise ShapeError(
                "embedding_bag: per_sample_weights are"
                f" {tuple(per_sample_weights.shape)};"
                f" they must be {tuple(input.shape)}"
            )
