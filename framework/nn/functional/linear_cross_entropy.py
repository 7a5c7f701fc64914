"""Cross entropy of the logits of a linear map, which need not exist all at once."""

from __future__ import annotations

import math

from ... import ops
from ...base.dtype import INTEGER, float32, float64
from ...base.errors import ShapeError
from ...base.modes import is_autocast_enabled
from ...base.validation import as_int
from ...dispatch.autocast_policy import autocast_low_precision
from ...ops.loss.elementwise import check_reduction
from ...ops.loss.linear_cross_entropy import (
    Settings,
    chunk_rows,
    chunked_cross_entropy,
)
from ...ops.quantized.product import quantized_linear
from ...tensor.quantized import QuantizedTensor
from ...tensor.tensor import Tensor

_chunked = autocast_low_precision(chunked_cross_entropy)


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor | QuantizedTensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: object = None,
    chunk: int | None = None,
) -> Tensor:
    """Return `cross_entropy` of the logits that a linear map gives.

    Parameters
    ----------
    input : Tensor, shape (batch, in_features) or (in_features,), float
    linear_weight : Tensor, shape (classes, ..., in_features), or QuantizedTensor
        A quantized one, of (classes, in_features), gets no gradient.
    target : Tensor, shape (batch, ...) or (batch, classes, ...)
        Labels or probabilities, as for `cross_entropy`.
    linear_bias : Tensor, shape (classes, ...), or None
    weight, reduction, label_smoothing
        As for `cross_entropy`.
    ignore_index : int or None
        For labels only; None means -100.
    options : object
        Without effect: PyTorch's says how to save memory.
    chunk : int or None
        Rows whose logits are computed at a time. None chooses a number by that of the
        classes. Logits are whole in any case for probabilities, with `weight`, for
        several labels a row, and in float64 on a device.

    Raises
    ------
    ShapeError
        If shapes do not fit, `ignore_index` is given beside probabilities, or an option
        is out of range.
    IndexRangeError
        As of `cross_entropy`.

    Notes
    -----
    In chunks the gradients are computed with the loss, so that logits are computed
    once; for "none" and in float16 the backward pass computes them again. What needs no
    gradient takes no product. A gradient of gradients takes whole logits.
    """
    _check_shapes(input, linear_weight, linear_bias)
    if chunk is not None and as_int("linear_cross_entropy: chunk", chunk) < 1:
        raise ShapeError(
            f"linear_cross_entropy: chunk is {chunk}; it must be at least 1"
        )
    classes = linear_weight.shape[0]
    rows = chunk_rows(classes) if chunk is None else chunk
    if (
        weight is not None
        or len(linear_weight.shape) != 2
        or input.ndim != 2
        or input.shape[0] <= rows
        or target.shape != input.shape[:1]
        or target.dtype not in INTEGER
        or (input.is_gpu and input.dtype is float64)
    ):
        return _whole(
            input,
            linear_weight,
            target,
            linear_bias,
            weight,
            reduction,
            ignore_index,
            label_smoothing,
        )
    check_reduction("linear_cross_entropy", reduction)
    if not 0.0 <= label_smoothing <= 1.0:
        raise ShapeError(
            f"linear_cross_entropy: label_smoothing is {label_smoothing}; it must be"
            " from 0 to 1"
        )
    wide = is_autocast_enabled() and input.dtype is not float64
    quantized = linear_weight if isinstance(linear_weight, QuantizedTensor) else None
    settings = Settings(
        -100 if ignore_index is None else ignore_index,
        label_smoothing,
        reduction,
        rows,
        float32 if wide else input.dtype,
        quantized,
    )
    floats = None if isinstance(linear_weight, QuantizedTensor) else linear_weight
    return _chunked(input, floats, linear_bias, target, settings)


def _check_shapes(
    input: Tensor, linear_weight: Tensor | QuantizedTensor, linear_bias: Tensor | None
) -> None:
    shape = tuple(linear_weight.shape)
    if (
        input.ndim not in (1, 2)
        or len(shape) < 2
        or input.layout.shape[-1] != shape[-1]
        or (input.ndim == 1 and len(shape) > 2)
        or (linear_bias is not None and linear_bias.shape != shape[:-1])
    ):
        bias = None if linear_bias is None else tuple(linear_bias.shape)
        raise ShapeError(
            f"linear_cross_entropy: input is {tuple(input.shape)}, linear_weight"
            f" {shape}, linear_bias {bias}; they must be (batch,"
            " features), (classes, ..., features) and (classes, ...)"
        )


def _whole(
    input: Tensor,
    linear_weight: Tensor | QuantizedTensor,
    target: Tensor,
    linear_bias: Tensor | None,
    weight: Tensor | None,
    reduction: str,
    ignore_index: int | None,
    label_smoothing: float,
) -> Tensor:
    """Return the loss by way of all logits."""
    if isinstance(linear_weight, QuantizedTensor):
        blocks, format, _, _ = linear_weight
        logits = quantized_linear(input, blocks, linear_bias, format)
    else:
        shape = linear_weight.layout.shape[:-1]
        size = math.prod(shape)
        rows = ops.reshape(linear_weight, (size, input.layout.shape[-1]))
        flat = None if linear_bias is None else ops.reshape(linear_bias, (size,))
        logits = ops.linear(input, rows, flat)
        logits = ops.reshape(logits, (*input.layout.shape[:-1], *shape))
    if ignore_index is not None and target.layout.shape == logits.shape:
        raise ShapeError(
            f"linear_cross_entropy: ignore_index is {ignore_index} beside"
            " probabilities; it is for labels"
        )
    return ops.cross_entropy(
        logits,
        target,
        weight,
        ignore_index=-100 if ignore_index is None else ignore_index,
        label_smoothing=label_smoothing,
        reduction=reduction,
    )
